"""What is advised is checked on the way: the record holds what the rules say of its own config."""

from __future__ import annotations

import pytest

from advisor.advice import advise
from advisor.checks.emitted import check_emitted, workload_of_record
from advisor.checks.registry import all_rules
from advisor.record import Record
from advisor.report.checklist import checklist_sentence
from tests.advisor.emit.situations import situation
from tests.advisor.situations import gpu_situation

NOW = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def record() -> Record:
    return advise(situation("0.32.0", candidates=[{"method": "ngram"}]), "2026-01-01T00:00:00Z")


def with_yaml(record: Record, text: str) -> Record:
    return record.model_copy(update={"emitted": record.emitted.model_copy(update={"vllm_yaml": text})})


def test_an_advice_carries_the_findings_about_its_own_config(record: Record) -> None:
    assert record.checklist == check_emitted(record)
    assert record.checklist.verdict == "pass"
    assert record.checklist.checked == tuple(rule.code for rule in all_rules())
    assert record.checklist.notes == ()


def test_a_config_that_would_not_start_is_found_out_with_its_line(record: Record) -> None:
    broken = record.emitted.vllm_yaml + ("\nspeculative-config:\n  method: ngram\n  num_speculative_tokens: 3\n"
                                         "  disable_by_batch_size: 8\n")
    if record.decision.enable:
        broken = f"model: {record.provenance.target.id}\n" + broken[broken.rindex("\nspeculative-config"):]
    found = check_emitted(with_yaml(record, broken))
    assert found.verdict == "fail"
    (finding,) = [f for f in found.findings if f.code == "SPD101"]
    assert broken.splitlines()[finding.line - 1] == "  disable_by_batch_size: 8"


@pytest.mark.parametrize("gpu", ["unknown", "cpu", "Prototype Z1"])
def test_hardware_that_the_catalog_does_not_know_stops_no_check(record: Record, gpu: str) -> None:
    known = record.provenance.model_copy(update={"gpu": gpu})
    assert check_emitted(record.model_copy(update={"provenance": known})).verdict == "pass"


def test_a_config_that_no_rule_can_read_fails_and_says_why(record: Record) -> None:
    found = check_emitted(with_yaml(record, "model: [torn"))
    assert (found.verdict, found.findings) == ("fail", ())
    assert "vllm.yaml" in found.notes[0]
    assert "could not be checked: vllm.yaml" in checklist_sentence(record.model_copy(update={"checklist": found}))


def test_a_temperature_that_nobody_stated_is_not_taken_for_greedy() -> None:
    """As in a check that is told nothing of the traffic: vLLM's own default is 1."""
    assert workload_of_record(advise(gpu_situation(concurrency=1), NOW)).temperature is None
    greedy = advise(gpu_situation(concurrency=1, sampling={"temperature": 0}), NOW)
    assert workload_of_record(greedy).temperature == 0
