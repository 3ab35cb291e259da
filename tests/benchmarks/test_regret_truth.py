"""The sweep's truth: steps stretched for seconds, or a machine slow for minutes, must not change which arm is best."""

from __future__ import annotations

import random
from typing import Any

from benchmarks.regret_truth import truth_of

TARGET_MS, PER_REQUEST_MS, PER_DRAFT_MS, PER_PASS_MS = 90.0, 4.0, 2.5, 18.0
LENGTH = {("none", 0): 1.0, ("draft", 1): 1.8, ("draft", 3): 2.9, ("draft", 5): 3.2, ("ngram", 3): 1.4}


def undisturbed_ms(arm: str, k: int, running: int, drafts: float) -> float:
    drafting = PER_PASS_MS * k if arm == "draft" else 0.0
    return TARGET_MS + PER_REQUEST_MS * running + PER_DRAFT_MS * drafts + drafting


def synthetic_row(arm: str, k: int, rng: random.Random) -> dict[str, Any]:
    """One start, a third of whose steps come in bursts that stretch them by up to a half."""
    cells = {}
    for task in ("code", "creative"):
        for running in (1, 8):
            steps: list[list[float | None]] = []
            stretched, slow = rng.random() < 0.3, rng.uniform(1.0, 1.3)
            for i in range(60):
                if i % 6 == 0:
                    stretched = rng.random() < 0.3
                drafts = k * running if arm != "ngram" else rng.choice((0, k * running))
                ms = undisturbed_ms(arm, k, running, drafts) * rng.uniform(1.0, 1.02) * slow
                burst = rng.uniform(1.2, 1.5) if stretched else 1.0
                beside_ms = undisturbed_ms("none", 0, running, 0.0) * slow * burst * rng.uniform(1.0, 1.02)
                steps.append([ms * burst, running, 0, 0, 0, drafts, 0, 100, None, beside_ms if i % 2 == 0 else None])
            tokens = 60 * running * LENGTH[arm, k]
            cells[f"{task}/{running}"] = {"output_tokens": tokens, "steps": steps}
    return {"arm": arm, "k": k, "cells": cells, "round": 0}


def test_bursts_and_slow_minutes_move_no_ratio_of_throughputs_by_more_than_a_few_percent() -> None:
    rng = random.Random(7)
    truth = truth_of([synthetic_row(arm, k, rng) for arm, k in LENGTH])
    for cell, arms in truth.tokens_per_s.items():
        running = int(cell.partition("/")[2])
        plain = arms["none", 0] * undisturbed_ms("none", 0, running, 0.0)
        for (arm, k), speed in arms.items():
            mean_drafts = k * running * (0.5 if arm == "ngram" else 1.0)
            expected = LENGTH[arm, k] / undisturbed_ms(arm, k, running, mean_drafts)
            assert abs(speed / plain / expected - 1.0) < 0.06, (cell, arm, k)
    assert truth.doubt < 0.15
