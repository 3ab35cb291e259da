"""`specadvise probe server --watch`: a line each interval, acceptance against break-even, and a summary at the end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.output import print_json, say
from profiles.errors import InputError
from profiles.printable import plain

if TYPE_CHECKING:
    from advisor.cli.server_source import Access
    from advisor.record import Record
    from probes.server.watching import Tick
    from profiles.evidence import ServerEvidence
    from profiles.schema import Quantity


def watch_until_stopped(source: str, access: Access, interval_s: float, record_path: Path | None, count: int | None,
                        output_format: str, quiet: bool) -> ServerEvidence | None:
    """Print a line each interval until Ctrl-C or `count` lines, then the summary; all that was seen, or None.

    ProbeError when the server does not answer at first, or no longer does; the summary is printed before that.
    """
    from advisor.cli.report import load_record
    from advisor.cli.server_source import shown_source
    from probes.server.scraping import Fetcher, looks_like_address
    from probes.server.watching import together, watch_server

    if not looks_like_address(source):
        raise InputError(f"--watch follows a running server, and {source} is a file: give http://HOST:PORT")
    record = load_record(record_path) if record_path is not None else None
    if record is not None and record.decision.enable is not True:
        say("the record does not turn speculation on: there is no break-even to hold acceptance against", quiet)
    say(f"watching {shown_source(source)} every {interval_s:g} s; Ctrl-C ends it with a summary", quiet)
    ticks: Iterator[Tick] = watch_server(source, interval_s, Fetcher(access.token, access.headers, access.timeout_s),
                                         model=access.model)
    whole: ServerEvidence | None = None
    lines = 0
    try:
        for tick in ticks:
            lines += 1
            if tick.seen is None:
                say(f"no answer in this interval: {tick.missed}")
            else:
                whole = tick.seen if whole is None else together(whole, tick.seen)
                _print(line_of(tick.seen, record), output_format)
            if count is not None and lines >= count:
                break
    except KeyboardInterrupt:
        # The user's way to say that it is enough: what was seen is the result.
        pass
    finally:
        if whole is not None:
            _print({"summary": True, "intervals": lines, **line_of(whole, record)}, output_format)
    return whole


def line_of(seen: ServerEvidence, record: Record | None) -> dict[str, Any]:
    """One interval as a JSON line. `verdict` says where the interval of the acceptance length lies from break-even."""
    from advisor.observed import observed_acceptance, observed_load
    from advisor.promise import break_even_at, k_asked, last_priced
    from advisor.verdict import against
    from profiles.methods import method

    decided = record is not None and record.decision.enable is True
    always = method(record.decision.method or "none").always_drafts if record is not None and decided else True
    observed = observed_acceptance(seen, always)
    load = observed_load(seen)
    each = max(1.0, load.value) if load is not None else None
    needed, notes = None, [*(item.message for item in seen.implausible), *seen.notes]
    if record is not None and decided and each is not None:
        k = k_asked(record, each)
        needed, top = break_even_at(record, k, each), last_priced(record, k)
        if needed is not None and top is not None and each > top:
            notes.append(f"break-even is that of {top} running, the largest load priced")
    verdict = None
    if observed is not None and needed is not None:
        verdict = against(observed.length, needed)
    counters = seen.speculation
    return {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"), "window_s": round(seen.window_s, 3),
        "running": _document(load), "waiting": None if seen.waiting is None else seen.waiting.value,
        "speculation": counters is not None and counters.enabled,
        "k": None if observed is None else round(observed.k, 2),
        "acceptance_length": _document(observed.length) if observed is not None else None,
        "per_position": list(observed.positions) if observed is not None else [],
        "drafts": counters.drafts if counters is not None and counters.in_window else 0.0,
        "break_even": _document(needed), "verdict": verdict,
        "tpot_ms": _document(seen.tpot_ms) if seen.requests_in_window != 0 else None,
        "tokens_per_s": None if seen.generation_tokens_per_s is None else seen.generation_tokens_per_s.value,
        "notes": notes,
    }


def _document(found: Quantity | None) -> dict[str, Any] | None:
    return None if found is None else found.model_dump(mode="json", include={"value", "low", "high", "n"})


def _print(line: dict[str, Any], output_format: str) -> None:
    if output_format == "json":
        print_json(line, one_line=True)
    else:
        click.echo(plain(text_of(line)))


def text_of(line: dict[str, Any]) -> str:
    """One interval as a line for people."""
    when = "total   " if line.get("summary") else str(line["at"])[11:19]
    parts = [f"{when}  running {_with_range(line['running'])}"]
    if line["waiting"]:
        parts.append(f"waiting {line['waiting']:.3g}")
    length = line["acceptance_length"]
    if length is not None:
        parts.append(f"{_with_range(length)} tokens/step, k {line['k']:g}, {length['n']:,} steps")
        if line["per_position"]:
            parts.append("by position " + " ".join(f"{share:.0%}" for share in line["per_position"]))
    else:
        parts.append("no draft" if line["speculation"] else "no speculation")
    if line["break_even"] is not None:
        needed = f"break-even {line['break_even']['value']:.2f}"
        parts.append(f"{line['verdict']} {needed}" if line["verdict"] else needed)
    if line["tpot_ms"] is not None:
        parts.append(f"{line['tpot_ms']['value']:.3g} ms/token")
    if line["tokens_per_s"] is not None:
        parts.append(f"{line['tokens_per_s']:,.0f} tokens/s")
    told = [note for note in line["notes"] if any(word in note for word in _TOLD)]
    return "  ".join([*parts, *told])


_TOLD = ("counters are wrong", "restarted", "load balancer", "largest load priced")
"""Notes that a line is misread without."""


def _with_range(found: dict[str, Any] | None) -> str:
    if found is None:
        return "N/A"
    text = f"{found['value']:.3g}"
    if found["low"] is not None and found["high"] is not None and found["low"] < found["high"]:
        text += f" ({found['low']:.3g} to {found['high']:.3g})"
    return text
