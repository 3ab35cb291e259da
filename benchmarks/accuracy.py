"""How far predictions are off on publications they have not seen: writes docs/accuracy.md.

    python -m benchmarks.accuracy            some minutes on one core

Leave-one-publication-out throughout: constants, prior and intervals of every row come from other publications alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from advisor.cases.case import parse_case
from advisor.cases.lines import predict_table
from advisor.cases.model import Model, shipped_model
from advisor.cases.table import table_of
from advisor.fitting.crossval import Folds, cross_validated
from advisor.fitting.rows import case_of, swept
from benchmarks.accuracy_scores import Scored, bootstrap, summary, top_choice_regret
from profiles.catalog.measurements import Measurement
from profiles.methods import method

OUT = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"
KINDS = {"given": "acceptance given where published", "not_given": "acceptance never given",
         "calibrated": "one local point (load sweeps, lowest load measured)"}
_HEAD = ("| | n | median % | p90 % | bias % | gain/loss balanced % | losses seen % | regret % | always on % | "
         "80 % interval covers % | its width |\n|---|---|---|---|---|---|---|---|---|---|---|")


def predictions(folds: Folds, models: dict[str, Model], kind: str) -> list[Scored]:
    """Every open row of a kind of case, predicted by the model of its publication."""
    found: list[Scored] = []
    for name, model in models.items():
        own = [row for row in folds.scored if row.source_group == name]
        if kind == "calibrated":
            pairs = [(row, case_of(row, measured=points)) for row, points in swept(own)]
        else:
            pairs = [(row, case_of(row, acceptance=kind == "given")) for row in own]
        table, refused = table_of([parse_case(case) for _, case in pairs])
        rows = [row for i, (row, _) in enumerate(pairs) if i not in refused]
        for row, p in zip(rows, predict_table(table, model) if rows else [], strict=True):
            if p["error"] is None:
                found.append(Scored(row, p["speedup"], p["speedup_low"], p["speedup_high"], p["enable"],
                                    p["limited_by"]))
    return found


def line(label: str, found: Sequence[Scored]) -> str:
    s = summary(found)
    numbers = [f"{s['n']:.0f}", *(_shown(s[name], 1) for name in (
        "median", "p90", "bias", "balanced", "loss_recall", "regret", "always_on"))]
    return f"| {label} | " + " | ".join([*numbers, _shown(s["covered"], 0), _shown(s["width"], 2)]) + " |"


def _shown(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "-"


def load_of(row: Measurement) -> str:
    if row.load_kind == "qps":
        return "requests per second"
    value = row.load_value or 0
    return "1" if value <= 1 else "2-8" if value <= 8 else "9-32" if value <= 32 else "33 and more"


def baselines(folds: Folds, found: Sequence[Scored]) -> list[tuple[str, list[Scored]]]:
    """Simple predictors on the same rows: always on at the method's median, Leviathan's formula, a plain roofline."""
    cases = [case_of(s.row) for s in found]
    table, _ = table_of([parse_case(case) for case in cases])
    c = table.of
    medians = {
        (name, kind): float(np.median([r.speedup for r in folds.scored
                                       if r.method == kind and r.source_group != name and r.speedup] or [1.5]))
        for name in {s.row.source_group for s in found} for kind in {s.row.method for s in found}
    }
    length = np.where(np.isnan(c["acceptance"]), 1.0 + 0.5 * np.minimum(c["k"], 3.0), c["acceptance"])
    cost = np.where(c["lookup"] > 0, 0.0, c["draft_read"] / c["active"])
    leviathan = length / (1.0 + np.where(c["parallel"] > 0, 1.0, c["k"]) * cost)
    read = c["params"] * c["bits"] / 8 / c["tp"] / (c["bandwidth"] * 1e9)
    per_token = 2 * c["active"] / c["tp"] / (c["tflops16"] * 1e12)
    running = np.maximum(1.0, c["running"])
    base = np.maximum(read, running * per_token)
    own = np.maximum(read, running * (1 + c["k"]) * per_token)
    drafted = c["draft_read"] * c["draft_bits"] / 8 / c["tp"] / (c["bandwidth"] * 1e9)
    roofline = length * base / (own + np.where(c["parallel"] > 0, 1.0, c["k"]) * drafted)

    def as_scored(values: Any) -> list[Scored]:
        return [Scored(s.row, float(v), float("nan"), float("nan"), bool(v > 1), "")
                for s, v in zip(found, values, strict=True)]

    return [
        ("always on, median of the method", as_scored(
            [medians[s.row.source_group, s.row.method] for s in found])),
        ("Leviathan's formula", as_scored(leviathan)),
        ("plain roofline", as_scored(roofline)),
    ]


def reliability(found: Sequence[Scored]) -> str:
    """How often the truth lies below each quantile the interval implies; equal where intervals are right."""
    sized = [s for s in found if not s.row.sign_only and s.high > s.low]
    rows = ["| interval of | 20 % | 40 % | 60 % | 80 % | 90 % |", "|---|---|---|---|---|---|"]
    z = {20: 0.2533, 40: 0.5244, 60: 0.8416, 80: 1.2816, 90: 1.6449}
    spread = np.array([max(math.log(s.speedup / s.low), 1e-6) / 1.2816 for s in sized])
    error = np.abs(np.array([s.error for s in sized]))
    inside = " | ".join(f"{100 * float(np.mean(error <= value * spread)):.0f} %" for value in z.values())
    return "\n".join([*rows, f"| covers | {inside} |"])


def worst(found: Sequence[Scored], count: int = 10) -> str:
    rows = ["| measured | predicted | what | limited by | flags of the row |", "|---|---|---|---|---|"]
    sized = sorted((s for s in found if not s.row.sign_only), key=lambda s: -abs(s.error))
    for s in sized[:count]:
        r = s.row
        setup = f"{r.source_group}: {r.target}, {r.gpu}, {r.method} k={r.k}, {r.load_kind} {r.load_value:g}"
        rows.append(f"| {s.true:.2f} | {s.speedup:.2f} | {setup} | {s.limited_by} | {', '.join(r.flags) or '-'} |")
    return "\n".join(rows)


_COLUMNS = (
    "Columns: errors by their median and 90th percentile, and their mean (bias); the mean of the share of gains told "
    "as gains and of losses told as losses (balanced), and the second of these (losses seen); the speed lost by going "
    "on where a gain is predicted and staying off elsewhere (regret), and by going on everywhere (always on). The row "
    "of a simple predictor has its own regret, and the same last one. `-`: nothing of the kind, or only gain or loss "
    "is published and no size. A row that `predict` answers with an error is in no table."
)


def weak(by_kind: dict[str, list[Scored]]) -> str:
    """In words what the tables would let a reader overlook."""
    def of(kind: str, name: str) -> dict[str, float]:
        return summary([s for s in by_kind[kind] if method(s.row.method).name == name])

    drafts, heads = of("given", "draft_model"), of("not_given", "eagle3")
    return (
        f"Where it is weak: {100 - summary(by_kind['given'])['loss_recall']:.0f} % of the published losses are "
        f"predicted as gains; draft models, of {drafts['n']:.0f} rows, are off by {drafts['median']:.0f} % (median), "
        f"mostly predicted too slow; where the acceptance of an EAGLE-3 head is not known, 80 % intervals hold "
        f"{heads['covered']:.0f} % of the measurements. A measurement of your own is worth more than any of it."
    )


def document(folds: Folds, models: dict[str, Model]) -> str:
    by_kind = {kind: predictions(folds, models, kind) for kind in KINDS}
    given = [s for s in by_kind["given"] if s.row.acceptance_length]
    parts = [
        "# How far predictions are off",
        "Written by `python -m benchmarks.accuracy`. Every row is predicted by a model fitted without its publication "
        f"(leave-one-publication-out over {len(models)} publications, {len(folds.scored)} rows): step-time constants, "
        "acceptance prior and interval widths alike. Errors are exp(|ln(predicted / measured)|) - 1. Two people who "
        "measure the same setup differ by 9 % (median). Memory is held against start-up logs in "
        "[accuracy-memory.md](accuracy-memory.md), the simulation under `plan` against a real server in "
        "[accuracy-capacity.md](accuracy-capacity.md), a trial's choice against an exhaustive sweep in "
        "[regret.md](regret.md).",
        "## Summary",
        _HEAD, line("acceptance given (rows that publish it)", given),
        *(line(title, by_kind[kind]) for kind, title in KINDS.items()),
    ]
    for kind, title in KINDS.items():
        found = given if kind == "given" else by_kind[kind]
        median, p90, sign = bootstrap(found, "median"), bootstrap(found, "p90"), bootstrap(by_kind[kind], "balanced")
        parts.append(
            f"- {title}: median error {median[0]:.0f} to {median[1]:.0f} %, p90 {p90[0]:.0f} to {p90[1]:.0f} %, gain "
            f"or loss told in {sign[0]:.0f} to {sign[1]:.0f} % of the whole file, balanced (80 % interval over "
            f"publications); speed lost by the choice of method, draft and k predicted best: "
            f"{top_choice_regret(by_kind[kind]):.1f} %."
        )
    parts += [_COLUMNS, weak(by_kind), "## Losses apart", _HEAD]
    parts += [line(f"losses, {title}", [s for s in by_kind[kind] if s.true < 1]) for kind, title in KINDS.items()]
    parts += ["## Beside simple predictors (the same rows, acceptance given where published)", _HEAD]
    parts.append(line("this model", by_kind["given"]))
    parts += [line(label, rows) for label, rows in baselines(folds, by_kind["given"])]
    slices: list[tuple[str, Callable[[Measurement], str]]] = [
        ("method", lambda r: method(r.method).name), ("engine", lambda r: r.engine or "unknown"),
        ("load", load_of), ("publication", lambda r: r.source_group),
    ]
    for kind in KINDS:
        for name, of in slices if kind != "calibrated" else slices[:1]:
            parts += [f"## By {name}, {KINDS[kind]}", _HEAD]
            for label in sorted({of(s.row) for s in by_kind[kind]}):
                parts.append(line(label, [s for s in by_kind[kind] if of(s.row) == label]))
    parts += ["## Are the intervals right?"]
    for kind, title in KINDS.items():
        parts += [f"{title}:", reliability(by_kind[kind])]
    parts += ["## The worst ten, and why", worst(by_kind["given"]), WHY]
    compared = shipped_model().residual["compared"]
    parts += [
        "## Which correction", "A learned correction of the physics was fitted without each publication and scored on "
        "it; the simplest within a point of the best median is shipped.",
        "| candidate | median % | p90 % |", "|---|---|---|",
        *(f"| {name} | {entry['median']:.1f} | {entry['p90']:.1f} |" for name, entry in compared.items()
          if isinstance(entry, dict)),
        f"\nShipped: {compared['chosen']}.",
    ]
    return _spaced(parts)


WHY = """
What they have in common: a setting that the row does not state. `enforce_eager` turns a 0.6-fold loss of a 0.9 B model
into a 1.5-fold gain; hybrid models lose their captured graphs on some cards and releases and not on others; a target
that no catalog knows is priced at an assumed size; the acceptance of a head on a text that no other publication ran.

