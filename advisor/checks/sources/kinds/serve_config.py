"""What `vllm serve --config` takes: one YAML mapping of options."""

from __future__ import annotations

from collections.abc import Collection

from advisor.checks.serve_config import SHORT_OPTIONS, ServeConfig, from_values
from advisor.checks.sources.source import Source
from profiles.errors import InputError

TITLE = "a serve config (`vllm serve --config`)"
RANK = 90
_EXPECTED = "expected `option: value` lines as `vllm serve --config` takes them"
_OWN_FILES: tuple[tuple[frozenset[str], frozenset[str], str], ...] = (
    (frozenset({"target"}),
     frozenset({"hardware", "workload", "engine", "candidates", "objective", "trial", "sources"}),
     "a deployment file, not a serve config: `specadvise advise {name}` prices it and writes the vllm.yaml to check; "
     "`--deployment {name}` gives its release and hardware to a check"),
    (frozenset({"schema_version", "decision"}), frozenset(),
     "a record, not a serve config: give it with `--record {name}`, and name the vllm.yaml beside it"),
    (frozenset({"schema_version", "kind", "collected_at"}), frozenset(),
     "evidence, not a serve config: give it to `advise --evidence {name}`, and name the vllm.yaml that it wrote"),
    (frozenset({"groups"}), frozenset(), "a Prometheus rules file, not a serve config: name the vllm.yaml beside it"),
    (frozenset({"severities"}), frozenset({"ignore"}), "a policy, not a serve config: give it with `--policy {name}`"),
    (frozenset({"ignore"}), frozenset({"severities"}), "a policy, not a serve config: give it with `--policy {name}`"),
)
"""Other files of this tool: keys that tell them, keys of which one has to be there too, and what to do with them."""


def recognises(source: Source) -> bool:
    """Any YAML that is a mapping, or empty, and no manifest; a template only where it is whole YAML as it stands."""
    if source.yaml_problem is not None or source.template_line is not None:
        return False
    return len(source.documents) == 0 or (len(source.documents) == 1 and isinstance(source.documents[0].value, dict))


def read(source: Source) -> list[ServeConfig]:
    """One config.

    Raises:
        InputError: the file is empty, one of this tool's other files, or has no option of vLLM at all.
    """
    if not source.documents or not source.documents[0].value:
        raise InputError(f"{source.name} holds no options: {_EXPECTED}; name the right file")
    document = source.documents[0]
    config = from_values(document.value, document.lines, name=source.name, env=source.env)
    _refuse_other_files(source.name, document.value.keys(), config)
    return [config]


def refuse_own_file(name: str, keys: Collection[object]) -> None:
    """InputError where the keys of a document are those of another file of this tool."""
    for telling, beside, what in _OWN_FILES:
        if telling <= set(keys) and "model" not in keys and (not beside or beside & set(keys) or len(keys) == 1):
            raise InputError(f"{name} is {what.format(name=name)}")


def _refuse_other_files(name: str, keys: Collection[object], config: ServeConfig) -> None:
    from profiles.catalog.options import ever

    refuse_own_file(name, keys)
    known = [option for option in config.values
             if ever(option) or ever(option.removeprefix("no-")) or option in SHORT_OPTIONS]
    if not known:
        first = ", ".join(str(key)[:40] for key in list(keys)[:3])
        raise InputError(f"{name} has no option of vLLM among its {len(keys)} keys ({first}): {_EXPECTED}; name the "
                         "right file")
