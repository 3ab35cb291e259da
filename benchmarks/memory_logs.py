"""`python -m benchmarks.memory_logs DIR`: the memory plan against the start-up lines of real vLLM logs.

For every engine start found under DIR (plain or .gz): KV tokens and maximum concurrency from the available KV memory
that the log names, and that memory itself from GPU, model and options. Models and GPUs are those the log or the file's
name gives; `--model NAME=ID` and `--gpu FILE=NAME` say what a path (`/models/target`) or a file stands for, and a
folder with a config.json will do for ID. A start whose model or GPU nobody knows is listed with what is missing.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.cost.drafter import draft_layers, draft_weights_bytes
from advisor.cost.kv_pool import BLOCK_TOKENS, Pool, PoolLayers, cut_pool, pool_layers
from advisor.cost.overhead import GIB, EngineStart, overhead_parts_gib, visible_gib
from benchmarks.startup_log import LoggedStart, logged_starts
from profiles.catalog.gpus import Gpu, find_gpu
from profiles.catalog.models import find_model
from profiles.catalog.releases import Release, release
from profiles.catalog.shapes import ModelShape
from profiles.errors import InputError
from profiles.methods import METHODS

_BY_FILE = re.compile(
    r"(?<![a-z0-9])(h100|h200|a100|b200|b300|gb10|spark|t4|l40s|l4|a10g?|mi3\d\dx|rtx[ _-]?\d{4}|v100)(?![a-z0-9])"
)


@dataclass(frozen=True)
class Compared:
    """One start: logged and predicted figures; None where either side lacks what it needs."""

    start: LoggedStart
    gpu: str | None
    tokens: int | None
    concurrency: float | None
    weights_gib: float | None
    available_gib: float | None
    missing: str
    parts: dict[str, float]

    def error(self, name: str) -> float | None:
        """Relative error of `tokens`, `concurrency`, `weights_gib` or `available_gib`."""
        logged = {
            "tokens": self.start.kv_tokens,
            "concurrency": self.start.max_concurrency,
            "weights_gib": self.start.weights_gib,
            "available_gib": self.start.available_gib,
        }[name]
        predicted = getattr(self, name)
        return None if not logged or predicted is None else predicted / logged - 1.0


def compare(start: LoggedStart, gpu_name: str | None, models: dict[str, str]) -> Compared:
    """What the memory plan says of one logged start."""
    shape, draft, missing = _shapes(start, models)
    gpu = _gpu(start, gpu_name)
    facts = _release(start.version)
    if shape is None:
        return Compared(start, gpu.name if gpu else None, None, None, None, None, missing, {})
    described = METHODS.get(start.method or "none", METHODS["none"])
    k = start.k or 0
    drafter = draft_layers(shape, draft, described)
    pool = _pool(start, shape, drafter, k, facts)
    longest = start.max_model_len or shape.max_position_embeddings or 0
    tokens = concurrency = None
    if start.available_gib is not None and longest:
        available = start.available_gib * GIB
        tokens = pool.tokens(available, longest, by_length=facts.has("kv_tokens_by_length"))
        concurrency = pool.concurrency(available, longest)
    weights = (shape.weights_bytes + draft_weights_bytes(shape, draft, described)) / start.tensor_parallel / GIB
    predicted, parts = None, {}
    if gpu is None:
        missing = "GPU not named"
    else:
        parts = overhead_parts_gib(shape, _engine_start(start, gpu, facts, k), drafter if k else None, k)
        share = start.utilization or facts.default_gpu_memory_utilization
        seen = start.total_gib or visible_gib(
            gpu.memory_gib, unified=gpu.unified_memory, from_driver=gpu.memory_from == "nvml"
        )
        predicted = share * seen - weights - sum(parts.values())
    return Compared(start, gpu.name if gpu else None, tokens, concurrency, weights, predicted, missing, parts)


def _pool(start: LoggedStart, shape: ModelShape, drafter: ModelShape | None, k: int, facts: Release) -> Pool:
    layers = pool_layers(shape, start.kv_cache_dtype, start.tensor_parallel, k)
    if drafter is not None:
        layers += pool_layers(drafter, start.kv_cache_dtype, start.tensor_parallel, k)
    if start.hidden_state_layers:
        # Hidden states that are written out pass through the pool, a row of each such layer a token.
        layers += (PoolLayers("full", 1, 2.0 * start.hidden_state_layers * shape.hidden_size),)
    steps = 2 if facts.has("window_keeps_steps_in_flight") else 1
    return cut_pool(
        layers,
        step_tokens=(start.batched_tokens or 2048) * steps,
        speculated=k,
        prefix_caching=start.prefix_caching,
        block_tokens=start.block_size or BLOCK_TOKENS,
    )


def _engine_start(start: LoggedStart, gpu: Gpu, facts: Release, k: int) -> EngineStart:
    limits = facts.default_limits(None if gpu.unified_memory else gpu.memory_gib, gpu.name)
    seqs = start.max_num_seqs or limits.max_num_seqs
    captured = start.captured_tokens or facts.capture_ceiling(seqs, k, gpu.compute_capability)
    return EngineStart(
        runner=start.runner,
        batched_tokens=start.batched_tokens or limits.max_num_batched_tokens,
        seqs=seqs,
        captured_tokens=0 if start.enforce_eager else captured,
        graphs_from_kv=facts.has("graphs_taken_from_kv") and start.runner == "v1",
        tensor_parallel=start.tensor_parallel,
        unified=gpu.unified_memory,
    )


def _release(version: str) -> Release:
    # A build from a checkout calls itself 0.1.dev1: the newest rules are the best guess.
    return release("nightly" if version.startswith("0.1.dev") else version.split("+")[0])


def _shapes(start: LoggedStart, models: dict[str, str]) -> tuple[ModelShape | None, ModelShape | None, str]:
    shape = _shape(models.get(start.model, start.model))
    if shape is None:
        return None, None, f"no shape of {start.model}"
    draft = None
    if start.draft and start.draft != start.model:
        draft = _shape(models.get(start.draft, start.draft))
    return shape, draft, "" if draft is not None or not start.draft else f"draft {start.draft} taken as one layer"


def _shape(name: str) -> ModelShape | None:
    config = Path(name) / "config.json"
    if config.is_file():
        from profiles.catalog.architecture import shape_of

        return shape_of(json.loads(config.read_text(encoding="utf-8")), model_id=name, where=str(config))
    return find_model(name) or find_model(name.rsplit("/", 1)[-1])


def _gpu(start: LoggedStart, named: str | None) -> Gpu | None:
    guess = _BY_FILE.search(start.file.lower().replace("_", " "))
    word = guess[1].replace("spark", "DGX Spark") if guess else None
    for name in (named, start.gpu, word):
        if not name:
            continue
        try:
            return find_gpu(name)
        except InputError:
            continue
    return None


def _row(one: Compared) -> list[str]:
    def pair(predicted: float | None, logged: float | None, form: str) -> str:
        return " / ".join("-" if value is None else format(value, form) for value in (predicted, logged))

    def percent(name: str) -> str:
        found = one.error(name)
        return "-" if found is None else f"{100 * found:+.2f}"

    start = one.start
    return [
        f"{start.file}#{start.number}", start.version, one.gpu or "?", start.model.rsplit("/", 1)[-1],
        f"{start.method or 'none'} {start.k or ''}".strip(), pair(one.tokens, start.kv_tokens, ","), percent("tokens"),
        pair(one.concurrency, start.max_concurrency, ".2f"), percent("concurrency"),
        pair(one.weights_gib, start.weights_gib, ".2f"),
        pair(one.available_gib, start.available_gib, ".2f"), percent("available_gib"), one.missing,
    ]  # fmt: skip


_HEAD = [
    "start", "vLLM", "GPU", "model", "method, k", "KV tokens: plan / log", "%", "concurrency: plan / log", "%",
    "weights GiB: plan / log", "available GiB: plan / log", "%", "missing",
]  # fmt: skip


def summary(found: list[Compared]) -> dict[str, Any]:
    """Median and largest absolute relative errors, and how many starts each stands on."""
    out: dict[str, Any] = {"starts": len(found)}
    for name in ("tokens", "concurrency", "weights_gib", "available_gib"):
        errors = [abs(e) for one in found if (e := one.error(name)) is not None]
        out[name] = {
            "n": len(errors),
            "median": round(statistics.median(errors), 5) if errors else None,
            "largest": round(max(errors), 5) if errors else None,
        }
    return out


def fit(found: list[Compared]) -> dict[str, float]:
    """The parts' factors that explain what the logs leave beside weights and KV (1: as the constants say).

    Non-negative least squares over the starts whose GPU, weights and available memory are known.
    """
    from advisor.cost.fit import nonnegative_least_squares

    used = [one for one in found if one.parts and one.start.left_over_gib(_seen(one)) is not None]
    names = sorted({name for one in used for name, value in one.parts.items() if value > 0})
    if not used:
        return {}
    matrix = [[one.parts[name] for name in names] for one in used]
    factors = nonnegative_least_squares(matrix, [one.start.left_over_gib(_seen(one)) for one in used])
    return {name: round(float(factor), 3) for name, factor in zip(names, factors, strict=True)}


def _seen(one: Compared) -> float:
    """Bytes the engine may take of its GPU, GiB."""
    share = one.start.utilization or _release(one.start.version).default_gpu_memory_utilization
    if one.start.total_gib:
        return share * one.start.total_gib
    gpu = find_gpu(one.gpu or "")
    return share * visible_gib(gpu.memory_gib, unified=gpu.unified_memory, from_driver=gpu.memory_from == "nvml")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory_logs", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of logs, or one log")
    parser.add_argument("--gpu", action="append", default=[], metavar="FILE=NAME")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=ID")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--fit", action="store_true", help="print factors of the overhead's parts too")
    asked = parser.parse_args(arguments)
    gpus = dict(item.split("=", 1) for item in asked.gpu)
    models = dict(item.split("=", 1) for item in asked.model)
    files = [asked.folder] if asked.folder.is_file() else sorted(asked.folder.rglob("*"))
    starts = [start for path in files for start in logged_starts(path)]
    if not starts:
        sys.stderr.write(f"{asked.folder}: no start-up lines of vLLM found\n")
        return 2
    found = [compare(start, gpus.get(start.file), models) for start in starts]
    report = summary(found)
    if asked.json:
        rows = [dict(zip(_HEAD, _row(one), strict=True)) for one in found]
        print(json.dumps({"summary": report, "starts": rows}, indent=1))
    else:
        for row in (_HEAD, ["-" * 3] * len(_HEAD), *map(_row, found)):
            print("| " + " | ".join(row) + " |")
        print()
        for name in ("tokens", "concurrency", "weights_gib", "available_gib"):
            one = report[name]
            if one["n"]:
                print(f"{name}: n {one['n']}, median {100 * one['median']:.2f} %, largest {100 * one['largest']:.2f} %")
    if asked.fit:
        print(json.dumps(fit(found), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