Gain or loss of the whole file is told less surely than it looks: a dozen rows of agents that look drafts up, whose
steps are mostly prompts, are predicted within 2 % of 1, and two per cent on every prediction move it by ten points.

## What was tried

Mechanisms, too, are chosen by these rows, so the figures flatter the model a little: 26 variants were scored this way
for an earlier change, 11 and 3 for the two before the latest and 2 for the latest. Kept of the latest: a draft model
that nobody names has the shape of the small model with its target's vocabulary, as engines refuse any other. Llama 3's
has 16 layers where 23 were assumed, and draft models are off by less (23 %, before 28 %). What is left there is
acceptance, which that publication does not give: 2.3 to 2.6 tokens are expected at k = 3, and one request alone is
2.1 to 2.5 times as fast.

Not kept of the latest: DeepSeek-V4's routed experts at the four bits that they are stored in, where its one sweep is
priced at eight. It is so, and that sweep is predicted worse by it (32 % off, before 12 %), since something else is
missing: at one request it makes 101 tokens a second without speculation, a step of 9.9 ms, where 5.8 ms are priced.
What its layers take beside reading weights (hyper-connections, the index of compressed attention) is in no term, makes
its rounds look dear, and too heavy weights hide a part of that. At k = 1 a round gives at most two tokens, so that the
gain of 1.52 leaves it 1.31 plain steps at most: 1.49 are predicted.

