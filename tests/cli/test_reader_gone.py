"""A reader that goes away (`| head`) is no failed check, whichever stream it had."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.cli.main import main


@pytest.mark.parametrize("arguments", [["rules"], ["rules", "SPD104"]])
def test_a_pipe_that_closes_in_the_middle_ends_with_0(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    def gone(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("advisor.cli.main._abandon", lambda _: None)
    monkeypatch.setattr("click.echo", gone)
    monkeypatch.setattr("builtins.print", gone)
    monkeypatch.setattr("advisor.cli.output.print_text", gone)
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0


def test_a_table_whose_reader_is_gone_is_no_failed_check(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("timestamp,prompt_tokens,output_tokens\n" + "".join(f"{i},100,50\n" for i in range(40)))
    reads, writes = os.pipe()
    os.close(reads)
    try:
        ran = subprocess.run([sys.executable, "-m", "advisor.cli.main", "probe", "requests", str(log), "-q"],
                             stdout=writes, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    finally:
        os.close(writes)
    assert (ran.returncode, ran.stderr) == (0, "")
