"""The alert rules: valid PromQL over metrics that the release has, with thresholds that are the record's."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.emit.forms import prometheus, write_forms
from advisor.promise import break_even_at
from advisor.record import Record
from profiles.schema import Quantity, Source
from tests.advisor.emit.forms.records import DRAFT_MODEL, many, record
from tests.advisor.emit.situations import decision

RECORDS = many()
CASES = [pytest.param(one, id=name) for name, one in RECORDS.items()]
# What vLLM 0.32 serves on /metrics (v1/metrics/loggers.py, v1/spec_decode/metrics.py), as far as rules may ask for it.
SERVED = {
    "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:num_preemptions_total",
    "vllm:generation_tokens_total", "vllm:request_success_total", "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens_per_pos_total",
}
FIELDS = {"alert", "expr", "for", "labels", "annotations"}


def rules(deployed: Record) -> list[dict[str, Any]]:
    found = yaml.safe_load(write_forms(deployed, ("prometheus",))["prometheus"].files["alerts.yaml"])
    (group,) = found["groups"]
    assert set(found) == {"groups"}
    assert set(group) == {"name", "rules"}
    return list(group["rules"])


def named(deployed: Record, alert: str) -> list[dict[str, Any]]:
    return [rule for rule in rules(deployed) if rule["alert"] == alert]


def metrics(expression: str) -> set[str]:
    return set(re.findall(r"\bvllm:[a-z_]+", expression))


@pytest.mark.parametrize("deployed", CASES)
def test_every_expression_parses_and_asks_for_metrics_that_exist(deployed: Record) -> None:
    for rule in rules(deployed):
        assert set(rule) == FIELDS
        promql_parser.parse(rule["expr"])
        assert metrics(rule["expr"])
        assert metrics(rule["expr"]) <= SERVED
        assert re.fullmatch(r"\d+m", rule["for"])
        assert rule["annotations"]["threshold_source"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("deployed", CASES)
def test_promtool_accepts_the_file(deployed: Record, tmp_path: Path) -> None:
    alerts = tmp_path / "alerts.yaml"
    alerts.write_text(write_forms(deployed, ("prometheus",))["prometheus"].files["alerts.yaml"])
    done = subprocess.run(["promtool", "check", "rules", str(alerts)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_bands_of_load_follow_one_another_up_to_the_crossover_with_the_records_break_even() -> None:
    deployed = RECORDS["draft model"]
    assert deployed.decision.crossover_load == 60
    ends = []
    for rule in named(deployed, "SpeculationBelowBreakEven"):
        low, high = map(float, rule["labels"]["load"].split(" to "))
        threshold = float(re.search(r"\) < ([\d.]+) and", rule["expr"])[1])  # type: ignore[index]
        inside = [break_even_at(deployed, 3, load) for load in (max(low, 1.0), high)]
        values = [one.value for one in inside if one is not None]
        assert min(values) * 0.99 <= threshold <= max(values) * 1.01
        ends.append((low, high))
    assert ends[0][0] == 0
    assert ends[-1][1] == 60
    assert all(one[1] == other[0] for one, other in itertools.pairwise(ends))


@pytest.mark.parametrize("per_load", [-0.04, -0.3, 0.04, 0.3])
def test_no_band_alerts_at_a_load_where_the_record_still_gains(
    monkeypatch: pytest.MonkeyPatch, per_load: float
) -> None:
    def even(_: Record, k: int, load: float) -> Quantity:
        return Quantity(value=2.0 * max(load, 1.0) ** per_load, source=Source.MODELLED)

    monkeypatch.setattr(prometheus, "break_even_at", even)
    deployed = record(**DRAFT_MODEL)
    for above, up_to, k, threshold in prometheus._bands(deployed):
        middle = (max(above, 1.0) * up_to) ** 0.5
        assert threshold.value <= even(deployed, k, middle).value * prometheus.ALIKE


def test_loads_at_which_the_schedule_drafts_nothing_have_no_break_even_and_crossing_over_is_only_news() -> None:
    schedule = ((1, 16, 3), (17, 256, 0))
    rested = record(decision(schedule=schedule).model_copy(update={"crossover_load": 17}), **DRAFT_MODEL)
    assert max(float(rule["labels"]["load"].split(" to ")[1])
               for rule in named(rested, "SpeculationBelowBreakEven")) <= 17
    (beyond,) = named(rested, "LoadBeyondCrossover")
    assert beyond["labels"]["severity"] == "info"
    assert beyond["expr"].endswith(">= 17")


def test_without_a_crossover_no_rule_claims_one() -> None:
    open_ended = record(decision().model_copy(update={"crossover_load": None}), **DRAFT_MODEL)
    assert named(open_ended, "LoadBeyondCrossover") == []
    assert named(open_ended, "SpeculationBelowBreakEven")


def test_methods_that_draft_every_step_count_drafts_and_lookups_count_steps() -> None:
    (always,) = {tuple(sorted(metrics(rule["expr"]))) for rule in named(RECORDS["draft model"],
                                                                        "SpeculationBelowBreakEven")}
    (lookup,) = {tuple(sorted(metrics(rule["expr"]))) for rule in named(RECORDS["lookup"],
                                                                        "SpeculationBelowBreakEven")}
    assert "vllm:generation_tokens_total" not in always
    assert {"vllm:generation_tokens_total", "vllm:request_success_total"} <= set(lookup)


def test_the_first_positions_threshold_is_half_of_the_records() -> None:
    deployed = RECORDS["draft model"]
    (rule,) = named(deployed, "FirstDraftedTokenRejected")
    recorded = deployed.per_position["draft_model draft"][0].value
    assert f"< {recorded / 2:.3g} and" in rule["expr"]
    assert 'position="0"' in rule["expr"]


@pytest.mark.parametrize("name", ["off", "abstained", "old"])
def test_without_counted_drafts_only_load_is_watched_and_that_is_said(name: str) -> None:
    assert {rule["alert"] for rule in rules(RECORDS[name])} == {"RequestsWaiting", "RequestsPreempted"}
    assert write_forms(RECORDS[name], ("prometheus",))["prometheus"].notes


def test_a_server_that_counts_nothing_is_pointed_out() -> None:
    silent = record(engine={"extra_args": {"disable-log-stats": True}}, **DRAFT_MODEL)
    notes = write_forms(silent, ("prometheus",))["prometheus"].notes
    assert any("no rule ever fires" in note for note in notes)


@settings(max_examples=25)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20).filter(str.strip))
def test_a_served_name_of_any_letters_stays_a_label_value(name: str) -> None:
    deployed = RECORDS["off"]
    emitted = yaml.safe_dump({**yaml.safe_load(deployed.emitted.vllm_yaml), "served-model-name": [name]})
    renamed = deployed.model_copy(update={"emitted": deployed.emitted.model_copy(update={"vllm_yaml": emitted})})
    for rule in rules(renamed):
        promql_parser.parse(rule["expr"])
        assert "{{" not in rule["annotations"]["summary"]


@pytest.mark.parametrize("source", list(Source))
def test_an_alert_calls_the_acceptance_it_goes_by_what_it_is(source: Source) -> None:
    deployed = RECORDS["draft model"]
    label = "draft_model draft"
    first, *rest = deployed.per_position[label]
    positions = {label: (first.model_copy(update={"source": source}), *rest)}
    (rule,) = named(deployed.model_copy(update={"per_position": positions}), "FirstDraftedTokenRejected")
    told = " ".join(rule["annotations"].values())
    assert source.value in rule["annotations"]["summary"]
    assert f"{source.value} {first.value:.0%}" in rule["annotations"]["description"]
    assert source is Source.RECORDED or "recorded" not in told
