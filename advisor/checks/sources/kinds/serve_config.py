"""What `vllm serve --config` takes: one YAML mapping of options."""

from __future__ import annotations

from advisor.checks.serve_config import ServeConfig, from_values, from_yaml
from advisor.checks.sources.source import Source

TITLE = "a serve config (`vllm serve --config`)"
RANK = 90


def recognises(source: Source) -> bool:
    """Any YAML that is a mapping, or empty, and no manifest; a template only where it is whole YAML as it stands."""
    if source.yaml_problem is not None or source.template_line is not None:
        return False
    return len(source.documents) == 0 or (len(source.documents) == 1 and isinstance(source.documents[0].value, dict))


def read(source: Source) -> list[ServeConfig]:
    """One config."""
    if not source.documents:
        return [from_yaml("", source.name, source.env)]
    document = source.documents[0]
    return [from_values(document.value, document.lines, name=source.name, env=source.env)]
