"""The two GPU model runners: what each lacks, and who falls back."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from profiles.schema import shown

_NGRAM = ("model: Qwen/Qwen3-8B\nspeculative-config:\n  method: ngram\n  num_speculative_tokens: 3\n  "
          "prompt_lookup_max: 4\n")
_EAGLE3 = ("model: Qwen/Qwen3-8B\nmax-num-seqs: 32\nspeculative-config:\n  method: eagle3\n"
           "  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n")
_V2, _V1 = {"VLLM_USE_V2_MODEL_RUNNER": "1"}, {"VLLM_USE_V2_MODEL_RUNNER": "0"}


def _forced_v2(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or subject.engine.forced_runner != "v2" or subject.platform == "cpu":
        return
    lacking = subject.engine.without_v2()
    if lacking is not None:
        yield Fault(speculation.path("method"), f"VLLM_USE_V2_MODEL_RUNNER=1 forces model runner V2, which in vLLM "
                    f"{subject.release.version} does not support {lacking}: the start is refused.")


def _forced_v1(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or subject.engine.forced_runner != "v1":
        return
    lacking = None
    if speculation.method == "dspark":
        lacking = "dspark"
    elif speculation.settings.get("enable_adaptive_verification") is True:
        lacking = "adaptive verification"
    elif speculation.method == "dflash" and "DFlash2DraftModel" in traits.architectures(subject.draft):
        lacking = "DFlash2 heads"
    elif (speculation.method == "dflash" and subject.release.has("mixed_dflash_needs_v2")
            and traits.mixes_windows(subject.draft)):
        lacking = "drafts that mix sliding-window and full layers"
    if lacking is not None:
        yield Fault(speculation.path("method"), f"VLLM_USE_V2_MODEL_RUNNER=0 forces model runner V1, which has no "
                    f"{lacking}: the start is refused.")


def _falls_back(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    if speculation is None or engine.forced_runner is not None or subject.release.default_runner != "v2":
        return
    lacking = engine.without_v2() if subject.platform != "cpu" else None
    if lacking is not None:
        yield Fault(speculation.path("method"), f"Model runner V2, the default of vLLM {subject.release.version}, does "
                    f"not have {lacking}: the server falls back to V1 and says so in its log.")


def _bad_variable(subject: Subject) -> Iterable[Fault]:
    value = subject.env.get("VLLM_USE_V2_MODEL_RUNNER")
    if value is not None and str(value).strip() not in ("0", "1", ""):
        yield Fault((), f"VLLM_USE_V2_MODEL_RUNNER is {shown(value)}: vLLM reads it as a number and stops.")


def _micro_batches(subject: Subject) -> Iterable[Fault]:
    engine = subject.engine
    if subject.speculation is None or engine.switch("enable-dbo") is not True or engine.forced_runner != "v2":
        return
    if subject.release.has("dbo_on_v2"):
        yield Fault(("enable-dbo",), "VLLM_USE_V2_MODEL_RUNNER=1 forces model runner V2, which does not overlap "
                                     "two batches "
                    "(enable-dbo) of drafted steps: the start is refused.")


RULES = (
    Rule("SPD141", "V2 runner forced with what it does not have",
         "Left alone, vLLM falls back to V1 where V2 lacks a method; with the variable set it refuses to start.",
         "Set VLLM_USE_V2_MODEL_RUNNER=0 or leave it unset.", "error",
         "vllm/config/vllm.py of 0.22 to 0.32 (_get_v2_model_runner_unsupported_features)",
         Example(_NGRAM, "0.24.0", env=_V2), Example(_EAGLE3, env=_V2), _forced_v2, releases="0.12 and newer"),
    Rule("SPD142", "V1 runner forced with what only V2 has",
         "dspark, adaptive verification and DFlash2 heads exist on the V2 runner only.",
         "Leave VLLM_USE_V2_MODEL_RUNNER unset, or set it to 1.", "error",
         "vllm/config/vllm.py (0.32, _get_v1_model_runner_unsupported_features)",
         Example(_EAGLE3 + "  enable_adaptive_verification: true\n", env=_V1), Example(_EAGLE3, env=_V1), _forced_v1,
         releases="0.25 and newer"),
    Rule("SPD143", "Falls back to the V1 runner",
         "Where the default V2 runner lacks a method, the whole server runs on V1.",
         "Nothing to do; compare figures with V1's, not with those of a V2 server.", "info",
         "vllm/config/vllm.py (0.32, use_v2_model_runner)",
         Example("model: Qwen/Qwen3-8B\nspeculative-config:\n  method: suffix\n  num_speculative_tokens: 8\n"),
         Example(_EAGLE3), _falls_back, releases="0.29 and newer"),
    Rule("SPD144", "Runner variable that is neither 0 nor 1", "The variable is read as a number.", "Set it to 0 or 1.",
         "error", "vllm/envs.py (0.32)", Example(_EAGLE3, env={"VLLM_USE_V2_MODEL_RUNNER": "true"}),
         Example(_EAGLE3, env=_V1), _bad_variable, releases="0.12 and newer"),
    Rule("SPD145", "Overlapped batches on the V2 runner with a drafter",
         "Dual batch overlap slices a plain forward pass; a drafted one is not handled there yet.",
         "Remove enable-dbo, or leave VLLM_USE_V2_MODEL_RUNNER unset.", "error",
         "vllm/config/vllm.py of 0.30 to 0.32 (_get_dbo_unsupported_features)",
         Example(_EAGLE3 + "enable-dbo: true\n", env=_V2),
         Example(_EAGLE3, env=_V2), _micro_batches, releases="0.30 and newer"),
)
