"""k: within what the drafter gives, and in proportion to what acceptance supports."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from advisor.release_rules import mtp_depth_fits
from profiles.methods import METHODS

_MTP = ("model: deepseek-ai/DeepSeek-R1\ntensor-parallel-size: 8\nmax-model-len: 16384\nmax-num-seqs: 32\n"
        "speculative-config:\n  method: mtp\n  num_speculative_tokens: 1\n")
_EAGLE3 = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 16\nspeculative-config:\n  method: eagle3\n"
           "  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n")
_REPEATS_TOLERATED = 4
"""Passes over one MTP layer that acceptance usually still pays for; beyond, each further token is rarely accepted."""
_OFTEN = 0.25
"""Share of the steps from which on nobody calls a token rarely accepted."""
_MOST = {"per_token": 8, "single": 17, "none": 33}
"""First k that is out of proportion, by how the drafter works: one pass a token, one pass for all, lookup."""


def _repeats(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    layers = traits.mtp_layers(subject.target)
    if speculation is None or speculation.method != "mtp" or speculation.model is not None or not layers:
        return
    k = speculation.k
    if k is None or k <= layers:
        return
    where = speculation.path("num_speculative_tokens")
    if not mtp_depth_fits(k, layers):
        yield Fault(where, f"num_speculative_tokens is {k}: the target has {layers} MTP layers (n_predict), and a "
                           f"larger k "
                    "has to be a multiple of that.", severity="error", remedy=f"Use {layers} or "
                                                                              f"{k // layers * layers}.")
        return
    often, counted = _last_token(subject, k)
    if k > _REPEATS_TOLERATED and not often:
        most = max(layers, _REPEATS_TOLERATED // layers * layers)
        yield Fault(where, f"num_speculative_tokens is {k} (k={k}): the target has {layers} MTP layer"
                    f"{'s' if layers > 1 else ''} (n_predict), which then runs {k // layers} times on its own output; "
                    f"late tokens are hardly ever accepted and are verified all the same{counted}.",
                    remedy=f"Use {most} at most, unless a trial has measured more.", thumb=True)
    else:
        yield Fault(where, f"num_speculative_tokens is {k} and the target has {layers} MTP layer"
                    f"{'s' if layers > 1 else ''}: it runs {k // layers} times on its own output, with falling "
                    f"acceptance.",
                    severity="info", remedy="Watch per-position acceptance, and lower k where late positions are "
                    "hardly accepted.")


def _last_token(subject: Subject, k: int) -> tuple[bool, str]:
    """Whether the last token of a draft is known to be accepted often enough, and what was counted, in brackets; False
    and nothing where nobody counted."""
    share = subject.measured.accepted_at(k)
    return (False, "") if share is None else (
        share >= _OFTEN, f" (here the last one is accepted in {100 * share:.0f} % of the steps)")


def _out_of_proportion(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if speculation is None or speculation.k is None or speculation.method not in METHODS or speculation.method == "mtp":
        return
    described = METHODS[speculation.method]
    most = _MOST[described.passes]
    if speculation.settings.get("parallel_drafting") is True:
        most = _MOST["single"]
    k, where = speculation.k, speculation.path("num_speculative_tokens")
    often, counted = _last_token(subject, k)
    if often:
        return
    if k >= most:
        cost = "each costs a draft pass and" if described.passes == "per_token" else "each"
        yield Fault(where, f"num_speculative_tokens is {k} (k={k}): with {described.title} the late tokens are rarely "
                    f"accepted{counted}, and {cost} a verified token in every step.", thumb=True)
    elif described.passes == "per_token" and k >= 6:
        yield Fault(where, f"num_speculative_tokens is {k}: the sixth token and later ones are accepted in few steps "
                           f"of "
                    f"most workloads{counted}.", severity="info", thumb=True)


def _beyond_block(subject: Subject) -> Iterable[Fault]:
    speculation, draft = subject.speculation, subject.draft
    if speculation is None or draft is None or speculation.k is None:
        return
    config = traits.text_part(draft.config)
    nested = config.get("dflash_config")
    found = {
        "dflash": config.get("block_size", nested.get("block_size") if isinstance(nested, dict) else None),
        "dspark": config.get("block_size", config.get("dspark_block_size")),
        "medusa": draft.config.get("medusa_num_heads", draft.config.get("num_heads")),
        "mlp_speculator": draft.config.get("n_predict", draft.config.get("num_lookahead_tokens")),
    }.get(speculation.method or "")
    if isinstance(found, int) and speculation.k > found:
        yield Fault(speculation.path("num_speculative_tokens"), f"num_speculative_tokens is {speculation.k}: the head "
                                                                f"was "
                    f"trained for {found} tokens at once and drafts no more of use.")


_DFLASH = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 8\nspeculative-config:\n  method: dflash\n"
           "  model: models/qwen3-8b-dflash\n  num_speculative_tokens: 7\n")
_BLOCK = {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 5,
          "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 12288, "vocab_size": 151936,
          "max_position_embeddings": 40960, "block_size": 16, "dflash_config": {"mask_token_id": 151669}}
RULES = (
    Rule("SPD231", "More tokens than MTP layers", "Beyond its layers, MTP runs the same layer again on its own output.",
         "Use k = the number of MTP layers, or a few times that, 4 at most.", "warn",
         "vllm/config/speculative.py (0.32): 'may result in lower acceptance rate'; vllm-ascend issue 9290",
         Example(_MTP.replace("tokens: 1", "tokens: 13"), gpu="H200", gpus=8), Example(_MTP, gpu="H200", gpus=8),
         _repeats),
    Rule("SPD232", "k out of proportion",
         "Acceptance multiplies from position to position: at 0.8 a token, the eighth is reached in one step of six.",
         "Lower num_speculative_tokens to 3 or 4 and measure per-position acceptance.", "warn",
         "per-position acceptance of published measurements (the catalog's acceptance prior)",
         Example(_EAGLE3.replace("tokens: 3", "tokens: 12")), Example(_EAGLE3), _out_of_proportion),
    Rule("SPD233", "k beyond the head's block", "A head that drafts a block at once was trained for a fixed length.",
         "Lower num_speculative_tokens to the head's own length.", "warn", "config.json of the head",
         Example(_DFLASH.replace("tokens: 7", "tokens: 24"), models={"models/qwen3-8b-dflash": {"config": _BLOCK}}),
         Example(_DFLASH, models={"models/qwen3-8b-dflash": {"config": _BLOCK}}), _beyond_block),
)
