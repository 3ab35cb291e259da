"""How long `specadvise --help` and an offline `advise` take from the shell, and what their imports cost.

    python -m benchmarks.startup [RUNS]

Prints the fastest and the median of RUNS starts (7 by default), beside a bare interpreter start, and the modules whose
import takes longest. Figures are of this machine and its load: read the ratios to the bare start.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMITS_S = {"specadvise --help": 0.3, "specadvise advise, offline": 1.5}
ADVISE = [
    "--target",
    "meta-llama/Llama-3.1-8B-Instruct",
    "--draft",
    "meta-llama/Llama-3.2-1B-Instruct",
    "--gpu",
    "RTX PRO 6000",
    "--gpus",
    "1",
    "--concurrency",
    "1",
    "--prompt-len",
    "300",
    "--output-len",
    "384",
    "--task",
    "json",
    "--temperature",
    "0",
    "--vllm-version",
    "0.32",
    "--offline",
]


def run(arguments: list[str], folder: str) -> float:
    """Wall seconds of one start; the command must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, check=True, capture_output=True)
    return time.perf_counter() - start


def slowest_imports(arguments: list[str], folder: str, count: int = 8) -> list[tuple[int, str]]:
    """Modules by their own import time in microseconds, slowest first."""
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    rows = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s*(\S+)", ran.stderr)
    return sorted(((int(own), name) for own, name in rows), reverse=True)[:count]


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    cli = ["-m", "advisor.cli.main"]
    cases = {
        "python -c pass": ["-c", "pass"],
        "specadvise --help": [*cli, "--help"],
        "specadvise advise, offline": [*cli, "advise", *ADVISE, "--out", "out"],
    }
    with tempfile.TemporaryDirectory() as folder:
        bare = 0.0
        for name, arguments in cases.items():
            run(arguments, folder)
            times = [run(arguments, folder) for _ in range(runs)]
            fastest, median = min(times), statistics.median(times)
            bare = bare or fastest
            limit = LIMITS_S.get(name)
            verdict = "" if limit is None else f"   limit {limit} s: {'kept' if median < limit else 'BROKEN'}"
            ratio = fastest / bare
            print(f"{name:<28} fastest {fastest:.3f} s, median {median:.3f} s, {ratio:.1f} x a bare start{verdict}")
        print("\nslowest imports of advise (own time)")
        for own, name in slowest_imports(cases["specadvise advise, offline"], folder):
            print(f"  {own / 1000:7.1f} ms  {name}")


if __name__ == "__main__":
    main()
