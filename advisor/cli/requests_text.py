"""How `probe requests` reads in a terminal."""

from __future__ import annotations

from typing import Any

from advisor.cli.probe_text import UNKNOWN, Rows, lengths, number, show_table, with_range
from profiles.schema import Quantity
from profiles.traffic import Arrivals, RequestsEvidence, TextSignals


def show_requests(found: RequestsEvidence) -> None:
    """All figures on stdout; what is not in the log says so."""
    rows: Rows = [
        ("files", ", ".join(f"{one.name} ({one.format})" for one in found.files[:6])
         + (f" and {len(found.files) - 6} more" if len(found.files) > 6 else "")),
        ("requests", f"{found.requests:,}" + (f", {found.failed:,} failed ones left out" if found.failed else "")),
        ("skipped lines", _skipped(found)),
        ("duration", UNKNOWN if found.duration_s is None else duration(found.duration_s)),
        ("arrivals", UNKNOWN if found.arrival_rate_rps is None else f"{number(found.arrival_rate_rps)} per second"
         + _busy(found.arrivals)),
        ("prompt tokens", lengths(found.prompt_tokens)),
        ("output tokens", lengths(found.output_tokens)),
    ]
    if found.tokens_from != "the log":
        rows.append(("counted from", found.tokens_from))
    rows += [
        ("output to prompt", UNKNOWN if found.output_to_prompt_ratio is None
         else f"{found.output_to_prompt_ratio:.3g}"),
        ("decoding", UNKNOWN if found.decode_time_share is None
         else f"{found.decode_time_share.value:.0%} of the requests' time"),
        ("TTFT, TPOT", f"{_time(found.ttft_ms)}, {_time(found.tpot_ms)}"),
        ("running requests", _running(found.concurrency)),
        ("models", ", ".join(found.models) or UNKNOWN),
    ]
    if found.cached_prompt_share is not None:
        rows.append(("prompt cached", f"{found.cached_prompt_share.value:.0%} ({found.cached_prompt_share.note})"))
    if found.temperature is not None and found.text is None:
        rows.append(("temperature", f"usually {found.temperature.usual:g}, mean {found.temperature.mean:.2g}"))
    if found.text is not None:
        rows += _text(found.text)
    speculation = (found.engine or {}).get("speculation")
    if isinstance(speculation, dict) and speculation:
        rows.append(("speculation", ", ".join(f"{key} {_short(value)}" for key, value in speculation.items()
                                               if key != "implausible" and value not in (None, []))))
    show_table("Recorded requests", rows, found.notes)


def _time(found: Quantity | None) -> str:
    """Medians say so; what says nothing is a mean."""
    median = found is not None and "median" in found.note
    return with_range(found, unit=" ms") + (" (median)" if median else "")


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "/".join(_short(one) for one in value)
    return str(value)


def _skipped(found: RequestsEvidence) -> str:
    if not found.skipped:
        return "none"
    return "; ".join(f"{count:,} {reason}" + (f" ({', '.join(found.skipped_at[reason][:3])})"
                                              if reason in found.skipped_at else "")
                     for reason, count in sorted(found.skipped.items(), key=lambda one: -one[1]))


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.3g} s"


def _busy(arrivals: Arrivals | None) -> str:
    if arrivals is None:
        return ""
    if arrivals.busy_window_s < 3600:
        return f" (shorter than an hour{_bursts(arrivals)})"
    start = f"{arrivals.start[:16]} + " if arrivals.start else ""
    return (f"; busiest hour {number(arrivals.busy_rate_rps)} per second, from {start}{duration(arrivals.busy_start_s)}"
            f"{_bursts(arrivals)}")


def _bursts(arrivals: Arrivals) -> str:
    return "" if arrivals.dispersion is None else f"; variance over mean per second {arrivals.dispersion:.2g}"


def _running(found: dict[str, Any]) -> str:
    marks = [f"{name} {number(found[name])}" for name in ("mean", "p95", "max") if found.get(name) is not None]
    waiting = found.get("with_waiting")
    extra = f"; with those waiting mean {number(waiting['mean'])}" if isinstance(waiting, dict) else ""
    return f"{', '.join(marks)} ({found.get('basis')}{extra})" if marks else f"{UNKNOWN} ({found.get('basis')})"


def _text(text: TextSignals) -> Rows:
    mix = ", ".join(f"{task.value} {share:.0%}" for task, share in
                    sorted(text.tasks.items(), key=lambda one: -one[1]))
    rows: Rows = [("task mix", f"{mix} ({text.tasks_from}, {text.requests:,} requests)")]
    if text.structured_output is not None:
        rows.append(("structured output", with_range(text.structured_output, 100, " %")))
    if text.output_copies_prompt is not None:
        rows.append(("output copies prompt", with_range(text.output_copies_prompt, 100, " % of its 4-word runs")))
    rows += [(name.replace("_", " "), f"usually {one.usual:g} ({one.usual_share:.0%} of the {one.requests:,} that "
                                      f"state it), {one.low:g} to {one.high:g}") for name, one in text.sampling.items()]
    return rows
