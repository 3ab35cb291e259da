"""`specadvise probe server --watch`: lines, break-even, gaps, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from profiles.evidence import Evidence
from tests.cli.shell import run
from tests.cli.synthetic_serving import serving
from tests.probes.server import synthetic_pages as syn


def page(number: int) -> str:
    drafts = 1000 * (number + 1)
    return str(syn.page(syn.v1_engine(
        running=4, outputs=[100.0] * number, speculation={
            "drafts": drafts, "draft_tokens": 3 * drafts, "positions": [0.7 * drafts, 0.5 * drafts, 0.4 * drafts]})))


def test_json_is_a_line_each_interval_and_a_summary(capsys: pytest.CaptureFixture[str], record: str) -> None:
    with serving(page) as url:
        code, out, err = run(capsys, "probe", "server", url, "--watch", "--interval", "100ms", "--count", "3",
                             "--record", record, "--format", "json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert "summary" not in lines[0]
    assert lines[-1]["summary"] is True
    assert lines[-1]["intervals"] == 3
    assert len(lines) == 4
    for line in lines:
        assert line["acceptance_length"]["value"] == pytest.approx(2.6)
        assert line["acceptance_length"]["low"] < 2.6 < line["acceptance_length"]["high"]
        assert line["per_position"] == pytest.approx([0.7, 0.5, 0.4])
        assert line["break_even"]["value"] == pytest.approx(1.44)
        assert line["verdict"] == "above"
        assert line["k"] == 3
        assert line["running"]["value"] == 4
    assert [line["drafts"] for line in lines] == [1000, 1000, 1000, 3000]
    assert "watching" in err


def test_text_is_one_plain_line_each_interval(capsys: pytest.CaptureFixture[str], record: str) -> None:
    with serving(page) as url:
        code, out, _ = run(capsys, "probe", "server", url, "--watch", "--interval", "100ms", "--count", "2",
                           "--record", record, "-q")
    assert code == 0
    assert len(out.splitlines()) == 3
    assert "by position 70% 50% 40%" in out
    assert "above break-even 1.44" in out
    assert out.splitlines()[-1].startswith("total")


def test_without_a_record_there_is_no_break_even(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(page) as url:
        _, out, _ = run(capsys, "probe", "server", url, "--watch", "--interval", "100ms", "--count", "1", "--format",
                        "json", "-q")
    assert json.loads(out.splitlines()[0])["break_even"] is None


def test_an_interval_without_an_answer_is_said_and_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(lambda n: None if n == 2 else page(n)) as url:
        code, out, err = run(capsys, "probe", "server", url, "--watch", "--interval", "100ms", "--count", "3",
                             "--format", "json", "-q")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert "no answer in this interval" in err
    assert [line["drafts"] for line in lines] == [1000, 2000, 3000]


def test_ctrl_c_ends_with_the_summary_and_exit_0(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = threading.Event()

    def answer(number: int) -> str:
        if number == 3:
            asked.set()
        return page(number)

    def interrupt() -> None:
        if asked.wait(30):
            os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    saved = tmp_path / "evidence.json"
    with serving(answer) as url:
        threading.Thread(target=interrupt, daemon=True).start()
        code, out, err = run(capsys, "probe", "server", url, "--watch", "--interval", "100ms", "--format", "json",
                             "--save", str(saved))
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert lines[-1]["summary"] is True
    # An interval that Ctrl-C kept from being printed is summed up all the same.
    assert 0 <= lines[-1]["drafts"] - sum(line["drafts"] for line in lines[:-1]) <= 1000
    assert "Traceback" not in err
    evidence = Evidence.model_validate_json(saved.read_text())
    assert evidence.server is not None
    assert "--watch" in evidence.command


@pytest.mark.parametrize(("arguments", "says"), [
    (("page.prom", "--watch"), "is a file"),
    (("http://127.0.0.1:9", "--watch", "--window", "5s"), "--interval instead"),
    (("http://127.0.0.1:9", "--interval", "5s"), "go with --watch"),
    (("http://127.0.0.1:9", "--record", "r.json"), "go with --watch"),
])
def test_wrong_use_exits_2(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str) -> None:
    code, out, err = run(capsys, "probe", "server", *arguments)
    assert (code, out) == (2, "")
    assert says in err


def test_a_server_that_never_answered_exits_4(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "probe", "server", "http://127.0.0.1:9", "--watch", "-q")
    assert (code, out) == (4, "")
    assert "cannot be reached" in err
