"""How a plan speaks of its arms: names that fit, tell arms apart, and say what they stand for."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.capacity.document import ArmPlan, CapacityPlan, ContextRoom, LoadPoint, Role, Traffic, Variant
from advisor.capacity.text import render_plan
from advisor.capacity.words import full_name, rates_said, short_names, why_k
from profiles.schema import modelled

LONG = "draft_model A-very-long-name-of-a-model-that-somebody-merged-and-quantized-{}-Instruct-GPTQ-Int4"
SCHEDULE = ((1, 8, 3), (9, 64, 0))


def arm(label: str, k: int = 3, role: Role = "named", **more: object) -> ArmPlan:
    point = LoadPoint(arrival_rate_rps=4.2, requests=400, sustained=True, running=8, ttft_ms=40, ttft_p95_ms=90,
                      tpot_ms=8, tpot_p95_ms=9, latency_s=2, output_tokens_per_s=800, kv_usage=0.2,
                      preemptions_per_request=0)
    return ArmPlan(label=label, role=role, k=k, acceptance_length=modelled(2.4), kv_tokens=400_000,
                   contexts=(ContextRoom(percentile="mean", context_tokens=1150, max_concurrency=256),),
                   curve=(point,), saturation_rate_rps=20, saturation_bound_rps=21,
                   highest_rate_rps=modelled(14, 12, 16), limited_by="tpot", **more)


def plan(*arms: ArmPlan, what_if: tuple[Variant, ...] = ()) -> CapacityPlan:
    return CapacityPlan(
        target="t", gpu="H100", gpus_per_replica=1, vllm_version="0.32.0", max_num_seqs=256,
        max_num_batched_tokens=8192, ttft_ms=None, tpot_ms=20, recommended="none", decided=True, price="none",
        traffic=Traffic(usual_rate_rps=6, peak_rate_rps=12, prompt_tokens=900, output_tokens=250,
                        prefix_cache_hit_rate=0, burstiness=1, source="process"),
        arms=(arm("none", 0, "null"), *arms), what_if=what_if, cost_source="modelled", seed=0)


def test_a_method_that_stands_alone_is_name_enough() -> None:
    found = short_names(plan(arm(LONG.format("1")), arm("ngram")))
    assert set(found.of_label.values()) == {"draft_model", "ngram"}
    assert found.legend == ()


def test_drafts_of_one_method_get_letters_that_the_legend_explains() -> None:
    drafts = [LONG.format(n) for n in range(3)]
    found = short_names(plan(*map(arm, drafts), arm("ngram min=2"), arm("ngram min=4")))
    assert [found.of_label[label] for label in drafts] == ["draft_model A", "draft_model B", "draft_model C"]
    assert found.of_label["ngram min=2"] == "ngram min=2"
    assert found.legend == tuple(f"{letter}: {label}" for letter, label in zip("ABC", drafts, strict=True))


def test_a_letter_means_the_same_draft_in_the_what_ifs() -> None:
    other = Variant(change="draft=x", recommended="none", gpus_per_replica=1, price="none",
                    arms=(arm("none", 0, "null"), arm(LONG.format("other"))))
    text = render_plan(plan(arm(LONG.format("own")), what_if=(other,)))
    assert "draft_model A k=3" in text
    assert "draft_model B k=3" in text
    assert "A: draft_model" in text


@given(st.lists(st.text(min_size=1, max_size=90), min_size=1, max_size=40, unique=True))
def test_short_names_are_never_two_of_a_kind(drafts: list[str]) -> None:
    found = short_names(plan(*(arm(f"draft_model {draft}") for draft in drafts)))
    labels = set(found.of_label)
    letters = [name for label, name in found.of_label.items() if name != label]
    assert len(letters) == len(set(letters))
    assert len(labels) == len(drafts)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_ten_candidates_with_long_names_make_tables_that_can_be_read(width: int) -> None:
    arms = [arm(LONG.format(n), k=n % 5 + 1) for n in range(10)]
    text = render_plan(plan(*arms), width=width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    table = text[text.index("One replica"):text.index("Against the arrival rate")]
    # No column is so narrow that its numbers are broken apart.
    for whole in ("14 (12 to 16)", "400,000", "2.40", "named"):
        assert table.count(whole) >= 10, whole
    assert table.count("saturates at") >= 4
    for n in range(10):
        assert re.search(rf"draft_model {chr(65 + n)} k={n % 5 + 1}", text)
    assert [letter for letter in "ABCDEFGHIJ" if f"· {letter}: draft_model" not in text] == []


# --- why k is what it is ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("of", "part"), [
    (arm("ngram", schedule=SCHEDULE, role="recommended"), "k follows the load, because verifying"),
    (arm("ngram"), "k=3 at every load, because no other k is better"),
    (arm("ngram", hurts_from_running=2), "because it gains at no k from the usual load on"),
    (arm("ngram", avoiding_schedule=SCHEDULE), "its best at the usual load; the schedule that would avoid a loss"),
    (arm("ngram", avoiding_schedule=SCHEDULE, role="undecided"), "which is not decided"),
    (arm("ngram", avoiding_schedule=SCHEDULE, role="not recommended"), "speculation is not advised"),
    (arm("ngram", avoiding_schedule=SCHEDULE, schedule_note="the V1 runner", role="undecided"),
     "would not be followed here (the V1 runner)"),
])
def test_why_an_arm_has_its_k_is_one_sentence_and_stands_in_the_text(of: ArmPlan, part: str) -> None:
    assert part in why_k(of)
    assert f"{full_name(of)}: {why_k(of)}" in " ".join(render_plan(plan(of)).split())


def test_no_speculation_has_no_k_to_explain() -> None:
    assert why_k(arm("none", 0, "null")) == ""
    assert full_name(arm("none", 0, "null")) == "no speculation"


def test_a_plan_says_what_its_rates_are() -> None:
    said = rates_said(plan(arm("ngram")))
    assert said == ("simulated rates are those of one replica, from a tenth of the most that any arm holds (20 "
                    "requests per second) up to that; the deployment's own usual rate, all replicas together, is 6 and "
                    "its peak 12")
    assert rates_said(plan().model_copy(update={"arms": ()})) == ""
