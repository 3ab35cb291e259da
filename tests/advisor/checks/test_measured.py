"""Rules of thumb beside measurements of the same thing: one report never says both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from advisor.advice import advise
from advisor.checks.emitted import check_emitted
from advisor.checks.examples import subject_of
from advisor.checks.finding import Finding
from advisor.checks.measured import Gain, Measured, measured_of
from advisor.checks.registry import all_rules
from advisor.checks.rule import Example, Rule
from advisor.checks.run import check
from advisor.checks.subject import Subject
from advisor.compatibility import doubts
from advisor.record import Record
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation

NOW = "2026-01-01T00:00:00Z"


def subject(example: Example, measured: Measured) -> Subject:
    return replace(subject_of(example), measured=measured)


def thumbs() -> list[Rule]:
    """Rules whose failing example is a rule of thumb."""
    return [rule for rule in all_rules() if any(fault.thumb for fault in rule.check(subject_of(rule.fails)))]


def said(rule: Rule, example: Example, measured: Measured) -> list[Finding]:
    return [f for f in check(subject(example, measured)).findings if f.code == rule.code]


def gain(example: Example, speedup: float, **other: Any) -> Measured:
    asked = subject_of(example).speculation
    assert asked is not None
    load = example.workload.get("concurrency", 8)
    return Measured((Gain(**{"k": asked.k or 0, "running": load, "speedup": speedup, **other}),))


THUMBS = thumbs()


def test_the_rules_about_what_a_draft_costs_and_how_deep_it_goes_are_rules_of_thumb() -> None:
    assert {"SPD421", "SPD422", "SPD423", "SPD424", "SPD425", "SPD231", "SPD232", "SPD602", "SPD603"} <= {
        rule.code for rule in THUMBS}


@pytest.mark.parametrize("rule", THUMBS, ids=lambda rule: rule.code)
def test_a_measured_gain_silences_a_rule_of_thumb(rule: Rule) -> None:
    assert said(rule, rule.fails, Measured())
    assert said(rule, rule.fails, gain(rule.fails, 1.4)) == []


@pytest.mark.parametrize("rule", THUMBS, ids=lambda rule: rule.code)
def test_a_measured_loss_is_told_with_its_figure(rule: Rule) -> None:
    (before,) = said(rule, rule.fails, Measured())
    (found,) = said(rule, rule.fails, gain(rule.fails, 0.83))
    assert found.message.startswith(before.message[:100])
    assert "0.83 times no speculation" in found.message or found.message.endswith("...")


def test_a_loss_that_follows_from_what_was_timed_is_not_called_measured() -> None:
    (found, *_) = [f for rule in THUMBS for f in said(rule, rule.fails, gain(rule.fails, 0.83, timed=False))
                   if not f.message.endswith("...")]
    assert "So it follows from what a trial measured: 0.83 times no speculation" in found.message


def test_what_a_small_token_budget_costs_is_told_at_the_load_that_runs() -> None:
    rule = next(rule for rule in all_rules() if rule.code == "SPD324")

    def told(**workload: int) -> str:
        (found,) = said(rule, replace(rule.fails, workload=workload), Measured())
        assert "vLLM warns below 8192, and starts." in found.message
        return found.message

    assert "With 4 running a step takes 24 of them to decode, which leaves 2024 for prompts" in told(concurrency=4)
    wide = replace(rule.fails, config=rule.fails.config.replace("max-num-seqs: 32", "max-num-seqs: 512"))
    (found,) = said(rule, replace(wide, workload={"concurrency": 200}), Measured())
    assert "With 200 running a step takes 1200 of them to decode, and prompts hardly move" in found.message
    assert told().endswith("and starts.")


@pytest.mark.parametrize("rule", THUMBS, ids=lambda rule: rule.code)
def test_a_gain_of_another_k_or_far_from_the_load_says_nothing(rule: Rule) -> None:
    assert said(rule, rule.fails, gain(rule.fails, 1.4, k=63))
    stated = replace(rule.fails, workload={"concurrency": 400, **rule.fails.workload})
    speculation = subject_of(stated).speculation
    assert speculation is not None
    if stated.workload["concurrency"] == 400 and not speculation.schedule_stated and said(rule, stated, Measured()):
        assert said(rule, stated, gain(rule.fails, 1.4, running=4))


def test_with_a_schedule_the_gain_counts_at_the_loads_that_have_the_k() -> None:
    config = ("model: Qwen/Qwen3-32B\ntensor-parallel-size: 2\nmax-model-len: 16384\nmax-num-seqs: 32\n"
              "speculative-config:\n  method: draft_model\n  model: Qwen/Qwen3-4B\n  num_speculative_tokens: 5\n"
              "  num_speculative_tokens_per_batch_size: [[1, 4, 5], [5, 32, 1]]\n")
    example = Example(config, env={"VLLM_USE_V2_MODEL_RUNNER": "0"}, gpus=2, workload={"concurrency": 16})

    def costly(*gains: Gain) -> list[str]:
        return [f.code for f in check(subject(example, Measured(gains))).findings if f.code == "SPD421"]

    assert costly() == ["SPD421"]
    assert costly(Gain(5, 2, 1.3)) == []
    assert costly(Gain(5, 16, 1.3)) == ["SPD421"], "at that load the schedule asks for k=1"


@pytest.mark.parametrize(("share", "silent"), [(0.4, True), (0.05, False)])
def test_how_often_the_last_token_is_accepted_is_taken_from_what_was_counted(share: float, silent: bool) -> None:
    for code in ("SPD231", "SPD232"):
        rule = next(rule for rule in all_rules() if rule.code == code)
        speculation = subject_of(rule.fails).speculation
        assert speculation is not None
        assert speculation.k is not None
        counted = Measured((), tuple(0.9 - (0.9 - share) * i / (speculation.k - 1) for i in range(speculation.k)))
        found = [f for f in said(rule, rule.fails, counted) if f.severity == "warn"]
        assert (found == []) is silent
        if found:
            assert "accepted in 5 % of the steps" in found[0].message


# --- the advice itself -----------------------------------------------------------------------------------------------
def measured_gain() -> Record:
    record = advise(cpu_situation(cpu_trial(), concurrency=1, tasks="code"), NOW)
    assert record.decision.enable is True
    assert record.decision.speedup_source.value == "measured"
    return record


def test_a_record_with_a_measured_gain_holds_no_rule_of_thumb_against_it() -> None:
    record = measured_gain()
    assert record.checklist is not None
    assert not {f.code for f in record.checklist.findings} & {rule.code for rule in THUMBS}
    assert record.checklist == check_emitted(record), "a later check of the same record agrees"


def test_without_the_trial_the_same_pair_is_still_told_the_rule_of_thumb() -> None:
    """The target is 6 times its draft, less than the rule of thumb has it."""
    record = measured_gain()
    bare = record.model_copy(update={"candidates": (), "per_position": {}, "evidence": ()})
    assert {"SPD421", "SPD232"} & {f.code for f in check_emitted(bare).findings}


def test_only_what_was_measured_counts() -> None:
    record = measured_gain()
    (candidate,) = {cell.label: cell.candidate for cell in record.candidates if cell.k}.values()
    positions = record.per_position[candidate.label]
    found = measured_of(candidate, record.candidates, positions)
    assert found.gains
    assert len(found.accepted) == len(positions)
    assumed = advise(cpu_situation(concurrency=1, tasks="code"), NOW)
    assert measured_of(candidate, assumed.candidates, assumed.per_position[candidate.label]) == Measured()


def test_doubts_about_a_candidate_give_way_to_what_is_known_of_it() -> None:
    as_large = gpu_situation(candidates=[{"method": "draft_model", "draft": "meta-llama/Llama-3.2-1B-Instruct"}])
    as_large = replace(as_large, drafts=dict.fromkeys(as_large.drafts, as_large.target))
    label = as_large.candidates[0].label
    assert any("no draft can save time" in text for text in doubts(as_large, {}))
    assert doubts(as_large, {}, gaining={label}) == ()
    mapped = gpu_situation(candidates=[{"method": "draft_model", "draft": "meta-llama/Llama-3.2-1B-Instruct",
                                        "settings": {"use_heterogeneous_vocab": True}}])
    label = mapped.candidates[0].label
    assert any("not known before a trial" in text for text in doubts(mapped, {}))
    assert not any("not known before a trial" in text for text in doubts(mapped, {}, counted={label}))


def test_creative_text_speaks_against_no_acceptance_that_was_counted_on_it() -> None:
    counted = advise(cpu_situation(cpu_trial(), concurrency=1, tasks="creative"), NOW)
    assumed = advise(cpu_situation(concurrency=1, tasks="creative"), NOW)
    (one,) = [r for r in counted.reasons if r.question == "creative_or_hot"]
    (other,) = [r for r in assumed.reasons if r.question == "creative_or_hot"]
    assert one.for_or_against == "neutral"
    assert "was measured, and has that in it" in one.sentence
    assert other.for_or_against == "against"
