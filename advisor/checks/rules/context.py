"""Lengths: the window asked for, the draft's own, and what each runner does between the two."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject

_PAIR = ("model: Qwen/Qwen3-32B\ntensor-parallel-size: 2\nmax-model-len: 16384\nmax-num-seqs: 32\nspeculative-config:\n"
         "  method: draft_model\n  model: models/small\n  num_speculative_tokens: 3\n")
_SMALL = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024,
          "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 3072,
          "max_position_embeddings": 40960, "head_dim": 128, "tie_word_embeddings": True}
_SHORT = {"models/small": {"config": {**_SMALL, "max_position_embeddings": 4096}}}
_LONG = {"models/small": {"config": _SMALL}}
_V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}


def _draft_limit(subject: Subject) -> tuple[int, str] | None:
    """The draft's own limit in tokens and what it is called; None where it has none of its own, or nobody knows it."""
    speculation = subject.speculation
    if speculation is None or speculation.is_lookup or speculation.method in (None, "medusa", "mlp_speculator"):
        return None
    if speculation.method == "mtp" and speculation.model is None:
        # vLLM gives the target's overrides to the target alone: its own layers keep the native window.
        overrides = subject.engine.overrides
        native = traits.window(subject.target)
        return (native, "the draft (the target's own MTP layers)") if overrides and native is not None else None
    limit = traits.window(subject.draft)
    noun = "draft" if speculation.method == "draft_model" else "draft head"
    return None if limit is None else (limit, f"the {noun} ({speculation.model})")


def _shorter(subject: Subject) -> Iterable[Fault]:
    speculation, release, window = subject.speculation, subject.release, subject.engine.window
    limit = _draft_limit(subject)
    if speculation is None or limit is None or window is None or limit[0] >= window:
        return
    tokens, what = limit
    runner, method = subject.engine.runner, speculation.method
    where = ("max-model-len",) if subject.engine.stated_window else speculation.path("model")
    head = f"The context window is {window} tokens, and {what} takes {tokens}"
    if method in ("eagle", "eagle3"):
        if not release.has("short_eagle_positions_fault"):
            return
        if runner == "v1" and release.has("v1_gates_on_draft_length"):
            yield Fault(where, f"{head}: as soon as one request of a batch is longer, the whole step runs without "
                               f"drafts "
                        "from the head.")
        elif runner != "v0":
            yield Fault(where, f"{head}: a sequence longer than that overruns the head's position table (max_position_"
                        "embeddings) and crashes the engine or drafts nonsense.", severity="error",
                        remedy=f"Set max-model-len to {tokens} at most, or use vLLM 0.27 or newer.")
        else:
            yield Fault(where, f"{head}: longer sequences are not drafted at all.")
        return
    unguarded = runner == "v2" and (
        (method == "draft_model" and release.has("short_draft_unguarded_on_v2"))
        or (method == "dflash" and release.has("short_dflash_unguarded_on_v2"))
    )
    if unguarded:
        yield Fault(where, f"{head}: model runner V2 of vLLM {release.version} has no length gate, and a sequence "
                           f"longer "
                    "than the draft's position limit overruns its rotary cache (CUDA fault).", severity="error",
                    remedy=f"Set max-model-len to {tokens} at most, or VLLM_USE_V2_MODEL_RUNNER=0.")
    elif runner == "v2" and release.has("short_draft_lowers_max_model_len"):
        yield Fault(where, f"{head}: vLLM {release.version} lowers the whole engine's max_model_len to that, with no "
                           f"more "
                    "than a warning.", remedy=f"Set max-model-len to {tokens} at most, or use a longer draft.")
    elif runner == "v0":
        yield Fault(where, f"{head}: sequences longer than the draft's limit run without drafts.")
    else:
        yield Fault(where, f"{head}: as soon as one request of a batch is longer, the whole step runs without drafts "
                           f"from "
                    "the draft.")


