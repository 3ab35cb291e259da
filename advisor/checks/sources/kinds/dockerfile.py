"""A Dockerfile whose ENTRYPOINT and CMD start a server; ENV is its environment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from advisor.checks.serve_config import ServeConfig
from advisor.checks.sources.launch import Launch, config_of, in_words
from advisor.checks.sources.source import Source
from advisor.checks.sources.words import Word, assigned, split

TITLE = "a Dockerfile"
RANK = 10

_FROM = re.compile(r"^[ \t]*FROM[ \t]+\S+", re.IGNORECASE | re.MULTILINE)
_OTHER = re.compile(r"^[ \t]*(?:CMD|ENTRYPOINT|RUN|COPY|ENV|WORKDIR|ARG)[ \t]+\S", re.IGNORECASE | re.MULTILINE)
_INSTRUCTION = re.compile(r"[ \t]*([A-Za-z]+)[ \t]+(.*)", re.DOTALL)


@dataclass(frozen=True)
class _Instruction:
    name: str
    text: str
    line: int


def recognises(source: Source) -> bool:
    """A FROM line and another instruction."""
    return _FROM.search(source.text) is not None and _OTHER.search(source.text) is not None


def read(source: Source) -> list[ServeConfig]:
    """The server of the last stage, as Docker would start it."""
    env, image = dict(source.env), ""
    entry: list[Word] | None = None
    command: list[Word] | None = None
    launches: list[Launch] = []
    for instruction in _instructions(source.text):
        if instruction.name == "FROM":
            words = [word for word in instruction.text.split() if not word.startswith("--")]
            image, entry, command, env = (words[0] if words else ""), None, None, dict(source.env)
        elif instruction.name == "ENV":
            env.update(_env(instruction, source.name))
        elif instruction.name == "ENTRYPOINT":
            # Docker forgets an inherited CMD where ENTRYPOINT is set.
            entry, command = _words(instruction, source.name), None
        elif instruction.name == "CMD":
            command = _words(instruction, source.name)
    if entry or command:
        launches = in_words([*(entry or []), *(command or [])], env, "", source.name, image=image)
    return [config_of(launch, source.name, source.open_file) for launch in launches]


def _instructions(text: str) -> Iterator[_Instruction]:
    lines = text.splitlines()
    index = 0
    while index < len(lines):
        start, joined = index, []
        while index < len(lines):
            line = lines[index]
            index += 1
            if line.lstrip().startswith("#"):
                # A comment inside a continued instruction is left out, its line still counts.
                joined.append("")
                if not any(joined):
                    break
                continue
            joined.append(line)
            if not line.rstrip().endswith("\\"):
                break
        # Kept as lines that the shell continues, so that words know theirs.
        match = _INSTRUCTION.fullmatch("\n".join(line if line else "\\" for line in joined))
        if match is not None:
            yield _Instruction(match[1].upper(), match[2], start + 1)


def _words(instruction: _Instruction, name: str) -> list[Word]:
    """The exec form (a JSON list) as it is; the shell form as `sh -c` would be given it."""
    text = instruction.text.strip()
    if text.startswith("["):
        try:
            items = json.loads(text.replace("\\\n", "\n"))
        except (ValueError, RecursionError):
            items = None
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            return list(_located(items, instruction))
    # Found again by its first word: the shell form is one script.
    return [Word("sh", instruction.line), Word("-c", instruction.line), Word(instruction.text, instruction.line)]


def _located(items: list[str], instruction: _Instruction) -> Iterator[Word]:
    """Each item with the line on which its JSON text stands."""
    at = 0
    for item in items:
        place = instruction.text.find(json.dumps(item, ensure_ascii=False), at)
        at = place if place >= 0 else at
        yield Word(item, instruction.line + instruction.text.count("\n", 0, at))


def _env(instruction: _Instruction, name: str) -> dict[str, str]:
    """`ENV A=1 B=2`, or the old `ENV A value`."""
    old = next((command.words for command in split(instruction.text, name, instruction.line)), [])
    if old:
        return {old[0].text: " ".join(word.text for word in old[1:])}
    return assigned(instruction.text, name, instruction.line)
