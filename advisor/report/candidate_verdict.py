"""Why a candidate is or is not the one advised, in the words of a report's table."""

from __future__ import annotations

import math

from advisor.record import Priced, Record
from advisor.report.curves import Curve, cannot_run
from advisor.report.wording import LIMIT_WORDS, number, span, worthwhile
from advisor.spoken_figures import held_back_said


def why(record: Record, curve: Curve, cell: Priced, speedup: float, advised: Priced | None = None) -> str:
    """Why a candidate is or is not the one advised, given the speed-up stated for it and the cell advised."""
    if curve.chosen and record.decision.enable:
        return "advised"
    if cannot_run(curve):
        return "cannot run"
    if not cell.fits:
        return "does not fit in memory"
    if cell.meets_slo is not False:
        return _by_speed(record, curve, cell, speedup, advised)
    if _kept_without(record, cell):
        cause = _cause(cell) if speedup < 1 else ""
        return f"misses the SLO{missed(record, cell)}" + (f": {cause}" if cause else "")
    # What no speculation misses too does not tell the candidates apart.
    by_speed = _by_speed(record, curve, cell, speedup, advised)
    return f"{by_speed}; misses the SLO{missed(record, cell)}, as no speculation does"


def _by_speed(record: Record, curve: Curve, cell: Priced, speedup: float, advised: Priced | None) -> str:
    least, enable = worthwhile(record), record.decision.enable
    if curve.chosen and enable is None:
        return f"not decided{_undecided(cell, least)}"
    if speedup >= least:
        if not enable:
            # Where nothing is advised, an estimate that large was too uncertain to act on.
            return "its gain is not certain enough"
        if speedup >= (record.decision.speedup or math.inf):
            # A head whose match is confirmed, or a gain that is surer, comes before a larger guess.
            return "no better once doubts count"
        behind = LIMIT_WORDS[cell.limited_by] if advised is None else _behind(cell, advised)
        return "gains less" + (f": {behind}" if behind else "")
    verdict = "loses" if speedup < 1 else "gains too little"
    cause = _cause(cell)
    reaches = cell.held_back_by is not None and (cell.speedup.high or 0.0) > least
    return verdict + (f": {cause}" if cause else "") + (", though its interval reaches a gain" if reaches else "")


def _undecided(cell: Priced, least: float) -> str:
    """What keeps the candidate decided about from a decision: its interval, and what its middle lacks."""
    cause, low, high = _cause(cell), cell.speedup.low, cell.speedup.high
    if cell.held_back_by is None:
        return f": {cause}" if cause else ""
    if low is not None and high is not None and not low <= least <= high:
        return ": timed beside other work"
    if cell.speedup.value >= least:
        return f": {span(low, high)} is too wide an interval"
    return f": the interval {span(low, high)} reaches a gain, its middle does not" + (f", as {cause}" if cause else "")


def _cause(cell: Priced) -> str:
    """What keeps a cell from a gain worth having; of records that do not say, its largest loss."""
    if cell.held_back_by is None:
        return LIMIT_WORDS[cell.limited_by]
    return held_back_said(cell)


def _kept_without(record: Record, cell: Priced) -> bool:
    """Whether no speculation keeps the SLOs at the same load: what misses them just as it does is told by its speed."""
    null = next((c for c in record.candidates if c.k == 0 and c.running == cell.running), None)
    return null is None or null.meets_slo is not False


def missed(record: Record, cell: Priced) -> str:
    """Which limit on latency a cell misses, with the figures: ` (TPOT 74 ms, at most 60)`."""
    objective = record.deployment.objective
    found = [
        f"{name} {number(value)} ms, at most {limit:g}"
        for name, value, limit in (
            ("TTFT", cell.ttft_ms.value if cell.ttft_ms is not None else None, objective.ttft_ms),
            ("TPOT", cell.tpot_ms.value, objective.tpot_ms),
        )
        if value is not None and limit is not None and value > limit
    ]
    return f" ({'; '.join(found)})" if found else ""


_ALIKE = 0.005
"""Smaller differences, in logarithms, are none that a table shows."""


def _behind(cell: Priced, advised: Priced) -> str:
    """What a candidate that gains has less or more of than the one advised: what keeps it from k + 1 (`limited_by`) may
    keep the other from it just as much. Empty where nothing that a table shows tells them apart."""
    if cell.limited_by == "memory" != advised.limited_by:
        return LIMIT_WORDS["memory"]
    fewer = math.log(advised.acceptance_length.value / cell.acceptance_length.value)
    longer = math.log(cell.step_ms.value / advised.step_ms.value)
    if fewer >= max(longer, _ALIKE):
        return (f"fewer tokens per step ({cell.acceptance_length.value:.2f} against "
                f"{advised.acceptance_length.value:.2f})")
    if longer >= _ALIKE:
        more = {"drafting": cell.draft_ms - advised.draft_ms, "verifying": cell.verify_ms - advised.verify_ms,
                "overhead": cell.overhead_ms - advised.overhead_ms}
        return (f"its step takes longer ({cell.step_ms.value:.1f} ms against {advised.step_ms.value:.1f} ms), most of "
                f"that {max(more, key=lambda name: more[name])}")
    if cell.ttft_ms is not None and advised.ttft_ms is not None and cell.ttft_ms.value > advised.ttft_ms.value:
        return "its prompts take longer"
    return ""
