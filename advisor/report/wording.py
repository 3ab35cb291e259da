"""How a report says numbers and names: the same words in every format."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

from advisor.intervals import shown_apart
from advisor.record import Record
from advisor.spoken_figures import source_said
from profiles.printable import plain as plain
from profiles.schema import Quantity, Source

_SOURCE_WORDS: Final[dict[str, str]] = {
    "measured": "measured on your engine",
    "recorded": "recorded: read from a running system, or worked out from recorded outputs",
    "modelled from the trial": "modelled from what the trial timed at other k, loads or lengths",
    "modelled": "modelled from published facts, not measured",
    "assumed": "assumed from published cases, not measured here",
}
_MARKS: Final[dict[str, str]] = dict(zip(_SOURCE_WORDS, ("", "°", "†", "‡", "?"), strict=True))
"""What stands behind a figure in a table whose figures are of several sources."""


def source_words(source: Source, from_trial: bool = False) -> str:
    """What a source means, for someone who has not read the documentation."""
    return _SOURCE_WORDS[source_said(source, from_trial)]


class SourceMarks:
    """The marks of one table's figures, and the legend under it: no marks where all are of one source."""

    def __init__(self, found: Iterable[tuple[Source, bool]]) -> None:
        """found: source of each figure, and whether it follows from a trial."""
        said = {source_said(*each) for each in found}
        self._kinds = [kind for kind in _SOURCE_WORDS if kind in said]

    def of(self, source: Source, from_trial: bool = False, star: str | None = None) -> str:
        """The mark of one figure, as wide as any of the table's; with the star of a figure in a column where some have
        one."""
        several = len(self._kinds) > 1
        mark = _MARKS[source_said(source, from_trial)] if several else ""
        return f"{mark}{star or ''}".ljust(several + (star is not None))

    @property
    def legend(self) -> str:
        """`no mark: measured on your engine; † modelled from ...`; one source for all of them; empty without any."""
        if len(self._kinds) == 1:
            return f"every figure is {_SOURCE_WORDS[self._kinds[0]]}"
        return "; ".join(f"{_MARKS[kind] or 'no mark:'} {_SOURCE_WORDS[kind]}" for kind in self._kinds)

QUESTION_WORDS: Final[dict[str, str]] = {
    "predictable_text": "Is the text predictable?",
    "memory": "Is there memory?",
    "creative_or_hot": "Is it creative or hot?",
    "concurrency": "Is concurrency high?",
    "prefill_share": "How much time goes into prompts?",
    "cost_of_step": "What does a step cost?",
    "evidence": "How good is the evidence?",
    "other": "The verdict:",
}

LIMIT_WORDS: Final[dict[str, str]] = {
    "acceptance": "too few drafted tokens are accepted",
    "draft_time": "drafting takes too long",
    "verify_compute": "verifying the extra tokens is no longer cheap at this load",
    "overhead": "the fixed cost of each step eats the gain",
    "prefill_share": "most of the time goes into reading prompts",
    "memory": "memory is short",
    "nothing": "",
}
"""What a candidate loses most by, by `Priced.limited_by`."""


def times(value: float | None) -> str:
    """A speed-up: 1.42×."""
    if value is None:
        return "–"
    return f"{value:.2f}×" if value < 10 else f"{value:.1f}×"


def percent(share: float | None) -> str:
    """A probability or share (of 1); never rounded to a certainty it is not."""
    if share is None:
        return "–"
    if 0 < share < 0.005:
        return "<1 %"
    if 0.995 < share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


def number(value: float | None) -> str:
    """Three significant digits, thousands marked."""
    if value is None:
        return "–"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100 or value == int(value):
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"


def span(low: float | None, high: float | None, *, unit: str = "", apart: float | None = None,
         decimals: int = 2) -> str:
    """An interval: 1.31–1.55; a dash where there is none. `apart`: a threshold that no end may be rounded onto; both
    ends then have the decimals that takes, and `decimals` at least."""
    if low is None and high is None:
        return "–"
    if low is None or high is None:
        return f"≤ {number(high)}{unit}" if low is None else f"≥ {number(low)}{unit}"
    if apart is not None:
        decimals = max(decimals, _decimals_apart(low, apart), _decimals_apart(high, apart))
        if decimals > 2:
            return f"{low:.{decimals}f}–{high:.{decimals}f}{unit}"
    return f"{_even(low, high)}{unit}"


