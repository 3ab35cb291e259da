"""`probe replay` and `probe scoring` from the outside: exit codes, streams, and evidence that `advise` takes."""

import json

import pytest

from advisor.cli.evidence_file import load_evidence
from tests.cli.shell import run

ROWS = [{"prompt_token_ids": [1, 2, 3, 4], "output_token_ids": [2, 3, 4, 9, 2, 3, 4, 9, 2, 3], "task": task}
        for task in ("code", "code", "chat")]


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS))
    return path


def test_json_gives_every_setting_at_every_k(capsys, records):
    code, out, _ = run(capsys, "probe", "replay", records, "--method", "ngram", "--max-k", "4", "--format", "json",
                       "-q")
    found = json.loads(out)
    assert code == 0
    assert len(found["curves"]) == 15
    for curve in found["curves"]:
        assert [point["k"] for point in curve["by_k"]] == [1, 2, 3, 4]
        assert [len(point["per_position"]) for point in curve["by_k"]] == [1, 2, 3, 4]
        assert set(curve["by_task"]) == {"code", "chat"}
        assert 0 <= curve["by_k"][0]["matched_share"]["value"] <= 1
    assert {b["task"] for b in found["best"]} == {None, "code", "chat"}


def test_text_names_the_best_setting_of_each_task(capsys, records):
    code, out, err = run(capsys, "probe", "replay", records, "--method", "ngram", "--max-k", "3")
    assert code == 0
    assert "best for code: ngram min=" in out
    assert "walking 3 requests" in err


def test_saved_evidence_is_read_back_and_holds_counts_only(capsys, records, tmp_path):
    saved = tmp_path / "replay.json"
    code, _, err = run(capsys, "probe", "replay", records, "--method", "ngram", "--lookup", "2-4", "--save", saved)
    found = load_evidence(saved)
    assert code == 0
    assert str(saved) in err
    assert (found.kind, found.replay.requests, found.replay.files) == ("replay", 3, ("records.jsonl",))
    assert found.replay.curves[0].settings == {"prompt_lookup_min": 2, "prompt_lookup_max": 4}


@pytest.mark.parametrize(("arguments", "says"), [
    (["--lookup", "4-2"], "--lookup '4-2'"), (["--method", "eagle3"], "cannot be recomputed"),
    (["--method", "nonsense"], "unknown method"), (["--task", "nonsense"], "unknown task"),
])
def test_wrong_use_is_one_sentence_and_exit_2(capsys, records, arguments, says):
    code, out, err = run(capsys, "probe", "replay", records, *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert "Traceback" not in err


def test_a_file_of_other_content_is_one_sentence_and_exit_2(capsys, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\x00\xff" * 40)
    code, _, err = run(capsys, "probe", "replay", path)
    assert code == 2
    assert "cannot be used" in err


def test_scoring_with_a_draft_of_another_vocabulary_is_refused_before_anything_runs(capsys, records, tmp_path,
                                                                                    monkeypatch):
    monkeypatch.setattr("advisor.cli.probe_scoring._backend", lambda name: "transformers")
    monkeypatch.setattr("probes.model.model_path", lambda ref, base: tmp_path / ref.id)
    for name, vocab in (("t", {"a": 0}), ("d", {"b": 0})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab, "merges": []}}))
    code, _, err = run(capsys, "probe", "scoring", records, "--target", "t", "--draft", "d")
    assert code == 2
    assert "another vocabulary" in err


def test_scoring_without_anything_that_runs_models_says_what_to_install(capsys, records, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    code, _, err = run(capsys, "probe", "scoring", records, "--target", "t", "--draft", "d")
    assert code == 2
    assert "specadvise[vllm]" in err
