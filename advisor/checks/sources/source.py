"""One text that may hold servers, parsed once for all the kinds that look at it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from advisor.checks.sources.launch import OpenFile
from profiles.errors import InputError
from profiles.yaml_lines import KeyPath, LinedYaml, parse_yaml_documents

_GO_TEMPLATE = re.compile(
    r"\{\{-?\s*(?:\.|\$|/\*|(?:include|template|if|else|end|range|with|define|block|toYaml|tpl|required|default)\b)"
)


@dataclass(frozen=True)
class Source:
    """A text, its name, and its YAML documents where it is YAML."""

    text: str
    name: str
    env: Mapping[str, str]
    """Stated variables of the server's environment."""
    open_file: OpenFile | None = None

    @cached_property
    def _parsed(self) -> tuple[list[LinedYaml], InputError | None]:
        try:
            return parse_yaml_documents(self.text, self.name), None
        except InputError as error:
            return [], error

    @property
    def documents(self) -> list[LinedYaml]:
        """YAML documents; none where the text is no YAML."""
        return self._parsed[0]

    @property
    def yaml_problem(self) -> InputError | None:
        """Why the text is no YAML."""
        return self._parsed[1]

    @cached_property
    def template_line(self) -> int | None:
        """The first line with a placeholder of a chart's template; None for finished text."""
        match = _GO_TEMPLATE.search(self.text)
        return None if match is None else self.text.count("\n", 0, match.start()) + 1


@dataclass(frozen=True)
class Node:
    """A mapping somewhere in a YAML document."""

    value: Mapping[Any, Any]
    path: KeyPath
    document: LinedYaml

    def line(self, *keys: str | int) -> int:
        """Line of a key in the mapping, from 1."""
        return self.document.line((*self.path, *keys)) or 1

    def line_of(self) -> Callable[[KeyPath], int | None]:
        """Lines by paths that begin at this mapping."""
        return lambda keys: self.document.line((*self.path, *keys))

    def child(self, *keys: str | int) -> Node | None:
        """The mapping behind keys; None where there is none."""
        value: Any = self.value
        for key in keys:
            if isinstance(value, dict):
                value = value.get(key)
            elif isinstance(value, list) and isinstance(key, int) and key < len(value):
                value = value[key]
            else:
                return None
        return Node(value, (*self.path, *keys), self.document) if isinstance(value, dict) else None


def mappings(document: LinedYaml) -> Iterator[Node]:
    """Every mapping of a document, outer ones first, in the order of the text."""

    def walk(value: Any, path: KeyPath) -> Iterator[Node]:
        if isinstance(value, dict):
            yield Node(value, path, document)
            for key, inner in value.items():
                if isinstance(key, (str, int)):
                    yield from walk(inner, (*path, key))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                yield from walk(inner, (*path, index))

    yield from walk(document.value, ())
