"""The arguments of `vllm serve` as options and values, read as vLLM's own parser reads them.

Read in vLLM 0.32 (`utils/argparse_utils.py`): dashes and underscores count the same in an option's name; dotted options
(`--speculative-config.method ngram`, `--a.b+ 1,2`) gather into one mapping that replaces whatever else was given for
that option; `--no-x` turns x off; sizes may be written 8k (8,000) or 8K (8,192); the last of several counts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from advisor.checks.serve_config import JSON_OPTIONS, SHORT_OPTIONS
from advisor.checks.sources.words import Word
from profiles.catalog.options import size_of
from profiles.errors import InputError
from profiles.json_text import parse_json
from profiles.schema import shown
from profiles.yaml_lines import KeyPath

LIST_OPTIONS = frozenset({
    "allowed-media-domains", "collect-detailed-traces", "cpu-offload-params", "cuda-graph-sizes",
    "cudagraph-capture-sizes", "ignore-patterns", "kv-cache-dtype-skip-layers", "logits-processors", "lora-modules",
    "lora-target-modules", "numa-bind-cpus", "numa-bind-nodes", "offload-params", "prompt-adapters",
    "served-model-name", "sleep-preserve-parameter-names",
})
"""Options that take several values, as the server's parser of 0.32 has them, and two older ones."""
SWITCHES = frozenset({
    "aggregate-engine-logging", "allow-credentials", "allow-deprecated-quantization", "async-scheduling",
    "cudagraph-metrics", "data-parallel-external-lb", "data-parallel-hybrid-lb",
    "data-parallel-multi-port-external-lb", "dcp-q-replicate", "enforce-eager", "exclude-tools-when-tool-choice-none",
    "fail-on-environ-validation", "fully-sharded-loras", "grpc", "headless", "interleave-mm-strings",
    "kv-cache-metrics", "kv-sharing-fast-prefill", "language-model-only", "log-error-stack", "mm-encoder-only",
    "numa-bind", "ray-workers-use-nsight", "return-sampling-mask", "return-tokens-as-token-ids",
    "scheduler-reserve-full-isl", "skip-mm-profiling", "skip-tokenizer-init", "specialize-active-lora", "tokens-only",
    "trust-remote-code", "trust-request-chat-template", "trust-request-mm-kwargs", "use-fp64-gumbel",
    "use-tqdm-on-load", "use-v2-block-manager",
})
"""Options without a value, besides those that begin with enable-, disable- or no-: as the server's parser of 0.32 has
them, and older ones."""
VALUED = frozenset({"disable-access-log-for-endpoints"})
"""Options with a value although their names begin like those of switches."""
TEXT_OPTIONS = frozenset({
    "api-key", "code-revision", "host", "model", "revision", "served-model-name", "tokenizer", "tokenizer-revision",
})
"""Options whose value stays text, whatever it looks like."""
MAX_DOTS = 8

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d{1,3})?")


