"""Hybrid targets (Mamba, gated DeltaNet), prefix caching and KV connectors beside a drafter."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from profiles.methods import METHODS

_HYBRID = {"config": {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
                      "text_config": {"model_type": "qwen3_5_text", "hidden_size": 5120, "num_hidden_layers": 64,
                                      "num_attention_heads": 24, "num_key_value_heads": 4, "intermediate_size": 17408,
                                      "vocab_size": 248320, "max_position_embeddings": 262144, "head_dim": 256,
                                      "full_attention_interval": 4, "linear_num_key_heads": 16,
                                      "linear_num_value_heads": 48, "linear_key_head_dim": 128,
                                      "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
                                      "mtp_num_hidden_layers": 1}}}
_CONFIG = ("model: models/hybrid\ntensor-parallel-size: 2\nmax-model-len: 32768\nmax-num-seqs: "
           "16\n{}speculative-config:\n"
           "  method: mtp\n  num_speculative_tokens: 1\n")
_LONG_WINDOW = 32768
"""Windows up to this were not reported to fail."""
_MODELS = {"models/hybrid": _HYBRID}
_PREFIX = "enable-prefix-caching: {}\n"
_CONNECTOR = "kv-transfer-config:\n  kv_connector: NixlConnector\n  kv_role: kv_both\n"


def _drops_block(subject: Subject) -> bool:
    speculation = subject.speculation
    return (speculation is not None and speculation.method in METHODS
            and METHODS[speculation.method].drops_cached_block
            and speculation.settings.get("disable_eagle_block_drop") is not True)


def _unsupported(subject: Subject) -> Iterable[Fault]:
    release = subject.release
    if (subject.speculation is None or not release.has("hybrid_refused") or subject.engine.runner == "v0"
            or not traits.is_hybrid(subject.target) or traits.model_type(subject.target).startswith("qwen3_next")):
        return
    yield Fault(subject.speculation.path(), f"The target is a hybrid (recurrent or Mamba layers), and vLLM "
                                            f"{release.version} "
                "does not speculate on hybrids other than Qwen3-Next (NotImplementedError).")


def _corrupts(subject: Subject) -> Iterable[Fault]:
    engine, speculation = subject.engine, subject.speculation
    if speculation is None or engine.prefix_caching is not True or not traits.is_hybrid(subject.target):
        return
    if engine.runner == "v0" or speculation.method not in METHODS:
        return
    if subject.release.has("hybrid_prefix_fault") and not speculation.is_lookup:
        own_layers = speculation.method == "mtp"
        effect = ("the recurrent state of a cached prefix is restored at the wrong place, and texts lose accuracy "
                  "after the "
                  "first hit." if own_layers else "the drafter drops the last cached block, which on a hybrid is "
                                                  "thousands "
                  "of tokens, and recurrent states were reported corrupt.")
        yield Fault(("enable-prefix-caching",), f"Prefix caching on a hybrid target (linear-attention or Mamba layers) "
                                                f"with "
                    f"{speculation.method}: {effect}", severity="error" if own_layers else None)
    elif _drops_block(subject):
        yield Fault(("enable-prefix-caching",), f"Prefix caching on a hybrid target with {speculation.method}: every "
                                                f"hit "
                    "loses its last cached block, and blocks of a hybrid (linear-attention layers) are 1000 to 4000 "
                    "tokens.",
                    remedy="Turn prefix caching off, or try disable_eagle_block_drop (0.30 and newer, experimental).")


def _unstable(subject: Subject) -> Iterable[Fault]:
    engine, speculation = subject.engine, subject.speculation
    if (speculation is None or speculation.is_lookup or engine.runner == "v0" or not traits.is_hybrid(subject.target)
            or not subject.release.has("hybrid_prefix_fault") or subject.release.has("hybrid_refused")):
        return
    window = engine.window
    if window is not None and window > _LONG_WINDOW:
        yield Fault(("max-model-len",) if engine.stated_window else speculation.path("method"), f"A hybrid target "
                    f"(linear-attention or Mamba layers) with {speculation.method} and a window of {window} tokens: "
                    f"illegal "
                    f"memory accesses on long sequences were reported for releases like {subject.release.version}.")
    elif engine.async_scheduling is True:
        yield Fault(("async-scheduling",), f"A hybrid target (linear-attention or Mamba layers) with "
                                           f"{speculation.method} and "
                    "asynchronous scheduling asked for: recurrent states were reported corrupt in this combination.")


def _costs_block(subject: Subject) -> Iterable[Fault]:
    if (_drops_block(subject) and subject.engine.prefix_caching is True and not traits.is_hybrid(subject.target)
            and subject.engine.runner in ("v1", "v2")):
        method = subject.speculation.method if subject.speculation is not None else None
        yield Fault(("enable-prefix-caching",), f"With {method}, every prefix-cache hit loses its last block (16 "
                                                f"tokens).")


def _connector(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    connector = subject.engine.nested("kv-transfer-config", "kv_connector")
    if speculation is None or connector is None or speculation.is_lookup or subject.engine.runner == "v0":
        return
    where = ("kv-transfer-config",)
    if speculation.method == "dspark" and "nixl" in str(connector).lower():
        yield Fault(where, f"dspark with the KV connector {connector} (disaggregated serving): reported as "
                           f"incompatible.")
    elif traits.is_hybrid(subject.target) and subject.release.has("hybrid_connector_fault"):
        yield Fault(where, f"A hybrid target, a drafter and the KV connector {connector} together: texts were reported "
                    "corrupt even where nothing is transferred (disaggregated serving).")
    elif subject.release.has("connector_lookahead_fault"):
        yield Fault(where, f"The KV connector {connector} with {speculation.method}: lookahead slots are allocated "
                           f"while "
                    "remote KV is received, and the last transferred block can be polluted (disaggregated serving).")
    elif speculation.model is not None and speculation.method in METHODS and METHODS[speculation.method].draft_has_kv:
        yield Fault(where, f"The KV connector {connector} with a draft of its own ({speculation.method}): the draft's "
                           f"KV is "
                    "not transferred, so the decode server drafts without the prompt or computes it again "
                    "(disaggregated serving).")
    else:
        yield Fault(where, f"The KV connector {connector} with {speculation.method}: prefill and decode servers have "
                           f"to "
                    "speculate alike, or the handshake fails; the draft's own KV may have to be computed again.",
                    severity="info", remedy="Give both servers the same speculative-config.")


def _fast_prefill(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if (speculation is not None and subject.engine.switch("kv-sharing-fast-prefill") is True
            and speculation.method in ("eagle", "eagle3", "mtp", "dflash", "dspark")):
        yield Fault(("kv-sharing-fast-prefill",), f"kv-sharing-fast-prefill does not go with {speculation.method}: the "
                    "drafter needs the hidden states that fast prefill skips, and the server does not start.")


RULES = (
    Rule("SPD561", "Prefix caching on a hybrid target with a drafter",
         "Recurrent states are cached at block ends only; with drafts they were restored wrongly up to 0.28, and the "
         "block "
         "that such drafters drop on a hit is very large.",
         "Set enable-prefix-caching: false.", "warn", "vllm issues 43559, 53670 and 53912",
         Example(_CONFIG.format(_PREFIX.format("true")), "0.26.0", gpus=2, models=_MODELS),
         Example(_CONFIG.format(_PREFIX.format("false")), "0.26.0", gpus=2, models=_MODELS), _corrupts,
         releases="0.10 and newer"),
    Rule("SPD566", "Long windows on a hybrid target with a drafter",
         "Up to 0.28, kernels of recurrent layers with drafts were reported to read beyond their state on long "
         "sequences.",
         "Keep max-model-len at 32768 and asynchronous scheduling at its default, or use vLLM 0.29 or newer.", "warn",
         "vllm issue 40756 (cause not established)",
         Example(_CONFIG.format("").replace("32768", "131072"), "0.20.0", gpus=2, models=_MODELS),
         Example(_CONFIG.format(""), "0.20.0", gpus=2, models=_MODELS), _unstable, releases="0.17 to 0.28"),
    Rule("SPD562", "Hybrid target on a release that does not speculate on it",
         "Up to 0.16 recurrent layers refuse drafts, Qwen3-Next's apart.", "Use vLLM 0.17 or newer.", "error",
         "vllm/model_executor/layers/mamba/abstract.py of 0.12 to 0.16",
         Example(_CONFIG.format(""), "0.14.0", gpus=2, models=_MODELS), Example(_CONFIG.format(""), gpus=2,
                                                                                models=_MODELS),
         _unsupported, releases="0.10 to 0.16"),
    Rule("SPD563", "Cache hits lose a block", "Drafters on hidden states need the last block computed anew.",
         "Nothing to do; it matters for short shared prefixes only.", "info", "vllm/config/speculative.py (0.32)",
         Example("model: Qwen/Qwen3-8B\nmax-num-seqs: 32\nenable-prefix-caching: true\nspeculative-config:\n"
                 "  method: eagle3\n  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n"),
         Example("model: Qwen/Qwen3-8B\nmax-num-seqs: 32\nspeculative-config:\n  method: eagle3\n"
                 "  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n"), _costs_block),
    Rule("SPD564", "KV connector with a drafter",
         "Transferred KV, drafted slots and recurrent states share blocks; the bookkeeping was wrong in several "
         "releases.",
         "Serve without speculation where a connector is used, or without the connector.", "warn",
         "vllm issues 48221, 53505 and 54926; vllm pull 46694",
         Example(_CONFIG.format(_CONNECTOR), "0.27.0", gpus=2, models=_MODELS),
         Example(_CONFIG.format(""), "0.27.0", gpus=2, models=_MODELS), _connector),
    Rule("SPD565", "Fast prefill with shared KV", "The drafter reads hidden states of every prompt token.",
         "Remove kv-sharing-fast-prefill.", "error", "vllm/config/vllm.py of 0.12 to 0.32",
         Example("model: Qwen/Qwen3-8B\nmax-num-seqs: 32\nkv-sharing-fast-prefill: true\nspeculative-config:\n"
                 "  method: eagle3\n  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n"),
         Example("model: Qwen/Qwen3-8B\nmax-num-seqs: 32\nspeculative-config:\n  method: eagle3\n"
                 "  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n"), _fast_prefill,
         releases="0.12 and newer"),
)
