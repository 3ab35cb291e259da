"""One serve config as `vllm serve --config` takes it, in one spelling and with line numbers.

Option names get dashes, as on the command line; keys inside `speculative-config` get underscores, as in vLLM; options
that take JSON are parsed where they stand as text; dotted keys (`speculative-config.method`) become nested ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from profiles.errors import InputError
from profiles.json_text import parse_json
from profiles.mistakes import given
from profiles.schema import shown
from profiles.yaml_lines import KeyPath, parse_yaml

JSON_OPTIONS = frozenset({
    "additional-config", "attention-config", "compilation-config", "ec-transfer-config", "generation-config-overrides",
    "hf-overrides", "kv-events-config", "kv-transfer-config", "limit-mm-per-prompt", "lora-modules",
    "model-loader-extra-config", "override-generation-config", "override-neuron-config", "override-pooler-config",
    "pooler-config", "reasoning-config", "rope-scaling", "scheduler-config", "speculative-config",
    "structured-outputs-config", "mm-processor-kwargs", "eplb-config", "profiler-config",
})
"""Options whose value is a mapping, written as YAML or as JSON text."""
SHORT_OPTIONS: Mapping[str, str] = MappingProxyType({
    "sc": "speculative-config", "tp": "tensor-parallel-size", "pp": "pipeline-parallel-size",
    "dp": "data-parallel-size", "q": "quantization", "O": "compilation-config", "cc": "compilation-config",
    "ac": "attention-config", "dcp": "decode-context-parallel-size", "asc": "api-server-count",
    "ep": "enable-expert-parallel", "pcp": "prefill-context-parallel-size", "n": "nnodes", "r": "node-rank",
    "dpn": "data-parallel-rank", "dpr": "data-parallel-start-rank", "dpl": "data-parallel-size-local",
    "dpa": "data-parallel-address", "dpp": "data-parallel-rpc-port", "dpb": "data-parallel-backend",
    "dph": "data-parallel-hybrid-lb", "dpe": "data-parallel-external-lb", "dpm": "data-parallel-multi-port-external-lb",
})
"""Short forms: of a command line only, a config file refuses them."""

MAX_NUMBER = 10**18
"""Beyond any size, limit or seed."""
_IGNORE = re.compile(r"(?:^|\s)#\s*specadvise\s*:\s*ignore\b[ \t:=]*((?:SPD\d+\b[ \t,]*)+|\S*)[ \t:,-]*(.*)$",
                     re.IGNORECASE)


@dataclass(frozen=True)
class Ignore:
    """A wish in the config itself: `# specadvise: ignore SPD104 reason`."""

    code: str
    """As written, in capitals; whether a rule has it is judged where ignores are applied."""
    reason: str
    """Empty where none was given."""
    line: int
    """Line of the comment, from 1."""


@dataclass(frozen=True)
class ServeConfig:
    """Options of one server. Build it with `from_yaml` or `from_values`: they normalise."""

    values: Mapping[str, Any]
    """Option name (dashes) to value."""
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    """Key path, spelled as in `values`, to its line, from 1."""
    name: str = "config"
    """As the user named it."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment of the server process, as far as it is stated."""
    ignores: tuple[Ignore, ...] = ()
    from_file: bool = True
    """False for a command line or a manifest: there short option names are fine."""
    spelled: Mapping[str, str] = field(default_factory=dict)
    """Option name as in `values` to the way it was written, where that differs by more than dashes."""
    part: str = ""
    """Which server of a file that starts several."""
    notes: tuple[str, ...] = ()
    """What could not be read, in whole sentences: values that only running the script would tell."""
    image: str = ""
    """Container image that starts it, where one is named."""
    first_line: int | None = None
    """Line on which a command line begins; None for a config file."""
    written_for: str = ""
    """Release that its own header names, where this tool wrote the file; empty for any other."""
    written_env: Mapping[str, str] = field(default_factory=dict)
    """Environment that its own header asks for, where this tool wrote the file."""

    def line(self, path: KeyPath) -> int | None:
        """Line of a key, or of the nearest one around it; None where nothing is known."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def get(self, option: str, default: Any = None) -> Any:
        """The option's value; `default` where it is left out or null."""
        value = self.values.get(option)
        return default if value is None else value


def from_yaml(text: str, name: str, env: Mapping[str, str] | None = None) -> ServeConfig:
    """A config file's text.

    Raises:
        InputError: it is no YAML, or no mapping of option names.
    """
    document = parse_yaml(text, name)
    if document.value is None:
        return from_values({}, name=name, env=env, ignores=read_ignores(text))
    if not isinstance(document.value, dict):
        raise InputError(f"{name}:1: the document is {given(document.value)}: expected `option: value` lines as "
                         "`vllm serve --config` takes them; name the right file")
    return from_values(document.value, document.lines, name=name, env=env, ignores=read_ignores(text))