def _draft_window_refused(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    stated = speculation.whole("max_model_len") if speculation is not None else None
    if speculation is None or stated is None or speculation.is_lookup:
        return
    own, window = traits.window(subject.draft), engine.window
    where = speculation.path("max_model_len")
    if own is not None and stated > own:
        yield Fault(where, f"The draft's max_model_len is {stated}, and the draft takes {own} tokens: vLLM refuses "
                           f"that.")
    elif window is not None and stated > window:
        yield Fault(where, f"The draft's max_model_len is {stated}, above the target's window of {window}: vLLM "
                           f"refuses "
                    "that.")


def _draft_window_short(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    stated = speculation.whole("max_model_len") if speculation is not None else None
    if speculation is None or stated is None or engine.window is None or stated >= engine.window:
        return
    where = speculation.path("max_model_len")
    if engine.runner == "v2":
        yield Fault(where, f"The draft's max_model_len of {stated} has no effect: model runner V2 does not read it.",
                    remedy="Remove it, or use the V1 runner.")
    elif engine.runner == "v1":
        yield Fault(where, f"The draft's max_model_len is {stated} and the window {engine.window}: one request longer "
                           f"than "
                    "that, and the whole batch runs without drafts.")


def _window_refused(subject: Subject) -> Iterable[Fault]:
    engine = subject.engine
    stated, native = engine.stated_window, traits.window(subject.target, engine.overrides)
    if stated is None or native is None or stated <= native:
        return
    if str(subject.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0")) in ("1", "true"):
        return
    yield Fault(("max-model-len",), f"max-model-len is {stated}, and the target takes {native} tokens: vLLM refuses "
                                    f"more.")


def _other_positions(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or speculation.method not in ("eagle", "eagle3", "dflash") or subject.draft is None:
        return
    one, other = traits.rope_base(subject.draft), traits.rope_base(subject.target)
    if one is not None and other is not None and one != other:
        yield Fault(speculation.path("model"), f"The head's rope_theta is {one:g} and the target's {other:g}: if it "
                                               f"was "
                    "trained so, fine; if its config was copied, acceptance falls with the length of the text.")


_OVERRIDE = _PAIR.replace("16384", "131072\nhf-overrides:\n  max_position_embeddings: 131072")
RULES = (
    Rule("SPD241", "Window longer than the draft takes",
         "V0 stops drafting for the long request, V1 for the whole batch; V2 of 0.29 to 0.32 overruns the draft's "
         "rotary "
         "cache, and 0.33 lowers the engine's window to the draft's.",
         "Lower max-model-len to the draft's limit, or use a draft with a longer window.", "warn",
         "vllm issues 7859, 48894 and 57941; vllm/v1/worker/gpu_model_runner.py of 0.11 to 0.32",
         Example(_OVERRIDE, gpu="H200", gpus=2, models=_LONG), Example(_PAIR, gpu="H200", gpus=2, models=_LONG),
         _shorter),
    Rule("SPD242", "Draft window that is refused", "The draft's limit may exceed neither the draft's own nor the "
                                                   "target's.",
         "Remove it: the smaller of the two is the default.", "error",
         "vllm/config/speculative.py (_maybe_override_draft_max_model_len, 0.32)",
         Example(_PAIR + "  max_model_len: 32768\n", env=_V1, gpus=2, models=_LONG),
         Example(_PAIR + "  max_model_len: 16384\n", env=_V1, gpus=2, models=_LONG), _draft_window_refused),
    Rule("SPD243", "Draft window shorter than the target's", "The V1 runner gates on it for the whole batch; V2 "
                                                             "ignores it.",
         "Remove it: it is meant for tests.", "warn", "vllm issue 52258; vllm/v1/worker/gpu_model_runner.py (0.32)",
         Example(_PAIR + "  max_model_len: 2048\n", env=_V1, gpus=2, models=_LONG),
         Example(_PAIR, env=_V1, gpus=2, models=_LONG), _draft_window_short),
    Rule("SPD244", "Window longer than the target takes", "vLLM compares max-model-len with the config and refuses "
                                                          "more.",
         "Lower max-model-len, state the rope scaling that stretches it, or set VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
         "error",
         "vllm/config/model.py (0.32)", Example(_PAIR.replace("16384", "65536"), env=_V1, gpus=2, models=_LONG),
         Example(_PAIR, env=_V1, gpus=2, models=_LONG), _window_refused),
    Rule("SPD245", "Head with another position base", "Heads share the target's positions; another rope_theta reads "
                                                      "them wrong.",
         "Compare with the head's model card.", "info", "config.json of both",
         Example("model: meta-llama/Llama-3.1-8B-Instruct\nmax-model-len: 8192\nmax-num-seqs: 32\nspeculative-config:\n"
                 "  method: eagle3\n  model: models/head\n  num_speculative_tokens: 3\n",
                 models={"models/head": {"config": {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama",
                                                    "hidden_size": 4096, "vocab_size": 128256, "rope_theta": 10000.0}},
                         "meta-llama/Llama-3.1-8B-Instruct": {"config": {
                             "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
                             "vocab_size": 128256, "rope_theta": 500000.0, "max_position_embeddings": 131072}}}),
         Example(_PAIR, env=_V1, gpus=2, models=_LONG), _other_positions),
)
