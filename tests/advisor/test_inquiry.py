import random

from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.inquiry import PairedStop, finalist
from profiles.evidence import PairedBlock
from tests.advisor.situations import cpu_situation, cpu_trial


def pair(speedup: float, start: int = 0) -> PairedBlock:
    return PairedBlock(
        running=1,
        baseline_s=speedup,
        speculative_s=1.0,
        baseline_tokens=100,
        speculative_tokens=100,
        baseline_start=start,
    )


def test_it_never_stops_before_three_pairs() -> None:
    stop = PairedStop(0.05)
    assert stop([]) is None
    assert stop([pair(3.0), pair(3.0)]) is None
    assert stop([pair(3.0)] * 3) is not None


def test_a_clear_gain_and_a_clear_loss_end_it_with_the_reason() -> None:
    gain = PairedStop(0.05)([pair(s) for s in (1.49, 1.52, 1.50)])
    loss = PairedStop(0.05)([pair(s) for s in (0.92, 0.90, 0.93)])
    assert gain is not None
    assert gain.startswith("interval clear of the worthwhile gain")
    assert loss is not None
    assert loss.startswith("below the worthwhile gain")


def test_a_gain_near_the_threshold_goes_on() -> None:
    stop = PairedStop(0.05)
    assert stop([pair(s) for s in (1.03, 1.08, 1.04, 1.06, 1.05)]) is None


def test_a_gain_below_the_worthwhile_one_is_not_enough() -> None:
    assert PairedStop(0.05)([pair(1.3 + d) for d in (0, 0.005, -0.005)]) is not None
    reason = PairedStop(0.5)([pair(1.3 + d) for d in (0, 0.005, -0.005)])
    assert reason is not None
    assert reason.startswith("below")


def test_looking_again_does_not_find_a_gain_in_noise() -> None:
    # The true speed-up is the threshold itself: whichever side it stops on is wrong.
    generator = random.Random(7)
    stopped = 0
    for _ in range(200):
        pairs: list[PairedBlock] = []
        for _ in range(15):
            pairs.append(pair(1.05 * generator.lognormvariate(0.0, 0.03)))
            if PairedStop(0.05)(pairs) is not None:
                stopped += 1
                break
    assert stopped / 200 <= 0.2


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.3, 3.0), min_size=3, max_size=12))
def test_the_interval_holds_the_mean_of_any_pairs(speedups: list[float]) -> None:
    low, high = PairedStop(0.05).interval([pair(s) for s in speedups])
    product = 1.0
    for s in speedups:
        product *= s
    assert low <= product ** (1 / len(speedups)) * (1 + 1e-9)
    assert product ** (1 / len(speedups)) <= high * (1 + 1e-9)


def test_spread_between_engine_starts_counts() -> None:
    one_start = [pair(s) for s in (1.30, 1.31, 1.10, 1.11, 1.30, 1.31)]
    two_starts = [pair(p.speedup, start=0 if p.speedup > 1.2 else 1) for p in one_start]
    narrow, wide = PairedStop(0.05).interval(one_start), PairedStop(0.05).interval(two_starts)
    assert wide[1] / wide[0] > narrow[1] / narrow[0]


def test_a_block_without_tokens_is_passed_over() -> None:
    empty = PairedBlock(running=1, baseline_s=1, speculative_s=1, baseline_tokens=0, speculative_tokens=10)
    assert PairedStop(0.05)([empty, pair(2.0), pair(2.0)]) is None


# --- the finalist ---------------------------------------------------------------------------------------------------
def test_the_finalist_is_the_best_timed_cell_at_the_usual_load() -> None:
    found = finalist(cpu_situation(concurrency=1, tasks="code"), cpu_trial())
    assert found is not None
    assert found[0].method == "draft_model"
    assert found[1] == 5


def test_there_is_no_finalist_where_nothing_can_reach_the_worthwhile_gain() -> None:
    assert finalist(cpu_situation(concurrency=8, tasks="creative"), cpu_trial()) is None


def test_a_candidate_that_was_not_timed_cannot_be_the_finalist() -> None:
    trial = cpu_trial()
    untimed = trial.model_copy(update={"arms": (trial.arms[0], trial.arms[1].model_copy(update={"steps": ()}))})
    assert finalist(cpu_situation(concurrency=1, tasks="code"), untimed) is None
