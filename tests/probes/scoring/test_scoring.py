"""From what models answer to acceptance; the answers are synthetic, the real models run in tests/engine."""

import json

import pytest

from probes.replay.recordings import Recordings
from probes.replay.tokens import TokenRequest, TokenRequests
from probes.scoring import Plan, SampledAs, probe_scoring
from probes.scoring import probe as module
from probes.trial.engine_errors import EngineFailure
from profiles.errors import EngineError
from profiles.evidence import ArmStatus
from profiles.workload import Task

OUTPUT = [10, 11, 12, 13, 14, 15, 16]


class Model:
    """Answers like the scoring child of one model; `wrong` are offsets of its choices that differ from the record."""

    def __init__(self, wrong=(), share=0.5, written=None):
        self.wrong, self.share, self.written, self.calls = wrong, share, written, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def _own(self, ids, prompt):
        return [0 if t in self.wrong else token for t, token in enumerate(ids[prompt + 1 :])]

    def call(self, cmd, **fields):
        json.dumps(fields)
        self.calls.append(cmd)
        if cmd == "generate":
            return [self.written[:length] for length in fields["lengths"]]
        own = [self._own(ids, prompt) for ids, prompt in fields["requests"]]
        return own if cmd == "choices" else {
            "own": own, "chances": [[[self.share] * len(one) for one in own] for _ in fields["choices"]]}


@pytest.fixture
def models(monkeypatch):
    named = {}

    def start(self, name):
        if isinstance(named[name], Exception):
            raise named[name]
        return named[name]

    monkeypatch.setattr(module._Models, "start", start)
    return named


def requests(n=3, temperature=None):
    rows = [TokenRequest((1, 2, *OUTPUT), 2, Task.CODE) for _ in range(n)]
    return TokenRequests(rows, Recordings(), ("r.jsonl",), (), temperature, [])


def plan(*drafts, **more):
    return Plan(drafts, {name: f"/nowhere/{name}" for name in ("t", *drafts)}, "t", "transformers", most=3, **more)


def test_first_choices_give_every_k(models):
    models.update(t=Model(), d=Model(wrong=(2,)))
    found = probe_scoring(requests(), plan("d"))
    # Offsets 0 to 5; offset 2 is wrong. k=1: steps at 0, 2, 3, 5 accept 1, 0, 1, 1.
    assert found.curves[0].by_k[0].acceptance_length.value == pytest.approx(1.75)
    # k=3: steps at 0 and 3 accept 2 of 3, 3 of 3.
    assert found.curves[0].by_k[2].per_position == (1.0, 1.0, 0.5)
    assert (found.tier, found.of_target, found.lower_bound) == ("scoring", True, False)


def test_drafts_are_ranked_by_their_acceptance(models):
    models.update(t=Model(), good=Model(), bad=Model(wrong=range(9)))
    best = [b for b in probe_scoring(requests(), plan("bad", "good")).best if b.task is None]
    assert {b.draft for b in best} == {"good"}


def test_outputs_of_another_model_are_said_to_give_a_lower_bound(models):
    models.update(t=Model(wrong=(1, 3)), d=Model())
    found = probe_scoring(requests(), plan("d"))
    assert (found.of_target, found.lower_bound) == (False, True)
    assert found.target_agreement.value == pytest.approx(4 / 6)
    assert any("lower bound" in note for note in found.notes)


def test_a_target_that_was_not_asked_leaves_it_open(models):
    models.update(d=Model())
    found = probe_scoring(requests(), plan("d", check_target=False))
    assert (found.of_target, found.lower_bound) == (None, False)
    assert any("was not asked" in note for note in found.notes)


def test_a_target_that_samples_is_asked_for_its_probability_of_the_drafts_choice(models):
    models.update(t=Model(share=0.25), d=Model())
    found = probe_scoring(requests(temperature=0.7), plan("d", sampled=SampledAs(0.7)))
    assert found.curves[0].by_k[0].per_position == (0.25,)
    assert found.temperature == 0.7


def test_outputs_can_be_written_anew_by_the_target(models):
    models.update(t=Model(written=[20, 21, 22, 23]), d=Model())
    found = probe_scoring(requests(), plan("d", regenerate=True))
    assert models["t"].calls == ["generate"]
    assert (found.of_target, found.output_tokens.mean) == (True, 4)


def test_a_draft_that_fails_beside_others_is_a_note_and_alone_an_error(models):
    models.update(t=Model(), d=Model(), broken=EngineFailure(ArmStatus.REFUSED, "no such layer"))
    found = probe_scoring(requests(), plan("d", "broken"))
    assert [curve.draft for curve in found.curves] == ["d"]
    assert any("broken could not be scored: no such layer" in note for note in found.notes)
    with pytest.raises(EngineError, match="no such layer"):
        probe_scoring(requests(), plan("broken"))


def test_requests_longer_than_a_models_context_are_counted_out(models, tmp_path):
    models.update(t=Model(), d=Model())
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 10}')
    found = requests()
    found.requests.append(TokenRequest(tuple(range(20)), 4, Task.CODE))
    said = probe_scoring(found, Plan(("d",), {"t": "x", "d": str(tmp_path)}, "t", "transformers", most=2))
    assert said.requests == 3
    assert said.skipped == {"longer than the context of a model": 1}


def test_long_records_are_sent_in_parts(models, monkeypatch):
    models.update(t=Model(), d=Model(wrong=(2,)))
    whole = probe_scoring(requests(7), plan("d"))
    monkeypatch.setattr(module, "BATCH_TOKENS", 20)
    assert probe_scoring(requests(7), plan("d")).curves == whole.curves
    assert models["d"].calls == ["choices"] * 5
