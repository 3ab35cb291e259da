"""From an engine's log to its own last error, in one line, and to what kind of end it was. Pure text."""

from __future__ import annotations

import re
import signal

from profiles.errors import EngineError
from profiles.evidence import ArmStatus

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LOG_PREFIX = re.compile(r"^(\([\w ]*pid=\d+\)\s*)?((?:ERROR|WARNING|INFO|CRITICAL) [\d-]+ [\d:]+ \[[^\]]+\] ?)?")
_ERROR = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Exit|Timeout|Interrupt))(?::\s*(.*))?$")
_FOLDER = re.compile(r"(?<![\w:/.])(?:/[\w.@+=-]+){2,}/?")
_PYDANTIC = re.compile(r"\d+ validation errors? for \w+\s*")
_PYDANTIC_TAIL = re.compile(r"\s*\[type=.*?(?:errors\.pydantic\.dev\S*|$)", re.DOTALL)
_SAYS_NOTHING = re.compile(r"see (?:the )?(?:root cause|stack trace|log)|initialization failed|EngineDead|cancelled",
                           re.IGNORECASE)
_MEMORY = re.compile(
    r"out ?of ?memory|can'?t allocate memory|cannot allocate memory|\bMemoryError\b|bad_alloc|"
    r"no available memory for the cache blocks|larger than the available kv cache memory|"
    r"free memory on device .* is less than desired|not enough memory", re.IGNORECASE)

LONGEST = 400
"""Characters of an error line that are kept."""


class EngineFailure(EngineError):
    """An engine child that refused, crashed, ran out of memory or hung; the message is its own last error line."""

    def __init__(self, status: ArmStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def plain(line: str) -> str:
    """Without colours, log prefixes, and the folders of paths (a path tells more than an error should)."""
    line = _LOG_PREFIX.sub("", _ANSI.sub("", line).strip(), count=1).strip()
    return _FOLDER.sub(lambda found: found.group().rstrip("/").rsplit("/", 1)[-1], line)


def one_line(error: str) -> str:
    """An error's text as one tidy line: pydantic's frame around the sentence is dropped, length is bounded."""
    text = _PYDANTIC_TAIL.sub("", _PYDANTIC.sub("", error))
    text = " ".join(plain(part) for part in text.splitlines()).replace("Value error, ", "")
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def last_error(log: str) -> str | None:
    """The last line like `ValueError: ...` that says something, with the indented lines that belong to it."""
    found: list[str] = []
    lines = [_ANSI.sub("", line) for line in log.splitlines()]
    for number, raw in enumerate(lines):
        match = _ERROR.match(plain(raw))
        if match is None:
            continue
        message = match.group(2) or ""
        if "validation error" in message:
            message += " " + " ".join(line.strip() for line in lines[number + 1 : number + 4] if line.startswith("  "))
        found.append(one_line(f"{match.group(1)}: {message}" if message else match.group(1)))
    telling = [line for line in found if not _SAYS_NOTHING.search(line)]
    best = telling or found
    return best[-1] if best else None


def classify(said: str | None, log: str, returncode: int | None, ready: bool) -> EngineFailure:
    """What became of an engine child that ended by itself.

    `said` is the error it still managed to send, `log` the end of its output, `returncode` as subprocess gives it
    (negative: a signal), `ready` whether the engine had started. Out of memory is recognised by its text; a child
    killed from outside is a crash, and says by which signal.
    """
    error = one_line(said) if said else None
    if error is None or _SAYS_NOTHING.search(error):
        error = last_error(log) or error
    if error is None and returncode is not None and returncode < 0:
        name = signal.Signals(-returncode).name if -returncode in set(signal.Signals) else f"signal {-returncode}"
        hint = "; the system does this when memory runs out" if name == "SIGKILL" else ""
        error = f"the engine process was ended by {name}{hint}"
    if error is None:
        error = f"the engine process ended without an error line (exit status {returncode})"
    if _MEMORY.search(error):
        return EngineFailure(ArmStatus.OUT_OF_MEMORY, error)
    return EngineFailure(ArmStatus.CRASHED if ready else ArmStatus.REFUSED, error)
