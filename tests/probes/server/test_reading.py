"""Reading one metrics page: which engine it is, which names it uses, and what is no metrics page at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.server.reading import read_metrics
from profiles.errors import InputError, ProbeError
from tests.probes.server import synthetic_pages as syn


def test_prefix_and_total_are_taken_off_and_created_series_left_out() -> None:
    scrape = read_metrics(syn.page(syn.v1_engine(outputs=[10])), "page")
    assert scrape.names.engine == "vllm"
    names = {s.name for s in scrape.series}
    assert {"generation_tokens", "num_requests_running", "request_generation_tokens_count"} <= names
    assert not any(name.endswith("_created") for name in names)
    assert max(s.value for s in scrape.series) < syn.BORN
    assert scrape.process_start_s == syn.BORN


def test_a_histogram_whose_own_name_ends_in_total_keeps_its_parts() -> None:
    scrape = read_metrics(syn.page(syn.v1_engine()), "page")
    assert {s.name for s in scrape.series if "iteration" in s.name} == {
        "iteration_tokens_total_bucket", "iteration_tokens_total_count", "iteration_tokens_total_sum"}


@pytest.mark.parametrize("prefix", ["vllm_", "ray_vllm_", "ray_vllm:"])
def test_prefixes_rewritten_by_collectors_are_the_same_engine(prefix: str) -> None:
    text = syn.page(syn.v1_engine(running=3)).replace("vllm:", prefix)
    scrape = read_metrics(text, "page")
    assert scrape.names.engine == "vllm"
    assert [s.value for s in scrape.named(("num_requests_running",))] == [3.0]


def test_counters_without_total_are_the_same_counters() -> None:
    text = syn.page(syn.v1_engine(outputs=[10, 20])).replace("vllm:generation_tokens_total", "vllm:generation_tokens")
    assert [s.value for s in read_metrics(text, "page").named(("generation_tokens",))] == [30.0]


def test_ranks_of_one_sglang_engine_are_read_once() -> None:
    scrape = read_metrics(syn.page(syn.sglang(ranks=4)), "page")
    assert scrape.names.engine == "sglang"
    assert [s.value for s in scrape.named(("num_running_reqs",))] == [12.0]


def test_values_that_are_no_number_are_left_out() -> None:
    text = syn.page(syn.v1_engine()) + 'vllm:num_requests_running{engine="1",model_name="m"} NaN\n'
    assert len(read_metrics(text, "page").named(("num_requests_running",))) == 1


def test_a_last_line_cut_in_the_middle_is_dropped_and_said() -> None:
    whole = syn.page(syn.v1_engine(running=3))
    scrape = read_metrics(whole + 'vllm:num_requests_wai{engine="0",mod', "page")
    assert [s.value for s in scrape.named(("num_requests_running",))] == [3.0]
    assert "cut" in scrape.notes[0]


@pytest.mark.parametrize(("text", "says"), [
    ("", "empty"),
    (" \n\n", "empty"),
    ("<!DOCTYPE html><html><body>Login</body></html>", "web page"),
    ('{"detail":"Unauthorized"}', "JSON"),
    ("\x1f\x8b\x08binary", "compressed"),
    ("this is { not a metric\nat all\n", "not Prometheus text"),
    ("# just a comment\n", "no metric"),
    ('tgi_request_count{a="b"} 1\nprocess_cpu_seconds_total 3\n', "none of them of vLLM or SGLang"),
    ('trtllm:requests{a="b"} 1\n', "metrics of trtllm"),
])
def test_what_is_no_metrics_page_is_one_clear_sentence(text: str, says: str) -> None:
    for failure in (ProbeError, InputError):
        with pytest.raises(failure, match=says) as caught:
            read_metrics(text, "http://h:1/metrics", failure=failure)
        assert "http://h:1/metrics" in str(caught.value)
        assert "\n" not in str(caught.value)


OPEN_METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2.0 1520879607.789
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{engine="0",model_name="m"} 100.0 # {trace_id="a # {b"} 0.67
vllm:generation_tokens_created{engine="0",model_name="m"} 1.5e9
# TYPE vllm:e2e_request_latency_seconds histogram
# UNIT vllm:e2e_request_latency_seconds seconds
vllm:e2e_request_latency_seconds_bucket{engine="0",model_name="m",le="1.0"} 3 # {trace_id="c"} 0.5 1520879607.789
vllm:e2e_request_latency_seconds_bucket{engine="0",model_name="m",le="+Inf"} 3
vllm:e2e_request_latency_seconds_count{engine="0",model_name="m"} 3
# EOF
"""


def test_openmetrics_with_exemplars_timestamps_and_births_reads_like_the_plain_page() -> None:
    scrape = read_metrics(OPEN_METRICS, "page")
    values = {s.name: s.value for s in scrape.series if s.label("le") in (None, "+Inf")}
    assert values == {"num_requests_running": 2, "generation_tokens": 100, "e2e_request_latency_seconds_bucket": 3,
                      "e2e_request_latency_seconds_count": 3}


