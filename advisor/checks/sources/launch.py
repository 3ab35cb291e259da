"""How a server is started, whatever starts it: its arguments, its environment, its image; and the config this makes.

Every kind of file ends here: a command line, a container of a manifest and a service of a compose file differ only in
where they keep words and variables.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from advisor.checks.serve_config import ServeConfig, from_values, from_yaml
from advisor.checks.sources.arguments import read_arguments
from advisor.checks.sources.words import Command, Word, split
from profiles.errors import InputError
from profiles.yaml_lines import KeyPath

MODULES = frozenset({"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "vllm.entrypoints.cli.main"})
TEMPLATE = "{{"
MAX_SHELLS = 5
"""How many shells deep a script is followed."""
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh"})
# In small letters: names of images have no others, names of variables (VLLM_...) do.
_IMAGE = re.compile(r"(?:^|[/-])vllm(?:[-_:/@]|$)")
_VARIABLE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_SET = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_RUNNERS = frozenset({"docker", "podman", "nerdctl"})

OpenFile = Callable[[str], "str | None"]
"""Text of a file that a source names (`--config`), or None where it is not at hand."""


@dataclass(frozen=True)
class Launch:
    """One server start."""

    words: tuple[Word, ...]
    """What stands behind `vllm serve` or the server's module."""
    line: int
    env: Mapping[str, str] = field(default_factory=dict)
    part: str = ""
    """Which server of the file."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Options that the file states elsewhere than in arguments (a chart's `maxModelLen`); arguments win over them."""
    default_lines: Mapping[KeyPath, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    image: str = ""


def looks_like_vllm_image(image: object) -> bool:
    """Whether an image's name says that its entry point is the server."""
    return isinstance(image, str) and _IMAGE.search(image) is not None


def in_script(
    text: str, name: str, first_line: int, env: Mapping[str, str], part: str = "", depth: int = 0
) -> list[Launch]:
    """Every server that a script or command line starts, `sh -c` inside of it included."""
    found: list[Launch] = []
    for command in split(text, name, first_line, env):
        inner = next(filter(None, (_shell_script(command.words, i) for i in range(len(command.words)))), None)
        if inner is not None and depth < MAX_SHELLS:
            outer = {**env, **command.exported, **command.env}
            found += in_script(inner.text, name, inner.line, outer, part, depth + 1)
            continue
        launch = _in_command(command, env, part)
        if launch is not None:
            found.append(launch)
    return found


def in_words(words: Sequence[Word], env: Mapping[str, str], part: str, name: str, image: object = None
             ) -> list[Launch]:
    """The servers of an argument vector: of a container's command and args, or a Dockerfile's ENTRYPOINT and CMD."""
    script = _shell_script(words)
    launch = _in_command(Command(list(words)), env, part)
    if script is not None:
        found = in_script(script.text, name, script.line, env, part)
    elif launch is not None:
        found = [launch]
    elif words and words[0].text.startswith("-") and looks_like_vllm_image(image):
        found = [Launch(tuple(words), words[0].line, dict(env), part)]
    else:
        found = []
    return [replace(one, image=one.image or str(image)) if image else one for one in found]


def _shell_script(words: Sequence[Word], start: int = 0) -> Word | None:
    """The script of `sh -c SCRIPT`, where a shell stands at `start`."""
    if len(words) <= start or posixpath.basename(words[start].text) not in _SHELLS:
        return None
    for index in range(start + 1, len(words)):
        word = words[index]
        if not word.text.startswith("-"):
            return None
        if re.fullmatch(r"-[a-z]*c", word.text) and index + 1 < len(words):
            return words[index + 1]
    return None


def _in_command(command: Command, env: Mapping[str, str], part: str) -> Launch | None:
    words = command.words
    start = _arguments_start(words)
    if start is None:
        return None
    own: dict[str, str] = {}
    for word in words[:start]:
        # `env FOO=1 vllm serve`, `docker run -e FOO=1 image`.
        match = _SET.fullmatch(word.text.removeprefix("--env="))
        if match is not None and not word.unknown:
            own[match[1]] = match[2]
    before = words[max(0, start - 1)]
    return Launch(tuple(words[start:]), before.line, {**env, **command.exported, **command.env, **own}, part,
                  image=before.text if looks_like_vllm_image(before.text) else "")


def _arguments_start(words: Sequence[Word]) -> int | None:
    """Where the server's arguments begin; None where the command starts no server."""
    for index, word in enumerate(words):
        follows = words[index + 1].text if index + 1 < len(words) else ""
        if posixpath.basename(word.text) in ("vllm", "vllm.exe") and follows == "serve":
            return index + 2
        if word.text == "-m" and follows in MODULES:
            is_group = follows == "vllm.entrypoints.cli.main" and words[index + 2:index + 3]
            return index + 3 if is_group and words[index + 2].text == "serve" else index + 2
        if word.text.endswith("api_server.py") and "vllm" in word.text:
            return index + 1
    names = [posixpath.basename(word.text) for word in words]
    runner = next((i for i, word in enumerate(names) if word in _RUNNERS), None)
    if runner is not None and "run" in names[runner:runner + 3]:
        for index in range(runner + 2, len(words)):
            if looks_like_vllm_image(words[index].text) and not words[index].text.startswith("-") \
                    and not words[index - 1].text.startswith(("-v", "--volume", "--name", "--mount")):
                return index + 1
    return None


def config_of(launch: Launch, name: str, open_file: OpenFile | None = None) -> ServeConfig:
    """The serve config that a launch amounts to: defaults, then the file that `--config` names, then arguments.

    Raises:
        InputError: an argument is an unfilled template, or the config file cannot be read.
    """
    for word in launch.words:
        if TEMPLATE in word.text and "}}" in word.text and "chat" not in word.text:
            raise InputError(f"{name}:{word.line}: {word.text[:60]!r} is an unfilled template: expected a finished "
                             "file; render it first (`helm template CHART | specadvise check -`)")
    arguments = read_arguments(launch.words, name)
    notes = [*launch.notes, *arguments.notes]
    values: dict[str, Any] = dict(launch.defaults)
    lines: dict[KeyPath, int] = dict(launch.default_lines)
    if arguments.config is not None:
        text = open_file(arguments.config.text) if open_file is not None else None
        if text is None:
            notes.append(f"the config file {arguments.config.text} (line {arguments.config.line}) is not at hand: only "
                         "the command line was checked; check that file too")
        else:
            file = from_yaml(text, arguments.config.text)
            values.update(file.values)
            # Its lines are another file's: the line that names it stands for all of them.
            lines.update({(option,): arguments.config.line for option in file.values})
    for option in arguments.values:
        lines = {path: line for path, line in lines.items() if path[0] != option}
    values.update(arguments.values)
    lines.update(arguments.lines)
    config = from_values(values, lines, name=name, env=launch.env, from_file=False)
    return replace(config, part=launch.part, notes=tuple(dict.fromkeys(notes)), first_line=launch.line,
                   image=launch.image)


# --- containers ----------------------------------------------------------------------------------------------------
def words_of(value: Any, path: KeyPath, line_of: Callable[[KeyPath], int | None], env: Mapping[str, str], name: str
             ) -> list[Word]:
    """The words of a `command` or `args`: a list of texts, or (compose) one line as a shell would split it.

    `$(NAME)` is filled in from the container's environment, as Kubernetes does it.
    """
    line = line_of(path) or 1
    if isinstance(value, str):
        first = next(iter(split(value, name, text_line(value, line), env)), None)
        return first.words if first is not None else []
    if not isinstance(value, list):
        return []
    found = []
    for index, item in enumerate(value):
        if not isinstance(item, (str, int, float)):
            continue
        own = line_of((*path, index)) or line
        text = str(item).lower() if isinstance(item, bool) else str(item)
        unknown = tuple(f"$({key})" for key in _VARIABLE.findall(text) if key not in env)
        filled = _VARIABLE.sub(lambda match: env.get(match[1], match[0]), text)
        found.append(Word(filled, text_line(filled, own), unknown))
    return found


def text_line(text: str, line: int) -> int:
    """Line of a text's first character: a text of several lines is a block, which begins below its `|`."""
    return line + 1 if "\n" in text.rstrip("\n") else line


def environment_of(value: Any, others: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, str]:
    """Variables as manifests write them: a mapping, a list of `NAME=value`, or a list of {name, value}.

    `others`: data of the file's ConfigMaps, by name, for `valueFrom.configMapKeyRef`. Secrets are never looked at.
    """
    found: dict[str, str] = {}
    if isinstance(value, dict):
        return {str(key): _text(item) for key, item in value.items() if isinstance(item, (str, int, float))}
    for item in value if isinstance(value, list) else []:
        if isinstance(item, str) and "=" in item:
            key, _, text = item.partition("=")
            found[key] = text
        elif isinstance(item, dict) and isinstance(item.get("name"), str):
            if isinstance(item.get("value"), (str, int, float)):
                found[item["name"]] = _text(item["value"])
                continue
            source = item.get("valueFrom")
            reference = source.get("configMapKeyRef") if isinstance(source, dict) else None
            if isinstance(reference, dict):
                data = (others or {}).get(str(reference.get("name")), {})
                if str(reference.get("key")) in data:
                    found[item["name"]] = data[str(reference.get("key"))]
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
