"""The one descriptor of each speculation method, shared by cost, checks, emit and trial.

A method differs from another only by what stands in its descriptor; no other file branches on a method's name.
Adding a method is adding one entry to `METHODS`. Sources: vLLM 0.12-0.33 configuration code
(`vllm/config/speculative.py`, `vllm/v1/core/sched/scheduler.py`) as read for the release named in the note.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

DrafterKind = Literal["none", "model", "head", "native", "lookup"]
"""none: no speculation. model: a full small LM. head: a trained head on the target's hidden states.
native: layers inside the target's own checkpoint. lookup: text is copied, nothing is computed."""

Passes = Literal["none", "per_token", "single"]
"""How many forward passes of the drafter one step of k tokens takes: none, k (autoregressive), or one."""


@dataclass(frozen=True)
class Method:
    """What the rest of the tool may know about a speculation method."""

    name: str
    """The name vLLM's `speculative-config.method` uses (or `none`)."""
    title: str
    drafter: DrafterKind
    passes: Passes
    needs_draft: bool
    """A model or head must be named (`speculative-config.model`)."""
    draft_has_kv: bool
    """The drafter's layers own KV cache in the shared pool."""
    always_drafts: bool
    """False where a step may have no draft at all (lookup misses verify one token)."""
    runs_on_cpu: bool
    """Works on vLLM's CPU engine (0.32)."""
    dynamic_schedule: frozenset[str] = frozenset()
    """Runners ("v1", "v2") that honour num_speculative_tokens_per_batch_size for this method."""
    runners: frozenset[str] = frozenset({"v1"})
    """GPU model runners that support it in 0.32."""
    since: str = "0.12"
    """First V1-engine release that accepts it."""
    until: str | None = None
    """First release that no longer accepts it."""
    slots_per_request: Literal["0", "1", "k", "k-1"] = "0"
    """Extra token slots per scheduled request, subtracted from the token budget."""
    async_scheduling: bool = True
    """Works with asynchronous scheduling; where not, turning it on explicitly is refused."""
    drops_cached_block: bool = False
    """Drops the last matched prefix-cache block on every hit."""
    draft_graphs: frozenset[str] = frozenset()
    """Runners on which the drafter runs under CUDA graphs; elsewhere each draft pass pays full launch cost."""
    settings: frozenset[str] = frozenset()
    """Further `speculative-config` keys of this method that a candidate may set."""
    setting_defaults: Mapping[str, int | float] = field(default_factory=dict)
    """What the engine takes for a setting that is not stated (0.32)."""
    mirrored_settings: frozenset[str] = frozenset()
    """Settings of which an unstated one takes the value of a stated one."""
    package: str | None = None
    """Package the engine must be able to import."""
    k_cap: int | None = None
    """Largest sensible k; None where only cost and acceptance bound it."""
    aliases: frozenset[str] = field(default_factory=frozenset)
    """Other names people and older releases use."""


def _both() -> frozenset[str]:
    return frozenset({"v1", "v2"})


METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method(
            "none",
            "no speculation",
            "none",
            "none",
            needs_draft=False,
            draft_has_kv=False,
            always_drafts=True,
            runs_on_cpu=True,
            runners=_both(),
            aliases=frozenset({"off", "baseline"}),
        ),
        Method(
            "draft_model",
            "draft model",
            "model",
            "per_token",
            needs_draft=True,
            draft_has_kv=True,
            always_drafts=True,
            runs_on_cpu=True,
            dynamic_schedule=frozenset({"v1"}),
            runners=_both(),
            since="0.16",
            slots_per_request="1",
            draft_graphs=frozenset({"v1"}),
            settings=frozenset({"use_heterogeneous_vocab"}),
            aliases=frozenset({"draft", "draft-model"}),
        ),
        Method(
            "ngram",
            "n-gram lookup",
            "lookup",
            "none",
            needs_draft=False,
            draft_has_kv=False,
            always_drafts=False,
            runs_on_cpu=True,
            dynamic_schedule=frozenset({"v1"}),
            runners=_both(),
            async_scheduling=False,
            settings=frozenset({"prompt_lookup_max", "prompt_lookup_min"}),
            setting_defaults={"prompt_lookup_max": 5, "prompt_lookup_min": 5},
            mirrored_settings=frozenset({"prompt_lookup_max", "prompt_lookup_min"}),
            aliases=frozenset({"prompt_lookup"}),
        ),
        Method(
            "ngram_gpu",
            "n-gram lookup on the GPU",
            "lookup",
            "none",
            needs_draft=False,
            draft_has_kv=False,
            always_drafts=False,
            runs_on_cpu=False,
            runners=_both(),
            since="0.18",
            settings=frozenset({"prompt_lookup_max", "prompt_lookup_min"}),
            setting_defaults={"prompt_lookup_max": 5, "prompt_lookup_min": 5},
            mirrored_settings=frozenset({"prompt_lookup_max", "prompt_lookup_min"}),
        ),
        Method(
            "suffix",
            "suffix decoding",
            "lookup",
            "none",
            needs_draft=False,
            draft_has_kv=False,
            always_drafts=False,
            runs_on_cpu=True,
            async_scheduling=False,
            package="arctic_inference",
            k_cap=24,
            settings=frozenset(
                {
                    "suffix_decoding_max_tree_depth",
                    "suffix_decoding_max_cached_requests",
                    "suffix_decoding_max_spec_factor",
                    "suffix_decoding_min_token_prob",
                }
            ),
            setting_defaults={
                "suffix_decoding_max_tree_depth": 24,
                "suffix_decoding_max_cached_requests": 10000,
                "suffix_decoding_max_spec_factor": 1.0,
                "suffix_decoding_min_token_prob": 0.1,
            },
        ),
        Method(
            "eagle",
            "EAGLE head",
            "head",
            "per_token",
            needs_draft=True,
            draft_has_kv=True,
            always_drafts=True,
            runs_on_cpu=True,
            dynamic_schedule=_both(),
            runners=_both(),
            drops_cached_block=True,
            draft_graphs=_both(),
        ),
        Method(
            "eagle3",
            "EAGLE-3 head",
            "head",
            "per_token",
            needs_draft=True,
            draft_has_kv=True,
            always_drafts=True,
            runs_on_cpu=True,
            dynamic_schedule=_both(),
            runners=_both(),
            drops_cached_block=True,
            draft_graphs=_both(),
            aliases=frozenset({"eagle-3"}),
        ),
        Method(
            "mtp",
            "multi-token prediction layers",
            "native",
            "per_token",
            needs_draft=False,
            draft_has_kv=True,
            always_drafts=True,
            runs_on_cpu=False,
            dynamic_schedule=_both(),
            runners=_both(),
            drops_cached_block=True,
            draft_graphs=_both(),
            aliases=frozenset({"deepseek_mtp", "qwen3_next_mtp"}),
        ),
        Method(
            "medusa",
            "Medusa heads",
            "head",
            "single",
            needs_draft=True,
            draft_has_kv=False,
            always_drafts=True,
            runs_on_cpu=False,
            until="0.33",
            async_scheduling=False,
        ),
        Method(
            "mlp_speculator",
            "MLP speculator",
            "head",
            "per_token",
            needs_draft=True,
            draft_has_kv=False,
            always_drafts=True,
            runs_on_cpu=False,
            since="0.6",
            until="0.10",
            async_scheduling=False,
        ),
        Method(
            "dflash",
            "DFlash block-diffusion head",
            "head",
            "single",
            needs_draft=True,
            draft_has_kv=True,
            always_drafts=True,
            runs_on_cpu=False,
            runners=_both(),
            since="0.20",
            slots_per_request="k",
            drops_cached_block=True,
        ),
        Method(
            "dspark",
            "DSpark head",
            "head",
            "single",
            needs_draft=True,
            draft_has_kv=True,
            always_drafts=True,
            runs_on_cpu=False,
            runners=frozenset({"v2"}),
            since="0.28",
            slots_per_request="k-1",
            drops_cached_block=True,
        ),
    )
}

_ALIASES = {alias: m.name for m in METHODS.values() for alias in m.aliases}


def method(name: str) -> Method:
    """The descriptor by its name or an alias; KeyError lists the known ones."""
    key = name.strip().lower()
    key = _ALIASES.get(key, key)
    try:
        return METHODS[key]
    except KeyError:
        raise KeyError(f"unknown method {name!r}: expected one of {', '.join(METHODS)}") from None


def refuse_unknown_method(name: str | None) -> None:
    """ValueError for a name that no method has; None is none named."""
    if name is not None:
        try:
            method(name)
        except KeyError as error:
            raise ValueError(str(error.args[0])) from None


def full_settings(name: str, stated: Mapping[str, bool | int | float]) -> dict[str, bool | int | float]:
    """Every setting of a method that has a value in the engine: the stated ones, and its defaults for the rest."""
    described = method(name)
    mirror = next((stated[key] for key in sorted(described.mirrored_settings) if key in stated), None)
    full: dict[str, bool | int | float] = {
        key: mirror if mirror is not None and key in described.mirrored_settings else default
        for key, default in described.setting_defaults.items()
    }
    return {**full, **stated}
