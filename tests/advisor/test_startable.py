"""What is advised has to start: a candidate whose config the checklist refuses is one that cannot run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from advisor.advice import advise
from advisor.compatibility import incompatible
from advisor.record import Record
from advisor.report import render
from advisor.situation import Situation
from advisor.startable import deployment_errors, refused_configs
from profiles.catalog.models import find_model
from profiles.deployment import Candidate
from tests.advisor.situations import gpu_situation

NOW = "2026-01-01T00:00:00Z"
HEAD = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
SHORT = 2048
"""The head's own positions: before 0.27 a longer sequence overruns them."""


def with_head(version: str, others: list[dict[str, Any]] | None = None, **stated: Any) -> Situation:
    """Llama-3.1-8B with its EAGLE-3 head, whose window is shorter than the target's, on one H100."""
    candidates = [{"method": "eagle3", "draft": HEAD, "k": "1-5"}, *(others or [])]
    found = gpu_situation("H100", version=version, candidates=candidates,
                          **{"concurrency": 1, "tasks": "code", "sampling": {"temperature": 0}, **stated})
    target, head = find_model("meta-llama/Llama-3.1-8B-Instruct"), find_model(HEAD)
    assert target is not None
    assert head is not None
    drafts = {**found.drafts, HEAD: head.model_copy(update={"id": HEAD, "max_position_embeddings": SHORT})}
    return replace(found, target=target, drafts=drafts, runner="v1" if version < "0.29" else "v2")


def errors(record: Record) -> list[str]:
    assert record.checklist is not None
    return [finding.code for finding in record.checklist.findings if finding.severity == "error"]


def test_a_head_that_crashes_past_its_window_is_refused_in_the_rules_words() -> None:
    stated = with_head("0.26.0", engine={"runner": "v2"})
    (why,) = incompatible(replace(stated, runner="v2")).values()
    assert "SPD241" in why
    assert str(SHORT) in why
    assert "what helps: " in why
    assert incompatible(with_head("0.32.0")) == {}


def test_a_window_that_the_head_takes_lifts_the_refusal() -> None:
    assert incompatible(replace(with_head("0.26.0", engine={"runner": "v2", "max_model_len": SHORT}),
                                runner="v2")) == {}


def test_the_next_best_is_advised_and_the_refused_one_is_named_with_its_reason() -> None:
    stated = replace(with_head("0.26.0", [{"method": "ngram", "k": "1-5"}], engine={"runner": "v2"}), runner="v2")
    record = advise(stated, NOW)
    assert record.decision.method != "eagle3"
    assert errors(record) == []
    cells = [cell for cell in record.candidates if cell.candidate.method == "eagle3"]
    assert not any(cell.fits for cell in cells)
    for form in ("text", "markdown", "html"):
        assert "SPD241" in render(record, form)


@pytest.mark.parametrize("version", ["0.16.0", "0.20.0", "0.24.0", "0.26.0", "0.29.0", "0.32.0", "0.33.0"])
@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_on_and_an_error_in_its_own_checklist_never_stand_in_one_record(version: str, runner: str) -> None:
    others: list[dict[str, Any]] = [{"method": "ngram"}, {"method": "draft_model",
                                                         "draft": "meta-llama/Llama-3.2-1B-Instruct"}]
    stated = replace(with_head(version, others, engine={"runner": runner}), runner=runner)  # type: ignore[arg-type]
    record = advise(stated, NOW)
    assert record.decision.enable is not True or errors(record) == []


def test_an_error_that_only_the_final_config_shows_passes_the_choice_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule may speak at the k or load decided for only: what was chosen is looked at once more."""
    import advisor.checks.emitted as emitted

    stated = with_head("0.32.0", [{"method": "ngram", "k": "1-5"}])
    first = advise(stated, NOW)
    assert first.decision.enable
    real = emitted.check_text

    def late(text: str, env: Any, known: Any) -> Any:
        result = real(text, env, known)
        asked = yaml.safe_load(text).get("speculative-config") or {}
        if asked.get("method") != first.decision.method:
            return result
        finding = {"code": "SPD999", "severity": "error", "family": "x", "message": "It crashes at night.",
                   "remedy": "Sleep.", "where": "", "source": "invented"}
        return type(result).model_validate({**result.model_dump(), "findings": [finding], "verdict": "fail"})

    monkeypatch.setattr(emitted, "check_text", late)
    record = advise(stated, NOW)
    assert record.decision.method != first.decision.method
    assert errors(record) == []
    assert any("It crashes at night (SPD999)" in note for cell in record.candidates for note in cell.notes)


def test_a_deployment_that_starts_no_server_is_no_verdict_on_speculation() -> None:
    stated = with_head("0.32.0")
    broken = replace(stated, deployment=stated.deployment.model_copy(update={
        "engine": stated.deployment.engine.model_copy(update={"max_model_len": 262_144})}))
    assert any("SPD244" in sentence for sentence in deployment_errors(broken))
    # What the deployment itself gets wrong is no candidate's fault.
    assert refused_configs(broken, broken.candidates) == {}
    record = advise(broken, NOW)
    assert record.decision.enable is None
    assert record.decision.reasons[0].startswith("This deployment does not start as it is stated")
    assert "SPD244" in record.decision.reasons[0]


def test_a_method_that_the_release_cannot_write_is_refused_with_the_writers_sentence() -> None:
    stated = with_head("0.7.3")
    (why,) = refused_configs(stated, [Candidate(method="ngram")]).values()
    assert "has no speculative-config" in why
