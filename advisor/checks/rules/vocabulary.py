"""Vocabularies: a draft speaks the target's tokens, or its drafts are refused or nonsense."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import KnownModel, Subject
from advisor.shape_relations import other_tokens, tokenizer_of
from profiles.catalog.shapes import TokenizerFingerprint

_PAIR = ("model: Qwen/Qwen3-32B\ntensor-parallel-size: 2\nmax-model-len: 16384\nmax-num-seqs: 32\nspeculative-config:\n"
         "  method: draft_model\n  model: Qwen/Qwen3-0.6B\n  num_speculative_tokens: 3\n")
_V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}


def _mapped(subject: Subject) -> bool:
    return subject.speculation is not None and subject.speculation.settings.get("use_heterogeneous_vocab") is True


def _is_draft_model(subject: Subject) -> bool:
    return (subject.speculation is not None and subject.speculation.method == "draft_model"
            and traits.head_of(subject.draft) is None)


def _sizes_differ(subject: Subject) -> Iterable[Fault]:
    if not _is_draft_model(subject) or _mapped(subject):
        return
    one, other = traits.vocab_size(subject.draft), traits.vocab_size(subject.target)
    if one is None or other is None or one == other or subject.speculation is None:
        return
    remedy = "Use a draft with the same vocabulary size"
    if subject.release.has("heterogeneous_vocab"):
        remedy += ", or use_heterogeneous_vocab: true (V1 runner, greedy drafts)"
    padding = " They differ by padding only, which vLLM refuses all the same." if abs(one - other) <= 1024 else ""
    yield Fault(subject.speculation.path("model"), f"The draft's vocabulary has {one} tokens and the target's {other}: "
                f"vLLM refuses a draft model of another vocabulary size.{padding}", remedy=remedy + ".")


def _tokens_differ(subject: Subject) -> Iterable[Fault]:
    if not _is_draft_model(subject) or _mapped(subject) or subject.draft is None or subject.target is None:
        return
    if traits.vocab_size(subject.draft) != traits.vocab_size(subject.target) or subject.speculation is None:
        return
    one, other = (_fingerprint(model) for model in (subject.draft, subject.target))
    if other_tokens(subject.draft.reference, one, subject.target.reference, other) is not None:
        yield Fault(subject.speculation.path("model"), "Draft and target have vocabularies of one size but with "
                    "different tokens (another tokenizer): the server starts, and nothing that is drafted fits.")


def _fingerprint(model: KnownModel) -> TokenizerFingerprint | None:
    return tokenizer_of(model.shape, model.reference) if model.shape is not None else None


def _mapping_unusable(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or not _mapped(subject) or not subject.release.has("heterogeneous_vocab"):
        return
    where = speculation.path("use_heterogeneous_vocab")
    if speculation.method is not None and speculation.method != "draft_model":
        yield Fault(where, f"use_heterogeneous_vocab works with draft_model only, not with {speculation.method}: the "
                    "server does not start.")
    elif speculation.settings.get("draft_sample_method") == "probabilistic":
        yield Fault(where, "use_heterogeneous_vocab takes greedy drafts only: with draft_sample_method probabilistic "
                           "the "
                    "server does not start.")


def _mapping_costs(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if (speculation is not None and _mapped(subject) and speculation.method == "draft_model"
            and subject.release.has("heterogeneous_vocab") and not subject.measured.accepted):
        yield Fault(speculation.path("use_heterogeneous_vocab"), "Tokens that only one of the two vocabularies has are "
                    "never drafted; how much acceptance that costs is not known before a trial.")


def _special_ids(subject: Subject) -> Iterable[Fault]:
    if not _is_draft_model(subject) or subject.draft is None or subject.target is None or subject.speculation is None:
        return
    ends = [_ids(model.special_ids.get("eos_token_id")) for model in (subject.draft, subject.target)]
    if ends[0] and ends[1] and not ends[0] & ends[1]:
        yield Fault(subject.speculation.path("model"), f"Draft and target end texts with different tokens "
                    f"({_shown(ends[0])} and {_shown(ends[1])}): the last draft of each answer is wasted.")


def _ids(value: object) -> frozenset[int]:
    values = value if isinstance(value, list) else [value]
    return frozenset(item for item in values if isinstance(item, int))


def _shown(ids: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(ids)))


_OWN = {"config": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000,
                   "hidden_size": 768,
                   "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 12,
                   "intermediate_size": 3072, "max_position_embeddings": 4096}}
_LARGE = {"config": {**_OWN["config"], "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
                     "num_key_value_heads": 8, "intermediate_size": 28672}}
_HASHED = {"vocab_size": 32000, "vocab_hash": "a", "merges_hash": "m"}
_OTHER = {"vocab_size": 32000, "vocab_hash": "b", "merges_hash": "m"}
_TWO = _PAIR.replace("Qwen/Qwen3-32B", "models/large").replace("Qwen/Qwen3-0.6B", "models/small").replace("16384",
                                                                                                          "4096")
RULES = (
    Rule("SPD201", "Vocabularies of different sizes",
         "vLLM compares vocab_size of both configs, padding included, and raises ValueError.",
         "Use a draft with the target's vocabulary size.", "error", "vllm/config/speculative.py (0.32); vllm issue "
                                                                    "7252",
         Example(_PAIR.replace("Qwen3-32B", "Qwen2.5-32B-Instruct"), env=_V1, gpus=2),
         Example(_PAIR, env=_V1, gpus=2), _sizes_differ),
    Rule("SPD202", "Equal sizes, different tokens",
         "Only the sizes are compared: two tokenizers of one size pass, and every draft is noise.",
         "Use a draft of the same tokenizer family.", "error", "vllm/config/speculative.py (0.32)",
         Example(_TWO, env=_V1, gpus=2, models={"models/large": {**_LARGE, "vocabulary": _HASHED},
                                                "models/small": {**_OWN, "vocabulary": _OTHER}}),
         Example(_TWO, env=_V1, gpus=2, models={"models/large": {**_LARGE, "vocabulary": _HASHED},
                                                "models/small": {**_OWN, "vocabulary": _HASHED}}), _tokens_differ),
    Rule("SPD203", "Mapped vocabulary where it cannot be",
         "Mapping tokens works for draft models with greedy drafts only.",
         "Remove use_heterogeneous_vocab, or use draft_model with greedy drafts.", "error",
         "vllm/config/speculative.py (0.32)",
         Example(_PAIR + "  use_heterogeneous_vocab: true\n  draft_sample_method: probabilistic\n", env=_V1, gpus=2),
         Example(_PAIR + "  use_heterogeneous_vocab: true\n", env=_V1, gpus=2), _mapping_unusable,
         releases="0.25 and newer"),
    Rule("SPD204", "Mapped vocabulary costs acceptance", "Only tokens that both vocabularies have can be drafted.",
         "Measure acceptance before relying on it.", "info", "vllm/v1/spec_decode/vocab_mapping.py (0.32)",
         Example(_PAIR + "  use_heterogeneous_vocab: true\n", env=_V1, gpus=2), Example(_PAIR, env=_V1, gpus=2),
         _mapping_costs, releases="0.25 and newer"),
    Rule("SPD205", "Different end tokens", "The draft does not know where the target's texts end.",
         "Use a draft of the same kind (both base or both chat).", "info", "config.json of both models",
         Example(_TWO, env=_V1, gpus=2, models={"models/large": {"config": {**_LARGE["config"], "eos_token_id": 2}},
                                                "models/small": {"config": {**_OWN["config"], "eos_token_id": 3}}}),
         Example(_TWO, env=_V1, gpus=2, models={"models/large": {"config": {**_LARGE["config"], "eos_token_id": 2}},
                                                "models/small": {"config": {**_OWN["config"], "eos_token_id": 2}}}),
         _special_ids),
)
