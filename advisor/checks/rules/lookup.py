"""N-gram and suffix lookup: windows that can match, and workloads that repeat themselves."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from advisor.release_rules import refused_window
from profiles.schema import shown

_NGRAM = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 32\nspeculative-config:\n  method: ngram\n"
          "  num_speculative_tokens: 3\n")
_LITTLE_TO_COPY = frozenset({"chat", "creative", "translation", "reasoning", "math"})
_LONG_MIN, _LONG_MAX = 8, 32
_MOST_STEPS = 0.5


def _is_ngram(subject: Subject) -> bool:
    return subject.speculation is not None and subject.speculation.method in ("ngram", "ngram_gpu")


def _invalid(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or not _is_ngram(subject):
        return
    low, high = speculation.whole("prompt_lookup_min"), speculation.whole("prompt_lookup_max")
    for key, value in (("prompt_lookup_min", low), ("prompt_lookup_max", high)):
        if value is None and speculation.settings.get(key) is not None:
            yield Fault(speculation.path(key), f"{key} is {shown(speculation.settings[key])}: vLLM takes a whole "
                                               f"number of "
                        "at least 1 (n-gram lookup).")
    refused = refused_window(low, high)
    if refused is not None:
        yield Fault(speculation.path(refused[0]), f"{refused[1]} (n-gram lookup).")
    if high is None and "speculative-config" not in subject.release.serve_options:
        yield Fault(speculation.path(), "n-gram lookup of this release needs ngram-prompt-lookup-max.")


def _hardly_matches(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or not _is_ngram(subject):
        return
    low, high = speculation.whole("prompt_lookup_min"), speculation.whole("prompt_lookup_max")
    seen = traits.matched_share(subject)
    if seen is not None and seen >= _MOST_STEPS and (high is None or high <= _LONG_MAX):
        # How often this very window matches was counted.
        return
    if low is not None and low >= _LONG_MIN:
        yield Fault(speculation.path("prompt_lookup_min"), f"prompt_lookup_min is {low}: a lookup drafts only where "
                                                           f"the last "
                    f"{low} tokens stand in the text already, which is rare outside copied passages (n-gram)"
                    f"{_counted(seen)}.", thumb=True)
    elif high is not None and high > _LONG_MAX:
        yield Fault(speculation.path("prompt_lookup_max"), f"prompt_lookup_max is {high}: the n-gram matcher looks for "
                                                           f"up to "
                    f"{high} tokens in the whole text of each request, in every step.", thumb=True)
    elif low is None and high is None and subject.engine.runner != "v0":
        yield Fault(speculation.path("method"), "Without prompt_lookup_min and _max, n-gram lookup wants five tokens "
                                                "to "
                    f"match: few steps get a draft{_counted(seen)}.", severity="info", thumb=True,
                    remedy="Set prompt_lookup_min: 2 and prompt_lookup_max: 4.")


def _counted(share: float | None) -> str:
    return "" if share is None else f": {100 * share:.0f} % of the steps in the evidence given"


def _little_to_copy(subject: Subject) -> Iterable[Fault]:
    speculation, workload = subject.speculation, subject.workload
    if speculation is None or not speculation.is_lookup or workload is None or workload.task is None:
        return
    found = traits.matched_share(subject)
    if found is not None:
        # What was counted on this deployment's own text says it better than the kind of text.
        if found < _MOST_STEPS:
            yield Fault(speculation.path("method"), f"Lookup ({speculation.method}) copies from the prompt and the "
                                                    f"text so far: in the evidence given {100 * found:.0f} % of the "
                                                    "steps find a draft at all.", thumb=True)
    elif workload.task.strip().lower().replace("-", "_") in _LITTLE_TO_COPY:
        yield Fault(speculation.path("method"), f"Lookup ({speculation.method}) copies from the prompt and the text so "
                                                f"far, "
                    f"and {workload.task} outputs repeat little of it: most steps get no n-gram match.", thumb=True)


def _overstated(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is not None and speculation.is_lookup and subject.engine.runner in ("v1", "v2"):
        yield Fault(speculation.path("method"), "Steps without a draft are not counted in the acceptance metrics of "
                                                "lookup "
                    "methods: the mean acceptance length overstates the gain.")


def _package(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is not None and speculation.method == "suffix" and "suffix" in subject.release.methods:
        yield Fault(speculation.path("method"), "Suffix decoding needs the package arctic-inference in the server's "
                                                "image; "
                    "without it the server does not start.")


_GOOD = _NGRAM + "  prompt_lookup_min: 2\n  prompt_lookup_max: 4\n"
RULES = (
    Rule("SPD601", "Lookup window that is refused", "Both ends are whole numbers above 0, the first not above the "
                                                    "second.",
         "Set prompt_lookup_min: 2 and prompt_lookup_max: 4.", "error", "vllm/config/speculative.py (0.32)",
         Example(_NGRAM + "  prompt_lookup_min: 5\n  prompt_lookup_max: 2\n"), Example(_GOOD), _invalid),
    Rule("SPD602", "Lookup window that hardly matches, or matches slowly",
         "A longer window matches less often; the matcher scans the text for every length up to the maximum.",
         "Use a window of 2 to 4 tokens.", "warn", "vllm issue 16883; vllm/v1/spec_decode/ngram_proposer.py (0.32)",
         Example(_NGRAM + "  prompt_lookup_min: 10\n  prompt_lookup_max: 500\n"), Example(_GOOD), _hardly_matches),
    Rule("SPD603", "Lookup for texts that repeat little", "Lookup pays for code edits, extraction, summaries with "
                                                          "quotes.",
         "Use an EAGLE head or a draft model for this task.", "warn", "the catalog's acceptance prior by task",
         Example(_GOOD, workload={"task": "creative"}), Example(_GOOD, workload={"task": "code"}), _little_to_copy),
    Rule("SPD604", "Acceptance metrics that overstate", "A step without a draft adds to no counter.",
         "Divide accepted tokens by generated tokens instead.", "info", "vllm/v1/spec_decode/metrics.py (0.32)",
         Example(_GOOD), Example("model: Qwen/Qwen3-8B\n"), _overstated),
    Rule("SPD605", "Package that suffix decoding needs", "The matcher is not part of vLLM.",
         "Install arctic-inference==0.1.1 in the image.", "info", "vllm/config/speculative.py of 0.12 to 0.32",
         Example("model: Qwen/Qwen3-8B\nmax-num-seqs: 16\nspeculative-config:\n  method: suffix\n"
                 "  num_speculative_tokens: 8\n"), Example(_GOOD), _package),
)
