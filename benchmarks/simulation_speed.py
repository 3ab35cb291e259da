"""How long the simulation of a million requests takes, what memory, and whether its cost grows linearly.

    python -m benchmarks.simulation_speed [REQUESTS]

Requests of 500 prompt and 200 output tokens (log-normal), acceptance length 2.5 at k = 3, at the rate that keeps about
64 running. Runs a quarter, a half and all of REQUESTS (a million by default) with the compiled loop, then 2,000 with
the same loop as plain Python, and says whether both give the same bits. Needs the extra `plan` (numba).
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

from advisor.capacity.arrivals import from_process
from advisor.capacity.bounds import MeanRequest, mean_values
from advisor.capacity.simulation import EngineModel, simulate
from advisor.capacity.step_table import StepTable
from profiles.workload import Lengths

PROMPT, OUTPUT, RUNNING, SEQS, K = 500.0, 200.0, 64.0, 128, 3
LIMIT_S, LIMIT_GIB = 120.0, 1.0


def engine() -> EngineModel:
    """Step times like those of an 8 B model on one H100: 8 ms and 0.02 ms a token, 0.05 ms a prompt token."""
    running = np.arange(SEQS + 1)[:, None]
    context = np.linspace(0.0, 4000.0, 9)[None, :]
    decode = 8.0 + 1.5 + 0.02 * running * (1 + K) + running * context * 5e-6
    table = StepTable((K,), decode[None], 500.0, np.linspace(0.0, 200.0, 65), 4000.0 / 64, 8.0)
    # 1 + 0.75 + 0.5 + 0.25 = 2.5 tokens a step.
    return EngineModel(table, (K,) * (SEQS + 1), ((0.75, 0.5, 0.25),), 8192, kv_tokens=200_000)


def rate_of(model: EngineModel) -> float:
    """Arrivals a second that keep RUNNING requests in the engine, by Little's law."""
    request = MeanRequest(PROMPT, 0.0, OUTPUT)
    low, high = 0.1, 1000.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if mean_values(model, request, middle).running < RUNNING else (low, middle)
    return low


def main() -> None:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    model = engine()
    rate = rate_of(model)
    prompt, output = Lengths(mean=PROMPT), Lengths(mean=OUTPUT)

    def run(n: int, compiled: bool) -> tuple[float, float, float]:
        begin = time.perf_counter()
        found = simulate(model, from_process(rate, n, prompt, output, seed=1), seed=1, compiled=compiled)
        return time.perf_counter() - begin, float(found.mean_running), float(found.finish_s.sum())

    begin = time.perf_counter()
    first = run(2_000, True)
    print(f"compiled or loaded from the cache in {time.perf_counter() - begin:.1f} s")
    took = 0.0
    for n in sorted({requests // 4, requests // 2, requests}):
        took, running, _ = run(n, True)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{n:>9,} requests: {took:6.1f} s, {1e6 * took / n:5.1f} us a request, {running:.0f} running, "
              f"peak memory {peak:.2f} GiB")
    plain = run(2_000, False)
    print(f"    2,000 requests as plain Python: {plain[0]:.1f} s, {1e6 * plain[0] / 2000:.0f} us a request; "
          f"{'the same bits' if plain[2] == first[2] else 'OTHER RESULTS'}")
    kept = took < LIMIT_S and peak < LIMIT_GIB
    print(f"limits for {requests:,}: {LIMIT_S:.0f} s and {LIMIT_GIB:.0f} GiB: {'kept' if kept else 'BROKEN'}")


if __name__ == "__main__":
    main()