def test_a_name_in_quotes_is_prometheus_text_and_no_json() -> None:
    scrape = read_metrics('{"vllm:num_requests_running",model_name="m"} 2\n', "page")
    assert [s.value for s in scrape.named(("num_requests_running",))] == [2.0]


@pytest.mark.parametrize("head", [
    "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\nserver: uvicorn\r\n\r\n",
    "HTTP/1.1 307 Temporary Redirect\nlocation: /metrics/\n\nHTTP/1.1 200 OK\ncontent-type: text/plain\n\n",
])
def test_headers_saved_with_the_page_are_no_part_of_it(head: str) -> None:
    page = syn.page(syn.v1_engine(running=3))
    assert read_metrics(head + page, "page").series == read_metrics(page, "page").series


def test_what_a_terminal_put_around_the_page_is_left_out_and_said() -> None:
    page = syn.page(syn.v1_engine(running=3))
    scrape = read_metrics(f"$ curl -s localhost:8000/metrics\n{page}operator@host:~$ exit\n", "page")
    assert scrape.series == read_metrics(page, "page").series
    assert "before or behind" in scrape.notes[0]


def test_a_damaged_line_between_metrics_is_refused_since_it_may_have_been_a_count() -> None:
    lines = syn.page(syn.v1_engine()).splitlines()
    lines.insert(len(lines) // 2, "vllm:spec_decode_num_dra lost lost")
    with pytest.raises(ProbeError, match="not Prometheus text"):
        read_metrics("\n".join(lines) + "\n", "page")


def test_headers_of_a_web_page_make_it_no_metrics_page() -> None:
    with pytest.raises(ProbeError, match="web page"):
        read_metrics("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html></html>", "page")


FLOATS = "\n".join(line if line.startswith("#") or "." in line.rpartition(" ")[2] or "e" in line.rpartition(" ")[2]
                   else line + ".0" for line in syn.page(syn.v1_engine(
                       running=12, prompts=[50.0] * 40, outputs=[321.0] * 40, ttft=[0.05] * 40)).splitlines()) + "\n"
"""A page as an engine writes it: every value a float."""
WHOLE = {(s.name, s.labels): s.value for s in read_metrics(FLOATS, "page").series}


@given(st.integers(0, len(FLOATS)))
def test_a_page_cut_anywhere_is_read_as_far_as_it_goes_or_refused_never_misread(cut: int) -> None:
    try:
        scrape = read_metrics(FLOATS[:cut], "page")
    except ProbeError:
        return
    assert all(WHOLE[s.name, s.labels] == s.value for s in scrape.series)


def test_a_number_cut_short_is_no_smaller_number() -> None:
    stop = FLOATS.index("vllm:generation_tokens_total{") + len('vllm:generation_tokens_total{engine="0",model_name="')
    stop = FLOATS.index("} ", stop) + 4
    scrape = read_metrics(FLOATS[:stop], "page")
    assert scrape.named(("generation_tokens",)) == ()
    assert any("cut" in note for note in scrape.notes)


def test_a_last_line_without_its_newline_is_whole_where_the_page_writes_whole_numbers() -> None:
    text = 'vllm:num_requests_running{model_name="m"} 3\nvllm:num_requests_waiting{model_name="m"} 12'
    assert [s.value for s in read_metrics(text, "page").named(("num_requests_waiting",))] == [12.0]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "1e400"])
@pytest.mark.parametrize("name", ["vllm:spec_decode_num_accepted_tokens_total", "vllm:generation_tokens_total"])
def test_a_count_that_is_no_number_is_refused_and_not_taken_for_none(name: str, value: str) -> None:
    text = f'vllm:num_requests_waiting{{model_name="m"}} 0\n{name}{{model_name="m"}} {value}\n'
    with pytest.raises(ProbeError, match=f"page: {name} is (nan|inf), which counts nothing"):
        read_metrics(text, "page")


def test_a_share_that_is_no_number_yet_is_left_out() -> None:
    text = 'vllm:num_requests_running{model_name="m"} 1\nvllm:gpu_prefix_cache_hit_rate{model_name="m"} NaN\n'
    assert [one.name for one in read_metrics(text, "page").series] == ["num_requests_running"]


def test_a_page_that_was_pasted_twice_counts_once_and_says_so() -> None:
    once = syn.page(syn.v1_engine(outputs=[10, 20], running=2))
    later = syn.page(syn.v1_engine(outputs=[10, 20, 30], running=3))
    alone, twice, both = (read_metrics(text, "page") for text in (once, once + once, once + later))
    assert set(twice.series) == set(alone.series)
    assert alone.notes == ()
    assert "more than once" in twice.notes[0]
    assert [s.value for s in both.named(("generation_tokens",))] == [60.0]
    assert [s.value for s in both.named(("num_requests_running",))] == [3.0]
