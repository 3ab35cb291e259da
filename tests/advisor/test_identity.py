"""Whether the server that answers is the one the record speaks of."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.identity import identity
from advisor.record import Record
from profiles.evidence import ServerEvidence
from tests.advisor import synthetic_readings as syn
from tests.advisor.report import synthetic_record as records

ON, OFF, OPEN = records.enabled(), records.off(), records.abstained()
K3 = syn.counters((0.7, 0.5, 0.4), 1000)


def verdicts(record: Record, server: ServerEvidence, named: str | None = None) -> dict[str, str]:
    return {one.code: one.verdict for one in identity(record, server, named)}


def test_the_server_of_the_record_is_recognised() -> None:
    assert verdicts(ON, syn.evidence(speculation=K3)) == {
        "engine": "held", "model": "held", "speculation": "held", "k": "held"}
    assert verdicts(OFF, syn.evidence()) == {"engine": "held", "model": "held", "speculation": "held"}


@pytest.mark.parametrize(("changes", "verdict"), [
    ({"models": ("/models/Target-8B-Instruct/",)}, "held"),
    ({"models": ("acme/Other-8B",)}, "broken"),
    ({"models": ("prod",)}, "noted"),
    ({"models": ("prod",), "model_roots": {"prod": "/data/target-8b-instruct"}}, "held"),
    ({"models": ("prod",), "model_roots": {"prod": "acme/Other-8B"}}, "broken"),
    ({"models": ()}, "noted"),
])
def test_a_model_is_told_by_where_it_was_loaded_from_or_by_its_name(changes: dict[str, Any], verdict: str) -> None:
    assert verdicts(ON, syn.evidence(speculation=K3, **changes))["model"] == verdict


def test_a_name_that_the_user_vouches_for_or_the_deployment_gave_is_the_model() -> None:
    aliased = syn.evidence(speculation=K3, models=("prod",))
    assert verdicts(ON, aliased, "prod")["model"] == "held"
    engine = ON.deployment.engine.model_copy(update={"extra_args": {"served-model-name": ["x", "prod"]}})
    stated = ON.model_copy(update={"deployment": ON.deployment.model_copy(update={"engine": engine})})
    assert verdicts(stated, aliased)["model"] == "held"


@pytest.mark.parametrize(("record", "server", "words"), [
    (ON, syn.evidence(), "runs without speculation"),
    (OFF, syn.evidence(speculation=K3), "turned it off"),
    (OPEN, syn.evidence(speculation=K3), "could not decide"),
], ids=["missing", "unwanted", "undecided"])
def test_speculation_on_where_it_should_be_off_or_off_where_it_should_be_on_is_broken(
        record: Record, server: ServerEvidence, words: str) -> None:
    one = next(p for p in identity(record, server) if p.code == "speculation")
    assert one.verdict == "broken"
    assert words in one.sentence


@pytest.mark.parametrize(("positions", "drafts", "verdict"), [
    ((0.7, 0.5), 100, "broken"), ((0.7, 0.5, 0.4, 0.3), 100, "broken"), ((0.7, 0.5, 0.4), 100, "held")])
def test_another_k_than_recorded_is_broken(positions: tuple[float, ...], drafts: float, verdict: str) -> None:
    assert verdicts(ON, syn.evidence(speculation=syn.counters(positions, drafts)))["k"] == verdict


@pytest.mark.parametrize(("drafted", "verdict"), [(290, "held"), (310, "broken")])
def test_without_positions_drafts_longer_than_k_tell_another_k(drafted: float, verdict: str) -> None:
    found = K3.model_copy(update={"per_position": (), "drafts": 100, "draft_tokens": drafted})
    assert verdicts(ON, syn.evidence(speculation=found))["k"] == verdict


def test_another_engine_is_broken_and_another_release_is_noted() -> None:
    assert verdicts(ON, syn.evidence(speculation=K3, engine="sglang"))["engine"] == "broken"
    assert verdicts(ON, syn.evidence(speculation=K3, engine_version="0.33.0"))["release"] == "noted"
    assert "release" not in verdicts(ON, syn.evidence(speculation=K3, engine_version="0.32.0+cpu"))
