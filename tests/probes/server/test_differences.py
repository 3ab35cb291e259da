"""What two synthetic scrapes say of a server, for several engine eras, restarts, several engines and models."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from probes.server.differences import server_evidence
from probes.server.reading import read_metrics
from profiles.errors import InputError
from profiles.evidence import ServerEvidence
from tests.probes.server import synthetic_pages as syn


def evidence(*pages: str, window_s: float = 10.0, model: str | None = None) -> ServerEvidence:
    return server_evidence([read_metrics(text, f"page {i}") for i, text in enumerate(pages)], url="http://h:1/metrics",
                           window_s=window_s if len(pages) > 1 else 0.0, model=model)


def said(found: ServerEvidence, words: str) -> bool:
    return any(words in note for note in found.notes)


def ngram(drafts: float, draft_tokens: float, positions: Sequence[float]) -> dict[str, float | Sequence[float]]:
    return {"drafts": drafts, "draft_tokens": draft_tokens, "positions": positions}


OLD = [100.0] * 4
NEW = [30.0] * 6


def synthetic_v1_0_32_pair() -> tuple[str, str]:
    before = syn.v1_engine(running=2, prompts=OLD, outputs=OLD, queries=400, hits=0, ttft=[5.0] * 4, tpot=[0.5] * 4,
                           speculation=ngram(100, 300, [50, 20, 10]))
    after = syn.v1_engine(running=4, prompts=OLD + NEW, outputs=OLD + NEW, queries=580, hits=90, preemptions=2,
                          ttft=[5.0] * 4 + [0.05] * 6, tpot=[0.5] * 4 + [0.02] * 6,
                          speculation=ngram(200, 600, [110, 50, 20]))
    return syn.page(before), syn.page(after)


def test_counters_are_differences_over_the_window_not_totals() -> None:
    found = evidence(*synthetic_v1_0_32_pair())
    assert found.engine == "vllm"
    assert found.models == (syn.MODEL,)
    assert found.requests_in_window == 6
    assert found.request_rate_rps is not None
    assert found.request_rate_rps.value == pytest.approx(0.6)
    assert found.request_rate_rps.low is not None
    assert found.request_rate_rps.low < 0.6
    assert found.generation_tokens_per_s is not None
    assert found.generation_tokens_per_s.value == pytest.approx(18)
    assert found.prompt_tokens is not None
    assert found.output_tokens is not None
    assert found.prompt_tokens.mean == 30
    assert found.output_tokens.p50 == pytest.approx(30, rel=0.3)
    assert found.ttft_ms is not None
    assert found.tpot_ms is not None
    assert found.ttft_ms.value == pytest.approx(50)
    assert found.tpot_ms.value == pytest.approx(20)
    assert found.tpot_ms.n == 6
    assert found.preemptions == 2
    assert found.prefix_cache_hit_rate == pytest.approx(0.5)


def test_gauges_are_means_with_the_range_of_the_scrapes() -> None:
    running = evidence(*synthetic_v1_0_32_pair()).running
    assert running is not None
    assert (running.value, running.low, running.high, running.n) == (3, 2, 4, 2)
    assert running.source.value == "recorded"


def test_speculation_is_by_position_and_in_length() -> None:
    speculation = evidence(*synthetic_v1_0_32_pair()).speculation
    assert speculation is not None
    assert (speculation.drafts, speculation.draft_tokens, speculation.accepted_tokens) == (100, 300, 100)
    assert speculation.per_position == pytest.approx((0.6, 0.3, 0.1))
    assert speculation.acceptance_length == pytest.approx(2.0)
    assert speculation.tokens_per_step == pytest.approx(180 / 80)


def test_steps_without_a_draft_are_said_and_counted_in_tokens_per_step() -> None:
    before = syn.v1_engine(speculation=ngram(0, 0, [0, 0]), generation=0)
    after = syn.v1_engine(speculation=ngram(40, 80, [30, 20]), generation=150)
    found = evidence(syn.page(before), syn.page(after))
    assert found.speculation is not None
    assert found.speculation.acceptance_length == pytest.approx(2.25)
    assert found.speculation.tokens_per_step == pytest.approx(1.5)
    assert said(found, "60% of the steps had no draft")


def test_no_speculation_configured_is_null_and_configured_but_idle_is_not() -> None:
    assert evidence(syn.page(syn.v1_engine())).speculation is None
    idle = evidence(syn.page(syn.v1_engine(speculation=ngram(0, 0, [0, 0]))))
    assert idle.speculation is not None
    assert idle.speculation.enabled
    assert idle.speculation.acceptance_length is None
    assert idle.speculation.per_position == ()
    assert said(idle, "drafted nothing yet")


def test_an_idle_window_falls_back_to_totals_and_says_so() -> None:
    still = syn.page(syn.v1_engine(prompts=OLD, outputs=OLD, ttft=[0.05] * 4,
                                   speculation=ngram(100, 300, [50, 20, 10])))
    found = evidence(still, still)
    assert found.requests_in_window == 0
    assert found.prompt_tokens is not None
    assert found.prompt_tokens.mean == 100
    assert said(found, "no request finished in the window")
    assert found.speculation is not None
    assert found.speculation.drafts == 100
    assert said(found, "no draft in the window")
    assert found.ttft_ms is not None
    assert "since the server's start" in found.ttft_ms.note


def test_one_scrape_gives_totals_and_no_rates() -> None:
    found = evidence(synthetic_v1_0_32_pair()[1])
    assert found.window_s == 0
    assert found.request_rate_rps is None
    assert found.requests_in_window is None
    assert found.running is not None
    assert found.running.n == 1
    assert said(found, "one scrape only")


def test_an_unknown_window_gives_differences_and_no_rates() -> None:
    found = evidence(*synthetic_v1_0_32_pair(), window_s=0)
    assert found.requests_in_window == 6
    assert found.request_rate_rps is None


def test_a_restart_in_between_is_seen_in_the_counters_and_only_the_second_counts() -> None:
    before = syn.page(syn.v1_engine(outputs=OLD, prompts=OLD), start=None)
    after = syn.page(syn.v1_engine(outputs=NEW[:2], prompts=NEW[:2], running=7), start=None)
    found = evidence(before, after)
    assert said(found, "restarted")
    assert found.request_rate_rps is None
    assert found.requests_in_window is None
    assert found.output_tokens is not None
    assert found.output_tokens.mean == 30
    assert found.running is not None
    assert found.running.value == 7


def test_a_restart_is_seen_in_the_start_time_even_when_counters_rose() -> None:
    before = syn.page(syn.v1_engine(outputs=OLD[:1], prompts=OLD[:1]))
    after = syn.page(syn.v1_engine(outputs=NEW, prompts=NEW), start=syn.BORN + 60)
    found = evidence(before, after)
    assert said(found, "restarted")
    assert found.output_tokens is not None
    assert found.output_tokens.mean == 30


def test_a_load_balancer_that_alternates_servers_is_said() -> None:
    found = evidence(syn.page(syn.v1_engine(), start=syn.BORN + 500), syn.page(syn.v1_engine(), start=syn.BORN))
    assert said(found, "load balancer")


def test_a_series_that_vanished_is_a_restart() -> None:
    found = evidence(syn.page(syn.v1_engine(outputs=OLD, model="a"), start=None),
                     syn.page(syn.v1_engine(outputs=OLD, model="b"), start=None))
    assert said(found, "restarted")


def test_several_engines_are_summed_and_kv_use_is_averaged() -> None:
    before = syn.page(syn.v1_engine(outputs=OLD, engine="0"), syn.v1_engine(outputs=OLD, engine="1"))
    after = syn.page(syn.v1_engine(outputs=OLD + NEW, running=3, kv=0.2, engine="0"),
                     syn.v1_engine(outputs=OLD + NEW, running=5, kv=0.6, engine="1"))
    found = evidence(before, after)
    assert found.engines == 2
    assert found.requests_in_window == 12
    assert found.running is not None
    assert found.running.high == 8
    assert found.kv_cache_usage is not None
    assert found.kv_cache_usage.high == pytest.approx(0.4)


def test_several_models_are_counted_together_and_said_until_one_is_chosen() -> None:
    page = syn.page(syn.v1_engine(running=3, model="a", prompts=OLD, outputs=OLD),
                    syn.v1_engine(running=5, model="b", prompts=NEW, outputs=NEW))
    both = evidence(page)
    assert both.models == ("a", "b")
    assert both.running is not None
    assert both.running.value == 8
    assert said(both, "--model")
    one = evidence(page, model="b")
    assert one.models == ("b",)
    assert one.running is not None
    assert one.running.value == 5
    assert one.output_tokens is not None
    assert one.output_tokens.mean == 30
    with pytest.raises(InputError, match="a, b"):
        evidence(page, model="c")


def test_v0_names_give_the_same_quantities() -> None:
    before = syn.page(syn.v0_engine(running=1, swapped=0, prompts=OLD, outputs=OLD, accepted=50, emitted=90,
                                    draft_tokens=100))
    after = syn.page(syn.v0_engine(running=3, swapped=2, prompts=OLD + NEW, outputs=OLD + NEW, accepted=110,
                                   emitted=190, draft_tokens=220))
    found = evidence(before, after)
    assert found.kv_cache_usage is not None
    assert found.kv_cache_usage.value == 0.5
    assert found.waiting is not None
    assert found.waiting.value == 2
    assert "swapped" in found.waiting.note
    assert found.prefix_cache_hit_rate is None
    assert found.speculation is not None
    assert found.speculation.drafts == 40
    assert found.speculation.acceptance_length == pytest.approx(2.5)
    assert found.speculation.per_position == ()
    assert said(found, "V0 engine")


def test_v1_names_of_0_10_give_kv_use_and_prefix_hits() -> None:
    text = syn.page(syn.v1_engine(kv=0.3, queries=10, hits=4, outputs=NEW, gaps=[0.02] * 6))
    text = text.replace("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
    text = text.replace("vllm:prefix_cache_", "vllm:gpu_prefix_cache_")
    text = text.replace("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
    found = evidence(text)
    assert found.kv_cache_usage is not None
    assert found.kv_cache_usage.value == 0.3
    assert found.prefix_cache_hit_rate == pytest.approx(0.4)
    assert found.tpot_ms is not None
    assert found.tpot_ms.value == pytest.approx(20)


def test_gaps_of_a_speculating_stream_are_spread_over_their_tokens() -> None:
    """10 gaps of 60 ms carried 30 tokens after the first: 20 ms a token, not 60."""
    before = syn.page(syn.v1_engine(speculation=ngram(0, 0, [0, 0]), generation=0))
    after = syn.page(syn.v1_engine(speculation=ngram(10, 20, [10, 10]), generation=31, ttft=[0.1], gaps=[0.06] * 10))
    found = evidence(before, after)
    assert found.tpot_ms is not None
    assert found.tpot_ms.value == pytest.approx(20)


def test_sglang_gives_the_common_part() -> None:
    found = evidence(syn.page(syn.sglang(ranks=2, length=2.5)))
    assert found.engine == "sglang"
    assert found.running is not None
    assert found.waiting is not None
    assert (found.running.value, found.waiting.value) == (12, 3)
    assert found.prompt_tokens is not None
    assert found.prompt_tokens.mean == 400
    assert found.output_tokens is not None
    assert found.output_tokens.p50 is None
    assert found.speculation is not None
    assert found.speculation.acceptance_length == 2.5
    assert found.speculation.drafts == 0
    assert said(found, "no draft counters")
    assert found.prefix_cache_hit_rate == pytest.approx(0.1)


@pytest.mark.parametrize(("positions", "draft_tokens", "words"), [
    ([200.0, 0.0, 0.0], 600.0, "none at any later one"),
    ([200.0, 190.0, 180.0], 300.0, "570 tokens accepted of 300 drafted"),
    ([100.0, 190.0, 10.0], 600.0, "position 2 was accepted 190 times, position 1 before it 100"),
    ([250.0, 100.0, 10.0], 600.0, "position 1: 250 accepted of 200 drafted"),
])
def test_counters_that_cannot_be_are_said_and_give_no_acceptance(positions: list[float], draft_tokens: float,
                                                                 words: str) -> None:
    before = syn.page(syn.v1_engine(speculation=ngram(0, 0, [0, 0, 0]), generation=0))
    after = syn.page(syn.v1_engine(speculation=ngram(200, draft_tokens, positions), generation=1000))
    found = evidence(before, after)
    assert any(words in item.message for item in found.implausible)
    assert found.speculation is not None
    assert (found.speculation.per_position, found.speculation.acceptance_length) == ((), None)
    assert found.speculation.accepted_tokens == sum(positions)


def test_totals_steps_and_latencies_are_of_the_window() -> None:
    found = evidence(*synthetic_v1_0_32_pair())
    assert (found.prompt_tokens_total, found.output_tokens_total, found.requests_total) == (180, 180, 6)
    assert found.engine_steps == 0
    alone = evidence(synthetic_v1_0_32_pair()[1])
    assert (alone.output_tokens_total, alone.requests_total, alone.engine_steps) == (580, 10, 1)


def test_counts_of_a_window_without_a_draft_are_marked_as_not_of_the_window() -> None:
    idle = syn.page(syn.v1_engine(outputs=OLD, speculation=ngram(100, 300, [50, 20, 10])))
    found, moving = evidence(idle, idle), evidence(*synthetic_v1_0_32_pair())
    assert found.speculation is not None
    assert moving.speculation is not None
    assert not found.speculation.in_window
    assert moving.speculation.in_window


def test_parts_of_a_window_that_differ_show_in_the_dispersion() -> None:
    def pages(accepted: Sequence[float]) -> list[str]:
        total, found = 0.0, []
        for number, more in enumerate([0.0, *accepted]):
            total += more
            found.append(syn.page(syn.v1_engine(outputs=OLD, generation=1000 * number, speculation=ngram(
                200 * number, 200 * number, [total]))))
        return found

    even, uneven = evidence(*pages([100] * 6)), evidence(*pages([20, 180] * 3))
    few = evidence(*pages([20, 180]))
    assert even.speculation is not None
    assert uneven.speculation is not None
    assert few.speculation is not None
    assert even.speculation.dispersion == pytest.approx(0)
    # Variance of a half-accepted token is 1/4: six parts of 200 drafts, each 0.4 from the mean.
    assert uneven.speculation.dispersion == pytest.approx(6 * 200 * 0.4**2 / 0.25 / 5)
    assert few.speculation.dispersion is None


def test_a_release_that_does_not_count_drafts_still_tells_tokens_per_step() -> None:
    text = syn.page([*syn.gauge("vllm:num_requests_running", 2), *syn.counter("vllm:generation_tokens_total", 500),
                     *syn.counter("vllm:spec_decode_num_accepted_tokens_total", 55),
                     *syn.counter("vllm:spec_decode_num_draft_tokens_total", 100)])
    found = evidence(text)
    assert found.speculation is not None
    assert found.speculation.acceptance_length is None
    assert found.speculation.tokens_per_step == pytest.approx(500 / 445)
    assert said(found, "does not count its drafts")


@pytest.mark.parametrize("position", ["999999999", "²", "-1", "one"])
def test_a_position_that_is_none_is_left_out(position: str) -> None:
    text = syn.page(syn.v1_engine(outputs=OLD, speculation=ngram(100, 200, [50, 20])))
    text += syn.line("vllm:spec_decode_num_accepted_tokens_per_pos_total", 7, engine="0", model_name=syn.MODEL,
                     position=position) + "\n"
    found = evidence(text)
    assert found.speculation is not None
    assert found.speculation.per_position == pytest.approx((0.5, 0.2))
