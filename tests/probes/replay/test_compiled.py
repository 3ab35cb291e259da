"""The compiled loops give what the ones without a compiler give, draft for draft and step for step."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.replay import compiled
from probes.replay.compiled import FROM_TOKENS, loops, worth_compiling
from probes.replay.ngram import Corpus, NgramIndex
from probes.replay.walk import visited

numba = pytest.importorskip("numba")

IDS = st.one_of(st.lists(st.integers(0, 3), min_size=1, max_size=60),
                st.lists(st.sampled_from([0, 1, 2**31 - 1, 2**31 - 2, 151_643]), min_size=1, max_size=60))
WINDOWS = st.tuples(st.integers(1, 6), st.integers(0, 5)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@settings(deadline=None, max_examples=300)
@given(IDS, WINDOWS, st.integers(0, 70))
def test_every_source_is_the_same(ids: list[int], window: tuple[int, int], start: int) -> None:
    index = NgramIndex(ids)
    start = min(start, len(ids))
    assert index.sources(*window, start, loops()).tolist() == index.sources(*window, start).tolist()


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=12),
                          st.lists(st.integers(0, 3), min_size=2, max_size=40)), min_size=1, max_size=4),
       WINDOWS, st.integers(1, 8), st.none() | st.integers(1, 40))
def test_every_tally_is_the_same(texts: list[tuple[list[int], list[int]]], window: tuple[int, int], most: int,
                                 limit: int | None) -> None:
    requests = [(prompt + output, len(prompt)) for prompt, output in texts]
    plain, fast = (Corpus.of(requests, by).replay(*window, range(1, most + 1), limit) for by in (None, loops()))
    for one, other in zip(plain, fast, strict=True):
        for name in ("steps", "observed", "drafted", "accepted"):
            assert getattr(one, name).tolist() == getattr(other, name).tolist()


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=80))
def test_steps_begin_at_the_same_offsets(lengths: list[int]) -> None:
    skips = np.array([min(one, len(lengths) - 1 - place) for place, one in enumerate(lengths)])
    assert loops().visited(skips).tolist() == visited(skips).tolist()


def test_a_long_conversation_is_the_same_at_every_window() -> None:
    drawn = np.random.default_rng(3)
    stock = [drawn.integers(0, 49_000, drawn.integers(6, 24)) for _ in range(40)]
    ids = np.concatenate([stock[i] for i in drawn.integers(0, 40, 300)]).astype(np.int64)
    index = NgramIndex(ids)
    for low in range(1, 6):
        for high in range(low, 8):
            assert (index.sources(low, high, 100, loops()) == index.sources(low, high, 100)).all()


def test_little_text_is_not_worth_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worth_compiling(FROM_TOKENS)
    assert not worth_compiling(FROM_TOKENS - 1)
    monkeypatch.setattr(compiled.importlib.util, "find_spec", lambda name: None)
    assert not worth_compiling(FROM_TOKENS)
    assert importlib.util.find_spec("numba") is None
