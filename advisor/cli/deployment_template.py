"""The commented deployment file: walks the schema, so that a new field or docstring appears in it by itself.

Prose stands behind `# `, fields at their default behind a bare `#`: removing that one character turns a field on.
"""

from __future__ import annotations

import json
import textwrap
from enum import Enum
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from profiles.deployment import Deployment
from profiles.workload import Task

WIDTH = 100
EXAMPLE_TARGET = "meta-llama/Llama-3.1-8B-Instruct"

# Where the default is empty, what one would write there.
_EXAMPLES: dict[tuple[str, ...], Any] = {
    ("engine", "vllm_version"): "0.32.0",
    ("engine", "max_model_len"): 8192,
    ("engine", "max_num_seqs"): 64,
    ("engine", "max_num_batched_tokens"): 8192,
    ("engine", "quantization"): "fp8",
    ("engine", "extra_args"): {"enable-prefix-caching": True},
    ("engine", "env"): {"VLLM_LOGGING_LEVEL": "INFO"},
    ("hardware", "count"): 1,
    ("hardware", "memory_gib"): 80,
    ("hardware", "memory_bandwidth_gbs"): 3350,
    ("hardware", "dense_tflops"): {"bf16": 989},
    ("hardware", "link_gbs"): 900,
    ("hardware", "power_cap_w"): 400,
    ("candidates",): ["ngram", {"method": "draft_model", "draft": "meta-llama/Llama-3.2-1B-Instruct", "k": "1-5"}],
    ("k",): "1-7",
    ("workload", "concurrency"): 4,
    ("workload", "concurrency_p95"): 16,
    ("workload", "arrival_rate_rps"): 2.5,
    ("workload", "prompt_tokens"): {"mean": 300, "p95": 1200},
    ("workload", "output_tokens"): 250,
    ("workload", "tasks"): {Task.CODE.value: 0.7, Task.CHAT.value: 0.3},
    ("objective", "ttft_ms"): 500,
    ("objective", "tpot_ms"): 30,
    ("objective", "min_concurrency"): 32,
    ("trial", "prompts"): "prompts.jsonl",
    ("trial", "loads"): [1, 8],
    ("sources", "server"): "http://localhost:8000",
    ("sources", "requests"): ["requests-*.jsonl.gz"],
    ("sources", "files"): ["evidence.json"],
    ("sources", "recordings"): ["requests.jsonl"],
}

# What the schema has a value for and the advice does not take it: left out is another thing than stated at it.
_NO_DEFAULT = {("workload", "sampling", "temperature")}


def template(target: str | None = None) -> str:
    """The file as text: only `target` is live; every other field is commented out, at its default or an example."""
    lines = _prose(
        "A vLLM deployment for `specadvise advise`. Remove the # in front of a field to state it; what you "
        "leave out keeps the default shown, or is assumed and said so (lines marked `example` have none).",
        "",
    )
    for name, info in Deployment.model_fields.items():
        section = _section(info)
        lines += ["", *_prose(_help(Deployment, name, info, section), "")]
        if name == "target":
            lines.append(_dump(name, target or EXAMPLE_TARGET))
        elif section is None:
            lines += _field((name,), info, "")
        else:
            lines.append(f"{name}:")
            for inner, inner_info in section.model_fields.items():
                lines += [*_prose(inner_info.description or "", "  "), *_nested(name, inner, inner_info)]
    return "\n".join(lines) + "\n"


def _help(owner: type[BaseModel], name: str, info: FieldInfo, section: type[BaseModel] | None) -> str:
    return info.description or " ".join((section.__doc__ or "").split() if section else [])


def _nested(section: str, name: str, info: FieldInfo) -> list[str]:
    group = _section(info)
    if group is not None and info.default is not None and (section, name) not in _EXAMPLES:
        lines = [f"  {name}:"]
        for inner, inner_info in group.model_fields.items():
            note = "  # example" if (section, name, inner) in _NO_DEFAULT else ""
            lines += [*_prose(inner_info.description or "", "    "),
                      f"    #{_dump(inner, _plain(inner_info.default))}{note}"]
        return lines
    return _field((section, name), info, "  ")


def _field(place: tuple[str, ...], info: FieldInfo, indent: str) -> list[str]:
    default = info.default if info.default is not PydanticUndefined else None
    example = place in _EXAMPLES and default in (None, (), "")
    value = _EXAMPLES[place] if place in _EXAMPLES else _plain(default)
    note = ""
    if example or (default is None and place in _EXAMPLES):
        note = "example"
    lines = [f"{indent}#{line}" for line in _dump(place[-1], value).split("\n")]
    if note:
        lines[0] += f"  # {note}"
    return lines


def _section(info: FieldInfo) -> type[BaseModel] | None:
    kind = info.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, BaseModel):
        return json.loads(value.model_dump_json())
    return list(value) if isinstance(value, tuple) else value


def _dump(key: str, value: Any) -> str:
    flow: bool | None = None if isinstance(value, (dict, list)) else False
    return yaml.safe_dump({key: value}, sort_keys=False, default_flow_style=flow, width=10_000).rstrip("\n")


def _prose(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        WIDTH,
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}# ",
        break_on_hyphens=False,
    )
