"""Options and keys: unknown, removed, renamed, misspelt, or of the wrong kind for the release."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping

from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.speculation import SCHEDULE, SEPARATE_OPTIONS, SHORT_CUTS
from advisor.checks.subject import Subject
from advisor.checks.values import nearest, refusal, said, taken_as_key
from profiles.catalog.options import find_key, refuses_unknown_keys
from profiles.json_text import json_problem
from profiles.schema import as_sentence, shown

_CONFIG = ("speculative-config",)
_JUDGED_ELSEWHERE = frozenset({"method", "model", "num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min",
                               SCHEDULE, "tensor_parallel_size"})
"""Keys whose values rules of their own judge."""
_EAGLE3 = """\
model: Qwen/Qwen3-8B
max-num-seqs: 32
max-num-batched-tokens: 8192
speculative-config:
  method: eagle3
  model: AngelSlim/Qwen3-8B_eagle3
  num_speculative_tokens: 3
"""


def _keys(subject: Subject) -> Mapping[str, object]:
    nested = subject.config.get("speculative-config")
    return nested if isinstance(nested, Mapping) else {}


def _refused_keys(subject: Subject) -> Iterable[Fault]:
    release = subject.release
    if "speculative-config" not in release.serve_options:
        return
    for key in _keys(subject):
        if not isinstance(key, str):
            yield Fault(_CONFIG, f"speculative-config has the key {shown(key)}, which is no text.")
            continue
        if release.accepts(key) or _is_ignored(subject, key):
            continue
        why = release.refuse_key(key) or f"vLLM {release.version} does not take {key!r}"
        near = difflib.get_close_matches(key, sorted(release.speculative_keys), n=1, cutoff=0.75)
        remedy = _INSTEAD.get(key) or (f"Did you mean {near[0]}?" if near else None)
        yield Fault((*_CONFIG, key), f"{as_sentence(why)}: the server does not start.", remedy=remedy)


_INSTEAD = {
    "disable_by_batch_size": f"Remove it; from vLLM 0.24 on {SCHEDULE} sets k by batch size.",
    "tensor_parallel_size": "Use draft_tensor_parallel_size.",
    "synthetic_acceptance_rate": "Remove it: it is for experiments (later synthetic_acceptance_rates).",
    "adaptive_verification": "The key is enable_adaptive_verification (vLLM 0.28 or newer).",
    "k": "Use num_speculative_tokens.",
    "draft_model": "Use model.",
    "speculative_model": "Use model.",
}


def _is_ignored(subject: Subject, key: str) -> bool:
    """Keys that this release takes and never reads."""
    return key == "disable_by_batch_size" and subject.release.accepts(key) and subject.engine.runner != "v0"


def _ignored_keys(subject: Subject) -> Iterable[Fault]:
    if subject.speculation is None:
        return
    for key in ("disable_by_batch_size", "disable_mqa_scorer", "acceptance_method", "posterior_threshold"):
        if key in subject.speculation.settings and subject.engine.runner != "v0" and subject.release.accepts(key):
            yield Fault(
                subject.speculation.path(key),
                f"{key} is accepted by vLLM {subject.release.version} and never read: only the old V0 engine knew it. "
                "Speculation stays on at every batch size.",
            )


def _separate_options(subject: Subject) -> Iterable[Fault]:
    release = subject.release
    for option in SEPARATE_OPTIONS:
        if option not in subject.config.values:
            continue
        if option not in release.serve_options:
            yield Fault((option,), f"--{option} is no option of vLLM {release.version}: the server does not start "
                        "(unrecognized arguments).")
        elif release.has("separate_options_deprecated"):
            yield Fault((option,), f"--{option} is deprecated in vLLM {release.version} and gone from 0.8.3 on.",
                        severity="warn")
    if "use-v2-block-manager" in subject.config.values and "use-v2-block-manager" not in release.serve_options:
        yield Fault(("use-v2-block-manager",), f"--use-v2-block-manager is no option of vLLM {release.version}: the "
                    "server does not start.", remedy="Remove it: there is only one block manager.")


def _too_early(subject: Subject) -> Iterable[Fault]:
    release = subject.release
    for option in ("speculative-config", *SHORT_CUTS):
        if subject.config.get(option) is not None and option not in release.serve_options:
            yield Fault((option,), f"--{option} is no option of vLLM {release.version} yet: the server does not start.")


def _not_a_mapping(subject: Subject) -> Iterable[Fault]:
    value = subject.config.get("speculative-config")
    if value is None or isinstance(value, Mapping):
        return
    if isinstance(value, str) and value.strip() == "None":
        return
    what = "a list" if isinstance(value, list) else _torn(value) or said(value, "speculative-config")
    yield Fault(_CONFIG, f"speculative-config is {what}: vLLM takes a JSON object (in a config file, a nested "
                         "mapping).")


def _torn(value: object) -> str | None:
    """Where text that begins as a JSON object ceases to be one; None for anything else. It is not quoted: it may hold
    anything."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return None
    try:
        json.loads(value)
    except json.JSONDecodeError as error:
        return f"no JSON object (line {error.lineno}, column {error.colno}: {json_problem(error)})"
    except (ValueError, RecursionError):
        return "no JSON object that can be read"
    return None


