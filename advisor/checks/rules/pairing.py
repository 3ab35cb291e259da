"""Heads and layers that draft for one target only: the right kind, for this target, in a layout that loads."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from advisor.shape_relations import same_build
from profiles.catalog.models import find_head, find_model, heads_for
from profiles.methods import METHODS
from profiles.schema import as_sentence

_EAGLE3 = ("model: meta-llama/Llama-3.1-8B-Instruct\nmax-model-len: 8192\nmax-num-seqs: 32\nspeculative-config:\n"
           "  method: eagle3\n  model: models/head\n  num_speculative_tokens: 3\n")
_HEAD = {"config": {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 4096,
                    "num_hidden_layers": 1, "num_attention_heads": 32, "num_key_value_heads": 8,
                    "intermediate_size": 14336, "vocab_size": 128256, "draft_vocab_size": 32000,
                    "max_position_embeddings": 131072}}
_HEADS = ("eagle", "eagle3", "dflash", "dspark", "medusa", "mlp_speculator")
_MOST_HEAD_LAYERS = 12


def _wants_head(subject: Subject) -> bool:
    return (subject.speculation is not None and subject.speculation.method in _HEADS and subject.draft is not None
            and subject.speculation.method in METHODS)


def _hidden(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or not _wants_head(subject) or subject.draft is None:
        return
    stated = traits.text_part(subject.draft.config).get("target_hidden_size")
    head = stated if isinstance(stated, int) else traits.hidden_size(subject.draft)
    target = traits.hidden_size(subject.target)
    if head is not None and target is not None and head != target:
        yield Fault(speculation.path("model"), f"The head works on hidden states {head} wide, the target's are "
                                               f"{target} "
                    "wide: it was made for another target, and loading or the first step fails.")


def _ordinary(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or not _wants_head(subject) or traits.head_of(subject.draft) is not None:
        return
    depth = traits.layers(subject.draft)
    if depth is not None and depth >= _MOST_HEAD_LAYERS:
        yield Fault(speculation.path("model"), f"{speculation.model} is an ordinary model of {depth} layers, not a "
                                               f"head "
                    f"for {speculation.method}: its weights do not fit the drafter.",
                    remedy=f"Name a head for {speculation.method}, or use method draft_model.")


def _head_alone(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or speculation.method != "draft_model" or subject.engine.runner == "v0":
        return
    kind = traits.head_of(subject.draft)
    if kind is not None:
        yield Fault(speculation.path("model"), f"{speculation.model} is a head for {kind}, not a model that drafts "
                                               f"alone.",
                    remedy=f"Use method {kind}.")


def _other_kind(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or not _wants_head(subject):
        return
    kind = traits.head_of(subject.draft)
    if kind is None or kind == speculation.method or {kind, speculation.method} <= {"dflash", "dspark", "dflare"}:
        return
    yield Fault(speculation.path("method"), f"{speculation.model} is a head for {kind}, and the method is "
                f"{speculation.method}: the weights do not fit the drafter.", remedy=f"Use method {kind}.")


def _vocabulary(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or not _wants_head(subject) or subject.draft is None:
        return
    head, target = traits.vocab_size(subject.draft), traits.vocab_size(subject.target)
    reduced = traits.text_part(subject.draft.config).get("draft_vocab_size")
    if head is None or target is None:
        return
    if head != target and speculation.method in ("eagle", "eagle3") and not (isinstance(reduced,
                                                                                        int) and head == reduced):
        yield Fault(speculation.path("model"), f"The head's vocabulary has {head} tokens and the target's {target}: it "
                    "was made for another target.")


def _other_target(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or not _wants_head(subject) or subject.draft is None or subject.target is None:
        return
    entry = next((head for head in map(find_head, traits.ids(subject.draft.reference)) if head is not None), None)
    target = traits.catalogued(subject.target.reference)
    if entry is None or target is None or any(head.id == entry.id for head in heads_for(target.id)):
        return
    trained = [shape for shape in map(find_model, entry.targets) if shape is not None]
    if trained and not any(same_build(shape, target) for shape in trained):
        yield Fault(speculation.path("model"), f"The head was trained for {entry.targets[0]}, and this target is built "
                    "differently.", severity="error")
    elif trained and not subject.measured.accepted:
        yield Fault(speculation.path("model"), f"The head was trained for {entry.targets[0]}, a sister of this target: "
                    "how many of its drafts are accepted is not known before a trial.")


def _no_mtp(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or speculation.method != "mtp" or speculation.model is not None:
        return
    where = speculation.path("method" if speculation.stated_method else "num_speculative_tokens")
    end = ("the method mtp is refused." if speculation.stated_method else
           "without a draft model, there is nothing to draft with, and the start is refused.")
    refusal = traits.mtp_refusal(subject.target, subject.release)
    if refusal is not None:
        yield Fault(where, f"{as_sentence(refusal)}: {end}")
    elif traits.mtp_layers(subject.target) == 0:
        yield Fault(where, f"The target's checkpoint has no multi-token-prediction (MTP) layers: {end}")


def _layout(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    if speculation is None or subject.draft is None or not release.has("eagle_needs_conversion"):
        return
    if traits.head_of(subject.draft) not in ("eagle", "eagle3"):
        return
    kind = subject.draft.config.get("model_type")
    if subject.draft.config and kind != "eagle":
        yield Fault(speculation.path("model"), f"{speculation.model} is an EAGLE head in its authors' layout "
                                               f"(model_type "
                    f"{kind}): vLLM {release.version} does not support that layout and loads converted heads only.",
                    remedy="Convert the head (model_type eagle, inner model), or use vLLM 0.8.5 or newer.")


def _v0_split(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    if (speculation is None or subject.engine.runner != "v0" or not release.has("eagle_v0_single_gpu_draft")
            or traits.head_of(subject.draft) != "eagle" or subject.engine.tensor_parallel == 1):
        return
    if speculation.whole("draft_tensor_parallel_size") != 1:
        yield Fault(speculation.path("model"), f"The EAGLE drafter of vLLM {release.version} does not support tensor "
                    f"parallelism (TP {subject.engine.tensor_parallel}): the start is refused.",
                    remedy="Set speculative-draft-tensor-parallel-size: 1.")


def _head_class(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    if speculation is None or speculation.method not in ("eagle", "eagle3") or subject.engine.runner == "v0":
        return
    classes = release.eagle_head_architectures
    if not classes or (speculation.method == "eagle3" and "LlamaForCausalLMEagle3" not in classes):
        return
    prefix = "Eagle3" if speculation.method == "eagle3" else "Eagle"
    named = [name for name in traits.architectures(subject.draft)
             if not name.lower().endswith(("speculator", "model", "draftmodel"))]
    loaded = [name if name.startswith(("Eagle", "PEagle", "Peagle")) or name.endswith("Eagle3") else prefix + name
              for name in named]
    if loaded and not any(name in classes or name.lower().startswith("peagle") for name in loaded):
        yield Fault(speculation.path("model"), f"vLLM {release.version} has no class {loaded[0]} for this EAGLE head: "
                                               f"the "
                    "architecture is not supported.", severity=None if release.known else "warn")


def _target_class(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    if speculation is None or speculation.method not in ("eagle3", "dflash") or subject.engine.runner == "v0":
        return
    kind = traits.model_type(subject.target)
    limited = release.eagle3_model_types
    name = "EAGLE-3" if speculation.method == "eagle3" else "Block-diffusion (DFlash)"
    if limited and kind and speculation.method == "eagle3" and not any(part in kind for part in limited):
        yield Fault(speculation.path("method"), f"{name} heads work on {', '.join(limited)} targets only in vLLM "
                    f"{release.version}, and this target is {kind}: not supported, eagle3 is refused.")
        return
    classes = traits.architectures(subject.target)
    if classes and not any(item in release.eagle3_architectures for item in classes):
        yield Fault(speculation.path("method"), f"The target's class {classes[0]} does not implement the EAGLE-3 "
                    f"interface in vLLM {release.version}: it does not support eagle3 or dflash heads, and loading "
                    f"ends "
                    "with a RuntimeError.", severity=None if release.known else "warn")


def _head_size(subject: Subject) -> Iterable[Fault]:
    speculation, release = subject.speculation, subject.release
    if (speculation is None or speculation.method not in ("eagle", "eagle3") or subject.draft is None
            or subject.engine.runner != "v1" or not release.has("flash_head_sizes_fixed")):
        return
    config = traits.text_part(subject.draft.config)
    heads, width = traits.attention_heads(subject.draft), traits.hidden_size(subject.draft)
    size = config.get("head_dim")
    if not isinstance(size, int) and heads and width:
        size = width // heads
    if isinstance(size, int) and size not in range(32, 257, 32):
        yield Fault(speculation.path("model"), f"The head's attention heads are {size} wide: FlashAttention of vLLM "
                    f"{release.version} supports 32, 64, ... 256 only, and the architecture of this head is not "
                    "supported.")


def _no_mask_token(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or subject.draft is None or not subject.draft.config:
        return
    if speculation.settings.get("parallel_drafting") is not True or speculation.method not in ("draft_model", "eagle3"):
        return
    config = traits.text_part(subject.draft.config)
    nested = [inner for name in ("dflash_config", "eagle_config") if isinstance(inner := config.get(name), dict)]
    tokens = ("pard_token", "ptd_token_id", "mask_token_id")
    if not any(key in part for part in (config, subject.draft.config, *nested) for key in tokens):
        yield Fault(speculation.path("parallel_drafting"), f"parallel_drafting is on, and {speculation.model} was not "
                    "trained for it: its config names no mask token, so the drafter cannot be set up.")


_LARGER = {"config": {**_HEAD["config"], "hidden_size": 8192, "num_attention_heads": 64}}
_PARALLEL = ("model: Qwen/Qwen3-32B\ntensor-parallel-size: 2\nmax-model-len: 16384\nmax-num-seqs: "
             "32\nspeculative-config:\n"
             "  method: draft_model\n  model: models/small\n  num_speculative_tokens: 3\n  parallel_drafting: true\n")
_SMALL = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024,
          "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 3072,
          "max_position_embeddings": 40960, "head_dim": 128, "tie_word_embeddings": True}
_V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
_V0_HEAD = ("model: meta-llama/Llama-2-7b-chat-hf\nspeculative-model: models/EAGLE-head\nnum-speculative-tokens: 4\n")
_OLD = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 1,
        "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000,
        "max_position_embeddings": 4096}
_CONVERTED = {"architectures": ["EAGLEModel"], "model_type": "eagle", "model": _OLD, "truncated_vocab_size": 32000}
_MTP = ("model: {}\ntensor-parallel-size: 8\nmax-num-seqs: 32\nspeculative-config:\n  method: mtp\n  "
        "num_speculative_tokens: 1\n")
_MOE3 = ("model: Qwen/Qwen3-30B-A3B\nmax-model-len: 8192\nspeculative-config: '{\"method\": \"eagle3\", \"model\": "
         "\"models/head\", \"num_speculative_tokens\": 2}'\n")
_MOE_HEAD = {"config": {**_HEAD["config"], "hidden_size": 2048, "vocab_size": 151936, "num_attention_heads": 32}}
RULES = (
    Rule("SPD211", "Head of another width", "A head reads the target's hidden states; their width is fixed in its "
                                            "weights.",
         "Use a head that was made for this target.", "error", "config.json of both; "
                                                               "vllm/model_executor/models/llama_eagle3.py",
         Example(_EAGLE3, models={"models/head": _LARGER}), Example(_EAGLE3, models={"models/head": _HEAD}), _hidden),
    Rule("SPD212", "Ordinary model in the place of a head", "The drafter loads the weights of a head; a whole model's "
                                                            "do not fit.",
         "Name a head, or use method draft_model.", "error", "vllm/config/speculative.py (0.32): accepted, fails at "
                                                             "loading",
         Example(_EAGLE3.replace("models/head", "meta-llama/Llama-3.2-1B-Instruct")),
         Example(_EAGLE3, models={"models/head": _HEAD}), _ordinary),
    Rule("SPD213", "Head in the place of a draft model", "A head has no embedding or layers of its own to draft with.",
         "Use the head's method.", "error", "vllm/config/speculative.py (0.32)",
         Example(_EAGLE3.replace("method: eagle3", "method: draft_model"), models={"models/head": _HEAD}),
         Example(_EAGLE3, models={"models/head": _HEAD}), _head_alone),
    Rule("SPD214", "Head of another kind", "Each kind of head has weights and inputs of its own.",
         "Use the head's method.",
         "error", "vllm/transformers_utils/configs/eagle.py (0.32)",
         Example(_EAGLE3.replace("method: eagle3", "method: eagle"), models={"models/head": _HEAD}),
         Example(_EAGLE3, models={"models/head": _HEAD}), _other_kind),
    Rule("SPD215", "Head of another vocabulary", "The head maps its drafts into the target's tokens, whose number is "
                                                 "fixed.",
         "Use a head that was made for this target.", "error", "config.json of both",
         Example(_EAGLE3, models={"models/head": {"config": {**_HEAD["config"], "vocab_size": 32000,
                                                             "draft_vocab_size": 8000}}}),
         Example(_EAGLE3, models={"models/head": _HEAD}), _vocabulary),
    Rule("SPD216", "Head trained for another target", "A head imitates the one model it was trained on.",
         "Use a head for this target, or measure acceptance first.", "warn", "the catalog's list of heads",
         Example(_EAGLE3.replace("models/head", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B").replace(
             "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct") + "tensor-parallel-size: 4\n",
             gpus=4),
         Example(_EAGLE3.replace("models/head", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B")), _other_target),
    Rule("SPD217", "Target without MTP layers", "The method mtp drafts with layers inside the target's own checkpoint.",
         "Use a checkpoint with MTP layers, or another method.", "error", "vllm/config/speculative.py (0.32)",
         Example(_MTP.format("meta-llama/Llama-3.1-70B-Instruct"), gpus=8),
         Example(_MTP.format("deepseek-ai/DeepSeek-V3"), gpu="H200", gpus=8), _no_mtp),
    Rule("SPD218", "EAGLE head in a layout that this release does not load",
         "Up to 0.8.2 heads have to be converted to vLLM's own EAGLE layout.", "Convert the head.", "error",
         "vllm issue 11126; documentation of 0.6 to 0.8",
         Example(_V0_HEAD, "0.6.4", "A100-80GB", models={"models/EAGLE-head": {"config": _OLD}}),
         Example(_V0_HEAD, "0.6.4", "A100-80GB", models={"models/EAGLE-head": {"config": _CONVERTED}}), _layout,
         releases="0.6 to 0.8.2"),
    Rule("SPD219", "EAGLE drafter on several GPUs of the old engine", "The V0 engine runs the EAGLE drafter on one GPU "
                                                                      "only.",
         "Set the draft's tensor parallel size to 1.", "error", "vllm issue 11126",
         Example(_V0_HEAD + "tensor-parallel-size: 2\n", "0.6.4", "A100-80GB", 2,
                 models={"models/EAGLE-head": {"config": _CONVERTED}}),
         Example(_V0_HEAD + "tensor-parallel-size: 2\nspeculative-draft-tensor-parallel-size: 1\n", "0.6.4",
                 "A100-80GB", 2,
                 models={"models/EAGLE-head": {"config": _CONVERTED}}), _v0_split, releases="0.6 to 0.8.2"),
    Rule("SPD221", "EAGLE head of a class that this release does not have",
         "The engine puts Eagle or Eagle3 before the class a head names; only some of these exist.",
         "Use a head of a supported class, or a newer release.", "error",
         "vllm/model_executor/models/registry.py of 0.8.5 to 0.32; vllm issue 24967",
         Example(_EAGLE3.replace("eagle3", "eagle"), models={"models/head": {"config": {
             **_HEAD["config"], "architectures": ["Qwen2ForCausalLM"]}}}),
         Example(_EAGLE3, models={"models/head": _HEAD}), _head_class, releases="0.8.4 and newer"),
    Rule("SPD222", "Target that EAGLE-3 heads do not work on",
         "The target's class has to hand out hidden states of inner layers; until 0.21 its model_type had to be listed "
         "too.",
         "Use ngram or a draft model for this target, or a release whose class has the interface.", "error",
         "vllm/config/speculative.py and model files of 0.8.5 to 0.32; vllm issue 25134",
         Example(_MOE3, "0.10.2", models={"models/head": _MOE_HEAD}),
         Example(_MOE3, "0.12.0", models={"models/head": _MOE_HEAD}), _target_class, releases="0.8.5 and newer"),
    Rule("SPD224", "Head with attention heads of an unusual size",
         "The V1 engine up to 0.10 runs EAGLE heads on FlashAttention only, whose head sizes are fixed.",
         "Use a head with 64 or 128 wide attention heads, or vLLM 0.11 or newer.", "error", "vllm issue 27808",
         Example(_EAGLE3, "0.10.2", models={"models/head": {"config": {**_HEAD["config"], "head_dim": 288}}}),
         Example(_EAGLE3, "0.10.2", models={"models/head": _HEAD}), _head_size, releases="0.8.4 to 0.10"),
    Rule("SPD223", "Parallel drafting with a draft that was not trained for it",
         "Drafting all tokens in one pass needs a mask token in the draft's config.",
         "Remove parallel_drafting, or use a draft trained for it (PARD, P-EAGLE).", "error",
         "vllm/v1/spec_decode/llm_base_proposer.py (0.32)",
         Example(_PARALLEL, env=_V1, gpus=2, models={"models/small": {"config": _SMALL}}),
         Example(_PARALLEL, env=_V1, gpus=2, models={"models/small": {"config": {**_SMALL, "pard_token": 151665}}}),
         _no_mask_token, releases="0.16 and newer"),
)
