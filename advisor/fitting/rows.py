"""The published measurements as tables: which rows say something about acceptance, which about step time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from advisor.cases.case import LOAD_KINDS, parse_case
from advisor.cases.table import Table, rows_of, table_of
from profiles.catalog.measurements import Measurement, measurements
from profiles.errors import InputError

_DOUBTED = frozenset({"baseline_suspect", "speedup_exceeds_acceptance", "k0_overhead_only", "al_without_bonus",
                      "random_prompts"})
_SETUP = ("source_group", "gpu", "n_gpus", "tensor_parallel", "target", "draft", "method", "task", "temperature",
          "load_kind", "engine_version", "quantization")


@dataclass(frozen=True)
class Rows:
    """Measurements and their table, row by row."""

    table: Table
    of: tuple[Measurement, ...]

    def without(self, publication: str | None) -> Rows:
        """The rows of all other publications."""
        kept = [i for i, row in enumerate(self.of) if row.source_group != publication]
        return Rows(rows_of(self.table, kept), tuple(self.of[i] for i in kept))


def case_of(
    row: Measurement, *, acceptance: bool = True, measured: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """A measurement's setup as a case line's object, without its answer."""
    fields = asdict(row)
    case = {name: fields[name] for name in (
        "id", "gpu", "n_gpus", "tensor_parallel", "target", "target_params_b", "active_params_b", "draft",
        "draft_params_b", "method", "engine", "engine_version", "dtype", "quantization", "k", "tree", "temperature",
        "task", "task_family", "prompt_len", "output_len", "metric")}
    for kind in LOAD_KINDS:
        case[kind] = row.load_value if row.load_kind == kind else None
    case["mean_acceptance_length"] = row.acceptance_length if acceptance else None
    rates = row.per_position_acceptance
    case["per_position_acceptance"] = list(rates) if acceptance and rates else None
    case["measured"] = measured
    return case


def rows_from(found: Sequence[Measurement]) -> Rows:
    """The measurements that make a case, with their table."""
    cases, kept = [], []
    for row in found:
        try:
            cases.append(parse_case(case_of(row)))
        except InputError:
            continue
        kept.append(row)
    table, refused = table_of(cases)
    return Rows(table, tuple(row for i, row in enumerate(kept) if i not in refused))


ASSUMED_DEPTH = "depth_assumed"
"""Flag of rows whose k nobody published: their level says nothing, how their lengths differ between texts does."""
_DEPTH_OF_TREES, _DEPTH_OF_CHAINS = 7, 5


def acceptance_rows(source: Sequence[Measurement] | None = None) -> Rows:
    """Every published acceptance length. The card does not matter, so it is left out."""
    source = measurements() if source is None else source
    return rows_from([
        _with_depth(replace(row, gpu=None)) for row in source
        if row.acceptance_length and row.method != "other" and "al_without_bonus" not in row.flags
    ])


def _with_depth(row: Measurement) -> Measurement:
    """The row with a usual depth where it has no k: papers on trees state the tree, if anything."""
    if row.k:
        return row
    usual = _DEPTH_OF_TREES if row.tree else _DEPTH_OF_CHAINS
    return replace(row, k=max(usual, math.ceil(row.acceptance_length or 1.0)), flags=(*row.flags, ASSUMED_DEPTH))


def speedup_rows(source: Sequence[Measurement] | None = None) -> Rows:
    """Speed-ups of chains on the two engines the step model knows, with load and k."""
    source = measurements() if source is None else source
    return rows_from([
        row for row in source
        if row.speedup and row.engine in ("vllm", "sglang") and row.k and row.load_value
        and not row.tree and not _DOUBTED & set(row.flags) and (row.gpu or "gpu_unsure" not in row.flags)
    ])


def open_rows(source: Sequence[Measurement] | None = None) -> tuple[Measurement, ...]:
    """The rows that predictions are scored on."""
    source = measurements() if source is None else source
    return tuple(row for row in source if row.split == "open" and row.speedup)


def swept(rows: Sequence[Measurement]) -> list[tuple[Measurement, list[dict[str, Any]]]]:
    """Rows of load sweeps (three loads and more), each with what its setup measured at the lowest load."""
    sweeps: dict[tuple[str, ...], list[Measurement]] = {}
    for row in rows:
        if row.speedup and not row.sign_only and row.load_value:
            sweeps.setdefault(tuple(str(getattr(row, name)) for name in _SETUP), []).append(row)
    found = []
    for sweep in sweeps.values():
        loads = sorted({row.load_value or 0.0 for row in sweep})
        if len(loads) < 3:
            continue
        points = [{"load_kind": row.load_kind, "load_value": row.load_value, "k": row.k, "speedup": row.speedup}
                  for row in sweep if row.load_value == loads[0]]
        found += [(row, points) for row in sweep if row.load_value != loads[0]]
    return found


def setup_of(row: Measurement) -> str:
    """Rows with one label share the text, the draft and so the acceptance."""
    return repr((row.source_group, row.target, row.draft, row.method, row.task, row.k, row.temperature))
