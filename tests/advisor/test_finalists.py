"""A live trial is for the candidates that replay and scoring have not ruled out."""

from __future__ import annotations

from advisor.finalists import finalists
from profiles.schema import Quantity, Source
from tests.advisor.situations import gpu_situation, llama_1b
from tests.advisor.test_recorded_acceptance import curve, evidence, points

WINDOWS = [{"prompt_lookup_min": low, "prompt_lookup_max": 5} for low in (1, 2, 3)]
NGRAMS = [{"method": "ngram", "k": "1-3", "settings": window} for window in WINDOWS]
DRAFT = {"method": "draft_model", "draft": llama_1b().id, "k": "1-3"}


def picked(candidates, *items):
    situation = gpu_situation(evidence=items, candidates=candidates, concurrency=4)
    kept, left = finalists(situation, situation.candidates)
    return [c.label for c in kept], left


def test_of_settings_of_one_method_only_the_most_promising_is_run():
    kept, left = picked(NGRAMS, evidence(*(curve(settings=window) for window in WINDOWS)))
    assert len(kept) == 1
    assert all("differs by settings only" in why for why in left.values())
    assert len(left) == 2


def test_what_is_only_assumed_is_never_left_out():
    kept, left = picked([*NGRAMS, DRAFT])
    assert (len(kept), left) == (4, {})


def test_a_candidate_that_cannot_reach_the_best_one_is_left_out_with_both_figures():
    poor = curve("draft_model", llama_1b().id).model_copy(update={"by_k": points((1.01, 1.01, 1.01))})
    good = curve(settings=WINDOWS[0])
    kept, left = picked([NGRAMS[0], DRAFT], evidence(good), evidence(poor, tier="scoring"))
    assert len(kept) == 1
    (why,) = left.values()
    assert "by scoring it gains at most" in why


def test_the_first_one_stays_even_where_nothing_gains():
    nothing = points((1.0, 1.0, 1.0))
    flat = curve(settings=WINDOWS[0]).model_copy(update={"by_k": nothing})
    kept, left = picked([NGRAMS[0]], evidence(flat))
    assert (len(kept), left) == (1, {})


def test_a_length_without_an_interval_is_taken_as_it_is():
    plain = tuple(p.model_copy(update={"acceptance_length": Quantity(value=p.acceptance_length.value,
                                                                     source=Source.RECORDED)})
                  for p in points((1.6, 2.0, 2.25)))
    kept, _ = picked([NGRAMS[0]], evidence(curve(settings=WINDOWS[0]).model_copy(update={"by_k": plain})))
    assert len(kept) == 1
