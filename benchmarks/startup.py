"""How long `specadvise --help`, an offline `advise` and `plan` take from the shell, and what their imports cost.

    python -m benchmarks.startup [RUNS]

Prints the fastest and the median wall time of RUNS starts (7 by default) and the processor time of one, beside a bare
interpreter start, and the modules whose import takes longest. On a machine that is busy with other things the
processor time is what to compare: the wall time is then mostly waiting.
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

from benchmarks.readme import advise_flags

ROOT = Path(__file__).resolve().parents[1]
LIMITS_S = {"specadvise --help": 0.3, "specadvise advise, offline": 1.5, "specadvise plan, offline": 3.0}


def run(arguments: list[str], folder: str) -> tuple[float, float]:
    """Wall and processor seconds of one start; the command must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    start, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, check=True, capture_output=True)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, used


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
        "specadvise advise, offline": [*cli, "advise", *advise_flags(), "--out", "out"],
        "specadvise plan, offline": [*cli, "plan", str(ROOT / "examples" / "capacity.yaml"), "--peak", "40",
                                     "--offline"],
    }
    with tempfile.TemporaryDirectory() as folder:
        bare = 0.0
        for name, arguments in cases.items():
            run(arguments, folder)
            times = [run(arguments, folder) for _ in range(runs)]
            fastest, median = min(wall for wall, _ in times), statistics.median(wall for wall, _ in times)
            processor = statistics.median(used for _, used in times)
            bare = bare or processor
            limit = LIMITS_S.get(name)
            verdict = "" if limit is None else f"; limit {limit} s {'kept' if median < limit else 'BROKEN'}"
            print(
                f"{name:<27} wall {fastest:.2f} s fastest, {median:.2f} s median; processor {processor:.2f} s, "
                f"{processor / bare:.0f} x a bare start{verdict}"
            )
        print("\nslowest imports of advise (own time)")
        for own, name in slowest_imports(cases["specadvise advise, offline"], folder):
            print(f"  {own / 1000:7.1f} ms  {name}")


if __name__ == "__main__":
    main()
