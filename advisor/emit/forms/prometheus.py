"""Prometheus alert rules from what the record promises.

Each series is one engine, as the promises are: nothing is summed over replicas. Names of metrics as vLLM 0.10 to 0.33
exposes them (`v1/metrics/loggers.py`, `v1/spec_decode/metrics.py`); the engine before counted drafts in other ways, and
gets no rules on speculation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from advisor.emit.heading import speculates
from advisor.emit.serving import Serving, Written
from advisor.emit.yaml_text import Entry
from advisor.emit.yaml_text import write as write_yaml
from advisor.promise import BEYOND, break_even_at, decided_candidate, k_asked, largest_load
from advisor.record import Record
from profiles.methods import method
from profiles.schema import Quantity, counted

TITLE = "Prometheus alert rules"
FILES = ("alerts.yaml",)
WINDOW = "15m"
PENDING = "5m"
ENOUGH_DRAFTS = 1000
"""Drafts of a window from which its acceptance is worth judging: with ten counted as one observation, the mean of k
positions is then known to about 6 % of k."""
COLLAPSED = 0.5
"""Share of the record's acceptance of position 1 below which the draft no longer fits what it is asked."""
ALIKE = 1.05
"""Break-evens of neighbouring loads up to this factor apart share a rule."""

Rule = dict[str, Any]


def write(serving: Serving) -> Written:
    """alerts.yaml, for `rule_files` of Prometheus."""
    notes: list[str] = []
    rules = [*_speculation(serving, notes), *_load(serving)]
    if "disable-log-stats" in serving.options:
        notes.append("disable-log-stats is set: the server counts nothing, and no rule ever fires")
    header = serving.heading(
        TITLE, "Name it under rule_files; promtool check rules alerts.yaml checks it.",
        "For the Prometheus operator: put groups under spec of a PrometheusRule.",
        notes=notes,
    )
    groups = [{"name": f"specadvise-{serving.name}", "rules": rules}]
    return Written({"alerts.yaml": write_yaml(header, [Entry("groups", groups)])}, tuple(notes))


class _Series:
    """Expressions over the server's metrics, one value an engine."""

    def __init__(self, serving: Serving) -> None:
        self.selector = _selector(serving)
        self.always_drafts = method(decided_candidate(serving.record).method).always_drafts

    def rate(self, name: str) -> str:
        return f"rate(vllm:{name}{self.selector}[{WINDOW}])"

    @property
    def running(self) -> str:
        return f"avg_over_time(vllm:num_requests_running{self.selector}[{WINDOW}])"

    @property
    def steps(self) -> str:
        """Steps of requests a second; those without a draft are told from the tokens where a method has such."""
        if self.always_drafts:
            return self.rate("spec_decode_num_drafts_total")
        return (f"({self.rate('generation_tokens_total')} "
                f"- sum without (finished_reason) ({self.rate('request_success_total')}) "
                f"- {self.rate('spec_decode_num_accepted_tokens_total')})")

    @property
    def acceptance_length(self) -> str:
        return f"1 + {self.rate('spec_decode_num_accepted_tokens_total')} / {self.steps}"

    @property
    def first_position(self) -> str:
        chosen = self.selector[:-1] + ', position="0"}'
        return (f"sum without (position) (rate(vllm:spec_decode_num_accepted_tokens_per_pos_total{chosen}[{WINDOW}])) "
                f"/ {self.steps}")

    @property
    def enough(self) -> str:
        return f"increase(vllm:spec_decode_num_drafts_total{self.selector}[{WINDOW}]) > {ENOUGH_DRAFTS}"


def _selector(serving: Serving) -> str:
    """This model's series only: other servers may be scraped beside it."""
    name = serving.served_name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{model_name="{name}"}}'


def _speculation(serving: Serving, notes: list[str]) -> list[Rule]:
    record = serving.record
    if not speculates(record.decision):
        notes.append("the config runs without speculation, so no rule looks at drafts")
        return []
    if serving.release.has("v0_engine"):
        notes.append(f"vLLM {serving.release.version} does not count its drafts under the names known here, so no "
                     "rule looks at them")
        return []
    series = _Series(serving)
    return [*_below_break_even(record, series), *_collapsed(record, series), *_beyond_crossover(record, series)]


def _below_break_even(record: Record, series: _Series) -> Iterator[Rule]:
    for above, up_to, k, even in _bands(record):
        yield _rule(
            "SpeculationBelowBreakEven",
            f"({series.acceptance_length}) < {even.value:.4g} and {series.running} > {above:.4g} "
            f"and {series.running} <= {up_to:.4g} and {series.enough}",
            "Speculation costs more than it gains at this load",
            f"{{{{ $value | humanize }}}} tokens a step over {WINDOW}; at {_between(above, up_to)} running requests "
            f"k = {k} pays above {even.value:.2f}. Run `specadvise verify`: it says whether to change k or to turn "
            "speculation off.",
            f"break-even acceptance length of k = {k} at such loads, from the record ({even.source.value})",
            load=_between(above, up_to),
        )


