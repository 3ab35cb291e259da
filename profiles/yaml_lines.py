"""The one reader that turns YAML into values with line numbers, so that every error and finding can point at its line.

Safe loader only: plain scalars, lists and mappings. Duplicate keys are refused (YAML parsers keep the last one and
say nothing), and so are aliases that grow the document past a bound (one kilobyte of nested aliases can stand for
gigabytes) or that contain themselves.
"""

from __future__ import annotations

import codecs
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from profiles.errors import InputError
from profiles.reading import read_whole, refuse_too_large
from profiles.schema import shown

KeyPath = tuple[str | int, ...]

MAX_BYTES = 1024 * 1024
"""Largest file read: a deployment or serve config is a few kilobytes; anything larger is the wrong file."""
MAX_VALUES = 10_000
"""Most values, as written and again after aliases are expanded: composing takes time with every one."""
MAX_DEPTH = 60
"""Deepest nesting."""


@dataclass(frozen=True)
class LinedYaml:
    """A document's value, and the line (from 1) of each of its keys and items."""

    value: Any
    name: str
    """The file as the user named it, for messages."""
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int | None:
        """Line of the value at `path`, or of its nearest enclosing one; None for an empty document."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def where(self, path: KeyPath) -> str:
        """`file:line` of the value at `path`."""
        line = self.line(path)
        return self.name if line is None else f"{self.name}:{line}"


def read_yaml(path: Path) -> LinedYaml:
    """The file's value with lines. InputError where it is missing, a folder, not text, too large or not YAML."""
    return parse_yaml(read_text(path), str(path))


def read_text(path: Path, expected: str = "a YAML file") -> str:
    """A small text file, whole. InputError as `reading.read_whole`, and where it is not UTF-8."""
    return decoded(read_whole(path, expected, MAX_BYTES), str(path), expected)


def decoded(data: bytes, name: str, expected: str = "a YAML file") -> str:
    """The text of a file's bytes; `name` stands for the file in messages. InputError as `read_text`."""
    refuse_too_large(data, MAX_BYTES, name, f"{expected} of a few kilobytes")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{name} is UTF-16 text: expected {expected} in UTF-8; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} is not UTF-8 text (byte {error.start}): expected {expected}; save it as UTF-8"
        ) from None
    if "\0" in text:
        raise InputError(f"{name} holds NUL characters: expected {expected} in UTF-8; name the right file")
    return text


def parse_yaml(text: str, name: str) -> LinedYaml:
    """The value of YAML `text` with lines; `name` stands for the file in messages. InputError as `read_yaml`."""
    found = LinedYaml(None, name)
    with _told_as_input_errors(text, name):
        node = _compose(text, name)
        if node is not None:
            found = _Walk(name).document(node)
    return found


def parse_yaml_documents(text: str, name: str) -> list[LinedYaml]:
    """The documents of a YAML stream, empty ones left out; the bounds hold for all of them together.

    InputError as `read_yaml`.
    """
    found = []
    with _told_as_input_errors(text, name):
        loader, walk = _BoundedLoader(text, name), _Walk(name)
        try:
            while loader.check_node():
                node = loader.get_node()
                if node is not None:
                    found.append(walk.document(node))
        finally:
            loader.dispose()
    return [document for document in found if document.value is not None]


@contextmanager
def _told_as_input_errors(text: str, name: str) -> Iterator[None]:
    if len(text) > MAX_BYTES:
        raise InputError(f"{name} is larger than {MAX_BYTES // 2**20} MiB: expected YAML of a few kilobytes; name the "
                         "right file")
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        problem = " ".join(str(error.problem or error.context or "cannot be parsed").split())
        raise InputError(f"{where}: not valid YAML: {problem}; mend this line and run again") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        raise InputError(f"{name}:{line}: not valid YAML: {error.reason}; remove the character and run again") from None
    except yaml.YAMLError as error:
        raise InputError(f"{name}: not valid YAML: {' '.join(str(error).split())}; mend it and run again") from None
    except RecursionError:
        raise InputError(f"{name}: nested too deeply: expected at most {MAX_DEPTH} levels; flatten it") from None


