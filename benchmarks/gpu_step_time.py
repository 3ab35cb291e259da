"""`python -m benchmarks.gpu_step_time -o cells.json`: time a decoder's steps on this GPU; `--fit` reads its rates off.

Times a decoder of Llama-3.1-8B's shape with random weights, captured in CUDA graphs, at 1-256 sequences x 1-8 tokens x
0.5-16 k context, and prints JSON with device and driver. Needs torch, a CUDA GPU and 24 GiB; about ten minutes.
`--fit` needs neither: it gives the GPU's fitted rates as the `measured` block of its entry in
profiles/catalog/data/gpus.yaml. `--tiny` runs a toy shape, on the CPU too, to check that the script itself works: its
figures say nothing about any hardware.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

FORMAT = 1
SEQUENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TOKENS = (1, 2, 4, 8)
CONTEXTS = (512, 2048, 8192, 16384)


@dataclass(frozen=True)
class Shape:
    """What is timed. Bytes are of 16-bit numbers."""

    layers: int = 32
    hidden: int = 4096
    intermediate: int = 14336
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    vocab: int = 128256

    @property
    def layer_params(self) -> int:
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return attention + 3 * self.hidden * self.intermediate

    @property
    def params_read(self) -> int:
        """Parameters one pass reads: the layers and the output head."""
        return self.layers * self.layer_params + self.vocab * self.hidden

    @property
    def kv_bytes_per_token(self) -> int:
        return self.layers * 2 * self.kv_heads * self.head_dim * 2


TINY = Shape(layers=2, hidden=64, intermediate=128, heads=4, kv_heads=2, head_dim=16, vocab=256)


@dataclass(frozen=True)
class Cell:
    """One timed step. Milliseconds: median, and the lower and upper tenth over `n` runs."""

    layers: int
    sequences: int
    tokens: int
    """New tokens of each sequence: 1 decodes, k + 1 verifies k drafts."""
    context: int
    ms: float
    ms_p10: float
    ms_p90: float
    n: int
    graph: bool


# --- timing --------------------------------------------------------------------------------------------------------
class Decoder:
    """Random weights of a shape on a device; `step` is one pass over new tokens that attend to a filled cache."""

    def __init__(self, torch: Any, shape: Shape, device: str) -> None:
        self.torch, self.shape, self.device = torch, shape, device
        dtype = torch.bfloat16
        self.dtype = dtype

        def matrix(rows: int, columns: int) -> Any:
            # Small numbers, so that 32 layers neither overflow nor vanish.
            return torch.randn(rows, columns, device=device, dtype=dtype) / math.sqrt(columns)

        s = shape
        query, kept = s.heads * s.head_dim, s.kv_heads * s.head_dim
        self.layers = [
            {
                "qkv": matrix(query + 2 * kept, s.hidden),
                "out": matrix(s.hidden, query),
                "up": matrix(2 * s.intermediate, s.hidden),
                "down": matrix(s.hidden, s.intermediate),
                "norm": torch.ones(s.hidden, device=device, dtype=dtype),
            }
            for _ in range(s.layers)
        ]
        self.head = matrix(s.vocab, s.hidden)

    def step(self, states: Any, caches: list[tuple[Any, Any]]) -> Any:
        """states: (sequences, tokens, hidden); caches: keys and values of (sequences, kv_heads, context, head_dim)."""
        functional, s = self.torch.nn.functional, self.shape
        sequences, tokens = states.shape[0], states.shape[1]
        query, kept = s.heads * s.head_dim, s.kv_heads * s.head_dim
        for number, layer in enumerate(self.layers):
            keys, values = caches[number % len(caches)]
            normed = functional.rms_norm(states, (s.hidden,), layer["norm"])
            projected = functional.linear(normed, layer["qkv"])
            q, k, v = projected.split([query, kept, kept], dim=-1)
            q = q.view(sequences, tokens, s.heads, s.head_dim).transpose(1, 2)
            # The new tokens' own rows are written as an engine does; where in the cache does not matter to time.
            keys[:, :, :tokens] = k.view(sequences, tokens, s.kv_heads, s.head_dim).transpose(1, 2)
            values[:, :, :tokens] = v.view(sequences, tokens, s.kv_heads, s.head_dim).transpose(1, 2)
            seen = self._attend(q, keys, values)
            states = states + functional.linear(seen, layer["out"])
            normed = functional.rms_norm(states, (s.hidden,), layer["norm"])
            gate, up = functional.linear(normed, layer["up"]).chunk(2, dim=-1)
            states = states + functional.linear(functional.silu(gate) * up, layer["down"])
        return functional.linear(states, self.head).argmax(dim=-1)

    def _attend(self, q: Any, keys: Any, values: Any) -> Any:
        """Grouped attention: the heads of one key head stand side by side, so that its keys are read once."""
        s = self.shape
        sequences, _, tokens, width = q.shape
        group = s.heads // s.kv_heads
        q = q.reshape(sequences, s.kv_heads, group * tokens, width)
        seen = self.torch.nn.functional.scaled_dot_product_attention(q, keys, values)
        seen = seen.reshape(sequences, s.heads, tokens, width).transpose(1, 2)
        return seen.reshape(sequences, tokens, s.heads * width)


def timed_cells(
    shape: Shape, grid: list[tuple[int, int, int]], *, device: str, runs: int, budget_s: float
) -> tuple[list[Cell], list[dict[str, Any]]]:
    """Every cell that fits in memory and time, and the others with the reason."""
    import torch

    decoder = Decoder(torch, shape, device)
    found: list[Cell] = []
    skipped: list[dict[str, Any]] = []
    end = time.perf_counter() + budget_s
    for sequences, tokens, context in grid:
        place = {"layers": shape.layers, "sequences": sequences, "tokens": tokens, "context": context}
        if time.perf_counter() > end:
            skipped.append({**place, "why": "out of time"})
            continue
        try:
            caches = _caches(torch, decoder, sequences, context)
            found.append(_timed(torch, decoder, caches, sequences, tokens, context, runs))
        except torch.OutOfMemoryError:
            skipped.append({**place, "why": "out of memory"})
        finally:
            caches = []
            if device == "cuda":
                torch.cuda.empty_cache()
        sys.stderr.write(f"{len(found)} timed, {len(skipped)} skipped of {len(grid)}\n")
    return found, skipped


def _caches(torch: Any, decoder: Decoder, sequences: int, context: int) -> list[tuple[Any, Any]]:
    """Keys and values for as many layers as fit in half of the free memory; the layers take turns.

    One buffer that fits in the chip's own cache would be read from there, so small ones are made for every layer.
    """
    s = decoder.shape
    size = (sequences, s.kv_heads, context, s.head_dim)
    each = 2 * 2 * math.prod(size)
    free = torch.cuda.mem_get_info()[0] if decoder.device == "cuda" else 2**30
    number = max(1, min(s.layers, int(free * 0.5 // each)))
    return [
        (torch.randn(size, device=decoder.device, dtype=decoder.dtype),
         torch.randn(size, device=decoder.device, dtype=decoder.dtype))
        for _ in range(number)
    ]  # fmt: skip


def _timed(
    torch: Any, decoder: Decoder, caches: list[tuple[Any, Any]], sequences: int, tokens: int, context: int, runs: int
) -> Cell:
    states = torch.randn(sequences, tokens, decoder.shape.hidden, device=decoder.device, dtype=decoder.dtype)
    graph = None
    with torch.inference_mode():
        if decoder.device == "cuda":
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    decoder.step(states, caches)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                decoder.step(states, caches)
            milliseconds = [_on_gpu(torch, graph) for _ in range(runs + 2)][2:]
        else:
            milliseconds = [_on_cpu(decoder, states, caches) for _ in range(runs + 2)][2:]
    ordered = sorted(milliseconds)
    tenth = len(ordered) // 10
    return Cell(
        layers=decoder.shape.layers,
        sequences=sequences,
        tokens=tokens,
        context=context,
        ms=statistics.median(ordered),
        ms_p10=ordered[tenth],
        ms_p90=ordered[-1 - tenth],
        n=runs,
        graph=graph is not None,
    )


def _on_gpu(torch: Any, graph: Any) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def _on_cpu(decoder: Decoder, states: Any, caches: list[tuple[Any, Any]]) -> float:
    begin = time.perf_counter()
    decoder.step(states, caches)
    return (time.perf_counter() - begin) * 1e3


def device_facts(device: str) -> dict[str, Any]:
    """Name, driver and library versions; on a GPU clock limits too, where NVML tells."""
    import torch

    facts: dict[str, Any] = {"name": "cpu", "driver": None, "torch": torch.__version__, "cuda": torch.version.cuda}
    if device != "cuda":
        return facts
    properties = torch.cuda.get_device_properties(0)
    facts["name"] = properties.name
    facts["memory_gib"] = round(properties.total_memory / 2**30, 2)
    facts["compute_capability"] = f"{properties.major}.{properties.minor}"
    facts["sms"] = properties.multi_processor_count
    try:
        import pynvml

        pynvml.nvmlInit()
        driver = pynvml.nvmlSystemGetDriverVersion()
        facts["driver"] = driver.decode() if isinstance(driver, bytes) else driver
        handle = pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device())
        facts["power_limit_w"] = pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000
        facts["max_sm_clock_mhz"] = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)
    except Exception as error:
        # Whatever NVML lacks here (a container, an old driver) costs a label, not the timing.
        facts["nvml"] = f"{type(error).__name__}: {error}"
    return facts


def grid_of(
    sequences: tuple[int, ...], tokens: tuple[int, ...], contexts: tuple[int, ...]
) -> list[tuple[int, int, int]]:
    """Every combination, small ones first, so that a budget cuts the most expensive."""
    every = [(s, t, c) for s in sequences for t in tokens for c in contexts]
    return sorted(every, key=lambda cell: (cell[0] * cell[2], cell[1]))


# --- fitting -------------------------------------------------------------------------------------------------------
def fit(measured: dict[str, Any]) -> dict[str, Any]:
    """Effective rates that explain the cells: weights read + tokens computed + KV read + a launch time.

    Non-negative least squares on relative errors, with the smaller depth's cells telling weights from launch. The
    residuals say how far such a sum is off.

    Raises:
        ValueError: fewer cells than the four numbers need, or only one depth.
    """
    from advisor.cost.fit import nonnegative_least_squares

    shape = Shape(**measured["shape"])
    cells = [Cell(**cell) for cell in measured["cells"]]
    if len(cells) < 8 or len({cell.layers for cell in cells}) < 2:
        depths = len({cell.layers for cell in cells})
        raise ValueError(f"{len(cells)} cells of {depths} depths: expected 8 or more, of two depths")
    rows = [_features(shape, cell) for cell in cells]
    matrix = [[value / cell.ms for value in row] for row, cell in zip(rows, cells, strict=True)]
    found = [float(x) for x in nonnegative_least_squares(matrix, [1.0] * len(cells))]
    launch, weights, compute, kv = found
    predicted = [sum(x * value for x, value in zip(found, row, strict=True)) for row in rows]
    errors = sorted(abs(p / cell.ms - 1.0) for p, cell in zip(predicted, cells, strict=True))
    return {
        "weights_gbs": _rate(weights),
        "kv_gbs": _rate(kv),
        "bf16_tflops": None if compute <= 0 else round(1.0 / compute, 1),
        "step_launch_ms": round(launch, 4),
        "median_error": round(statistics.median(errors), 4),
        "p90_error": round(errors[int(0.9 * (len(errors) - 1))], 4),
        "cells": len(cells),
        "device": measured["device"]["name"],
        "driver": measured["device"].get("driver"),
        "torch": measured["device"].get("torch"),
        "command": "python -m benchmarks.gpu_step_time --fit",
    }


def _features(shape: Shape, cell: Cell) -> list[float]:
    """1; weights in 10^6 bytes (a rate in GB/s is then 1 / ms); GFLOP; KV in 10^6 bytes."""
    own = replace(shape, layers=cell.layers)
    tokens = cell.sequences * cell.tokens
    kv = cell.sequences * cell.context * own.kv_bytes_per_token
    return [1.0, own.params_read * 2 / 1e6, 2.0 * own.params_read * tokens / 1e9, kv / 1e6]


def _rate(milliseconds_per_mb: float) -> float | None:
    """GB/s: 10^6 bytes a millisecond are 1 GB/s."""
    return None if milliseconds_per_mb <= 0 else round(1.0 / milliseconds_per_mb, 1)


# --- command -------------------------------------------------------------------------------------------------------
def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Time everything asked for; the document that `--fit` reads."""
    import torch

    device = "cuda" if torch.cuda.is_available() and not asked.cpu else "cpu"
    if device == "cpu" and not asked.tiny:
        raise SystemExit("no CUDA GPU is visible to torch: run it on one, or with --tiny to check the script itself")
    torch.manual_seed(0)
    shape = TINY if asked.tiny else Shape()
    grid = list(_sizes(asked.tiny))
    half = replace(shape, layers=max(1, shape.layers // 2))
    # Two depths tell what a layer costs from what a step costs.
    whole, skipped = timed_cells(shape, grid, device=device, runs=asked.runs, budget_s=asked.budget_s * 0.85)
    few = [cell for cell in grid if cell[1] == 1 or cell[0] <= 8]
    shallow, also = timed_cells(half, few, device=device, runs=asked.runs, budget_s=asked.budget_s * 0.15)
    return {
        "format": FORMAT,
        "device": device_facts(device),
        "shape": asdict(shape),
        "dtype": "bfloat16",
        "toy": asked.tiny,
        "cells": [asdict(cell) for cell in (*whole, *shallow)],
        "skipped": [*skipped, *also],
    }


def _sizes(tiny: bool) -> Iterator[tuple[int, int, int]]:
    yield from grid_of((1, 2, 4), (1, 2), (16, 64)) if tiny else grid_of(SEQUENCES, TOKENS, CONTEXTS)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_step_time", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("-o", "--out", type=Path, help="where to write the JSON (standard output without it)")
    parser.add_argument("--fit", type=Path, metavar="CELLS", help="read rates off a file of cells instead of timing")
    parser.add_argument("--tiny", action="store_true", help="a toy shape, to check the script; also without a GPU")
    parser.add_argument("--cpu", action="store_true", help="use the CPU although there is a GPU (with --tiny)")
    parser.add_argument("--runs", type=int, default=20, help="timed runs of each cell")
    parser.add_argument("--budget-s", type=float, default=900.0, help="seconds the timing may take")
    asked = parser.parse_args(arguments)
    if asked.fit is not None:
        try:
            document = fit(json.loads(asked.fit.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.stderr.write(f"{asked.fit}: {error}: expected what this command wrote with -o\n")
            return 2
    else:
        document = measure(asked)
    text = json.dumps(document, indent=1) + "\n"
    if asked.out is None:
        sys.stdout.write(text)
    else:
        beside = asked.out.with_suffix(".new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