def spans(bounds: Sequence[tuple[float | None, float | None]], apart: float) -> list[str]:
    """Intervals of one column, as `span` writes each, with as many decimals as one of them needs to keep an end from
    reading as the threshold `apart`."""
    decimals = max((_decimals_apart(end, apart) for pair in bounds for end in pair if end is not None), default=2)
    return [span(low, high, apart=apart, decimals=decimals) for low, high in bounds]


def _decimals_apart(bound: float, threshold: float) -> int:
    return len(shown_apart(bound, threshold).partition(".")[2])


def alike(values: Sequence[float]) -> list[str]:
    """Figures of one column, all with the decimals that the largest of them deserves (three significant digits), and
    with one where that would leave another less than two digits."""
    most, least = max(map(abs, values), default=0.0), min(map(abs, values), default=0.0)
    decimals = 2 if most < 10 else 1 if most < 100 or least < 10 else 0
    return [f"{value:,.{decimals}f}" for value in values]


def _even(low: float, high: float) -> str:
    """Both ends with the same number of decimals."""
    if max(abs(low), abs(high)) < 10:
        return f"{low:.2f}–{high:.2f}"
    if max(abs(low), abs(high)) < 100:
        return f"{low:.1f}–{high:.1f}"
    return f"{low:,.0f}–{high:,.0f}"


def speedup(value: float, low: float | None, high: float | None, *, apart: float | None = None) -> str:
    """1.42× (1.31–1.55)."""
    return times(value) if low is None and high is None else f"{times(value)} ({span(low, high, apart=apart)})"


def worthwhile(record: Record) -> float:
    """The speed-up that a bound is held against."""
    return 1.0 + record.deployment.objective.worthwhile_gain


def chance_words(record: Record) -> str:
    """What tables call `probability_of_gain`: of a gain above the worthwhile one, not of any."""
    return f"chance of gain >{percent(record.deployment.objective.worthwhile_gain)}"


def quantity(q: Quantity, unit: str = "") -> str:
    """Value and interval of one quantity, with its unit."""
    text = number(q.value)
    if q.low is not None and q.high is not None:
        text += f" ({span(q.low, q.high)})"
    return f"{text} {unit}".rstrip()


def gib(value: float | None) -> str:
    """Memory in GiB."""
    return "–" if value is None else f"{value:,.1f} GiB" if value >= 0.1 or value == 0 else f"{value * 1024:,.0f} MiB"


def count(value: float | None) -> str:
    """A whole number, thousands marked."""
    return "–" if value is None else f"{value:,.0f}"


def requests(running: int) -> str:
    return f"{running:,} running request{'' if running == 1 else 's'}"


def faster(value: float) -> str:
    """A speed-up in plain words: `42 % faster`, `8 % slower`, `no faster`."""
    change = round(100 * (value - 1))
    if change == 0:
        return "no faster"
    return f"{change} % faster" if change > 0 else f"{-change} % slower"


def distinct(names: Sequence[str], most: int = 36) -> list[str]:
    """The names as a chart's legend can show them: of long ones the part is kept in which they differ, and where two
    are cut to the same a number tells them apart."""
    long = [name for name in names if len(name) > most]
    columns = zip(*long, strict=False) if len(long) > 1 else ()
    alike = sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))
    found: list[str] = []
    for name in names:
        cut = name
        if len(name) > most:
            head = name[:11] + "…" if alike > 19 else ""
            cut = head + _middle_cut(name[alike - 8 :] if head else name, most - len(head))
        shown, again = cut, 1
        while shown in found:
            again += 1
            shown = f"{again}. {cut}"
        found.append(shown)
    return found


def _middle_cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - most // 2 - 1]}…{text[-(most // 2) :]}"
