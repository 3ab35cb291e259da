import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.workload_load import little, traffic_of
from profiles.evidence import Evidence, RequestsEvidence, ServerEvidence
from profiles.schema import measured
from profiles.workload import Lengths
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation


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
    recorded = Evidence(
        kind="requests",
        collected_at="",
        tool_version="0",
        command="probe requests",
        requests=RequestsEvidence(
            requests=10,
            prompt_tokens=Lengths(mean=300),
            output_tokens=Lengths(mean=30),
            concurrency={"mean": 3.0},
        ),
    )
    traffic = traffic_of(gpu_situation(evidence=(recorded,)))
    assert (traffic.running, traffic.prompt_tokens, traffic.output_tokens) == (3.0, 300, 30)


def test_the_trials_lengths_come_last_before_assuming() -> None:
    traffic = traffic_of(cpu_situation(cpu_trial()))
    assert (traffic.prompt_tokens, traffic.output_tokens) == (60, 48)
    assert traffic.running == 8
    assert not traffic.lengths_stated
