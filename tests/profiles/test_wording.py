"""The few words that every room writes in the same way."""

from __future__ import annotations

import pytest

from profiles.deployment import spoken
from profiles.schema import as_sentence, counted


@pytest.mark.parametrize(("number", "said"), [
    (1, "1 running request"), (1.0, "1 running request"), (0, "0 running requests"), (2.5, "2.5 running requests"),
    (2500, "2,500 running requests")])
def test_one_is_not_many(number: float, said: str) -> None:
    assert counted(number, "running request") == said


def test_a_sentence_begins_large_and_the_engines_name_stays_as_it_is() -> None:
    assert as_sentence("the head does not fit") == "The head does not fit"
    assert as_sentence("vLLM 0.32.0 knows no key") == "vLLM 0.32.0 knows no key"
    assert as_sentence("") == ""
    for name in ("draft_model X takes room", "max-model-len 4,096 is written", "eagle3 X: its files"):
        assert as_sentence(name) == name


def test_the_null_candidate_is_spoken_of_in_words() -> None:
    assert (spoken("none"), spoken("ngram")) == ("no speculation", "ngram")
