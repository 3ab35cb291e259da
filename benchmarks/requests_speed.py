"""`probe requests` against the plain scan of the library under it, in one run; and its memory on a large file.

    python -m benchmarks.requests_speed                # ratios on 4 million rows of JSONL and of Azure's CSV, and texts
    python -m benchmarks.requests_speed --memory 10    # peak memory on a generated file of 10 GB (needs the space)

The plain scan sums, counts and bounds the same three columns with the same threads, and opens a database for it as the
probe does. Both are run in turn, and the best of each is compared, so that other work on the machine weighs on both
alike.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

from probes.requests import probe_requests
from probes.requests.database import MEMORY, THREADS, quoted

_BLOCK = 100_000
_LARGE_ROW_BYTES = 94


def _rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return (np.cumsum(draw.exponential(0.05, count)), draw.integers(3, 8000, count), draw.integers(1, 900, count))


def write_jsonl(path: Path, rows: int) -> None:
    """A trace like Mooncake's."""
    times, prompts, outputs = _rows(min(rows, _BLOCK))
    with path.open("w") as stream:
        for written in range(0, rows, len(times)):
            shift = written * 0.05
            stream.writelines(
                f'{{"timestamp": {int((t + shift) * 1000)}, "input_length": {p}, "output_length": {o}, '
                f'"hash_ids": [{i}, {i + 1}, {i + 2}]}}\n'
                for i, (t, p, o) in enumerate(zip(times, prompts, outputs, strict=True), written))


def write_large(path: Path, size: int) -> None:
    """The same by the table engine, for files that Python would write for half an hour."""
    with duckdb.connect(config={"threads": 2, "memory_limit": "1GB"}) as database:
        database.execute("SET enable_progress_bar = false")
        rows = f"range({size // _LARGE_ROW_BYTES}) AS rows(i)"
        database.execute(  # the path goes through `quoted`
            "COPY (SELECT i * 50 + hash(i) % 50 AS timestamp, 3 + hash(i + 1) % 8000 AS input_length, "
            "1 + hash(i + 2) % 900 AS output_length, [i, i + 1, i + 2] AS hash_ids "
            "FROM " + rows + ") TO " + quoted(str(path)) + " (FORMAT json)")


def write_azure(path: Path, rows: int) -> None:
    """A trace like Azure's."""
    times, prompts, outputs = _rows(min(rows, _BLOCK))
    start = np.datetime64("2023-11-16T18:00:00", "ns")
    with path.open("w") as stream:
        stream.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        for written in range(0, rows, len(times)):
            stamps = (start + ((times + written * 0.05) * 1e9).astype("timedelta64[ns]")).astype(str)
            stream.writelines(f"{s[:10]} {s[11:27]},{p},{o}\n"
                              for s, p, o in zip(stamps, prompts, outputs, strict=True))


def write_texts(path: Path, rows: int) -> None:
    """Prompts and answers without token counts: words drawn from a small stock."""
    draw = np.random.default_rng(0)
    words = np.array(["the", "a", "of", "and", "in", "is", "that", "was", "for", "on", "are", "with", "they", "which"])
    times, prompts, outputs = _rows(min(rows, _BLOCK))
    with path.open("w") as stream:
        for written in range(0, rows, len(times)):
            said, start = " ".join(draw.choice(words, 4000)), 1.7e9 + written * 0.05
            stream.writelines(
                f'{{"timestamp": {start + t:.3f}, "prompt": "{said[p % 900:p % 900 + p % 600 + 20]}", '
                f'"output": "{said[o:o + o % 300 + 20]}"}}\n' for t, p, o in zip(times, prompts, outputs, strict=True))


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    wall, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - busy


def compare(name: str, path: Path, scan: str, repeats: int) -> float:
    """Prints and returns the plain scan's time over the probe's, the best of `repeats` each."""
    config = {"threads": min(THREADS, os.cpu_count() or 1), "memory_limit": MEMORY}

    def plain() -> None:
        with duckdb.connect(config=config) as database:
            database.execute(scan).fetchall()

    best = [[float("inf")] * 2 for _ in range(2)]
    for _ in range(repeats):
        for i, work in enumerate((plain, lambda: probe_requests([str(path)]))):
            best[i] = [min(a, b) for a, b in zip(best[i], _timed(work), strict=True)]
    (scan_s, scan_cpu), (probe_s, probe_cpu) = best
    print(f"{name}: {path.stat().st_size / 1e6:.0f} MB, plain scan {scan_s:.2f} s ({scan_cpu:.2f} s of processor), "
          f"probe {probe_s:.2f} s ({probe_cpu:.2f} s): {scan_s / probe_s:.2f} of its speed, "
          f"{scan_cpu / probe_cpu:.2f} by processor time", flush=True)
    return scan_s / probe_s


def speed(folder: Path, rows: int, repeats: int) -> None:
    jsonl, azure, texts = folder / "trace.jsonl", folder / "azure.csv", folder / "texts.jsonl"
    write_jsonl(jsonl, rows)
    write_azure(azure, rows)
    write_texts(texts, rows // 4)
    what = "SELECT count(*), sum({1}), sum({2}), min({0}), max({0}) FROM "
    sizes = "SELECT count(*), sum(strlen({1})), sum(strlen({2})), min({0}), max({0}) FROM "
    lengths = "'{1}': 'BIGINT', '{2}': 'BIGINT'"
    for name, path, scan, names in (
        ("JSONL", jsonl, what + "read_ndjson({3}, columns={{'{0}': 'DOUBLE', " + lengths + "}})",
         ("timestamp", "input_length", "output_length")),
        ("Azure CSV", azure, what + "read_csv({3}, header=true, columns={{'{0}': 'TIMESTAMP', " + lengths + "}})",
         ("TIMESTAMP", "ContextTokens", "GeneratedTokens")),
        ("JSONL of texts", texts, sizes + "read_ndjson({3}, columns={{'{0}': 'DOUBLE', '{1}': 'VARCHAR', "
         "'{2}': 'VARCHAR'}})", ("timestamp", "prompt", "output")),
    ):
        compare(name, path, scan.format(*names, quoted(str(path))), repeats)


def memory(folder: Path, gigabytes: float) -> None:
    """Peak memory of a fresh process that reads one large file."""
    size = int(gigabytes * 1e9)
    if shutil.disk_usage(folder).free < 2 * size:
        sys.exit(f"{folder} has no room for {gigabytes:g} GB and what the table engine spills: name another --folder")
    path = folder / "large.jsonl"
    write_large(path, size)
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import sys; from probes.requests import probe_requests; "
                    "print(probe_requests([sys.argv[1]]).requests, 'requests')", str(path)], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{path.stat().st_size / 1e9:.1f} GB in {time.perf_counter() - started:.0f} s, peak memory {peak:.0f} MiB")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=4_000_000)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--memory", type=float, metavar="GB", help="Measure memory on a file of this size instead.")
    options.add_argument("--folder", type=Path, help="Where the files are generated; removed afterwards.")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        if chosen.memory:
            memory(Path(folder), chosen.memory)
        else:
            speed(Path(folder), chosen.rows, chosen.repeats)


if __name__ == "__main__":
    main()
