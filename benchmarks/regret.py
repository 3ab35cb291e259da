"""Does `advise` with a trial choose an arm as fast as the best one? The trial against the exhaustive sweep.

    python -m benchmarks.regret_sweep --models MODELS --out sweep.json        the truth: every arm, k, load and task
    python -m benchmarks.regret --models MODELS --sweep sweep.json --out DIR  a trial for each question
    python -m benchmarks.regret ... --pooled                                  one trial a target, which answers all four

A question is a target, a task and a load, as a user asks it: with prompts of their own, which are the sweep's of that
task and load. (A pooled trial runs the built-in sets, of which the sweep's prompts are the first.) A trial's budget is
a fifth of the engine seconds of that target's sweep in any case. The printed tables are docs/regret.md's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.regret_cells import (
    DRAFTS,
    KS,
    LOADS,
    MAX_MODEL_LEN,
    MAX_NUM_SEQS,
    OUTPUT_TOKENS,
    TARGETS,
    TASKS,
    prompts,
)
from benchmarks.regret_truth import truth_of
from profiles.workload import Task

SHARE = 0.2
"""Engine seconds the trial may take, as a share of the sweep's."""


def deployment(models: Path, target: str, tasks: Sequence[Task], loads: Sequence[int]) -> dict[str, Any]:
    """What is asked: these tasks in equal parts, decided at the largest of these loads."""
    return {
        "target": str(models / target),
        "candidates": [{"method": "draft_model", "draft": str(models / d), "k": list(KS)} for d in DRAFTS]
        + [{"method": name, "k": list(KS)} for name in ("ngram", "suffix")],
        "engine": {"vllm_version": "0.32.0", "dtype": "bfloat16", "enforce_eager": True, "max_num_seqs": MAX_NUM_SEQS,
                   "max_model_len": MAX_MODEL_LEN},
        "hardware": {"gpu": "cpu", "memory_gib": 2},
        "workload": {"concurrency": max(loads), "prompt_tokens": 60, "output_tokens": OUTPUT_TOKENS,
                     "tasks": {t.value: 1 / len(tasks) for t in tasks}},
        "objective": {"goal": "throughput"},
        "trial": {"max_tokens": OUTPUT_TOKENS, "loads": list(loads)},
    }


def with_prompts(stated: dict[str, Any], file: Path, task: Task, load: int) -> dict[str, Any]:
    """The deployment with the sweep's prompts of one question, written to `file`; their lengths are the workload's."""
    file.write_text("".join(json.dumps({"task": p.task.value, "messages": p.as_messages()}) + "\n"
                            for p in prompts(task, load)))
    lengths = {"prompt_tokens", "output_tokens"}
    return {**stated, "trial": {**stated["trial"], "prompts": str(file.resolve())},
            "workload": {key: value for key, value in stated["workload"].items() if key not in lengths}}


def specadvise(*arguments: str, allowed: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run([sys.executable, "-m", "advisor.cli.main", *arguments], stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode not in allowed:
        raise SystemExit(f"specadvise {arguments[0]} ended with {done.returncode}")
    return done.stdout


def arm_name(decision: dict[str, Any]) -> tuple[str, int]:
    """The sweep's name of what was decided; an abstention deploys no speculation."""
    if not decision["enable"]:
        return "none", 0
    return (Path(decision["draft"]).name if decision["draft"] else decision["method"]), int(decision["k"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--sweep", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", action="append", choices=TARGETS)
    parser.add_argument("--pooled", action="store_true", help="One trial a target, for all its questions.")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sweep = json.loads(options.sweep.read_text())
    print("| target | task | load | best arm | tokens/s | advised | tokens/s | regret |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.target or TARGETS:
        rows = [r for r in sweep if r["target"] == name]
        truth = truth_of(rows)
        sweep_s = sum(r["engine_s"] for r in rows if r["round"] == 0)
        budget_s, spent = SHARE * sweep_s, []
        for task in TASKS:
            for load in LOADS:
                asked = (TASKS, LOADS) if options.pooled else ((task,), (load,))
                file = options.out / (name if options.pooled else f"{name}-{task.value}-{load}")
                stated, evidence = file.with_name(f"{file.name}.yaml"), file.with_name(f"{file.name}.evidence.json")
                if not evidence.exists():
                    question = deployment(options.models, name, *asked)
                    if not options.pooled:
                        question = with_prompts(question, file.with_name(f"{file.name}.prompts.jsonl"), task, load)
                    stated.write_text(yaml.safe_dump(question, sort_keys=False))
                    specadvise("trial", str(stated), "--budget", f"{budget_s:.0f}s", "--save", str(evidence))
                spent.append(float(json.loads(evidence.read_text())["trial"]["engine_s"]))
                said = specadvise(
                    "advise", str(stated), "--no-trial", "--evidence", str(evidence), "--task", task.value,
                    "--concurrency", str(load), "--offline", "--format", "json", "-q",
                    "--out", str(options.out / f"{name}-{task.value}-{load}"), allowed=(0, 3))
                decision = json.loads(said)["decision"]
                cell = f"{task.value}/{load}"
                speed = truth.tokens_per_s[cell]
                best, chosen = max(speed, key=lambda a: speed[a]), arm_name(decision)
                word = "off" if decision["enable"] is False else "abstained" if decision["enable"] is None else "on"
                print(f"| {name} | {task.value} | {load} | {best[0]} k={best[1]} | {speed[best]:.2f} | "
                      f"{word}: {chosen[0]} k={chosen[1]} | {speed[chosen]:.2f} | "
                      f"{100 * (1 - speed[chosen] / speed[best]):.1f} % |", flush=True)
        print(f"\n{name}: trials of {min(spent):.0f} to {max(spent):.0f} engine seconds, sweep {sweep_s:.0f}: "
              f"a share of {max(spent) / sweep_s:.2f} at most; a start's own steps differ from what all tell by "
              f"{100 * truth.doubt:.0f} % (median)\n")


if __name__ == "__main__":
    main()
