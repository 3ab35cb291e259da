"""`specadvise report` from the shell: what it prints, where it writes, how it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.report import render
from tests.advisor.report import synthetic_record as synthetic
from tests.cli.shell import ROOT, all_printed, process, specadvise


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "record.json"
    path.write_text(render(synthetic.enabled(), "json"), encoding="utf-8")
    return path


@pytest.mark.parametrize("format", ["text", "json", "markdown", "html"])
def test_prints_the_record_in_each_format_and_nothing_on_stderr(saved, format):
    ran = specadvise("report", str(saved), "--format", format)
    assert ran.returncode == 0
    assert ran.stderr == ""
    assert ran.stdout == render(synthetic.enabled(), format)


def test_text_is_the_default_and_a_pipe_gets_no_colour(saved):
    ran = specadvise("report", str(saved))
    assert ran.stdout == render(synthetic.enabled(), "text", width=80)
    assert "\x1b" not in ran.stdout


def test_reads_the_record_from_stdin():
    ran = specadvise("report", "-", "--format", "json", stdin=render(synthetic.off(), "json"))
    assert json.loads(ran.stdout)["decision"]["enable"] is False


@pytest.mark.parametrize(
    ("name", "start"), [("out.html", "<!doctype html>"), ("out.md", "# Turn"), ("out.json", "{"), ("out", "╭")]
)
def test_suffix_of_the_output_file_chooses_the_format(saved, tmp_path, name, start):
    ran = specadvise("report", str(saved), "-o", str(tmp_path / "new" / name))
    assert ran.returncode == 0
    assert ran.stdout == ""
    assert f"wrote {tmp_path / 'new' / name}" in ran.stderr
    assert (tmp_path / "new" / name).read_text(encoding="utf-8").startswith(start)


def test_format_option_wins_over_the_suffix_and_quiet_says_nothing(saved, tmp_path):
    ran = specadvise("report", str(saved), "-o", str(tmp_path / "out.html"), "--format", "markdown", "-q")
    assert ran.stderr == ""
    assert (tmp_path / "out.html").read_text(encoding="utf-8").startswith("# Turn")


def test_missing_cut_and_newer_files_exit_2_with_one_sentence(saved, tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_text(saved.read_text(encoding="utf-8")[:500], encoding="utf-8")
    newer = tmp_path / "newer.json"
    newer.write_text(
        json.dumps({**json.loads(saved.read_text(encoding="utf-8")), "schema_version": 99}), encoding="utf-8"
    )
    for path, said in (
        (tmp_path / "no.json", "does not exist"),
        (cut, "is not JSON"),
        (newer, "newer specadvise"),
        (tmp_path, "is a folder"),
    ):
        ran = specadvise("report", str(path))
        assert ran.returncode == 2, path
        assert ran.stdout == ""
        assert ran.stderr.count("\n") == 1
        assert said in ran.stderr


def test_a_terminal_that_cannot_show_bars_gets_question_marks_not_a_traceback(saved):
    ran = process("report", str(saved), PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert ran.returncode == 0
    assert "TURN SPECULATION ON" in ran.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("env", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_gets_colour_unless_it_refuses(saved, env, coloured):
    import pty

    main, other = pty.openpty()
    base = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    with subprocess.Popen(
        [sys.executable, "-m", "advisor.cli.main", "report", str(saved)],
        cwd=ROOT,
        stdout=other,
        env={**base, "PYTHONUTF8": "1", **env},
    ) as child:
        os.close(other)
        printed = all_printed(main)
    assert child.returncode == 0
    assert b"SPECULATION ON" in printed
    assert (b"\x1b[" in printed) is coloured
