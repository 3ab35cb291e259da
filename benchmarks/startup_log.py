"""The start-up lines of a vLLM log as values: one object an engine start, several to a file."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_ENGINE = re.compile(r"Initializing a V\d LLM engine \(v?(?P<version>[^)]+)\) with config: (?P<config>.*)")
_ARGS = re.compile(r"non-default args: (?P<args>\{.*)")


@dataclass(frozen=True)
class LoggedStart:
    """One engine start. None: the log does not say. GiB are 2**30 bytes, of one GPU."""

    file: str
    number: int
    """1 for the file's first start."""
    version: str
    model: str
    gpu: str | None
    method: str | None
    draft: str | None
    k: int | None
    tensor_parallel: int
    max_model_len: int | None
    max_num_seqs: int | None
    batched_tokens: int | None
    utilization: float | None
    total_gib: float | None
    kv_cache_dtype: str
    block_size: int | None
    prefix_caching: bool
    enforce_eager: bool
    captured_tokens: int | None
    runner: Literal["v1", "v2"]
    hidden_state_layers: int
    """Layers whose hidden states are written out (method extract_hidden_states); they take KV memory."""
    weights_gib: float | None
    available_gib: float | None
    kv_tokens: int | None
    max_concurrency: float | None

    def left_over_gib(self, usable_gib: float) -> float | None:
        """What is neither weights nor KV of the memory the engine may take."""
        if self.weights_gib is None or self.available_gib is None:
            return None
        return usable_gib - self.weights_gib - self.available_gib


def logged_starts(path: Path) -> Iterator[LoggedStart]:
    """Every engine start of a log that reached its KV cache line or failed before it; none for other files."""
    if not path.is_file() or path.suffix in (".json", ".md"):
        return
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as stream:
        lines = [_ANSI.sub("", line) for line in stream.read().split("\n")]
    begins = [number for number, line in enumerate(lines) if _ENGINE.search(line)]
    before = 0
    for count, begin in enumerate(begins, 1):
        end = begins[count] if count < len(begins) else len(lines)
        arguments = [found["args"] for line in lines[before:begin] if (found := _ARGS.search(line))]
        stated = arguments[-1] if arguments else ""
        yield _start(path.name, count, lines[begin], stated, lines[before:end], begin - before)
        before = begin


def _start(file: str, number: int, engine: str, arguments: str, lines: list[str], own: int) -> LoggedStart:
    """`lines` begin at the previous engine line, so that what the server said before is there; `own`: this one's."""
    found = _ENGINE.search(engine)
    assert found is not None
    config = found["config"]
    mine = "\n".join(lines[own:])
    ahead = "\n".join(lines[:own])
    spec = re.search(r"SpeculativeConfig\(method='(\w+)', model=(?:'([^']*)'|None), num_spec_tokens=(\d+)", config)
    total = re.search(r"Desired GPU memory utilization is \(([\d.]+), ([\d.]+) GiB\)", mine)
    # The V0 engine's one long line of its memory profile.
    profiled = re.search(r"total_gpu_memory \(([\d.]+) ?GiB\) x gpu_memory_utilization \(([\d.]+)\)", mine)
    states = re.search(r"'eagle_aux_hidden_state_layer_ids': \[([\d, ]+)\]", arguments)
    levels = re.search(
        r"The current --gpu-memory-utilization=([\d.]+) is equivalent to --gpu-memory-utilization=([\d.]+) ", mine
    )
    utilization = _number(r"'gpu_memory_utilization': ([\d.]+)", arguments)
    if profiled:
        utilization = float(profiled[2])
    elif utilization is None and (total or levels):
        utilization = float((total or levels)[1])  # type: ignore[index]
    capture = re.search(r"'?max_cudagraph_capture_size'?:? ?(\d+)", config) or re.search(r"\(largest=(\d+)\)", mine)
    sizes = re.search(r"cudagraph_capture_sizes'?\"?: ?\[([\d, ]+)\]", config)
    captured = int(capture[1]) if capture else max(map(int, sizes[1].split(",")), default=0) if sizes else None
    return LoggedStart(
        file=file,
        number=number,
        version=found["version"],
        model=(re.search(r"model='([^']*)'", config) or ["", ""])[1],
        gpu=_device(mine),
        method=spec[1] if spec else None,
        draft=spec[2] if spec else None,
        k=int(spec[3]) if spec else None,
        tensor_parallel=int(_number(r"tensor_parallel_size=(\d+)", config) or 1),
        max_model_len=_whole(r"max_seq_len=(\d+)", config),
        max_num_seqs=_whole(r"'max_num_seqs': (\d+)", arguments),
        batched_tokens=_last(r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)", ahead + mine)
        or _whole(r"'max_num_batched_tokens': (\d+)", arguments),
        utilization=utilization,
        total_gib=float(profiled[1]) if profiled else float(total[2]) / float(total[1]) if total else None,
        kv_cache_dtype=(re.search(r"kv_cache_dtype=(\w+)", config) or ["", "auto"])[1],
        block_size=_whole(r"'block_size': (\d+)", arguments),
        prefix_caching="enable_prefix_caching=True" in config,
        enforce_eager="enforce_eager=True" in config,
        captured_tokens=captured,
        runner="v1" if "gpu_model_runner.py" in mine or "model_runner.py" not in mine else "v2",
        hidden_state_layers=len(states[1].split(",")) if states else 0,
        weights_gib=_number(r"(?:Model loading took|model weights take) ([\d.]+) ?GiB", mine),
        available_gib=_least(r"Available KV cache memory: ([\d.]+) GiB", mine)
        or _least(r"memory reserved for KV Cache is ([\d.]+) ?GiB", mine),
        kv_tokens=_tokens(mine),
        max_concurrency=_number(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x", mine),
    )


def _device(text: str) -> str | None:
    """The GPU, where a line about a kernel's tuning file happens to name it."""
    found = re.search(r"device_name=([\w-]+?)(?:,|\.json|')", text)
    return found[1].replace("_", " ") if found else None


def _number(pattern: str, text: str) -> float | None:
    found = re.search(pattern, text)
    return float(found[1]) if found else None


def _whole(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1].replace(",", "")) if found else None


def _least(pattern: str, text: str) -> float | None:
    """Every worker says its own; the smallest decides."""
    found = [float(value) for value in re.findall(pattern, text)]
    return min(found) if found else None


def _tokens(text: str) -> int | None:
    """KV tokens: as stated, or the V0 engine's blocks of 16."""
    found = [int(value.replace(",", "")) for value in re.findall(r"KV cache size: ([\d,]+) tokens", text)]
    blocks = re.findall(r"# (?:GPU|cuda) blocks: (\d+)", text)
    return min(found) if found else 16 * int(blocks[-1]) if blocks else None


def _last(pattern: str, text: str) -> int | None:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else None
