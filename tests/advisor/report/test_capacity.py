"""The capacity plan in the report: charts, tables and sentences where the record has one, nothing where it has none."""

from __future__ import annotations

import json
import re

import pytest

from advisor.capacity.document import ArmPlan, CapacityPlan, Fleet, LoadPoint, Traffic
from advisor.record import Record
from advisor.report import render
from advisor.report.charts.capacity import fleet_chart, fleet_sentence, latency_chart, latency_sentence
from profiles.schema import modelled
from tests.advisor.report import synthetic_record as synthetic


def point(rate: float, ttft: float, sustained: bool = True) -> LoadPoint:
    return LoadPoint(
        arrival_rate_rps=rate, requests=4000, sustained=sustained, running=rate * 2, ttft_ms=ttft,
        ttft_p95_ms=ttft * 3, tpot_ms=ttft / 5, tpot_p95_ms=ttft / 4, latency_s=2.0, output_tokens_per_s=rate * 200,
        kv_usage=0.2, preemptions_per_request=0.0,
    )  # fmt: skip


def arm(label: str, role: str, k: int, last: LoadPoint) -> ArmPlan:
    fleets = tuple(
        Fleet(growth=g, peak_rate_rps=12 * g, replicas=g, replicas_low=g, replicas_high=g + 1, gpus=g,
              usd_per_month=2000.0 * g, usd_per_million_output_tokens=0.4, headroom=0.2)
        for g in range(1, 11)
    )  # fmt: skip
    return ArmPlan(
        label=label, role=role, k=k, acceptance_length=modelled(2.4), kv_tokens=400_000, contexts=(),
        curve=(point(4, 40), point(8, 50), last), saturation_rate_rps=20, saturation_bound_rps=21,
        highest_rate_rps=modelled(14, 12, 16), limited_by="tpot", fleets=fleets,
    )  # fmt: skip


PLAN = CapacityPlan(
    target=synthetic.TARGET, gpu="H100", gpus_per_replica=1, vllm_version="0.32.0", max_num_seqs=256,
    max_num_batched_tokens=8192,
    traffic=Traffic(usual_rate_rps=6, peak_rate_rps=12, prompt_tokens=900, output_tokens=250,
                    prefix_cache_hit_rate=0, burstiness=1, source="process"),
    ttft_ms=500, tpot_ms=None, recommended=synthetic.DRAFT_MODEL.label, decided=True, price="$2 an hour, assumed",
    arms=(arm("none", "null", 0, point(16, 900)),
          arm(synthetic.DRAFT_MODEL.label, "recommended", 3, point(16, 0, sustained=False))),
    assumptions=("no peak is stated <b>here</b>",), cost_source="modelled from facts", seed=0,
)  # fmt: skip


@pytest.fixture
def record() -> Record:
    return synthetic.enabled().model_copy(update={"capacity": PLAN})


def test_a_line_ends_where_the_engine_no_longer_keeps_up() -> None:
    rows = latency_chart(PLAN, "ttft_ms")["data"]["values"]
    assert [(r["arm"][:4], r["rate"]) for r in rows] == [("no s", 4), ("no s", 8), ("no s", 16),
                                                        ("draf", 4), ("draf", 8)]


def test_an_slo_is_a_line_only_where_it_is_stated() -> None:
    assert "SLO 500 ms" in json.dumps(latency_chart(PLAN, "ttft_ms"))
    assert "SLO" not in json.dumps(latency_chart(PLAN, "tpot_ms"))


def test_arms_are_compared_at_a_rate_that_all_of_them_keep_up_with() -> None:
    said = latency_sentence(PLAN, "ttft_ms")
    assert said.startswith("Time to first token at 8 requests per second")
    assert "900" not in said
    lost = PLAN.model_copy(update={"arms": (PLAN.arms[0].model_copy(update={"curve": ()}), PLAN.arms[1])})
    assert "No rate" in latency_sentence(lost, "ttft_ms")


def test_growth_runs_from_one_to_ten_and_not_by_its_letters() -> None:
    chart = fleet_chart(PLAN)
    assert chart["layer"][0]["encoding"]["x"]["sort"] == [str(n) for n in range(1, 11)]
    bare = PLAN.model_copy(update={"arms": tuple(a.model_copy(update={"fleets": ()}) for a in PLAN.arms)})
    assert fleet_chart(bare) is None
    assert "not answered" in fleet_sentence(bare)


def test_the_page_has_three_charts_more_each_with_its_table(record: Record) -> None:
    page, before = render(record, "html"), render(synthetic.enabled(), "html")
    assert 'id="capacity"' in page
    assert 'id="capacity"' not in before
    charts = re.findall(r'class="chart" data-spec="([^"]+)" role="img" aria-label="[^"]+"', page)
    assert [name for name in charts if name not in before] == ["rate-ttft", "rate-tpot", "fleet"]
    assert page.count("<details") == before.count("<details") + 3
    assert "queue grows" in page
    assert "<b>here" not in page


@pytest.mark.parametrize("name", ["text", "markdown"])
def test_other_formats_say_replicas_and_money(record: Record, name: str) -> None:
    text = " ".join(render(record, name).split())
    assert "1 (1 to 2), $2,000 a month" in text
    assert "Capacity" not in render(synthetic.enabled(), name)


def test_a_plan_that_could_not_be_simulated_says_so(record: Record) -> None:
    empty = record.model_copy(update={"capacity": PLAN.model_copy(update={"arms": ()})})
    page = render(empty, "html")
    assert 'id="capacity"' in page
    assert 'data-spec="fleet"' not in page
    for name in ("text", "markdown"):
        assert "not answered" in render(empty, name)