def from_values(
    values: Mapping[Any, Any],
    lines: Mapping[KeyPath, int] | None = None,
    *,
    name: str = "config",
    env: Mapping[str, str] | None = None,
    ignores: tuple[Ignore, ...] = (),
    from_file: bool = True,
) -> ServeConfig:
    """Options from any reader, in one spelling. `lines` has the keys as they are spelled in `values`.

    Raises:
        InputError: an option name is no text, or one option (or key of speculative-config) stands twice in two
            spellings. What vLLM takes of the two was asked of its own parser (0.32).
    """
    found: dict[str, Any] = {}
    placed: dict[KeyPath, int] = {}
    spelled: dict[str, str] = {}
    stated: dict[str, str] = {}
    old = dict(lines or {})
    for raw, value in values.items():
        if not isinstance(raw, str):
            raise InputError(f"{name}{_at(old.get((raw,)))}: option {shown(raw)} is no text: expected an option name "
                             "of `vllm serve`; put it in quotes or remove it")
        first, *rest = raw.lstrip("-").split(".")
        option = first.replace("_", "-")
        option = option if from_file else SHORT_OPTIONS.get(option, option)
        where = f"{name}{_at(old.get((raw,)))}"
        before = stated.setdefault(option, raw)
        if before != raw and bool(rest) != ("." in before):
            raise InputError(f"{where}: option {shown(option)} stands both whole and with dots ({shown(raw)}): vLLM "
                             "takes those with dots alone; keep one of the two")
        if rest:
            _refuse_absurd(value, f"{where}: {raw}")
            _put_dotted(found, placed, option, rest, value, old.get((raw,)), where)
            continue
        if before != raw:
            raise InputError(f"{where}: option {shown(option)} stands twice, as {shown(before)} and as {shown(raw)}: "
                             "vLLM takes the last one; keep one of the two")
        if option != raw:
            spelled[option] = raw
        found[option] = _parsed(option, value, f"{where}: {raw}")
        for path, line in old.items():
            if path and path[0] == raw:
                placed.setdefault((option, *_inner(option, path[1:])), line)
    return ServeConfig(values=found, lines=placed, name=name, env=dict(env or {}), ignores=ignores, from_file=from_file,
                       spelled=spelled)


def read_ignores(text: str) -> tuple[Ignore, ...]:
    """Ignore comments, wherever they stand in the text."""
    found: list[Ignore] = []
    for number, line in enumerate(text.splitlines(), 1):
        if "specadvise" not in line.lower():
            continue
        match = _IGNORE.search(line)
        if match is not None:
            codes = match[1].upper().replace(",", " ").split() or [""]
            found += [Ignore(code.strip(":-")[:40], match[2].strip(), number) for code in codes]
    return tuple(found)


def _at(line: int | None) -> str:
    return "" if line is None else f":{line}"


def _parsed(option: str, value: Any, where: str) -> Any:
    _refuse_absurd(value, where)
    if option not in JSON_OPTIONS:
        return value
    if isinstance(value, str) and value.strip().startswith("{"):
        try:
            value = parse_json(value, where)
        except json.JSONDecodeError:
            return value
        _refuse_absurd(value, where)
    return _normal(option, value, where)


def _refuse_absurd(value: Any, where: str) -> None:
    """Numbers that no option can have, wherever they stand in a value: rules may then calculate with what is left."""
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            _refuse_absurd(inner, where)
    elif isinstance(value, (int, float)) and not abs(value) <= MAX_NUMBER:
        shorter = shown(value) if isinstance(value, float) else "a number of many digits"
        raise InputError(f"{where}: {shorter} is no number that an option can have; mend it and run again")


def _normal(option: str, value: Any, where: str) -> Any:
    """vLLM takes dashes for underscores in the keys of speculative-config; those of other options keep theirs."""
    if option != "speculative-config" or not isinstance(value, dict):
        return value
    found: dict[Any, Any] = {}
    for key, inner in value.items():
        plain = key.replace("-", "_") if isinstance(key, str) else key
        if plain in found:
            raise InputError(f"{where}: key {shown(plain)} stands twice, with dashes and with underscores: vLLM takes "
                             "the last one; keep one of the two")
        found[plain] = inner
    return found


def _inner(option: str, path: KeyPath) -> KeyPath:
    if option == "speculative-config" and path and isinstance(path[0], str):
        return (path[0].replace("-", "_"), *path[1:])
    return path


def _put_dotted(
    found: dict[str, Any], placed: dict[KeyPath, int], option: str, rest: list[str], value: Any, line: int | None,
    where: str,
) -> None:
    keys = [key.replace("-", "_") for key in rest] if option == "speculative-config" else rest
    place = found.setdefault(option, {})
    if not isinstance(place, dict):
        place = found[option] = {}
    for key in keys[:-1]:
        inner = place.setdefault(key, {})
        if not isinstance(inner, dict):
            inner = place[key] = {}
        place = inner
    if keys[-1] in place:
        raise InputError(f"{where}: {shown('.'.join((option, *keys)))} stands twice: vLLM takes the last one; keep one "
                         "of the two")
    place[keys[-1]] = value
    if line is not None:
        placed.setdefault((option,), line)
        placed[(option, *keys)] = line
