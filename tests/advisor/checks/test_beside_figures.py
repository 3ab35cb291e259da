"""Rules of thumb that a report prints beside its own figures: they claim no more than they know, and give way to what
was counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from advisor.checks.examples import subject_of
from advisor.checks.finding import Finding
from advisor.checks.registry import all_rules
from advisor.checks.rule import Example
from advisor.checks.run import check
from profiles.evidence import Evidence
from profiles.recorded import AcceptanceCurve, AcceptancePoint, RecordedAcceptance
from profiles.schema import Quantity, Source

RULES = {rule.code: rule for rule in all_rules()}
NGRAM = "\nspeculative-config:\n  method: ngram\n  num_speculative_tokens: 3\n"
WINDOW = "  prompt_lookup_min: 2\n  prompt_lookup_max: 4\n"
CHAT = Example("model: Qwen/Qwen3-8B" + NGRAM + WINDOW, workload={"task": "chat"})


def findings(code: str, example: Example, evidence: tuple[Evidence, ...] = ()) -> list[Finding]:
    return [f for f in check(replace(subject_of(example), evidence=evidence)).findings if f.code == code]


def replay(share: float, **settings: Any) -> tuple[Evidence, ...]:
    def q(value: float) -> Quantity:
        return Quantity(value=value, source=Source.RECORDED)

    points = tuple(AcceptancePoint(k=k, acceptance_length=q(1.5), per_position=(0.2,) * k, matched_share=q(share),
                                   drafted_tokens=1.0, steps=100) for k in (1, 2, 3))
    curve = AcceptanceCurve(method="ngram", settings=settings or {"prompt_lookup_min": 2, "prompt_lookup_max": 4},
                            requests=9, by_k=points)
    section = RecordedAcceptance(tier="replay", files=("r.jsonl",), requests=9, curves=(curve,))
    return (Evidence(kind="replay", collected_at="2026-01-01T00:00:00Z", tool_version="0", command="specadvise probe",
                     replay=section),)


def test_lookup_for_texts_that_repeat_little_gives_way_to_a_replay_that_says_they_repeat() -> None:
    assert len(findings("SPD603", CHAT)) == 1
    assert findings("SPD603", CHAT, replay(0.64)) == []
    (found,) = findings("SPD603", CHAT, replay(0.22))
    assert "22 % of the steps find a draft" in found.message


def test_a_replay_of_another_window_says_nothing_of_this_one() -> None:
    (found,) = findings("SPD603", CHAT, replay(0.64, prompt_lookup_min=8, prompt_lookup_max=9))
    assert "repeat little" in found.message


@pytest.mark.parametrize("load", [200, 256])
def test_the_roofline_names_where_gains_shrink_and_asserts_no_loss(load: int) -> None:
    (found,) = findings("SPD424", replace(RULES["SPD424"].fails, workload={"concurrency": load}))
    assert "loses" not in found.message
    assert "gain in throughput shrinks" in found.message
    assert "does not price" in found.message
