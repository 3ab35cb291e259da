"""Acceptance worked out over recorded outputs, as advice uses it."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from advisor.acceptance import acceptance_of
from advisor.advice import advise
from advisor.report.evidence_rows import evidence_table
from profiles.evidence import Evidence
from profiles.recorded import AcceptanceCurve, AcceptancePoint, RecordedAcceptance
from profiles.schema import Quantity, Source
from profiles.workload import Task
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation, llama_1b

LENGTHS = {Task.CODE: (1.6, 2.0, 2.25), Task.CREATIVE: (1.2, 1.3, 1.35)}


def points(lengths, spread=0.02):
    found = []
    for k, length in enumerate(lengths, 1):
        steps = [lengths[0] - 1.0, *(b - a for a, b in itertools.pairwise(lengths))][:k]
        found.append(AcceptancePoint(
            k=k, acceptance_length=Quantity(value=length, low=length * (1 - spread), high=length * (1 + spread), n=40,
                                            source=Source.RECORDED),
            per_position=tuple(steps), per_position_low=tuple(s * 0.9 for s in steps),
            per_position_high=tuple(min(1.0, s * 1.1) for s in steps),
            matched_share=Quantity(value=0.7, source=Source.RECORDED), drafted_tokens=0.6 * k, steps=900))
    return tuple(found)


def curve(method="ngram", draft=None, settings=None, tasks=None):
    return AcceptanceCurve(method=method, draft=draft, settings=settings or {}, requests=40,
                           by_k=points(LENGTHS[Task.CODE]),
                           by_task={task: points(LENGTHS[task]) for task in tasks or ()})


def evidence(*curves, tier="replay", **more):
    section = RecordedAcceptance(tier=tier, files=("r.jsonl",), target="meta-llama/Llama-3.1-8B-Instruct", requests=40,
                                 curves=curves, **more)
    return Evidence(kind=tier, collected_at="2026-01-01T00:00:00Z", tool_version="0", command="specadvise probe",
                    **{tier: section})


NGRAM = {"method": "ngram", "k": "1-3", "settings": {"prompt_lookup_min": 2, "prompt_lookup_max": 4}}


def found(candidate, *items, **workload):
    situation = gpu_situation(evidence=items, candidates=[candidate], **workload)
    return acceptance_of(situation, situation.candidates[0], 500)


def test_the_curve_of_the_very_setting_is_taken_at_every_k():
    own, other = curve(settings=dict(NGRAM["settings"])), curve(settings={"prompt_lookup_min": 1})
    acceptance = found(NGRAM, evidence(other, own))
    assert [acceptance.length(k).value for k in (1, 2, 3)] == pytest.approx([1.6, 2.0, 2.25])
    assert (acceptance.tier, acceptance.source) == ("replay", Source.RECORDED)
    assert acceptance.matched_share == pytest.approx(0.7)
    assert acceptance.drafted_tokens(2) == pytest.approx(1.2)
    assert "replay of 40 recorded requests" in acceptance.length(2).note


def test_a_setting_that_was_not_replayed_stays_assumed():
    assert found(NGRAM, evidence(curve(settings={"prompt_lookup_min": 1}))).tier == "published"


def test_unstated_settings_are_the_engines_defaults():
    assert found({"method": "ngram", "k": 2}, evidence(curve(
        settings={"prompt_lookup_min": 5, "prompt_lookup_max": 5}))).tier == "replay"
    assert found({"method": "ngram", "k": 2, "settings": {"prompt_lookup_max": 3}}, evidence(curve(
        settings={"prompt_lookup_min": 3, "prompt_lookup_max": 3}))).tier == "replay"


def test_a_scored_draft_is_found_by_its_name():
    draft = {"method": "draft_model", "draft": llama_1b().id, "k": "1-3"}
    scored = curve("draft_model", "/somewhere/Llama-3.2-1B-Instruct")
    assert found(draft, evidence(scored, tier="scoring")).tier == "scoring"
    assert found(draft, evidence(curve("draft_model", "other"), tier="scoring")).tier == "published"


def test_tasks_mix_harmonically_as_steps_do():
    acceptance = found(NGRAM, evidence(curve(settings=dict(NGRAM["settings"]), tasks=LENGTHS)),
                       tasks=["code", "creative"])
    assert acceptance.length(2).value == pytest.approx(2 / (1 / 2.0 + 1 / 1.3))
    assert sum(q.value for q in acceptance.per_position) + 1 == pytest.approx(acceptance.length(3).value)


def test_a_task_without_records_widens_the_interval():
    one = evidence(curve(settings=dict(NGRAM["settings"]), tasks=[Task.CODE]))
    known, unknown = (found(NGRAM, one, tasks=[task]) for task in ("code", "creative"))
    assert unknown.log_sd(2) > 2 * known.log_sd(2)


def test_a_lower_bound_leaves_the_upper_end_open():
    draft = {"method": "draft_model", "draft": llama_1b().id, "k": "1-3"}
    exact, bound = (found(draft, evidence(curve("draft_model", llama_1b().id), tier="scoring", lower_bound=lower))
                    for lower in (False, True))
    assert bound.length(3).high > exact.length(3).high
    assert bound.length(3).low == exact.length(3).low
    assert "lower bound" in bound.note


def test_a_live_trial_is_heard_before_anything_recorded():
    plain = cpu_situation(cpu_trial())
    scored = evidence(curve("draft_model", "draft-135m"), tier="scoring")
    both = dataclasses.replace(plain, evidence=(*plain.evidence, scored))
    one, other = (acceptance_of(s, s.candidates[0], 100) for s in (plain, both))
    assert (one.tier, other.tier) == ("trial", "trial")
    assert one.lengths == other.lengths


def test_the_record_and_its_evidence_table_name_the_tier():
    situation = gpu_situation(evidence=(evidence(curve(settings=dict(NGRAM["settings"]))),), candidates=[NGRAM])
    record = advise(situation, "2026-01-01T00:00:00Z")
    assert record.acceptance_tiers == {situation.candidates[0].label: "replay"}
    rows = [" ".join(row) for row in evidence_table(record, ()).rows]
    assert any("acceptance length, ngram, k=3" in row and "replay of 40 recorded requests" in row for row in rows)


def test_the_evidence_table_has_the_share_of_steps_with_a_draft_that_is_decided_by():
    own = curve(settings=dict(NGRAM["settings"]), tasks=LENGTHS)
    rare = tuple(point.model_copy(update={"matched_share": Quantity(value=0.2, source=Source.RECORDED)})
                 for point in own.by_task[Task.CREATIVE])
    own = own.model_copy(update={"by_task": {**own.by_task, Task.CREATIVE: rare}})
    situation = gpu_situation(evidence=(evidence(own),), candidates=[NGRAM], tasks="creative")
    record = advise(situation, "2026-01-01T00:00:00Z")
    (said,) = (row for row in evidence_table(record, ()).rows if row[0].startswith("steps that find a draft"))
    assert record.matched_shares == {situation.candidates[0].label: pytest.approx(0.2)}
    assert said[1] == "20 %"


def test_evidence_of_another_target_is_a_warning():
    foreign = evidence(curve()).model_copy(update={"replay": evidence(curve()).replay.model_copy(
        update={"target": "Qwen/Qwen3-8B"})})
    record = advise(gpu_situation(evidence=(foreign,), candidates=[NGRAM]), "2026-01-01T00:00:00Z")
    assert any("Qwen3-8B" in warning for warning in record.warnings)
