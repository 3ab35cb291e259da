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


def test_a_lookup_named_without_settings_is_replayed_at_the_engine_s_own(capsys, records, tmp_path):
    run(capsys, *BASE, "--method", "ngram", "--recordings", records, "--out", tmp_path / "out")
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["acceptance_tiers"]["ngram"] == "replay"
    assert set(record["acceptance_tiers"].values()) == {"replay"}
    (found,) = [e for e in record["evidence"] if e["kind"] == "replay"]
    assert found["replay"]["curves"][0]["settings"] == {"prompt_lookup_max": 5, "prompt_lookup_min": 5}
    assert "2, 3, 4, 5, 9" not in json.dumps(record)


def test_a_lookup_named_without_settings_takes_the_best_of_the_recordings_at_its_own_k(capsys, replayed, tmp_path):
    rows, saved = replayed
    record = advised(capsys, tmp_path / "a", "--method", "ngram", "--k", "2-3", "--recordings", rows)
    by_evidence = advised(capsys, tmp_path / "b", "--method", "ngram", "--k", "2-3", "--evidence", saved)
    assert record["acceptance_tiers"]["ngram max=5 min=1"] == "replay"
    assert {cell["k"] for cell in record["candidates"] if cell["candidate"]["method"] == "ngram"} >= {2, 3}
    assert best_lookup(record) == best_lookup(by_evidence)
    assert any(note.startswith("settings of ngram not stated: ngram max=5 min=1") for note in record["assumptions"])


def test_a_lookup_named_with_settings_is_replayed_at_them_alone(capsys, replayed, tmp_path):
    rows, _ = replayed
    stated = tmp_path / "d.yaml"
    stated.write_text("target: meta-llama/Llama-3.1-8B-Instruct\nhardware: {gpu: H100}\n"
                      "engine: {vllm_version: 0.32.0}\n"
                      "workload: {concurrency: 4, prompt_tokens: 500, output_tokens: 200, tasks: code}\n"
                      f"sources: {{recordings: [{rows}]}}\n"
                      "candidates:\n- method: ngram\n  k: [2, 4]\n"
                      "  settings: {prompt_lookup_min: 3, prompt_lookup_max: 4}\n")
    run(capsys, "advise", stated, "--offline", "-q", "--out", tmp_path / "a")
    record = json.loads((tmp_path / "a" / "record.json").read_text())
    (found,) = [e for e in record["evidence"] if e["kind"] == "replay"]
    (curve,) = found["replay"]["curves"]
    assert curve["settings"] == {"prompt_lookup_max": 4, "prompt_lookup_min": 3}
    assert len(curve["by_k"]) == 4
    assert record["acceptance_tiers"] == {"ngram max=4 min=3": "replay"}


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


OFTEN = {"prompt_token_ids": list(range(40)), "output_token_ids": [*range(3, 6), *range(20, 23), *range(8, 11)] * 4,
         "task": "code"}
"""Runs of three tokens of the prompt: the engine's own lookup of five tokens finds next to nothing."""


@pytest.fixture
def replayed(capsys, tmp_path):
    """Recordings that a lookup of one token suits, and their replay at every setting."""
    rows, saved = tmp_path / "often.jsonl", tmp_path / "often.json"
    rows.write_text("\n".join([json.dumps(OFTEN)] * 5))
    run(capsys, "probe", "replay", rows, "--method", "ngram", "--save", saved, "-q")
    return rows, saved


def advised(capsys, out, *arguments):
    run(capsys, *BASE, *arguments, "--out", out)
    return json.loads((out / "record.json").read_text())


def best_lookup(record):
    return max(cell["speedup"]["value"] for cell in record["candidates"]
               if cell["candidate"]["method"] == "ngram" and cell["running"] == record["decision"]["running"])


def test_saved_replays_price_proposed_lookups_as_the_recordings_do(capsys, replayed, tmp_path):
    rows, saved = replayed
    by_file = advised(capsys, tmp_path / "a", "--recordings", rows)
    by_evidence = advised(capsys, tmp_path / "b", "--evidence", saved)
    both = advised(capsys, tmp_path / "c", "--evidence", saved, "--recordings", rows)
    assert best_lookup(by_file) == best_lookup(by_evidence) == best_lookup(both)
    assert by_file["decision"]["speedup"] == by_evidence["decision"]["speedup"]
    assert "ngram max=5 min=1" in by_evidence["acceptance_tiers"]
    assert any(note.startswith("settings of ngram not stated: ngram max=") for note in by_evidence["assumptions"])