@dataclass
class Arguments:
    """Options by their names with dashes, and where each stands."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    config: Word | None = None
    """What `--config` names."""
    notes: list[str] = field(default_factory=list)
    """What could not be known without running the script."""


def read_arguments(words: Sequence[Word], name: str) -> Arguments:
    """The options of the words after `vllm serve` (or after the server's module).

    InputError, beginning with `name`, where a dotted option nests past all bounds.
    """
    found = Arguments()
    dotted: dict[str, dict[str, Any]] = {}
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.text.startswith("-") or word.text in ("-", "--"):
            _positional(word, found)
            continue
        raw, equals, attached = word.text.partition("=")
        option = _option(raw)
        if option is None:
            _note_unknown(word, found)
            continue
        given: list[Word] = []
        if equals:
            given = [Word(attached, word.line, word.unknown)]
        elif not _is_switch(option):
            while index < len(words) and not _is_option(words[index].text):
                given.append(words[index])
                index += 1
                if option not in LIST_OPTIONS:
                    break
        if option == "config":
            found.config = given[0] if given else None
        elif option.count(".") > MAX_DOTS:
            raise InputError(f"{name}:{word.line}: {shown(option)} is nested too deeply: expected at most {MAX_DOTS} "
                             "dots; write the mapping as JSON")
        elif "." in option:
            _dotted(option, given, dotted, found, word.line, name)
        else:
            _plain(option, given, found, word.line)
    for option, value in dotted.items():
        found.values[option] = value
    return found


def typed(text: str) -> Any:
    """A value as a config file would have it: whole numbers, decimals and sizes (8k, 8K) as numbers, else text."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    size = size_of(text)
    return text if size is None else size


def _option(raw: str) -> str | None:
    """`--max_num_seqs` -> max-num-seqs, `-tp` -> tensor-parallel-size, `-O3` is no option of interest; None then."""
    if raw.startswith("--"):
        head, dot, rest = raw[2:].partition(".")
        return (head.replace("_", "-") + dot + rest) if head else None
    head, dot, rest = raw[1:].partition(".")
    if head == "O":
        return "optimization-level"
    long = SHORT_OPTIONS.get(head)
    return long + dot + rest if long else None


def _is_option(text: str) -> bool:
    """Negative numbers are values."""
    return text.startswith("-") and text != "-" and not re.fullmatch(r"-\d+(?:\.\d+)?", text)


def _is_switch(option: str) -> bool:
    return option in SWITCHES or (option.startswith(("enable-", "disable-", "no-")) and option not in VALUED)


def _positional(word: Word, found: Arguments) -> None:
    if word.unknown and word.text == word.unknown[0]:
        _note_unknown(word, found)
    elif "model" not in found.values and word.text not in ("", "-", "--"):
        found.values["model"] = word.text
        found.lines[("model",)] = word.line


def _plain(option: str, given: list[Word], found: Arguments, line: int) -> None:
    value: Any
    if option.startswith("no-") and not given:
        option, value = option[3:], False
    elif not given:
        value = True
    elif option in LIST_OPTIONS:
        value = [_value(option, one) for one in given]
    else:
        value = _value(option, given[0])
        if given[0].unknown and not _usable(option, given[0], value):
            found.notes.append(f"--{option} is only known at run time ({', '.join(given[0].unknown)} on line "
                               f"{given[0].line}): it was passed over")
            return
    found.values[option] = value
    found.lines[(option,)] = line


def _value(option: str, word: Word) -> Any:
    return word.text if option in TEXT_OPTIONS or option in JSON_OPTIONS or word.unknown else typed(word.text)


def _usable(option: str, word: Word, value: Any) -> bool:
    """A mapping that can be read although a name in it is a variable; a name that holds more than the variable."""
    if option in JSON_OPTIONS:
        try:
            return isinstance(parse_json(value, option), dict)
        except (json.JSONDecodeError, InputError):
            return False
    return option in TEXT_OPTIONS and word.text != word.unknown[0]


def _dotted(
    option: str, given: list[Word], dotted: dict[str, dict[str, Any]], found: Arguments, line: int, name: str
) -> None:
    head, *keys = option.split(".")
    as_list = keys[-1].endswith("+")
    keys[-1] = keys[-1].removesuffix("+")
    if head == "speculative-config":
        keys = [key.replace("-", "_") for key in keys]
    place = dotted.setdefault(head, {})
    for key in keys[:-1]:
        inner = place.get(key)
        if not isinstance(inner, dict):
            inner = place[key] = {}
        place = inner
    if given and given[0].unknown:
        found.notes.append(f"--{option} is only known at run time ({', '.join(given[0].unknown)} on line "
                           f"{given[0].line}): it was passed over")
        return
    text = given[0].text if given else "true"
    if as_list:
        known = place.get(keys[-1])
        place[keys[-1]] = [*(known if isinstance(known, list) else []), *(typed(part) for part in text.split(","))]
    else:
        place[keys[-1]] = _json_or_text(text, f"{name}:{line}: --{option}")
    found.lines.setdefault((head,), line)
    found.lines[(head, *keys)] = line


def _json_or_text(text: str, where: str) -> Any:
    try:
        return parse_json(text, where)
    except json.JSONDecodeError:
        return typed(text)


def _note_unknown(word: Word, found: Arguments) -> None:
    if word.unknown:
        found.notes.append(f"arguments that are only known at run time ({', '.join(word.unknown)} on line {word.line}) "
                           "were passed over")
