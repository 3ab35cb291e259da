"""One metrics page read into a `Scrape`: the engine it belongs to, and its samples without prefixes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from probes.server.names import ENGINES, EngineNames, Names
from profiles.errors import ProbeError, SpecadviseError

MODEL_LABEL = "model_name"
Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Series:
    """One time series at one moment."""

    name: str
    """Without the engine's prefix; counters without `_total`."""
    labels: Labels
    value: float

    def label(self, key: str) -> str | None:
        return next((value for name, value in self.labels if name == key), None)


@dataclass(frozen=True)
class Scrape:
    """One page. `at_s` is when it was taken (any clock, only differences count); None for a saved dump."""

    names: EngineNames
    series: tuple[Series, ...]
    origin: str
    at_s: float | None = None
    process_start_s: float | None = None
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def _by_name(self) -> dict[str, list[Series]]:
        index: dict[str, list[Series]] = {}
        for one in self.series:
            index.setdefault(one.name, []).append(one)
        return index

    def named(self, alternatives: Names) -> tuple[Series, ...]:
        """All series of the first alternative that is present."""
        for name in alternatives:
            if name in self._by_name:
                return tuple(self._by_name[name])
        return ()

    def suffixed(self, alternatives: Names, suffix: str) -> tuple[Series, ...]:
        """A histogram's `_bucket`, `_sum` or `_count` series, for the first alternative present."""
        return self.named(tuple(name + suffix for name in alternatives))

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(sorted({m for s in self.series if (m := s.label(MODEL_LABEL)) is not None}))

    def only(self, model: str | None) -> Scrape:
        """The series of one model; all of them for None."""
        if model is None:
            return self
        kept = tuple(s for s in self.series if s.label(MODEL_LABEL) == model)
        return Scrape(self.names, kept, self.origin, self.at_s, self.process_start_s, self.notes)


def read_metrics(text: str, origin: str, *, at_s: float | None = None,
                 failure: type[SpecadviseError] = ProbeError) -> Scrape:
    """Parse a Prometheus text page of a known engine.

    `origin` names it in errors (no credentials in it). Raises `failure` with one sentence when the page is empty, HTML,
    JSON, a compressed body, not Prometheus text, or the page of a server that is no known engine. A last line cut in
    the middle (a dump still being written) and what a terminal put before or behind the page are dropped and said in
    the notes.
    """
    text = _without_http_head(text)
    _refuse_other_content(text, origin, failure)
    notes: list[str] = []
    if _ends_in_a_cut_number(text):
        text = text.rpartition("\n")[0] + "\n"
        notes.append(f"{origin}: {_CUT}")
    try:
        samples = _samples(text)
    except _DAMAGE as error:
        repaired = _repaired(text)
        if repaired is None:
            raise failure(f"{origin} is not Prometheus text ({_short(error)}): expected the page that "
                          "`curl http://HOST:PORT/metrics` prints") from error
        samples, note = repaired
        notes.append(f"{origin}: {note}")
    names, prefix = _recognise((name for name, _, _ in samples), origin, failure)
    # Several API processes export no start of theirs: then the birth of the engine's oldest series stands for it.
    born = [value for name, _, value in samples
            if name.startswith(prefix) and name.endswith("_created") and math.isfinite(value)]
    starts = [value for name, _, value in samples if name == "process_start_time_seconds"]
    start = starts[-1] if starts else min(born, default=None)
    counts = names.counts
    for name, _, value in samples:
        if not math.isfinite(value) and name.startswith(prefix) and _bare(name, prefix) in counts:
            raise failure(f"{origin}: {name} is {value}, which counts nothing: expected a number; take the page again")
    series = [
        Series(_bare(name, prefix), frozenset((k, v) for k, v in labels.items()), float(value))
        for name, labels, value in samples
        # `_created` holds the birth time of a series: a large number that looks like a counter.
        if name.startswith(prefix) and not name.endswith("_created") and math.isfinite(value)
    ]
    once = list({(one.name, one.labels): one for one in series}.values())
    if len(once) < len(series):
        notes.append(f"{origin}: {len(series) - len(once):,} series stand on it more than once, as on a page "
                     "that was pasted twice: the last value of each is read")
    return Scrape(names, tuple(_lowest_rank_only(once, names.tensor_rank_labels)), origin, at_s, start, tuple(notes))


_DAMAGE = (ValueError, KeyError, IndexError)
"""What the parser raises on text it cannot read."""
_Samples = list[tuple[str, dict[str, str], float]]
_METRIC_LINE = re.compile(r"""\s*(?:\#|(?:[a-z_:][\w:]*\s*(?:\{.*\})?|\{".*\})\s+[-+]?(?:\d|\.\d|inf|nan))""",
                          re.IGNORECASE)


_WHOLE_AT_END = re.compile(r"\s[0-9]+\s*$")
_CUT = "the last line is cut and was left out"