def test_a_lookup_named_without_settings_takes_the_best_of_the_saved_replay(capsys, replayed, tmp_path):
    _, saved = replayed
    record = advised(capsys, tmp_path / "a", "--method", "ngram", "--evidence", saved)
    (note,) = [text for text in record["assumptions"] if text.startswith("settings of ngram")]
    assert note.endswith("the engine's own setting is priced beside it")
    assert {cell["candidate"]["method"] for cell in record["candidates"]} == {"none", "ngram"}
    assert record["decision"]["settings"]["prompt_lookup_min"] == 1


def test_settings_stated_by_hand_stay_as_stated(capsys, replayed, tmp_path):
    _, saved = replayed
    stated = tmp_path / "d.yaml"
    stated.write_text("target: meta-llama/Llama-3.1-8B-Instruct\nhardware: {gpu: H100}\n"
                      "engine: {vllm_version: 0.32.0}\n"
                      "workload: {concurrency: 4, prompt_tokens: 500, output_tokens: 200, tasks: code}\n"
                      "candidates:\n- method: ngram\n  settings: {prompt_lookup_min: 3, prompt_lookup_max: 4}\n")
    run(capsys, "advise", stated, "--evidence", saved, "--offline", "-q", "--out", tmp_path / "a")
    record = json.loads((tmp_path / "a" / "record.json").read_text())
    assert set(record["acceptance_tiers"]) == {"ngram max=4 min=3"}
    assert not any(text.startswith("settings of ngram") for text in record["assumptions"])


@pytest.mark.parametrize("asked", [[], ["--method", "ngram"]])
def test_recordings_of_text_without_the_target_s_tokenizer_are_said_and_the_advice_goes_on(capsys, tmp_path, asked):
    rows = tmp_path / "text.jsonl"
    rows.write_text(json.dumps({"prompt": "a b c", "output": "a b c d e"}) + "\n")
    code, out, err = run(capsys, *BASE, *asked, "--recordings", rows, "--out", tmp_path / "out")
    assert code in (0, 3)
    assert "tokens" in out
    assert "recordings are not used: meta-llama/Llama-3.1-8B-Instruct has no tokenizer.json here" in err
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert any(note.startswith("recordings are not used") for note in record["assumptions"])
    assert "replay" not in record["acceptance_tiers"].values()


def test_a_replay_asked_for_alone_fails_without_the_tokenizer(capsys, tmp_path):
    rows = tmp_path / "text.jsonl"
    rows.write_text(json.dumps({"prompt": "a b c", "output": "a b c d e"}) + "\n")
    code, _, err = run(capsys, "probe", "replay", rows, "--target", "meta-llama/Llama-3.1-8B-Instruct", "--offline")
    assert code == 2
    assert "has no tokenizer.json" in err


@pytest.mark.parametrize(("counts", "part"), [
    ({"accepted_tokens": 900}, "900 tokens accepted of 300 drafted"),
    ({"per_position": [0.2, 0.8, 0.1]}, "position 2 was accepted 80 times"),
])
def test_saved_counters_that_cannot_be_are_a_warning_and_decide_nothing(capsys, tmp_path, counts, part):
    speculation = {"enabled": True, "drafts": 100, "draft_tokens": 300, "accepted_tokens": 110,
                   "per_position": [0.6, 0.3, 0.2], "acceptance_length": 2.1}
    saved = []
    for i, told in enumerate((speculation, {**speculation, **counts})):
        server = {"url": "u", "engine": "vllm", "models": ["m"], "window_s": 15, "running": None, "waiting": None,
                  "kv_cache_usage": None, "speculation": told}
        saved.append(tmp_path / f"{i}.json")
        saved[-1].write_text(json.dumps({"schema_version": 1, "kind": "server", "collected_at": "",
                                         "tool_version": "0", "command": "", "server": server}))
    good, wrong = (advised(capsys, tmp_path / name, "--method", "ngram", "--k", "3", "--evidence", path)
                   for name, path in zip("ab", saved, strict=True))
    assert good["acceptance_tiers"] == {"ngram": "server"}
    assert wrong["acceptance_tiers"] == {"ngram": "published"}
    (warning,) = [text for text in wrong["warnings"] if text.startswith("the server: ")]
    assert part in warning
    assert "is not used" in warning
