"""A signal breaks nothing in two: results are all old or all new, and nothing is left beside them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from advisor.cli import interrupts, output
from advisor.cli.interrupts import NUMBERS, uninterrupted
from advisor.cli.output import write_together

OLD, NEW = (dict.fromkeys(("a", "b", "c"), text) for text in ("old", "new"))


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """As the program sets them."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in NUMBERS}
    interrupts.take_over()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def there(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else {}


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_between_two_renames_waits_until_all_are_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    for name, text in OLD.items():
        (tmp_path / name).write_text(text)
    real = os.replace

    def signalled(source: Any, target: Any) -> None:
        real(source, target)
        os.kill(os.getpid(), number)

    monkeypatch.setattr(output.os, "replace", signalled)
    with pytest.raises(KeyboardInterrupt):
        write_together({tmp_path / name: text for name, text in NEW.items()})
    assert there(tmp_path) == NEW


@pytest.mark.parametrize("existing", [True, False])
def test_wherever_a_signal_comes_the_set_is_whole_and_nothing_lies_beside_it(tmp_path: Path, existing: bool) -> None:
    files = (output.__file__, interrupts.__file__)
    at, ended = 0, False
    while not ended:
        folder = tmp_path / str(at) / "out"
        if existing:
            folder.mkdir(parents=True)
            for name, text in OLD.items():
                (folder / name).write_text(text)
        lines = 0

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal lines
            if frame.f_code.co_filename not in files:
                return None
            if event == "line":
                lines += 1
                if lines == at + 1:  # noqa: B023 - called within this turn only
                    os.kill(os.getpid(), signal.SIGTERM)
            return trace

        sys.settrace(trace)
        try:
            write_together({folder / name: text for name, text in NEW.items()})
            ended = lines <= at
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert there(folder) in ((OLD,) if existing else ({},)) + (NEW,), at
        assert folder.exists() or not folder.parent.exists(), at
        assert there(folder) or not folder.exists(), at
        at += 1
    assert at > 50


def test_an_interrupt_waits_for_the_outermost_part() -> None:
    def parts() -> None:
        with uninterrupted():
            with uninterrupted():
                os.kill(os.getpid(), signal.SIGTERM)
            done.append("inner")
        done.append("behind")

    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        parts()
    assert done == ["inner"]
    with uninterrupted():
        done.append("again")
    assert done == ["inner", "again"]


def test_an_interrupt_is_raised_in_place_of_a_failure_of_what_it_waited_for() -> None:
    def fails() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            raise ValueError

    with pytest.raises(KeyboardInterrupt):
        fails()


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts.take_over()
    with uninterrupted():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_another_thread_writes_all_the_same(tmp_path: Path) -> None:
    writer = threading.Thread(target=write_together, args=({tmp_path / "a": "new"},))
    writer.start()
    writer.join()
    assert there(tmp_path) == {"a": "new"}
