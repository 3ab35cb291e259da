"""Counters and logs that are missing, refused or misleading."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject

_EAGLE3 = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 32\n{}speculative-config:\n  method: eagle3\n"
           "  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n")
_PER_REQUEST = "per-request-spec-decode-metrics"


def _ranks(subject: Subject) -> Iterable[Fault]:
    if (subject.speculation is not None and subject.engine.data_parallel > 1
            and subject.release.has("data_parallel_metrics_refused")
            and subject.engine.switch("disable-log-stats") is not True):
        yield Fault(("data-parallel-size",), f"Speculation metrics with {subject.engine.data_parallel} data-parallel "
                                             f"engines: "
                    f"in vLLM {subject.release.version} the counters cover one engine only, and setting the statistics "
                    f"up "
                    "for several ends in NotImplementedError.")


def _without_speculation(subject: Subject) -> Iterable[Fault]:
    value = subject.config.get(_PER_REQUEST)
    if value is None:
        return
    if _PER_REQUEST not in subject.release.serve_options:
        yield Fault((_PER_REQUEST,), f"--{_PER_REQUEST} is no option of vLLM {subject.release.version}: the server "
                                     f"does not "
                    "start.", remedy="Remove it, or use vLLM 0.29 or newer.")
    elif subject.speculation is None:
        yield Fault((_PER_REQUEST,), f"--{_PER_REQUEST} needs speculation to be on: the server does not start.")


def _no_counters(subject: Subject) -> Iterable[Fault]:
    if subject.speculation is not None and subject.engine.switch("disable-log-stats") is True:
        yield Fault(("disable-log-stats",), "disable-log-stats turns the acceptance metrics off: nobody will see "
                                            "whether "
                    "speculation pays.")


RULES = (
    Rule("SPD641", "Metrics of data-parallel engines", "Acceptance counters of several engines came with 0.11.",
         "Set disable-log-stats, use one engine, or vLLM 0.11 or newer.", "warn", "vllm pull 24049",
         Example(_EAGLE3.format("data-parallel-size: 2\n"), "0.10.1", gpus=2),
         Example(_EAGLE3.format("data-parallel-size: 2\n"), "0.12.0", gpus=2), _ranks, releases="0.10"),
    Rule("SPD642", "Per-request metrics without speculation", "The option is refused where there is nothing to count.",
         "Remove the option, or turn speculation on.", "error", "vllm/entrypoints (0.29 to 0.32)",
         Example("model: Qwen/Qwen3-8B\nper-request-spec-decode-metrics: summary\n"),
         Example(_EAGLE3.format("per-request-spec-decode-metrics: summary\n")), _without_speculation),
    Rule("SPD643", "Acceptance metrics turned off", "Counters are made only with log stats on.",
         "Remove disable-log-stats.",
         "info", "vllm/v1/spec_decode/metrics.py (0.32)", Example(_EAGLE3.format("disable-log-stats: true\n")),
         Example(_EAGLE3.format("")), _no_counters),
)
