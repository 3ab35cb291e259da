"""Synthetic records that strain the page: long names, ten candidates, none at all, hardware that nobody knows."""

from __future__ import annotations

from advisor.capacity.document import Abstention
from advisor.record import EmittedConfig, Record
from profiles.deployment import Candidate
from profiles.model_ref import ModelRef
from profiles.schema import Source
from tests.advisor.report import synthetic_record as synthetic
from tests.advisor.report.test_capacity import PLAN, arm, point

LONG = "acme-research-laboratories/An-Uncommonly-Long-Model-Name-That-Somebody-Merged-Twice-{}-Instruct-GPTQ-Int4-g128"


def _draft(name: str) -> Candidate:
    return Candidate(method="draft_model", draft=ModelRef(id=name), k=(1, 2, 3, 4, 5))


def long_names() -> Record:
    """The enabled record with names as long as merged models have them, and its capacity plan."""
    base = synthetic.enabled()
    long = _draft(LONG.format("One"))
    cells = tuple(c.model_copy(update={"candidate": long, "label": long.label})
                  if c.label == synthetic.DRAFT_MODEL.label else c for c in base.candidates)
    positions = {long.label if label == synthetic.DRAFT_MODEL.label else label: found
                 for label, found in base.per_position.items()}
    provenance = base.provenance.model_copy(update={
        "target": synthetic.shape(LONG.format("Target"), 70_000_000_000), "gpu": "NVIDIA RTX PRO 6000 Blackwell "
        "Server Edition with a very long marketing name", "drafts": (synthetic.shape(LONG.format("One"), 10**9),)})
    plan = PLAN.model_copy(update={
        "target": LONG.format("Target"), "recommended": long.label,
        "arms": (PLAN.arms[0], PLAN.arms[1].model_copy(update={"label": long.label}))})
    return base.model_copy(update={
        "decision": base.decision.model_copy(update={"draft": LONG.format("One")}), "candidates": cells,
        "per_position": positions, "provenance": provenance, "capacity": plan,
        "memory_by_candidate": {long.label: base.memory}})


def ten_candidates() -> Record:
    """Ten drafts whose long names differ in the middle, each planned for."""
    base = synthetic.enabled()
    drafts = [_draft(LONG.format(f"Number-{n}")) for n in range(10)]
    own = [c for c in base.candidates if c.label == synthetic.DRAFT_MODEL.label]
    cells = tuple(c for c in base.candidates if c.candidate.method == "none") + tuple(
        c.model_copy(update={"candidate": draft, "label": draft.label}) for draft in drafts for c in own)
    arms = (PLAN.arms[0], *(arm(draft.label, "named", n % 5 + 1, point(16, 900 + 10 * n))
                            for n, draft in enumerate(drafts)))
    return base.model_copy(update={
        "decision": base.decision.model_copy(update={"draft": drafts[0].draft.id if drafts[0].draft else None}),
        "candidates": cells, "capacity": PLAN.model_copy(update={"arms": arms}),
        "per_position": {draft.label: base.per_position[synthetic.DRAFT_MODEL.label] for draft in drafts}})


def no_candidates() -> Record:
    """Nothing to look at but no speculation."""
    base = synthetic.off()
    decision = base.decision.model_copy(update={
        "speedup": None, "speedup_low": None, "speedup_high": None, "probability_of_gain": None,
        "break_even_acceptance_length": None, "crossover_load": None, "reasons": ("No candidate was looked at.",)})
    return base.model_copy(update={
        "decision": decision, "candidates": tuple(c for c in base.candidates if c.candidate.method == "none"),
        "per_position": {}, "proposals": (), "draft_map": None, "memory_by_candidate": {},
        "deployment": base.deployment.model_copy(update={"candidates": ()}),
        "memory": base.memory.model_copy(update={"draft_weights_gib": 0.0, "kv_bytes_per_token_draft": 0.0})})


def unknown_hardware() -> Record:
    """A card that nobody knows: no memory, nothing simulated, not decided."""
    base = synthetic.abstained()
    why = Abstention(about="everything", why="the hardware is unknown, so that any step time would be a guess",
                     would_settle="hardware.gpu in the deployment, or a trial on this machine")
    nothing = dict.fromkeys(("gpu_memory_gib", "usable_gib", "overhead_gib", "kv_tokens_without", "kv_tokens_with",
                             "max_concurrency_without", "max_concurrency_with", "fits"))
    return base.model_copy(update={
        "provenance": base.provenance.model_copy(update={"gpu": "unknown", "gpu_count": 0}),
        "memory": base.memory.model_copy(update={**nothing, "source": Source.ASSUMED}),
        "capacity": PLAN.model_copy(update={"arms": (), "abstained": (why,), "gpu": "unknown", "decided": False}),
        "emitted": EmittedConfig(vllm_yaml=synthetic.OFF_YAML)})


def one_load() -> Record:
    """A single load, k and position: no line can be drawn, and nothing may divide by their spread."""
    base = synthetic.enabled()
    cells = tuple(c for c in base.candidates if c.running == 4 and c.k in (0, 3)
                  and c.label in ("none", synthetic.DRAFT_MODEL.label))
    return base.model_copy(update={
        "candidates": cells,
        "per_position": {synthetic.DRAFT_MODEL.label: base.per_position[synthetic.DRAFT_MODEL.label][:1]},
        "capacity": PLAN.model_copy(update={"arms": (PLAN.arms[0].model_copy(update={
            "curve": PLAN.arms[0].curve[:1], "fleets": ()}),)})})


LAYOUTS = (long_names, ten_candidates, no_candidates, unknown_hardware, one_load)
