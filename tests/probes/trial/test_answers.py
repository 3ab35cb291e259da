"""Times of a block's answers, from stated clocks: nothing here waits."""

from __future__ import annotations

import pytest

from probes.trial.answers import Answer, BlockRun, Chunk


def answer(sent: float, first: float, last: float, tokens: int) -> Answer:
    """One token at `first`, then the others evenly until `last`."""
    gap = (last - first) / (tokens - 1)
    chunks = tuple(Chunk(first + i * gap, i + 1, b"") for i in range(tokens))
    return Answer(0, 5, tokens, sent, first, last, chunks)


def test_full_load_decoding_is_told_apart_from_prefill_and_from_the_tail() -> None:
    # Both decode from 2 s (the second one's first token) to 5 s (the end of the first).
    block = BlockRun(8.0, (answer(0.0, 1.0, 5.0, 5), answer(0.0, 2.0, 8.0, 7)))
    seconds, tokens = block.at_full_load(2)
    assert seconds == pytest.approx(3.0)
    assert tokens == 3 + 3
    assert tokens < block.output_tokens


def test_answers_that_never_overlapped_have_no_time_at_full_load() -> None:
    block = BlockRun(6.0, (answer(0.0, 1.0, 2.0, 3), answer(3.0, 4.0, 6.0, 3)))
    assert block.at_full_load(2) == (0.0, 0)


def test_a_load_above_the_number_of_answers_means_all_of_them() -> None:
    block = BlockRun(3.0, (answer(0.0, 1.0, 3.0, 3),))
    assert block.at_full_load(8) == (2.0, 2)
