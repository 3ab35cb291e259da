"""The exhaustive sweep: every (arm, k) in an engine start of its own, every cell's throughput measured.

    python -m benchmarks.regret_sweep --models ~/.cache/specadvise/cpu_pair --out sweep.json

Every step of a cell is kept: how long it took, and what it carried. Programs on other machines of the same host stretch
steps by half for seconds at a time and slow the whole machine for minutes, whatever is done here, so that a cell's own
wall time is not what its arm gives. So an engine without speculation stays resident and makes steps of the same load
between those of the cell, and `regret_truth.py` reads the throughput from all steps of an arm together, in units of
those. `--rounds 2` makes every start twice. Writes after every start and goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from benchmarks.regret_cells import (
    ENVIRONMENT,
    LOADS,
    OUTPUT_TOKENS,
    TARGETS,
    TASKS,
    Start,
    engine_args,
    prompts,
    starts,
)
from probes.trial.engine_process import EngineProcess
from probes.trial.plan import speculative_config
from probes.trial.stepwise import PlainSteps


def measure(engine: EngineProcess, resident: EngineProcess, ids: list[list[int]], load: int) -> dict[str, Any]:
    """One cell, with plain steps of its load between its own."""
    sampling = {"temperature": 0.0}
    plain = PlainSteps(resident, ids[:load], sampling)
    data = engine.call("run_block", prompts=ids, running=load, k=None, max_tokens=OUTPUT_TOKENS, ignore_eos=True,
                       turn=plain.turn, **sampling)
    plain.end()
    return {"wall_s": data["wall_s"], "output_tokens": data["output_tokens"], "steps": data["steps"],
            "counters": {k: v for k, v in data["counters"].items() if k.startswith("spec_decode")}}


def run_start(target: Path, start: Start, resident: EngineProcess) -> dict[str, Any]:
    """One engine start: all its cells, and the seconds the engine lived."""
    arguments = dict(engine_args(target))
    if start.k:
        arguments["speculative_config"] = speculative_config(start.candidate, start.k, None)
    with EngineProcess(arguments, env=ENVIRONMENT) as engine:
        engine.start()
        cells = {}
        measured_s = 0.0
        for task in TASKS:
            for load in LOADS:
                chat = [{"messages": p.as_messages()} for p in prompts(task, load)]
                ids = engine.call("tokenize", prompts=chat)["ids"]
                if not cells:
                    engine.call("run_block", prompts=ids[:1], running=1, k=None, max_tokens=4, ignore_eos=True)
                cells[f"{task.value}/{load}"] = measure(engine, resident, ids, load)
                measured_s += cells[f"{task.value}/{load}"]["wall_s"]
        ready_s = engine.start_s
    # What a sweep costs: the start and every cell, the plain steps in between left out.
    return {"arm": start.arm, "k": start.k, "cells": cells, "engine_s": ready_s + measured_s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", action="append", choices=TARGETS)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    done: list[dict[str, Any]] = json.loads(options.out.read_text()) if options.out.exists() else []
    have = {(row["target"], row["arm"], row["k"], row["round"]) for row in done}
    for name in options.target or TARGETS:
        plan = [(turn, start) for turn in range(options.rounds) for start in starts(options.models)]
        if all((name, start.arm, start.k, turn) in have for turn, start in plan):
            continue
        with EngineProcess(dict(engine_args(options.models / name)), env=ENVIRONMENT) as resident:
            resident.start()
            for number, (repeat, start) in enumerate(plan, 1):
                if (name, start.arm, start.k, repeat) in have:
                    continue
                row = {"target": name, "round": repeat, **run_start(options.models / name, start, resident)}
                done.append(row)
                beside = options.out.with_suffix(".part")
                beside.write_text(json.dumps(done, indent=1))
                os.replace(beside, options.out)
                shown = "  ".join(f"{c} {v['output_tokens'] / v['wall_s']:.1f}" for c, v in row["cells"].items())
                print(f"{name} {number}/{len(plan)} {start.arm} k={start.k}: {shown}  ({row['engine_s']:.0f} s)",
                      flush=True)


if __name__ == "__main__":
    main()
