"""A start script, or a command line given as text."""

from __future__ import annotations

import re
from dataclasses import replace

from advisor.checks.serve_config import ServeConfig
from advisor.checks.sources.launch import config_of, in_script
from advisor.checks.sources.source import Source

TITLE = "a command line or start script"
RANK = 50

_START = re.compile(
    r"^[ \t]*(?:(?:exec|nohup|time|sudo|env|command)[ \t]+|[A-Za-z_]\w*=\S*[ \t]+)*"
    r"(?:\S*/)?(?:vllm[ \t]+(?:\\\n[ \t]*)?serve\b|python[\d.]*[ \t]+(?:-u[ \t]+)?-m[ \t]+vllm\.entrypoints\b"
    r"|(?:ba|da|a|z)?sh[ \t]+-[a-z]*c\b|(?:docker|podman|nerdctl)[ \t]+(?:container[ \t]+)?run\b)",
    re.MULTILINE,
)


_ANYWHERE = re.compile(r"^[^#\n]*\bvllm[ \t]+serve\b|^[^#\n]*-m[ \t]+vllm\.entrypoints\b", re.MULTILINE)


def recognises(source: Source) -> bool:
    """A shebang of a shell, a line that begins like a server start, or one that holds one and is no YAML mapping."""
    first = source.text.lstrip().split("\n", 1)[0]
    if (first.startswith("#!") and "sh" in first) or _START.search(source.text) is not None:
        return True
    mapping = any(isinstance(document.value, (dict, list)) for document in source.documents)
    return not mapping and _ANYWHERE.search(source.text) is not None


def read(source: Source) -> list[ServeConfig]:
    """A config for each server that the script starts."""
    launches = in_script(source.text, source.name, 1, source.env)
    several = len(launches) > 1
    configs = []
    for launch in launches:
        config = config_of(launch, source.name, source.open_file)
        configs.append(replace(config, part=f"line {launch.line}") if several else config)
    return configs