Looked at, and nothing to mend found: of the 16 published losses that are predicted as gains, 11 are lookups of agents,
all predicted at 1.01 or 1.02: their requests are mostly prompts, which leaves a lookup next to nothing to lose. In the
same steps 0.6 to 0.9 was measured of n-grams and 0.85 to 0.99 of suffix trees. Looking their texts up is priced at 1 ms
of a step of 86. The other five are single rows of different causes.

Kept of the change before, both read in the engine's own code:

- SGLang's verify steps run at the next size that a graph was captured for, and until 0.4.4 there was none between 31
  and 64 requests: 32 pay for 64, so that what is gained falls at once there and no further up to 64, as published;
- SGLang ran a head's first pass of each step without a graph before 0.4.7.

Not kept then: prompts of a benchmark that repeats prefixes as found in the cache and held once. It is how the
engine works, and the one publication that used it is predicted worse by it (its prompts are random tokens, and what is
accepted of their answers was not published).

Kept earlier, each for a cause that is published elsewhere:

- verifying reads the KV unsplit and unpacked on cards without Hopper's attention kernel or the datacentre Blackwells'
  (4 to 39 times the plain kernel's time in published pull requests). SpecBundle and DFlash gain with the RTX 3090, but
  ran on other cards: what the fit had found elsewhere for the want of it was wrong for them;
- a target that nobody knows and whose own layers draft has the shape of the catalog's model of that size that does so;
- what a hybrid's step takes without a graph was timed whole, and nothing of it is counted twice;
- one card that holds a target is enough, where nobody says how many.

Kept before: a draft's acceptance by what its own size has learnt less (a scaling law), a draft nobody names as less
sure, longer lookups than other programs' in vLLM, whole graphs from vLLM 0.11 on, pieces of graphs for every step of a
lookup in which not all requests have k drafted tokens.

Overlapped scheduling is the default from vLLM 0.14 on, and lookups lose it from then on. An earlier fit had it from
0.12: wrong, and four points better in gain or loss of the whole file, by lookups of agents in 0.12 and 0.13.

Not kept, though there is reason for each: batches of a whole set as some sixteen requests at once in the mean, prompts
of agents found in the prefix cache, KV of a common prefix kept once. Alone and together they leave lookups of agents
at 1.00 to 1.07 where 0.6 to 1.05 was measured, since what is accepted there is not published and is guessed too high.
Tokens per step of such texts would settle it. Nor the mean of the lopsided prediction in place of its middle: two more
losses of one publication are called, and the median error with acceptance given grows from 6.5 to 7.8 %. Nor a spread
of its own for heads by a method's authors: nothing moved.
"""


def _spaced(parts: Sequence[str]) -> str:
    """Parts as a document: a blank line around headings and tables, none between a table's rows."""
    text: list[str] = []
    for part in parts:
        table_row = part.startswith("|")
        if text and not (table_row and text[-1].startswith("|")) and not (part.startswith("- ") and
                                                                          text[-1].startswith("- ")):
            text.append("")
        text += part.split("\n")
    return "\n".join(text).replace("\n\n\n", "\n\n") + "\n"


def main() -> None:
    folds = Folds.of()
    models = cross_validated(folds)
    OUT.write_text(document(folds, models), encoding="utf-8")
    given = [s for s in predictions(folds, models, "given") if s.row.acceptance_length]
    sys.stderr.write(f"wrote {OUT.name}: median error {summary(given)['median']:.1f} %\n")


if __name__ == "__main__":
    main()