def _without_http_head(text: str) -> str:
    """The body of an answer that was saved with its headers (`curl -i`), one head for each redirect."""
    while text.startswith("HTTP/"):
        head = re.match(r"(?:[^\n]*\S[^\n]*\n)+\s*?\n", text)
        if head is None:
            break
        text = text[head.end():]
    return text


def _ends_in_a_cut_number(text: str) -> bool:
    """Whether the page may stop inside a number that still reads as one: 61 of 6186.0, or 0. of 0.25. Engines end
    every line and write every value as a float, so a last line without its newline is not to be relied on, but on a
    page that writes whole numbers too and was saved by something that trims."""
    before, _, last = text.rpartition("\n")
    if not before or not last.strip() or last.lstrip().startswith("#"):
        return False
    return not any(_WHOLE_AT_END.search(line) and not line.startswith("#") for line in before.split("\n"))


def _repaired(text: str) -> tuple[_Samples, str] | None:
    """The samples without what is no part of the page, and the words for that; None where it is damaged inside.

    A line without its newline is a page that ended early. Lines before and behind the page are a terminal's: a prompt,
    a progress meter. A line between metrics is damage, and what it said is not known.
    """
    whole, _, cut = text.rpartition("\n")
    if whole and cut:
        try:
            return _samples(whole + "\n"), _CUT
        except _DAMAGE:
            pass
    lines = text.split("\n")
    metric = [number for number, line in enumerate(lines) if _METRIC_LINE.match(line)]
    if not metric or len(metric) * 2 < len([line for line in lines if line.strip()]):
        return None
    try:
        samples = _samples("\n".join(lines[metric[0]:metric[-1] + 1]) + "\n")
    except _DAMAGE:
        return None
    return samples, "what stands before or behind the metrics was left out"


def _samples(text: str) -> _Samples:
    from prometheus_client.parser import text_string_to_metric_families

    return [(s.name, s.labels, s.value) for family in text_string_to_metric_families(text) for s in family.samples]


def _refuse_other_content(text: str, origin: str, failure: type[SpecadviseError]) -> None:
    head = text.lstrip("\ufeff \t\r\n")[:200].lower()
    expected = "expected the engine's Prometheus page (http://HOST:PORT/metrics)"
    if not head:
        raise failure(f"{origin} is empty: {expected}; check that the engine runs with its metrics on")
    if head.startswith(("<!doctype", "<html", "<?xml", "<head", "<body")):
        raise failure(f"{origin} is a web page, not metrics: {expected}; check host, port and path, and whether a "
                      "login page stands in front")
    # A name in quotes inside the braces is Prometheus text too: metric names outside ASCII are written so.
    if head.startswith("[") or (head.startswith("{") and re.match(r'\{"[^"]*"\s*[,}]', head) is None):
        raise failure(f"{origin} is JSON, not metrics: {expected}; check the path, and whether an API key is needed")
    if "\x00" in text[:4096] or text.startswith("\x1f"):
        raise failure(f"{origin} is binary or compressed, not text: {expected}; unpack it first")


def _recognise(sample_names: Iterable[str], origin: str, failure: type[SpecadviseError]) -> tuple[EngineNames, str]:
    present = set(sample_names)
    for names in ENGINES:
        for prefix in names.prefixes:
            known = (*names.running, *names.waiting, *names.kv_usage)
            if any(prefix + name in present for name in known) or any(
                prefix + name + suffix in present
                for name in (*names.generation_total, *names.prompt_total) for suffix in ("", "_total")
            ):
                return names, prefix
    if not present:
        raise failure(f"{origin} holds no metric at all: expected the page that `curl http://HOST:PORT/metrics` prints")
    seen = sorted({name.partition(":")[0] for name in present if ":" in name})
    what = f"metrics of {', '.join(seen[:3])}" if seen else f"{len(present)} metrics such as {min(present)}"
    raise failure(f"{origin} holds {what}, none of them of vLLM or SGLang: point to the engine itself, and start vLLM "
                  "without --disable-log-stats (SGLang with --enable-metrics)")


def _bare(name: str, prefix: str) -> str:
    # iteration_tokens_total is a histogram whose own name ends so: its series end in _bucket, _sum, _count.
    return name.removeprefix(prefix).removesuffix("_total")


def _lowest_rank_only(series: list[Series], rank_labels: Names) -> list[Series]:
    if not rank_labels:
        return series

    def rank(one: Series) -> tuple[tuple[int, str], ...]:
        texts = (one.label(key) or "0" for key in rank_labels)
        return tuple((int(t) if t.isdigit() else 0, t) for t in texts)

    lowest: dict[tuple[str, Labels], Series] = {}
    for one in series:
        key = (one.name, frozenset((k, v) for k, v in one.labels if k not in rank_labels))
        if key not in lowest or rank(one) < rank(lowest[key]):
            lowest[key] = one
    return list(lowest.values())


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return (text[:80] + "...") if len(text) > 80 else text or type(error).__name__
