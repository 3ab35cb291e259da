"""A reader that goes away (`| head`) is no failed check, whichever stream it had."""

from __future__ import annotations

import errno

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
