"""How suffix decoding's cache is driven; the cache is synthetic, arctic-inference's own runs in tests/engine."""

import sys
from types import SimpleNamespace

import pytest

from probes.replay import suffix as module
from probes.replay.probe import Plan, probe_replay
from probes.replay.suffix import replay_suffix
from probes.replay.tokens import token_requests
from profiles.errors import InputError
from profiles.methods import full_settings

SETTINGS = full_settings("suffix", {"suffix_decoding_max_tree_depth": 4})
ONE, TWO = ([1, 2, 3, 10, 11, 12, 13, 14, 15], 3), ([4, 20, 21, 22], 1)


class Cache:
    """Notes every call; proposes what `draft(request, context)` gives."""

    def __init__(self, draft):
        self.calls, self.draft, self.said = [], draft, {}

    def start_request(self, request, prompt):
        self.calls.append(("start", request))
        self.said[request] = prompt.tolist()

    def add_active_response(self, request, ids):
        self.calls.append(("add", request, ids.tolist()))
        self.said[request] += ids.tolist()

    def speculate(self, request, context, max_spec_tokens, max_spec_factor, min_token_prob):
        assert context.tolist() == self.said[request][-len(context) :]
        self.calls.append(("speculate", request))
        return SimpleNamespace(token_ids=self.draft(request, self.said[request])[:max_spec_tokens])

    def stop_request(self, request):
        self.calls.append(("stop", request))


@pytest.fixture
def cache(monkeypatch):
    def use(draft):
        made = Cache(draft)
        monkeypatch.setattr(module, "suffix_cache", lambda settings: made)
        return made

    return use


def following(ids):
    """Drafts the recorded text itself."""
    return lambda request, said: ids[len(said) :]


def test_a_right_draft_is_taken_with_its_bonus_token(cache):
    made = cache(following(ONE[0]))
    tally = replay_suffix([ONE], SETTINGS, 2)
    assert tally.steps.tolist() == [2]
    assert tally.accepted.tolist() == [[2, 2]]
    assert [call[2] for call in made.calls if call[0] == "add"] == [[10], [11, 12, 13], [14, 15]]


def test_a_wrong_draft_costs_its_place_and_gives_one_token(cache):
    cache(lambda request, said: [99, 98])
    tally = replay_suffix([ONE], SETTINGS, 2)
    assert tally.steps.tolist() == [5]
    assert tally.accepted.sum() == 0
    assert tally.drafted[0].tolist() == [5, 4]


def test_every_token_reaches_the_cache_once_and_every_request_ends(cache):
    made = cache(lambda request, said: [11, 99] if request == 0 else [])
    replay_suffix([ONE, TWO, TWO], SETTINGS, 3, running=2)
    added = {r: [token for c in made.calls if c[:2] == ("add", r) for token in c[2]] for r in range(3)}
    assert added == {0: ONE[0][3:], 1: TWO[0][1:], 2: TWO[0][1:]}
    assert sorted(c[1] for c in made.calls if c[0] == "stop") == [0, 1, 2]


def test_requests_side_by_side_step_in_turn_and_the_next_one_fills_a_free_place(cache):
    made = cache(lambda request, said: [])
    replay_suffix([TWO, ONE, TWO], SETTINGS, 3, running=2)
    starts = [c for c in made.calls if c[0] in ("start", "stop")]
    assert starts[:3] == [("start", 0), ("start", 1), ("stop", 0)]
    assert starts[3] == ("start", 2)
    adds = [c[1] for c in made.calls if c[0] == "add"]
    assert adds[:4] == [0, 1, 0, 1]


def test_no_draft_is_asked_for_behind_the_engines_context(cache):
    made = cache(following(ONE[0]))
    replay_suffix([ONE], SETTINGS, 4, max_model_len=5)
    assert not any(c[0] == "speculate" for c in made.calls)


def test_without_the_package_one_sentence_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "arctic_inference", None)
    monkeypatch.setitem(sys.modules, "arctic_inference.suffix_decoding", None)
    with pytest.raises(InputError, match=r"specadvise\[suffix\]"):
        replay_suffix([ONE], SETTINGS, 2)


def test_the_probe_walks_every_k_and_says_how_many_ran_side_by_side(cache, tmp_path):
    cache(following(ONE[0]))
    path = tmp_path / "r.jsonl"
    path.write_text('{"prompt_token_ids": [1, 2, 3], "output_token_ids": [10, 11, 12, 13, 14, 15]}')
    found = probe_replay(token_requests([path], None, base=tmp_path), None, Plan({"suffix": [{}]}, 3, running=4))
    assert [point.k for point in found.curves[0].by_k] == [1, 2, 3]
    assert found.running == 4
    assert any("4 requests were walked side by side" in note for note in found.notes)
