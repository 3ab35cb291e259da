"""Shell words with line numbers: enough of the shell's grammar to find the server a script starts, and nothing is run.

Quotes, escapes, continued lines, comments, redirections, here-documents, variables with a literal value and arrays are
read. What only running the script could tell (command substitution, variables from outside) keeps its spelling and is
named in `Word.unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from profiles.errors import InputError

MAX_WORDS = 10_000
MAX_EXPANDED = 1024 * 1024
"""Most characters of a word once variables are put in: a few doubling assignments would otherwise fill the memory."""

MAX_EXPANSIONS = 8
"""How many words of that size a script may make: a long value in a thousand variables would do the same."""
MAX_NAMED = 20
"""Most unknown names that a word carries."""

_RUN = re.compile(r"[^ \t\n;&|()<>'\"\\$`]+")
_QUOTED_RUN = re.compile(r'[^"\\$`]+')
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(\[[@*]\])|:?([-=])(.*))?", re.DOTALL)


@dataclass(frozen=True)
class Word:
    """One word as the shell would pass it on."""

    text: str
    line: int
    """From 1."""
    unknown: tuple[str, ...] = ()
    """Variables and substitutions in it whose value is not known here; they stand in `text` as they were written."""


@dataclass
class Command:
    """A simple command: its words, and the variables set before it (`FOO=1 vllm serve`)."""

    words: list[Word] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    exported: dict[str, str] = field(default_factory=dict)
    """What the script has exported up to here."""


def split(text: str, name: str, first_line: int = 1, known: Mapping[str, str] | None = None) -> list[Command]:
    """The simple commands of a script, in order.

    Args:
        name: the file, for messages.
        first_line: line of the text's first character.
        known: variables of the script's environment.

    Raises:
        InputError: a quote is not closed, or variables grow a word past all bounds.
    """
    return _Reader(text.replace("\r\n", "\n"), name, first_line, dict(known or {})).commands()


def assigned(text: str, name: str, first_line: int = 1) -> dict[str, str]:
    """The variables that a script sets, with their last values; those it cannot know are left out. InputError as
    `split`."""
    reader = _Reader(text.replace("\r\n", "\n"), name, first_line, {})
    reader.commands()
    return reader.known


class _Reader:
    def __init__(self, text: str, name: str, line: int, known: dict[str, str]) -> None:
        self.text, self.name, self.line, self.at = text, name, line, 0
        self.known = known
        self.arrays: dict[str, list[Word]] = {}
        self.exported: dict[str, str] = {}
        self.heredocs: list[str] = []
        self.count = 0
        self.total = 0

    def commands(self) -> list[Command]:
        found: list[Command] = []
        current = Command()
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
                self.line += 1
            elif char == "#":
                self._to_line_end()
            elif char in "\n;&|()":
                self.at += 1
                self._end(current, found)
                current = Command()
                if char == "\n":
                    self.line += 1
                    self._skip_heredocs()
            elif char in "<>":
                self._redirection()
            elif not self._assignment(current):
                for word in self._words():
                    if word.text.isdigit() and self.text[self.at:self.at + 1] in ("<", ">"):
                        continue  # the descriptor of a redirection
                    current.words.append(word)
        self._end(current, found)
        return found

    def _end(self, command: Command, found: list[Command]) -> None:
        words = command.words
        if not words:
            # Assignments alone set variables of the script.
            self.known.update(command.env)
            self.exported.update({key: value for key, value in command.env.items() if key in self.exported})
            return
        if words[0].text in ("export", "declare", "typeset", "readonly", "local"):
            for word in words[1:]:
                match = _ASSIGNED.match(word.text)
                if match is not None and not word.unknown:
                    self.known[match[1]] = word.text[match.end():]
                exported = match[1] if match else word.text
                if words[0].text == "export" and exported in self.known:
                    self.exported[exported] = self.known[exported]
            return
        command.exported = dict(self.exported)
        found.append(command)

    def _to_line_end(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _redirection(self) -> None:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] in "<>&-":
            self.at += 1
        operator = self.text[start:self.at]
        while self.text[self.at:self.at + 1] in (" ", "\t"):
            self.at += 1
        if self.text[self.at:self.at + 1] == "(":
            # Process substitution: what is in it is another command's business.
            self._balanced("(", ")")
            return
        target = self._words() if self.at < len(self.text) and self.text[self.at] not in "\n;|" else []
        if operator.startswith("<<") and not operator.startswith("<<<") and target:
            self.heredocs.append(target[0].text)

    def _skip_heredocs(self) -> None:
        for mark in self.heredocs:
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at:end].strip()
                self.at = min(end + 1, len(self.text))
                self.line += 1
                if line == mark:
                    break
        self.heredocs = []

    def _assignment(self, command: Command) -> bool:
        """`NAME=value`, `NAME=(array)` and `NAME+=...` before a command's first word."""
        match = _ASSIGNED.match(self.text, self.at)
        if match is None or command.words:
            return False
        name, more = match[1], match[2] == "+"
        self.at = match.end()
        if self.text[self.at:self.at + 1] == "(":
            self.at += 1
            self.arrays[name] = [*self.arrays.get(name, []), *self._array()] if more else self._array()
            return True
        words = self._words(splits=False) if self.at < len(self.text) and self.text[self.at] not in " \t\n;&|" else []
        word = words[0] if words else Word("", self.line)
        if word.unknown:
            self.known.pop(name, None)
        else:
            command.env[name] = self._bounded((self.known.get(name, "") if more else "") + word.text)
        return True

    def _array(self) -> list[Word]:
        found: list[Word] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            char = self.text[self.at]
            if char in " \t\n;&|<>(":
                self.line += char == "\n"
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
                self.line += 1
            elif char == "#":
                self._to_line_end()
            else:
                found += self._words()
        self.at += 1
        return found

    def _words(self, splits: bool = True) -> list[Word]:
        """The words that the text up to the next blank or operator stands for: one, unless a variable brings more."""
        start, unknown, quoted = self.line, list[str](), False
        # Pieces of each word: joined once, for adding to a text again and again copies it every time.
        parts: list[list[str]] = [[]]
        size = 0
        done: list[Word] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\n;&|()<>":
                break
            if char == "'":
                parts[-1].append(self._single())
                quoted = True
            elif char == '"':
                quoted = True
                for piece in self._double(unknown):
                    if isinstance(piece, str):
                        parts[-1].append(piece)
                        size += len(piece)
                        self._bound(size)
                    else:
                        done += piece
            elif char == "\\":
                escaped = self.text[self.at + 1:self.at + 2]
                self.at += 2
                self.line += escaped == "\n"
                parts[-1].append(escaped if escaped != "\n" else "")
            elif char in "$`":
                before = len(unknown)
                value = self._expansion(unknown)
                if isinstance(value, list):
                    done += value
                elif splits and len(unknown) == before:
                    # Outside quotes the shell splits a value at its blanks.
                    first, *rest = value.split() or [""]
                    parts[-1].append(first)
                    parts += [[text] for text in rest]
                    size += len(value)
                else:
                    parts[-1].append(value)
                    size += len(value)
            else:
                run = _RUN.match(self.text, self.at)
                assert run is not None  # noqa: S101 - the character at hand is none of the special ones
                parts[-1].append(run[0])
                self.at = run.end()
            self._bound(size)
        names = tuple(dict.fromkeys(unknown))[:MAX_NAMED]
        self.total += size
        self._bound(self.total // MAX_EXPANSIONS)
        joined = ["".join(part) for part in parts]
        found = [Word(part, start, names) for part in joined if part or (quoted and not done)]
        self.count += len(found) + len(done)
        if self.count > MAX_WORDS:
            raise InputError(f"{self.name}:{self.line}: more than {MAX_WORDS} words: expected a start script; name the "
                             "right file")
        return done + found

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise InputError(f"{self.name}:{self.line}: a quote ' is not closed; close it and run again")
        value = self.text[self.at + 1:end]
        self.line += value.count("\n")
        self.at = end + 1
        return value

    def _double(self, unknown: list[str]) -> Iterator[str | list[Word]]:
        opened = self.line
        self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\":
                escaped = self.text[self.at + 1:self.at + 2]
                self.at += 2
                self.line += escaped == "\n"
                if escaped != "\n":
                    yield escaped if escaped in '$`"\\' else char + escaped
            elif char in "$`":
                yield self._expansion(unknown)
            else:
                run = _QUOTED_RUN.match(self.text, self.at)
                assert run is not None  # noqa: S101 - the character at hand is none of the special ones
                self.line += run[0].count("\n")
                self.at = run.end()
                yield run[0]
        raise InputError(f'{self.name}:{opened}: a quote " is not closed; close it and run again')

    def _expansion(self, unknown: list[str]) -> str | list[Word]:
        """A variable's value (an array's words), or the text as written where it is not known; that is noted."""
        start = self.at
        if self.text[start] == "`":
            end = self.text.find("`", start + 1)
            self.at = len(self.text) if end < 0 else end + 1
        elif self.text.startswith("$(", start):
            self.at += 1
            self._balanced("(", ")")
        elif self.text.startswith("${", start):
            self.at += 1
            self._balanced("{", "}")
            match = _BRACED.fullmatch(self.text, start + 2, self.at - 1)
            if match is not None:
                name, every, default, other = match[1], match[2], match[3], match[4]
                if every and name in self.arrays:
                    return self.arrays[name]
                if name in self.known and not every:
                    return self._bounded(self.known[name])
                if default and not set(other) & set("$`\"'\\"):
                    return other
        elif self.text[start + 1:start + 2] in ("'", '"'):
            self.at += 1
            return ""
        else:
            match = _NAME.match(self.text, start + 1)
            if match is None:
                # `$@`, `$1`, `$$`, or a dollar sign alone.
                self.at += 2 if self.text[start + 1:start + 2] in tuple("@*#?$!-0123456789") else 1
                if self.at == start + 1:
                    return "$"
            else:
                self.at = match.end()
                if match[0] in self.known:
                    return self._bounded(self.known[match[0]])
        written = self.text[start:self.at]
        self.line += written.count("\n")
        unknown.append(written if len(written) <= 40 else written[:37] + "...")
        return written

    def _balanced(self, opening: str, closing: str) -> None:
        """Moves past the bracket at hand and what it encloses; quotes inside are not looked into."""
        depth = 0
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            depth += (char == opening) - (char == closing)
            if depth == 0:
                return
        raise InputError(f"{self.name}:{self.line}: a {opening} is not closed; close it and run again")

    def _bounded(self, text: str) -> str:
        self._bound(len(text))
        return text

    def _bound(self, size: int) -> None:
        if size > MAX_EXPANDED:
            raise InputError(f"{self.name}:{self.line}: variables grow a word past {MAX_EXPANDED:,} characters; write "
                             "the value out")