def _both_spellings(subject: Subject) -> Iterable[Fault]:
    for option, key in SHORT_CUTS.items():
        if subject.config.get(option) is not None and key in _keys(subject):
            yield Fault((option,), f"--{option} and speculative-config.{key} are both given: vLLM refuses the clash.")


def _short_form(subject: Subject) -> Iterable[Fault]:
    if subject.config.from_file and "sc" in subject.config.values:
        yield Fault(("sc",), "The short form `sc` works on the command line only; in a config file it is an unknown "
                    "argument.", remedy="Write speculative-config.")


def _bad_k(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None:
        return
    raw = speculation.settings.get("num_speculative_tokens")
    where = speculation.path("num_speculative_tokens")
    if raw is None:
        if speculation.method in ("suffix", "mtp", "dspark", "mlp_speculator", "extract_hidden_states"):
            return
        yield Fault(where, "num_speculative_tokens is missing: vLLM asks for it with "
                    f"{speculation.method or 'this method'} and does not start.")
    elif speculation.k is None:
        yield Fault(where, f"num_speculative_tokens is {shown(raw)}: vLLM takes a whole number above 0.")


def _bad_value(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    if speculation is None:
        return
    listed = {
        "rejection_sample_method": release.rejection_methods,
        "draft_sample_method": frozenset({"greedy", "probabilistic"}),
    }
    for key, value in speculation.settings.items():
        if value is None or not isinstance(key, str) or key in _JUDGED_ELSEWHERE or not release.accepts(key):
            continue
        if key in listed:
            if not (isinstance(value, str) and value in listed[key]):
                hint = " (since 0.21: standard, with draft_sample_method probabilistic)" if value in (
                    "strict", "probabilistic") and key == "rejection_sample_method" else ""
                yield Fault(speculation.path(key), f"{key} is {said(value, key)}: vLLM {release.version} takes "
                            f"{', '.join(sorted(listed[key]))}{hint}.")
            continue
        if key.startswith("suffix_") and speculation.method != "suffix":
            continue
        found = find_key("speculative-config", key, release.rules)
        if found is None or (not refuses_unknown_keys(release.rules) and found.kind not in ("int", "float")):
            # Before 0.16 values were not validated: only a number can be told to be none.
            continue
        if not taken_as_key(found, value):
            near = nearest(found, value) if found.choices else None
            yield Fault(speculation.path(key), refusal(key, value, found, release.version),
                        "warn" if found.any_case and near is None else None, f"Did you mean {near}?" if near else None)



_MISSING_K = _EAGLE3.replace("  num_speculative_tokens: 3\n", "")
RULES = (
    Rule("SPD101", "Key that this release refuses in speculative-config",
         "SpeculativeConfig forbids unknown keys: a removed, renamed, misspelt or not yet existing one ends the start.",
         "Remove it, or use the release that has it.", "error", "vllm/config/speculative.py of 0.8.5 to 0.33",
         Example(_EAGLE3 + "  disable_by_batch_size: 8\n"), Example(_EAGLE3), _refused_keys,
         releases="0.8 and newer, each with its own keys"),
    Rule("SPD102", "Key that is accepted and never read",
         "0.10 to 0.16 still declare disable_by_batch_size, but the V1 engine never looks at it.",
         "Remove it; set k by batch size with a release that has a schedule (0.24 or newer).", "warn",
         "vllm/config/speculative.py of 0.10 to 0.16",
         Example(_EAGLE3 + "  disable_by_batch_size: 8\n", "0.12.0"), Example(_EAGLE3, "0.12.0"), _ignored_keys,
         releases="0.10 to 0.16"),
    Rule("SPD103", "Separate option of releases before 0.8.3",
         "vLLM 0.8 put all of speculation into --speculative-config; the separate options are gone since 0.8.3.",
         "Put it into speculative-config: {model, num_speculative_tokens, ...}.", "error",
         "vllm pull 15466 and the documentation of 0.8.2",
         Example("model: Qwen/Qwen3-8B\nspeculative-model: Qwen/Qwen3-0.6B\nnum-speculative-tokens: 4\n"),
         Example("model: meta-llama/Llama-2-7b-chat-hf\nspeculative-model: '[ngram]'\nnum-speculative-tokens: 4\n"
                 "ngram-prompt-lookup-max: 4\n", "0.7.3", "A100-80GB"), _separate_options, releases="0.8 and newer"),
    Rule("SPD104", "Option that came with a later release",
         "The option is unknown to this release, so the server ends with a usage error.",
         "Use the options of this release, or a newer release.", "error", "documentation of vLLM 0.6 to 0.8",
         Example(_EAGLE3, "0.7.3"), Example(_EAGLE3), _too_early, releases="before 0.8; spec-* before 0.22"),
    Rule("SPD105", "speculative-config is no mapping",
         "The value is parsed as one JSON object; a list, a bare word or broken JSON ends the start.",
         "Write a nested mapping (or one JSON object in quotes).", "error", "vllm/utils/argparse_utils.py (0.32)",
         Example("model: Qwen/Qwen3-8B\nspeculative-config: none\n"),
         Example("model: Qwen/Qwen3-8B\nspeculative-config: null\n"), _not_a_mapping),
    Rule("SPD106", "The same key in an option and in speculative-config",
         "--spec-method, --spec-model and --spec-tokens clash with the same key inside the mapping (ValueError).",
         "Keep one of the two.", "error", "vllm/engine/arg_utils.py (0.32)",
         Example(_EAGLE3 + "spec-tokens: 4\n"), Example(_EAGLE3), _both_spellings, releases="0.22 and newer"),
    Rule("SPD107", "Short option in a config file",
         "Only long option names are read from a config file.", "Write the long name.", "error",
         "vllm/utils/argparse_utils.py (0.32)", Example("model: Qwen/Qwen3-8B\nsc: '{}'\n"), Example(_EAGLE3),
         _short_form),
    Rule("SPD108", "Number of speculative tokens missing or not positive",
         "Every method but suffix, MTP and dspark needs num_speculative_tokens, and it has to be above 0.",
         "State num_speculative_tokens, 3 to start with; leave speculative-config out to turn speculation off.",
         "error",
         "vllm/config/speculative.py (0.32)", Example(_MISSING_K), Example(_EAGLE3), _bad_k),
    Rule("SPD109", "Value that this release does not take",
         "Each key has its type, choices or bounds, which changed between releases.", "Use a value that the key takes.",
         "error",
         "vllm/config/speculative.py of 0.12 to 0.33", Example(_EAGLE3 + "  rejection_sample_method: strict\n"),
         Example(_EAGLE3 + "  rejection_sample_method: standard\n"), _bad_value, releases="0.12 and newer"),
)
