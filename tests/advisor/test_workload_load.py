import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice import advise
from advisor.capacity.plan import Question, capacity_plan
from advisor.capacity.rates import Effort
from advisor.load_promise import load_promise
from advisor.report import render
from advisor.situation import Situation
from advisor.workload_load import little, traffic_of
from profiles.catalog.prices import price_table
from profiles.evidence import Evidence, RequestsEvidence, ServerEvidence
from profiles.schema import measured
from profiles.workload import Lengths
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation


def logged(**seen: Any) -> Evidence:
    requests = RequestsEvidence(requests=10, prompt_tokens=Lengths(mean=300), output_tokens=Lengths(mean=30), **seen)
    return Evidence(kind="requests", collected_at="", tool_version="0", command="probe requests", requests=requests)


def scraped() -> Evidence:
    server = ServerEvidence(
        url="http://x",
        engine="vllm",
        models=("m",),
        window_s=15,
        running=measured(6.4),
        waiting=None,
        kv_cache_usage=None,
        prompt_tokens=Lengths(mean=900),
        output_tokens=Lengths(mean=120),
        prefix_cache_hit_rate=0.5,
    )
    return Evidence(kind="server", collected_at="", tool_version="0", command="probe server", server=server)


@given(st.floats(0.01, 100.0), st.floats(10.0, 10_000.0), st.floats(0.0, 200.0))
def test_littles_law_holds_at_the_load_found(rate: float, fixed_ms: float, per_request_ms: float) -> None:
    def latency(n: float) -> float:
        return fixed_ms + per_request_ms * n

    running, saturated = little(rate, latency, 512.0)
    assert 1.0 <= running <= 512.0
    if saturated:
        assert rate * latency(512.0) / 1000 >= 512.0
    elif running > 1.0:
        assert rate * latency(running) / 1000 == pytest.approx(running, rel=1e-6)


def test_what_is_stated_comes_before_what_is_probed() -> None:
    stated = traffic_of(gpu_situation(evidence=(scraped(),), concurrency=2, prompt_tokens=10, output_tokens=20))
    assert (stated.running, stated.prompt_tokens, stated.output_tokens) == (2, 10, 20)
    assert stated.lengths_stated


def test_a_running_server_fills_what_is_not_stated_and_is_named() -> None:
    traffic = traffic_of(gpu_situation(evidence=(scraped(),)))
    assert (traffic.running, traffic.prompt_tokens, traffic.output_tokens) == (6.4, 900, 120)
    assert traffic.uncached_prompt_tokens == 450
    assert sum("as the server shows" in said or "running server shows" in said for said in traffic.assumptions) == 2


def test_recorded_requests_fill_lengths_and_load() -> None:
    traffic = traffic_of(gpu_situation(evidence=(logged(concurrency={"mean": 3.0}),)))
    assert (traffic.running, traffic.prompt_tokens, traffic.output_tokens) == (3.0, 300, 30)


def test_the_trials_lengths_come_last_before_assuming() -> None:
    traffic = traffic_of(cpu_situation(cpu_trial()))
    assert (traffic.prompt_tokens, traffic.output_tokens) == (60, 48)
    assert traffic.running == 8
    assert not traffic.lengths_stated


SAID = re.compile(r"\b(measured|recorded|modelled|assumed)\b")


@pytest.mark.parametrize("situation", [
    gpu_situation(),
    gpu_situation(evidence=(scraped(),)),
    gpu_situation(evidence=(scraped(),), arrival_rate_rps=2.0, engine={"data_parallel_size": 2}),
    gpu_situation(arrival_rate_rps=0.5),
    gpu_situation(evidence=(logged(concurrency={"mean": 3.0, "p95": 7.0}),)),
    gpu_situation(evidence=(logged(arrival_rate_rps=0.7),)),
    cpu_situation(cpu_trial()),
], ids=["nothing", "server", "rate over replicas", "rate", "log", "log's rate", "trial"])
def test_each_figure_that_nobody_stated_says_where_it_comes_from(situation: Situation) -> None:
    record = advise(situation, "2026-01-01T00:00:00Z")
    planned = capacity_plan(situation, Question(prices=price_table(None), effort=Effort(times=0.25)))
    for text in (*record.assumptions, *planned.assumptions):
        assert SAID.search(text), text


def test_a_load_that_was_read_stands_under_no_heading_that_calls_it_assumed() -> None:
    for evidence, word in ((scraped(), "recorded"), (logged(concurrency={"mean": 3.0}), "recorded")):
        record = advise(gpu_situation(evidence=(evidence,)), "2026-01-01T00:00:00Z")
        (said,) = [text for text in record.assumptions if text.startswith("load not stated")]
        assert word in said
        assert "assumed" not in said
        for form in ("text", "markdown", "html"):
            text = render(record, form)
            assert "Assumed, because" not in text
            assert "Not stated, and what was taken instead" in text
        decided = load_promise(record, None, idle=False, gain=None).promised
        assert decided is not None
        assert decided.source.value == "recorded"
