"""Correcting the model by a fleet's own comparisons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.cases.lines import predict_rows
from advisor.cases.model import shipped_model
from advisor.cases.own_fit import OwnPoint, model_with, points_of, refit
from profiles.errors import InputError
from profiles.evidence import Evidence, Implausibility, PairedBlock, PairedComparison
from tests.advisor.situations import cpu_trial

CASE = {"id": "a", "gpu": "H100", "target": "meta-llama/Llama-3.1-8B-Instruct", "method": "eagle3", "k": 3,
        "concurrency": 8, "mean_acceptance_length": 2.3, "prompt_len": 300, "output_len": 300}


def points(factor: float, n: int) -> list[OwnPoint]:
    """Comparisons of a fleet that is `factor` times what the model says."""
    cases = [{**CASE, "concurrency": 2**i} for i in range(n)]
    return [OwnPoint(case, row["speedup"] * factor, 0.02, "a")
            for case, row in zip(cases, predict_rows(cases), strict=True)]


def test_trials_that_agree_move_the_next_prediction_their_way(tmp_path: Path) -> None:
    saved = tmp_path / "fitted.json"
    saved.write_text(json.dumps(refit(points(0.8, 6), shipped_model())))
    before, after = (predict_rows([CASE], model)[0]["speedup"] for model in (None, model_with(str(saved))))
    assert 0.8 * before < after < 0.9 * before


def test_more_trials_move_it_further() -> None:
    few, many = (refit(points(0.8, n), shipped_model())["fleet"]["offset"] for n in (3, 9))
    assert many < few < 0


def test_too_few_trials_are_refused() -> None:
    with pytest.raises(InputError, match="at least 3"):
        refit(points(0.8, 2), shipped_model())


def test_a_file_that_is_no_refit_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(InputError, match="no refit"):
        model_with(str(other))


@pytest.mark.parametrize(("text", "part"), [
    ("[" * 10_000 + "]" * 10_000, "nested too deeply"), ("[" + "1," * 600_000 + "1]", "larger than"),
    ('{"schema": "specadvise-fit-1", "fleet": {"offset": NaN}}', "NaN"), ("{", "not JSON"),
    ('{"schema": "specadvise-fit-1", "fleet": {"offset": 0.1, "by_method": {"ngram": {}}}}',
     "is no refit of this tool"),
])
def test_a_refit_that_no_fit_wrote_is_one_sentence(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "fitted.json"
    path.write_text(text)
    with pytest.raises(InputError, match=part):
        model_with(str(path))


def test_counts_that_the_trial_distrusts_are_no_acceptance_of_its_case() -> None:
    """The comparison's times stand: they were measured whatever the counters say."""
    plain = cpu_trial()
    arm = plain.arms[1]
    pairs = (PairedBlock(running=1, baseline_s=10.0, speculative_s=8.0, baseline_tokens=100, speculative_tokens=100),)
    trial = plain.model_copy(update={"device": "H100", "comparison": PairedComparison(
        candidate=arm.candidate, k=5, running=1, mode="both_resident", pairs=pairs, stopped="clear")})
    finding = Implausibility(code="later_positions_never_accepted", arm=arm.candidate.label, severity="error",
                             message="counters stand still")
    lengths = [points_of(Evidence(kind="trial", collected_at="", tool_version="0", command="", trial=one))[0][0].case[
        "mean_acceptance_length"] for one in (trial, trial.model_copy(update={"implausible": (finding,)}))]
    assert lengths[0] is not None
    assert lengths[1] is None