def _compose(text: str, name: str) -> yaml.Node | None:
    """The document's root node, given up at the first value too many: before the rest of it is even looked at."""
    loader = _BoundedLoader(text, name)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


class _BoundedLoader(yaml.SafeLoader):
    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self._file, self._nodes, self._depth = name, 0, 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._nodes += 1
        self._depth += 1
        try:
            where = f"{self._file}:{self.line + 1}"
            if self._depth > MAX_DEPTH + 2:
                raise InputError(f"{where}: nested too deeply: expected at most {MAX_DEPTH} levels; flatten it")
            # A mapping's keys are nodes too.
            if self._nodes > 2 * MAX_VALUES:
                raise InputError(f"{where}: more than {MAX_VALUES} values: expected a file of a few kilobytes; name "
                                 "the right file")
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class _Walk:
    """Turns composed nodes into values. Composing shares aliased nodes; walking them is where a bomb would grow."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[KeyPath, int] = {}
        self._count = 0
        self._open: set[int] = set()
        self._scalars = yaml.SafeLoader("")

    def document(self, node: yaml.Node) -> LinedYaml:
        """One document's value with its own lines; the count of values goes on from the document before."""
        self.lines = {}
        return LinedYaml(self.build(node, (), 0), self.name, self.lines)

    def _refuse(self, node: yaml.Node, problem: str) -> InputError:
        return InputError(f"{self.name}:{node.start_mark.line + 1}: {problem}")

    def build(self, node: yaml.Node, path: KeyPath, depth: int) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            raise self._refuse(
                node, f"more than {MAX_VALUES} values once aliases are expanded; write them out or remove them"
            )
        if depth > MAX_DEPTH:
            raise self._refuse(node, f"nested too deeply: expected at most {MAX_DEPTH} levels; flatten it")
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise self._refuse(node, "an alias contains itself; write the value out")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                self._plain(node, "tag:yaml.org,2002:seq")
                return [self.build(item, (*path, index), depth + 1) for index, item in enumerate(node.value)]
            assert isinstance(node, yaml.MappingNode)  # noqa: S101 - composing yields these three kinds only
            self._plain(node, "tag:yaml.org,2002:map")
            return self._mapping(node, path, depth)
        finally:
            self._open.discard(id(node))

    def _plain(self, node: yaml.Node, expected: str) -> None:
        if node.tag != expected:
            raise self._refuse(node, f"tag {shown(node.tag)} is not read: expected plain YAML; remove the tag")

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        if node.tag not in yaml.SafeLoader.yaml_constructors:
            raise self._refuse(node, f"tag {shown(node.tag)} is not read: expected plain YAML; remove the tag")
        try:
            return self._scalars.construct_object(node)
        except (ValueError, TypeError, KeyError):
            raise self._refuse(
                node, f"{shown(node.value)} is not a value of the kind it looks like; put it in quotes if it is text"
            ) from None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath, depth: int) -> dict[Hashable, Any]:
        own: dict[Hashable, Any] = {}
        merged: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                for source in value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]:
                    part = self.build(source, path, depth + 1)
                    if not isinstance(part, dict):
                        raise self._refuse(key_node, "`<<` merges mappings only; write the keys out")
                    for key, value in part.items():
                        merged.setdefault(key, value)
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._refuse(key_node, "a key must be plain text: expected `name: value`")
            key = self._scalar(key_node)
            if key in own:
                raise self._refuse(
                    key_node,
                    f"key {shown(key)} stands twice in the same mapping (first on line "
                    f"{self.lines[(*path, key)]}); keep one",
                )
            # The key's line, not its value's: a nested value starts on the line below, where nobody looks.
            self.lines[(*path, key)] = key_node.start_mark.line + 1
            own[key] = self.build(value_node, (*path, key), depth + 1)
        return {**merged, **own} if merged else own
