"""Where serve configs live: config files, command lines, start scripts, Dockerfiles, compose files, manifests, chart
values. Pure: a text in, serve configs out; a file that a command line names is asked of the caller.

One kind a file in `advisor/checks/sources/kinds/`, each with `TITLE`, `RANK` (lower ones are asked first),
`recognises(source)` and `read(source)`; adding a kind is adding a file.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from advisor.checks.serve_config import Ignore, ServeConfig, read_ignores
from advisor.checks.sources.kinds.serve_config import refuse_own_file
from advisor.checks.sources.launch import OpenFile
from advisor.checks.sources.source import Source
from advisor.emit.heading import environment_written, release_written
from profiles.errors import InputError

_FOLDER = Path(__file__).parent / "kinds"


@lru_cache(maxsize=1)
def all_kinds() -> tuple[ModuleType, ...]:
    """Every kind of source, in the order in which they are asked."""
    modules = [importlib.import_module(f"advisor.checks.sources.kinds.{module.name}")
               for module in pkgutil.iter_modules([str(_FOLDER)])]
    return tuple(sorted(modules, key=lambda module: int(module.RANK)))


def read_source(
    text: str, name: str, *, env: Mapping[str, str] | None = None, open_file: OpenFile | None = None
) -> list[ServeConfig]:
    """Every serve config that a text holds, in the order of the text, each with the ignore comments that are its own,
    and with the release that the text's own header names.

    Args:
        name: the file as the user named it, for messages and findings.
        env: stated variables of the server's environment; the file's own win over them.
        open_file: gives the text of a file that a command line names with `--config`, or None.

    Raises:
        InputError: the text is of no known kind, is a template, is malformed, or starts no vLLM server.
    """
    _refuse_own_json(text, name)
    source = Source(text, name, dict(env or {}), open_file)
    kind = next((module for module in all_kinds() if module.recognises(source)), None)
    if kind is None:
        for document in source.documents:
            # Alert rules have placeholders of their own, which no chart fills.
            if isinstance(document.value, dict) and document.value.get("groups"):
                refuse_own_file(name, document.value.keys())
        if source.template_line is not None:
            raise InputError(f"{name}:{source.template_line}: a chart's template, not a finished file: render it "
                             "first, `helm template CHART | specadvise check -`")
        if source.yaml_problem is not None:
            raise source.yaml_problem
        raise InputError(f"{name}: neither a serve config nor anything that starts a vLLM server: expected one of "
                         f"{', '.join(module.TITLE for module in all_kinds())}; name the right file")
    found: list[ServeConfig] = kind.read(source)
    if not found:
        raise InputError(f"{name}: {kind.TITLE} in which no vLLM server is started: expected `vllm serve ...`, "
                         "`python -m vllm.entrypoints.openai.api_server ...` or an image of vLLM with arguments; name "
                         "the file that starts it")
    written_for, asked = release_written(text) or "", environment_written(text)
    return [replace(one, written_for=written_for, written_env=asked)
            for one in _with_ignores(found, read_ignores(text))]


def _refuse_own_json(text: str, name: str) -> None:
    """Records and evidence hold more values than any serve config may: they are known before those are counted."""
    if not text.lstrip().startswith("{"):
        return
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(document, dict) and "schema_version" in document:
        refuse_own_file(name, document.keys())


def _with_ignores(configs: list[ServeConfig], ignores: tuple[Ignore, ...]) -> list[ServeConfig]:
    """A comment above the first server of a file holds for all of them, any other for the server it stands in or
    above."""
    if len(configs) == 1 or not ignores:
        return [replace(config, ignores=ignores) for config in configs]
    spans = []
    for config in configs:
        lines = [*config.lines.values(), *([config.first_line] if config.first_line is not None else [])]
        spans.append((min(lines, default=1), max(lines, default=1)))
    owned: list[list[Ignore]] = [[] for _ in configs]
    for ignore in ignores:
        if ignore.line < min(first for first, _ in spans):
            owners = range(len(configs))
        else:
            owner = next((i for i, (_, last) in enumerate(spans) if ignore.line <= last), len(configs) - 1)
            owners = range(owner, owner + 1)
        for index in owners:
            owned[index].append(ignore)
    return [replace(config, ignores=tuple(own)) for config, own in zip(configs, owned, strict=True)]
