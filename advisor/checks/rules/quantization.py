"""Quantised targets and drafts."""

from __future__ import annotations

import re
from collections.abc import Iterable

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject

_ONLINE = frozenset({"fp8", "mxfp8", "experts_int8", "bitsandbytes", "fp8_per_tensor", "fp8_per_block", "int8",
                     "torchao"})
"""Methods that vLLM applies while it loads an unquantised checkpoint."""
_PLAIN_CACHES = frozenset({"auto", "bfloat16", "float16", "half", "float32"})
_SAVED = frozenset({"compressed-tensors", "compressed_tensors"})


def _mtp_not_spared(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or speculation.method != "mtp" or speculation.model is not None:
        return
    found = traits.quantization(subject.target)
    if str(found.get("quant_method", "")).lower() not in _SAVED or traits.mtp_layers(subject.target) == 0:
        return
    ignored = found.get("ignore")
    names = [str(name) for name in ignored] if isinstance(ignored, list) else []
    depth = traits.layers(subject.target)
    if any(_spares(name, depth) for name in names):
        return
    yield Fault(speculation.path("method"), "The target is quantised, and its ignore list does not name the MTP "
                                            "layers: "
                "they were not calibrated or not saved like the rest (the exporter does not load them), and next to "
                "nothing that they draft is accepted.")


def _spares(name: str, depth: int | None) -> bool:
    lowered = name.lower()
    if "mtp" in lowered or "nextn" in lowered:
        return True
    return depth is not None and re.search(rf"layers[.\\]*\.?{depth}\b", lowered) is not None


def _draft_method(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    stated = speculation.settings.get("quantization") if speculation is not None else None
    if speculation is None or not isinstance(stated, str) or speculation.is_lookup or not stated:
        return
    where = speculation.path("quantization")
    own = str(traits.quantization(subject.draft).get("quant_method", "")).lower()
    head = speculation.method in ("eagle", "eagle3", "dflash", "dspark", "medusa", "mlp_speculator")
    if own and own.replace("_", "-") != stated.lower().replace("_", "-") and not _kin(own, stated.lower()):
        yield Fault(where, f"The draft is quantised with {own} and speculative-config.quantization is {stated}: vLLM "
                           f"refuses "
                    "two that differ.", remedy="Remove quantization: the draft's own config says it.")
    elif not own and subject.draft is not None and (subject.draft.config or subject.draft.shape is not None):
        if head:
            yield Fault(where, f"speculative-config.quantization is {stated}, and the head's checkpoint is not "
                               f"quantised: "
                        "online quantisation of a separate head ends in refused overrides or kernel faults.",
                        remedy="Remove quantization from speculative-config.")
        elif stated.lower() not in _ONLINE:
            yield Fault(where, f"speculative-config.quantization is {stated}, and the draft's checkpoint is not "
                               f"quantised: "
                        "its weights do not fit that method.", remedy="Remove quantization from speculative-config.")


def _kin(own: str, stated: str) -> bool:
    """Kernels of one storage format: gptq and gptq_marlin, awq and awq_marlin, modelopt and its parts."""
    return own.split("_")[0].split("-")[0] == stated.split("_")[0].split("-")[0]


def _inherited(subject: Subject) -> Iterable[Fault]:
    """An online method on the target reaches the MTP layers too."""
    speculation = subject.speculation
    stated = subject.config.get("quantization")
    if (speculation is not None and speculation.method == "mtp" and speculation.model is None
            and isinstance(stated, str) and stated.lower() in _ONLINE and not traits.is_quantized(subject.target)):
        yield Fault(("quantization",), f"quantization: {stated} is applied to the MTP layers as well: acceptance may "
                                       f"fall.")


def _quantised_cache(subject: Subject) -> Iterable[Fault]:
    """The drafter's attention has to take the cache's format as well."""
    speculation, release, engine = subject.speculation, subject.release, subject.engine
    stated = subject.config.get("kv-cache-dtype")
    if (speculation is None or not isinstance(stated, str) or stated in _PLAIN_CACHES or speculation.model is None
            or speculation.settings.get("kv_cache_dtype") is not None or engine.runner not in ("v1", "v2")):
        return
    where = ("kv-cache-dtype",)
    if speculation.method in ("eagle", "eagle3") and release.has("head_ignores_cache_dtype"):
        yield Fault(where, f"kv-cache-dtype is {stated}, and the head of {speculation.method} computes in its own type "
                    f"in vLLM {release.version}: the first request fails (query and key differ in type).",
                    remedy="Leave the KV cache in 16 bit, or use vLLM 0.11 or newer.")
    elif speculation.method in ("dflash", "dspark") and "mla" in stated:
        yield Fault(where, f"kv-cache-dtype is {stated}, a layout of MLA targets, and the {speculation.method} "
                           "head has "
                    "ordinary attention and inherits it: no attention backend takes that, and loading ends.",
                    remedy="Set speculative-config.kv_cache_dtype: auto."
                    if release.accepts("kv_cache_dtype") else None)
    elif (speculation.method == "dflash" and release.has("non_causal_cache_unquantised")
            and not (subject.gpu is not None and str(subject.gpu.compute_capability).startswith("9."))):
        yield Fault(where, f"kv-cache-dtype is {stated}, and the non-causal attention of dflash heads takes no "
                           "quantised "
                    f"cache in vLLM {release.version}: no backend is found, and loading ends.")


_MTP = ("model: models/target\ntensor-parallel-size: 2\nmax-model-len: 16384\nmax-num-seqs: 32\nspeculative-config:\n"
        "  method: mtp\n  num_speculative_tokens: 1\n")
_TARGET = {"architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "hidden_size": 4096,
           "num_hidden_layers": 46,
           "num_attention_heads": 96, "num_key_value_heads": 8, "vocab_size": 151552, "num_nextn_predict_layers": 1,
           "max_position_embeddings": 131072}
_FORMAT = {"quant_method": "compressed-tensors", "ignore": ["lm_head"]}
_DFLASH = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 8\nspeculative-config:\n  method: dflash\n"
           "  model: models/qwen3-8b-dflash\n  num_speculative_tokens: 7\n")
_BLOCK = {"models/qwen3-8b-dflash": {"config": {
    "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 5,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 12288, "vocab_size": 151936,
    "max_position_embeddings": 40960, "block_size": 16, "dflash_config": {"mask_token_id": 151669}}}}
RULES = (
    Rule("SPD581", "Quantised checkpoint that does not spare its MTP layers",
         "Exporters do not load MTP layers; unless the ignore list names them, the engine expects them quantised.",
         "Use a checkpoint whose ignore list names the MTP layers (re:.*mtp.*).", "error", "llm-compressor issue 1843",
         Example(_MTP, gpus=2, models={"models/target": {"config": {**_TARGET, "quantization_config": _FORMAT}}}),
         Example(_MTP, gpus=2, models={"models/target": {"config": {
             **_TARGET, "quantization_config": {**_FORMAT, "ignore": ["lm_head", "re:.*mtp.*"]}}}}), _mtp_not_spared),
    Rule("SPD582", "Quantisation asked for the draft that its checkpoint does not have",
         "A head has no loader for online quantisation, and a quantised draft says its method itself.",
         "Remove quantization from speculative-config.", "error", "vllm issue 53873",
         Example(_DFLASH + "  quantization: fp8\n", "0.28.0", models=_BLOCK), Example(_DFLASH, "0.28.0", models=_BLOCK),
         _draft_method),
    Rule("SPD583", "Online quantisation reaches the MTP layers", "Layers that draft are more sensitive than those that "
                                                                 "verify.",
         "Compare per-position acceptance with and without it.", "info", "vllm/config/speculative.py (0.32)",
         Example(_MTP + "quantization: fp8\n", gpus=2, models={"models/target": {"config": _TARGET}}),
         Example(_MTP, gpus=2, models={"models/target": {"config": _TARGET}}), _inherited),
    Rule("SPD584", "Quantised KV cache that the drafter does not take",
         "Target and drafter share one cache format unless the drafter is given its own (0.26 and newer).",
         "Leave the KV cache in 16 bit, or use a method without KV of its own.", "error",
         "vllm issues 21177, 41559 and 48380; vllm pulls 24505 and 42692",
         Example(_DFLASH + "kv-cache-dtype: fp8\n", "0.20.0", "RTX 4090", models=_BLOCK),
         Example(_DFLASH, "0.20.0", "RTX 4090", models=_BLOCK),
         _quantised_cache, releases="0.8.4 to 0.10 (EAGLE), 0.20 and newer (block drafters)"),
)
