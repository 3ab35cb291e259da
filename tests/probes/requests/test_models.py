"""Logs of several models are said to be so, and one of them can be asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.requests import Options, probe_requests
from profiles.errors import InputError
from profiles.traffic import pooled
from profiles.workload import Task
from tests.probes.requests.synthetic_logs import chat, document, jsonl, write

RESULT = {"model_id": "m", "duration": 10.0, "completed": 4, "failed": 0, "total_input_tokens": 400,
          "total_output_tokens": 80, "mean_ttft_ms": 10.0, "mean_tpot_ms": 5.0}


def mixed(folder: Path) -> str:
    """Synthetic: code for `a`, talk for `b`."""
    rows = [{**chat("def f(x):\n    return x\nWrite a python function", "```python\nx\n```", tokens=(10, 5)),
             "timestamp": 1.7e9 + i} for i in range(6)]
    rows += [{**chat("Hello, how are you", "Fine", tokens=(100, 50)), "timestamp": 1.7e9 + i} for i in range(3)]
    for i, row in enumerate(rows):
        row["request"]["model"] = "a" if i < 6 else "b"
    rows += [{**rows[-1], "response": {**rows[-1]["response"], "status_code": 500}}]
    return jsonl(folder / "log.jsonl", rows)


def test_several_models_in_one_log_are_said_with_their_shares(tmp_path: Path) -> None:
    found = probe_requests([mixed(tmp_path)])
    assert found.models == ("a", "b")
    assert "2 models are taken together (a 66.7 %, b 33.3 %): choose one with --model" in found.notes


@pytest.mark.parametrize(("model", "requests", "prompt", "failed", "task"), [
    ("a", 6, 10, 0, Task.CODE), ("b", 3, 100, 1, Task.CHAT)])
def test_one_of_them_alone_gives_its_own_figures(tmp_path: Path, model: str, requests: int, prompt: int, failed: int,
                                                 task: Task) -> None:
    found = probe_requests([mixed(tmp_path)], Options(model=model))
    assert (found.requests, found.failed, found.models) == (requests, failed, (model,))
    assert found.prompt_tokens is not None
    assert found.prompt_tokens.mean == prompt
    assert found.text is not None
    assert dict(found.text.tasks) == {task: 1.0}
    assert any("requests of other models are left out" in note for note in found.notes)
    assert not any("taken together" in note for note in found.notes)


def test_a_model_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--model 'c' is in none of these logs: expected one of a, b"):
        probe_requests([mixed(tmp_path)], Options(model="c"))
    with pytest.raises(InputError, match="name no model"):
        probe_requests([jsonl(tmp_path / "m.jsonl", [{"timestamp": 1, "input_length": 5, "output_length": 6}])],
                       Options(model="c"))


def test_documents_of_several_models_and_loads_are_said(tmp_path: Path) -> None:
    paths = [document(tmp_path / f"{name}.json", {**RESULT, "model_id": name}) for name in ("m", "n")]
    found = probe_requests(paths)
    assert found.requests == 8
    assert "2 models are taken together (m 50 %, n 50 %): choose one with --model" in found.notes
    assert any(note.startswith("2 documents that state totals are taken together") for note in found.notes)
    assert probe_requests(paths, Options(model="n")).requests == 4


def test_a_server_log_of_two_models_cannot_be_told_apart_and_says_so(tmp_path: Path) -> None:
    start = "INFO 07-01 13:54:15 [core.py:1] Initializing a V1 LLM engine (v0.25.1) with config: model='{}', " \
            "speculative_config={}, tokenizer='t'\n"
    post = 'INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    path = write(tmp_path / "serve.log", start.format("a", "None") + post + start.format(
        "b", "SpeculativeConfig(method='ngram', num_spec_tokens=3)") + post)
    found = probe_requests([path])
    assert "2 models are taken together (a, b): cut the log where one ends to tell them apart" in found.notes
    assert any("2 speculative configurations are in this log" in note for note in found.notes)
    with pytest.raises(InputError, match="give one that is of this model alone"):
        probe_requests([path], Options(model="a"))


def test_many_models_are_counted_and_the_most_used_are_named() -> None:
    assert pooled({f"m{i}": 10 - i for i in range(6)}) == (
        "6 models are taken together (m0 22.2 %, m1 20 %, m2 17.8 %, m3 15.6 %, 2 more)")