def _bands(record: Record) -> list[tuple[float, float, int, Quantity]]:
    """Loads above one and up to another, the k there and its break-even acceptance length, up to where no k pays any
    more, or to where the record says nothing. Neighbours that hardly differ are one band, with the lower break-even: no
    alert where speculation still gains. (It rises with the load for dense targets, and falls for mixtures of experts
    whose further tokens touch no further experts.)"""
    candidate, end = decided_candidate(record), record.decision.crossover_load
    priced = sorted({cell.running for cell in record.candidates if cell.candidate == candidate and cell.k > 0})
    edges = [0.0, *(float(load) for load in priced if end is None or load < end)]
    edges.append(float(end) if end is not None else BEYOND * largest_load(record))
    bands: list[tuple[float, float, int, Quantity]] = []
    for above, up_to in itertools.pairwise(edges):
        middle = min(math.sqrt(max(above, 1.0) * up_to), float(priced[-1]))
        k = k_asked(record, middle)
        even = break_even_at(record, k, middle) if k else None
        if even is None or up_to <= above:
            continue
        before = bands[-1] if bands else None
        alike = before is not None and 1 / ALIKE <= even.value / before[3].value <= ALIKE
        if before is not None and alike and before[1:3] == (above, k):
            bands[-1] = (before[0], up_to, k, min(before[3], even, key=lambda found: found.value))
        else:
            bands.append((above, up_to, k, even))
    return bands


def _between(above: float, up_to: float) -> str:
    return f"{above:.0f} to {up_to:.0f}"


def _collapsed(record: Record, series: _Series) -> Iterator[Rule]:
    positions = record.per_position.get(decided_candidate(record).label)
    if not positions or positions[0].value <= 0:
        return
    first = positions[0]
    threshold = COLLAPSED * first.value
    yield _rule(
        "FirstDraftedTokenRejected",
        f"{series.first_position} < {threshold:.3g} and {series.enough}",
        f"The first drafted token is accepted far less often than {first.source.value}",
        f"{{{{ $value | humanizePercentage }}}} of the steps over {WINDOW}, {first.source.value} {first.value:.0%}: "
        "other text, other sampling, or a draft that is not the target's any more.",
        f"half of {first.value:.2f}, the record's acceptance of position 1 ({first.source.value})",
    )


def _beyond_crossover(record: Record, series: _Series) -> Iterator[Rule]:
    load = record.decision.crossover_load
    if load is None:
        return
    rests = k_asked(record, load) == 0
    yield _rule(
        "LoadBeyondCrossover",
        f"{series.running} >= {load}",
        "More requests run than speculation pays for",
        f"{{{{ $value | humanize }}}} running over {WINDOW}; from {load} on no k gains. "
        + ("The schedule drafts nothing there: the draft only takes memory. " if rests else "")
        + "Add a replica, or turn speculation off for such hours.",
        "crossover load of the record",
        severity="info" if rests else "warning",
    )


def _load(serving: Serving) -> list[Rule]:
    selector = _selector(serving)
    memory, decision = serving.record.memory, serving.record.decision
    on = speculates(decision)
    room = memory.kv_tokens_with if on else memory.kv_tokens_without
    kept = "" if room is None else f" It was planned with {room:,} tokens of KV cache"
    if kept and on and memory.kv_tokens_without is not None:
        kept += f"; without speculation there would be {memory.kv_tokens_without:,}"
    running = counted(decision.running, "running request")
    return [
        _rule("RequestsWaiting", f"min_over_time(vllm:num_requests_waiting{selector}[{WINDOW}]) > 0",
              "Requests have been waiting all the time",
              f"At least {{{{ $value | humanize }}}} requests waited at every look over {WINDOW}. The advice is for "
              f"{running} and none waiting: advise again for this load, or add a replica.",
              f"none waiting, as the advice for {running} assumes"),
        _rule("RequestsPreempted", f"increase(vllm:num_preemptions_total{selector}[{WINDOW}]) > 0",
              "Requests lose their KV cache to others",
              f"{{{{ $value | humanize }}}} preemptions in {WINDOW}: what was computed is computed again.{kept}"
              + ("." if kept else "") + (" The draft's weights and cache are part of what is missing." if on else ""),
              "no preemption, as the memory plan of the record assumes"),
    ]


def _rule(alert: str, expr: str, summary: str, description: str, source: str, *, severity: str = "warning",
          load: str | None = None) -> Rule:
    return {"alert": alert, "expr": expr, "for": PENDING,
            "labels": {"severity": severity, **({"load": load} if load else {})},
            "annotations": {"summary": summary, "description": description, "threshold_source": source}}
