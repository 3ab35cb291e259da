"""Options of the server: there in this release, and with values that its parser takes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from advisor.checks.finding import Severity
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.speculation import SEPARATE_OPTIONS, SHORT_CUTS
from advisor.checks.subject import Subject
from advisor.checks.values import (
    WORDS_FOR_SWITCHES,
    dropped,
    nearest,
    out_of_range,
    refusal,
    said,
    taken_as_key,
    taken_as_option,
)
from profiles.catalog.options import (
    Option,
    completed,
    dates,
    ever,
    find_key,
    find_option,
    is_newer_than_read,
    mapping_keys,
    newest_read,
    option_names,
    refuses_unknown_keys,
    was_read,
)
from profiles.schema import shown

_SPOKEN_OF = frozenset({*SEPARATE_OPTIONS, *SHORT_CUTS, "speculative-config", "sc", "use-v2-block-manager",
                        "per-request-spec-decode-metrics", "config"})
"""Options that rules of their own judge."""
_NUMBERS = frozenset({"int", "size", "window", "float"})
_OWNERS = ("speculative-config", "compilation-config", "structured-outputs-config", "attention-config",
           "kv-transfer-config")
"""Mappings whose keys are most often put one level too high."""
_NEAR = 0.72


def _severity(subject: Subject) -> Severity:
    """What is unknown here may be known to a newer release or to a plugin of the platform."""
    rules = subject.release.rules
    if subject.platform in ("npu", "tpu", "unknown") or not subject.release.known or is_newer_than_read(rules):
        return "warn"
    return "error" if was_read(rules) else "info"


def _options(subject: Subject) -> Iterator[tuple[str, Any, Option | None]]:
    """Every option that no other rule judges, its value, and what the release says of it (None: nothing)."""
    for option, value in subject.config.values.items():
        if option in _SPOKEN_OF or (option == "model-tag" and not subject.config.from_file):
            continue
        yield option, value, find_option(option, subject.release.rules)


def _negated(option: str, subject: Subject) -> bool:
    """`no-x` of a switch x."""
    found = find_option(option.removeprefix("no-"), subject.release.rules) if option.startswith("no-") else None
    return found is not None and found.kind == "switch"


def _unknown(subject: Subject) -> Iterable[Fault]:
    release = subject.release
    for option, value, found in _options(subject):
        if found is not None or option in release.serve_options or _negated(option, subject) or dropped(None, value) \
                or completed(option, release.rules) is not None:
            continue
        severity = _severity(subject)
        if severity == "info" and ever(option):
            continue
        since, until = dates(option)
        when = ""
        if until is not None and not _before(release.rules, until):
            when = f" any more (gone since {until})"
        elif since is not None:
            when = f" yet (it came with {since})"
        of, effect = release.version, "the server does not start (unrecognized arguments)."
        if is_newer_than_read(release.rules):
            of = f"{newest_read()}, the newest whose options are known here"
            effect = f"where {release.version} does not know it either, the server does not start."
        elif severity != "error":
            effect = "where this server does not know it either, it does not start."
        yield Fault((option,), f"--{_short(option)} is no option of vLLM {of}{when}: {effect}",
                    severity=severity, remedy=_instead(option, subject))


def _before(one: str, other: str) -> bool:
    from profiles.catalog.releases import version_tuple

    return version_tuple(one) < version_tuple(other)


def _short(option: str) -> str:
    return shown(option).strip("'\"")


def _instead(option: str, subject: Subject) -> str | None:
    """The option that was meant, or the mapping that has a key of this name."""
    rules, key = subject.release.rules, option.replace("-", "_")
    owner = next((name for name in _OWNERS if key in mapping_keys(name, rules)), None)
    if owner is not None:
        return f"{key} is a key of {owner}: put it inside that mapping."
    near = difflib.get_close_matches(option, sorted(option_names(rules) | subject.release.serve_options), n=1,
                                     cutoff=_NEAR)
    return f"Did you mean {near[0]}?" if near else None


def _shortened(subject: Subject) -> Iterable[Fault]:
    for option, _, found in _options(subject):
        whole = completed(option, subject.release.rules) if found is None else None
        if whole is not None and not _negated(option, subject):
            yield Fault((option,), f"{_short(option)} is the beginning of {whole} only, and vLLM takes it for "
                                   "that; the "
                        "next release with a second option like it refuses it, and no other rule here looks at it.",
                        remedy=f"Write {whole}.")


def _left_out(subject: Subject) -> Iterable[Fault]:
    if not subject.config.from_file:
        return
    for option, value, found in _options(subject):
        if not dropped(found, value) or (found is not None and found.kind == "flag"):
            continue
        if found is None and (_negated(option, subject) or option in subject.release.serve_options):
            continue
        what = "an empty list" if value == [] else "false, and there is no --no- form of it"
        yield Fault((option,), f"{_short(option)} is {what}: vLLM leaves the line out without a word.")


def _not_taken(subject: Subject) -> Iterable[Fault]:
    for option, value, found in _options(subject):
        if found is None or _as_word(found, value) or (option == "compilation-config" and str(value).isdigit()):
            continue
        # Of releases whose list was not read, only numbers are sure.
        if not was_read(subject.release.rules) and found.kind not in _NUMBERS:
            continue
        if not taken_as_option(found, value):
            yield Fault((option,), refusal(option, value, found, subject.release.version), _of_plugin(found, value),
                        _mend(found, value))
        elif out_of_range(found, value):
            yield Fault((option,), f"{option} is {said(value, option)}: vLLM {subject.release.version} takes a number "
                        f"{found.range}, and the server does not start.")


def _as_word(option: Option, value: Any) -> bool:
    return option.kind in ("switch", "flag") and isinstance(value, str) and value.lower() in WORDS_FOR_SWITCHES


def _mend(option: Option, value: Any) -> str | None:
    near = nearest(option, value) if option.choices else None
    if near is not None:
        return f"Did you mean {near}?"
    return "Write true or false." if option.kind in ("switch", "flag") else None


def _of_plugin(option: Option, value: Any) -> Severity | None:
    """A warning where the value may be a name that a plugin of the engine registers, and is no slip of a known one."""
    return "warn" if option.any_case and nearest(option, value) is None else None


def _misread_switch(subject: Subject) -> Iterable[Fault]:
    for option, value, found in _options(subject):
        if found is not None and _as_word(found, value):
            yield Fault((option,), f"{option} is the text {value!r}: a switch takes no value, so the text is read "
                                   "as the "
                        "model's name or refused.")


def _keys(subject: Subject) -> Iterator[tuple[str, str, Any]]:
    for option, value, _ in _options(subject):
        if isinstance(value, Mapping):
            yield from ((option, key, inner) for key, inner in value.items() if isinstance(key, str))


def _unknown_key(subject: Subject) -> Iterable[Fault]:
    rules = subject.release.rules
    if not was_read(rules) or not subject.release.known:
        return
    for option, key, _ in _keys(subject):
        known = mapping_keys(option, rules)
        if not known or key in known:
            continue
        refused = refuses_unknown_keys(rules)
        near = difflib.get_close_matches(key.replace("-", "_"), sorted(known), n=1, cutoff=_NEAR)
        yield Fault((option, key), f"{option} has no key {shown(key)} in vLLM {subject.release.version}: "
                    + ("the server does not start." if refused else "it is dropped without a word."),
                    severity=None if refused else "warn", remedy=f"Did you mean {near[0]}?" if near else None)


def _bad_key_value(subject: Subject) -> Iterable[Fault]:
    rules = subject.release.rules
    if not was_read(rules) or not refuses_unknown_keys(rules):
        return
    for option, key, value in _keys(subject):
        found = find_key(option, key, rules)
        if found is not None and not taken_as_key(found, value):
            yield Fault((option, key), refusal(f"{option}.{key}", value, found, subject.release.version),
                        _of_plugin(found, value), _mend(found, value) if found.choices else None)


_PLAIN = "model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 32\n"
RULES = (
    Rule("SPD111", "Option that this release does not have",
         "vLLM ends with a usage error at the first argument that it does not know.",
         "Remove it, or use a release that has it.", "error", "vllm/engine/arg_utils.py of 0.8.5 to 0.32",
         Example(_PLAIN + "max-number-seqs: 16\n"), Example(_PLAIN), _unknown,
         releases="0.8.5 and newer; of newer ones than were read, as a warning"),
    Rule("SPD112", "Value that an option does not take",
         "The value has to parse as the option's type, be one of its choices and lie within its bounds.",
         "Write a value that the option takes.", "error", "vllm/engine/arg_utils.py and vllm/config of 0.8.5 to 0.32",
         Example(_PLAIN + "gpu-memory-utilization: 1.5\n"), Example(_PLAIN + "gpu-memory-utilization: 0.85\n"),
         _not_taken),
    Rule("SPD113", "Line that vLLM leaves out",
         "`false` becomes `--no-...` where there is such a form; elsewhere, and with an empty list, nothing is passed.",
         "Remove the line, or state what was meant.", "warn", "vllm/utils/argparse_utils.py (0.32, load_config_file)",
         Example(_PLAIN + "served-model-name: []\n"), Example(_PLAIN + "served-model-name: [small]\n"), _left_out),
    Rule("SPD114", "Shortened option name",
         "The parser takes any beginning of a name that fits one option only.", "Write the whole name.", "warn",
         "argparse (allow_abbrev), as vllm/utils/argparse_utils.py uses it (0.32)",
         Example("model: Qwen/Qwen3-8B\nmax-model: 16384\n"), Example(_PLAIN), _shortened),
    Rule("SPD115", "Key that an option's mapping does not have",
         "Config classes refuse keys they do not have; before 0.16 they dropped them.",
         "Remove the key, or write it as the release does.", "error", "vllm/config of 0.8.5 to 0.32",
         Example(_PLAIN + "compilation-config:\n  cudagraph_modes: FULL\n"),
         Example(_PLAIN + "compilation-config:\n  cudagraph_mode: FULL\n"), _unknown_key, releases="0.9 and newer"),
    Rule("SPD116", "Value that a key of a mapping does not take",
         "The mapping is validated key by key: type, choices and bounds.", "Write a value that the key takes.", "error",
         "vllm/config of 0.16 to 0.32", Example(_PLAIN + "compilation-config:\n  cudagraph_capture_sizes: all\n"),
         Example(_PLAIN + "compilation-config:\n  cudagraph_capture_sizes: [1, 2, 4, 8]\n"), _bad_key_value,
         releases="0.16 and newer"),
    Rule("SPD110", "Switch written as text",
         "A quoted true or false is no switch: it becomes a value that the option does not take.",
         "Write true or false without quotes.", "error", "vllm/utils/argparse_utils.py (0.32)",
         Example("model: Qwen/Qwen3-8B\nenforce-eager: 'false'\n"),
         Example("model: Qwen/Qwen3-8B\nenforce-eager: false\n"), _misread_switch),
)
