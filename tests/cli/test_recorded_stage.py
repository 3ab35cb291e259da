"""`advise --recordings`: lookups are replayed on the way, and the record says so."""

import json

import pytest

from tests.cli.shell import run

ROW = {"prompt_token_ids": [1, 2, 3, 4, 5], "output_token_ids": [2, 3, 4, 5, 9] * 2 + [2, 3, 4, 5], "task": "code"}
BASE = ["advise", "--target", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H100", "--concurrency", "4", "--prompt-len",
        "500", "--output-len", "200", "--task", "code", "--vllm-version", "0.32.0", "--no-trial", "--offline", "-q"]


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join([json.dumps(ROW)] * 5))
    return path


def test_a_stated_lookup_is_replayed_at_its_setting(capsys, records, tmp_path):
    run(capsys, *BASE, "--method", "ngram", "--recordings", records, "--out", tmp_path / "out")
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["acceptance_tiers"] == {"ngram": "replay"}
    (found,) = [e for e in record["evidence"] if e["kind"] == "replay"]
    assert found["replay"]["curves"][0]["settings"] == {"prompt_lookup_max": 5, "prompt_lookup_min": 5}
    assert "2, 3, 4, 5, 9" not in json.dumps(record)


def test_proposed_lookups_are_priced_at_several_settings(capsys, records, tmp_path):
    run(capsys, *BASE, "--recordings", records, "--out", tmp_path / "out")
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    replayed = {label for label, tier in record["acceptance_tiers"].items() if tier == "replay"}
    assert {"ngram max=5 min=1", "ngram max=5 min=2", "ngram max=5 min=3", "ngram max=5 min=5"} <= replayed
    assert all(tier in ("replay", "published") for tier in record["acceptance_tiers"].values())


def test_saved_replay_evidence_does_the_same(capsys, records, tmp_path):
    saved = tmp_path / "replay.json"
    run(capsys, "probe", "replay", records, "--method", "ngram", "--lookup", "5", "--save", saved, "-q")
    _, out, _ = run(capsys, *BASE, "--method", "ngram", "--evidence", saved, "--out", tmp_path / "out")
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["acceptance_tiers"] == {"ngram": "replay"}
    assert "replay of 5 recorded requests" in out


def test_recordings_that_cannot_be_read_stop_before_anything_is_written(capsys, tmp_path):
    code, _, err = run(capsys, *BASE, "--recordings", tmp_path / "none.jsonl", "--out", tmp_path / "out")
    assert code == 2
    assert "none.jsonl" in err
    assert not (tmp_path / "out").exists()
