"""`specadvise verify` from the shell's side: verdicts, exit codes, formats, against a loopback server and dumps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profiles.evidence import Evidence
from tests.advisor.report import synthetic_record as records
from tests.cli.shell import run
from tests.cli.synthetic_serving import serving
from tests.probes.server import synthetic_pages as syn

GOOD, BAD = (0.72, 0.52, 0.37), (0.05, 0.01, 0.0)
TPOT_EDGES_S = 0.0067
"""Between the buckets 1 and 10 ms of the synthetic pages."""


def page(number: int, positions: tuple[float, ...] | None = GOOD, drafts: int = 2000, tpot_s: float = TPOT_EDGES_S,
         model: str = records.TARGET) -> str:
    """Scrape `number` of a server that has done `number` equal parts of work at 4 running requests."""
    speculation = None
    accepted = 0.0
    if positions is not None:
        accepted = sum(positions) * drafts * number
        speculation = {"drafts": drafts * number, "draft_tokens": len(positions) * drafts * number,
                       "positions": [rate * drafts * number for rate in positions]}
    requests = 100 * number
    rows = syn.v1_engine(running=4, outputs=[100.0] * requests, prompts=[900.0] * requests, tpot=[tpot_s] * requests,
                         generation=drafts * number + accepted, speculation=speculation, model=model)
    steps = [f'vllm:iteration_tokens_total_count{{engine="0",model_name="{model}"}} {drafts * number / 4}']
    return str(syn.page([row for row in rows if not row.startswith("vllm:iteration_tokens_total_")], steps))


def test_a_server_that_keeps_what_was_promised_exits_0(capsys: pytest.CaptureFixture[str], record: str) -> None:
    with serving(lambda n: page(n + 1)) as url:
        code, out, err = run(capsys, "verify", record, url, "--window", "300ms", "--format", "json")
    found = json.loads(out)
    assert {one["code"]: one["verdict"] for one in found["promises"]} | {"tokens_per_request": "-"} == {
        "engine": "held", "model": "held", "speculation": "held", "k": "held", "load": "held", "acceptance": "held",
        "gain": "held", "tpot": "held", "tokens_per_request": "-", "lengths": "noted"}
    assert found["server"]["engine_version"] == "0.32.0"
    assert found["running"]["value"] == pytest.approx(4)
    # The rate is over the real time between two scrapes, which a test does not set.
    tokens = next(one for one in found["promises"] if one["code"] == "tokens_per_request")
    assert tokens["found"]["value"] > 0
    assert code == (1 if tokens["verdict"] == "broken" else 0)
    assert "scraping" in err


@pytest.fixture
def dumps(tmp_path: Path) -> Any:
    def write(first: str, second: str) -> tuple[str, str]:
        paths = tmp_path / "synthetic_before.prom", tmp_path / "synthetic_after.prom"
        for path, text in zip(paths, (first, second), strict=True):
            path.write_text(text)
        return str(paths[0]), str(paths[1])

    return write


def test_two_dumps_that_keep_the_promise_exit_0(capsys: pytest.CaptureFixture[str], record: str, dumps: Any) -> None:
    # 2,000 steps of four requests at 17 ms each.
    code, out, _ = run(capsys, "verify", record, *dumps(page(1), page(5)), "--window", "34s")
    assert code == 0
    assert out.startswith("The promises held: vllm at ")
    assert "Keep it as it is." in out
    assert "\x1b[" not in out


def test_acceptance_below_break_even_exits_1_and_says_what_to_do(capsys: pytest.CaptureFixture[str], record: str,
                                                                 dumps: Any) -> None:
    code, out, _ = run(capsys, "verify", record, *dumps(page(1, BAD), page(5, BAD)), "--window", "34s")
    assert code == 1
    assert "A promise is broken" in out
    assert "below break-even" in out
    assert "Roll back" in out


def test_a_window_with_too_few_drafts_exits_3_and_says_how_long_to_watch(capsys: pytest.CaptureFixture[str],
                                                                         record: str, dumps: Any) -> None:
    few = dumps(page(1, drafts=4), page(2, drafts=4))
    code, out, _ = run(capsys, "verify", record, *few, "--window", "17ms", "--format", "json")
    found = json.loads(out)
    assert code == 3
    assert found["verdict"] == "undecided"
    assert found["action"] == "watch_longer"


def test_a_server_without_speculation_or_of_another_model_exits_1(capsys: pytest.CaptureFixture[str], record: str,
                                                                  dumps: Any) -> None:
    code, out, _ = run(capsys, "verify", record, *dumps(page(1, None), page(2, None)), "--window", "34s")
    assert code == 1
    assert "runs without speculation" in out
    code, out, _ = run(capsys, "verify", record, *dumps(page(1, model="acme/Other"), page(2, model="acme/Other")),
                       "--window", "34s")
    assert code == 1
    assert "serves acme/Other" in out


def test_an_alias_is_known_by_what_the_server_says_it_was_loaded_from(capsys: pytest.CaptureFixture[str],
                                                                      record: str) -> None:
    with serving(lambda n: page(n + 1, model="org/model"), root=f"/models/{records.TARGET}") as url:
        _, out, _ = run(capsys, "verify", record, url, "--window", "200ms", "--format", "json", "-q")
    assert next(one for one in json.loads(out)["promises"] if one["code"] == "model")["verdict"] == "held"


def test_a_server_that_does_not_answer_exits_4(capsys: pytest.CaptureFixture[str], record: str) -> None:
    code, out, err = run(capsys, "verify", record, "http://127.0.0.1:9", "-q")
    assert (code, out) == (4, "")
    assert "cannot be reached" in err
    assert err.count("\n") == 1


def test_a_record_that_cannot_be_read_exits_2_before_anything_is_scraped(capsys: pytest.CaptureFixture[str],
                                                                         tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text("{}")
    code, _, err = run(capsys, "verify", str(tmp_path / "record.json"), "http://127.0.0.1:9")
    assert code == 2
    assert "not a record" in err
    assert "scraping" not in err


@pytest.mark.parametrize("output_format", ["text", "markdown"])
def test_a_restart_in_the_window_is_told(capsys: pytest.CaptureFixture[str], record: str, dumps: Any,
                                         output_format: str) -> None:
    start = "process_start_time_seconds "
    later = page(2).replace(f"{start}{syn.BORN}", f"{start}{syn.BORN + 60}")
    _, out, _ = run(capsys, "verify", record, *dumps(page(5), later), "--window", "34s", "--format", output_format)
    assert "the server restarted between the scrapes" in " ".join(out.split())


def test_markdown_is_a_table_that_names_from_outside_cannot_break(capsys: pytest.CaptureFixture[str], record: str,
                                                                  dumps: Any) -> None:
    evil = "acme/a|b<script>"
    code, out, _ = run(capsys, "verify", record, *dumps(page(1, model=evil), page(5, model=evil)), "--window", "34s",
                       "--format", "markdown")
    assert code == 1
    assert "<script>" not in out.replace("\\<script\\>", "")
    rows = [line for line in out.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {6}


def test_what_the_server_showed_is_saved_for_the_next_advice(capsys: pytest.CaptureFixture[str], record: str,
                                                             dumps: Any, tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    run(capsys, "verify", record, *dumps(page(1), page(5)), "--window", "34s", "--save", str(path), "-q")
    evidence = Evidence.model_validate_json(path.read_text())
    assert evidence.server is not None
    assert evidence.server.speculation is not None
    assert evidence.server.speculation.drafts == 8000
    assert evidence.command.startswith("specadvise verify ")


@pytest.mark.parametrize("output_format", ["text", "markdown", "json"])
def test_names_from_the_server_drive_no_terminal(capsys: pytest.CaptureFixture[str], record: str, dumps: Any,
                                                 output_format: str) -> None:
    evil = "acme/\x1b[2Jm\x9bx"
    _, out, _ = run(capsys, "verify", record, *dumps(page(1, model=evil), page(5, model=evil)), "--window", "34s",
                    "--format", output_format)
    assert "acme/" in out
    assert not {"\x1b", "\x9b"} & set(out)
