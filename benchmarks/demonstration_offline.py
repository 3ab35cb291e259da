"""The public demonstration's three parts answered without an engine: runs `specadvise advise`, tabulates its records.

    python -m benchmarks.demonstration_offline [--write docs/demonstration.md]

Every row names its command; with --write the table replaces what stands between the page's `offline` markers.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.record import whole_requests

ROOT = Path(__file__).resolve().parents[1]
FILE = "examples/demonstration.yaml"
BEGIN, END = "<!-- offline:begin -->", "<!-- offline:end -->"
CONTEXT = "--task summarization --output-len 128 --max-model-len 36864 --max-num-seqs 1"


@dataclass(frozen=True)
class Question:
    """One command and what the demonstration reported for it."""

    part: str
    what: str
    flags: str
    reported: str


QUESTIONS = (
    Question("1 predictability", "JSON and SQL", "--task json", "structured output about 1.6x, high acceptance"),
    Question("1 predictability", "creative writing", "--task creative", "little or no gain"),
    *(Question("2 context", f"{tokens // 1000} K prompt, 128 tokens of answer", f"{CONTEXT} --prompt-len {tokens}",
               "most time is prefill, little gain") for tokens in (8000, 24000, 32000)),
)
STRESS = Question("3 concurrency", "mixed text", "--task mixed --concurrency 32 --gpu-memory-utilization 0.5",
                  "the gain goes as concurrency rises")


def advise(flags: str, scratch: Path) -> dict[str, Any]:
    """The record of one `specadvise advise`."""
    done = subprocess.run(
        [sys.executable, "-m", "advisor.cli.main", "advise", FILE, *shlex.split(flags), "--offline", "--quiet", "--out",
         str(scratch)], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        sys.exit(f"specadvise advise {FILE} {flags} ended with status {done.returncode}: {done.stderr.strip()}")
    record: dict[str, Any] = json.loads((scratch / "record.json").read_text(encoding="utf-8"))
    return record


def verdict(decision: dict[str, Any]) -> str:
    if decision["enable"] is None:
        return "not decided: measure it"
    return f"on, k = {decision['k']}" if decision["enable"] else "off"


def gain(row: dict[str, Any]) -> str:
    return f"{row['speedup']:.2f}x ({row['speedup_low']:.2f} to {row['speedup_high']:.2f})"


def command(flags: str) -> str:
    return f"`specadvise advise {FILE} {flags}`"


def answers(scratch: Path) -> str:
    """Both tables and the memory plan, as markdown."""
    lines = ["| part | text | answer | end to end, 80 % interval | reported there | command |",
             "|---|---|---|---|---|---|"]
    for q in QUESTIONS:
        record = advise(q.flags, scratch)
        decision = record["decision"]
        found = gain(decision) if decision["speedup"] is not None else "-"
        lines.append(f"| {q.part} | {q.what} | {verdict(decision)} | {found} | {q.reported} | {command(q.flags)} |")
    record = advise(STRESS.flags, scratch)
    decision = record["decision"]
    lines += ["", f"Part 3, {STRESS.reported}: {command(STRESS.flags)} prints every load at once "
                  f"({verdict(decision)} at 32).", "",
              "| running | chosen k | end to end, 80 % interval | chance of more than 5 % |", "|---|---|---|---|"]
    lines += [stress_row(record, running) for running in loads_of(record)]
    lines += ["", "The chosen k is what would be decided for were that load the usual one: the low end of the gain "
                  "counts as well as its middle, and of two that are no more than noise apart the smaller is taken."]
    crossover = decision["crossover_load"]
    lines += ["", f"No k gains from {crossover} running requests on." if crossover
              else "No load was found at which every k stops gaining."]
    lines += ["", *memory_plan(scratch)]
    return "\n".join(lines) + "\n"


def loads_of(record: dict[str, Any]) -> list[int]:
    return sorted({c["running"] for c in record["candidates"] if c["candidate"]["method"] != "none"})


def stress_row(record: dict[str, Any], running: int) -> str:
    cells = [c for c in record["candidates"] if c["running"] == running and c["candidate"]["method"] != "none"]
    best = next(c for c in cells if c["chosen"])
    s = best["speedup"]
    return (f"| {running} | {best['k']} | {s['value']:.2f}x ({s['low']:.2f} to {s['high']:.2f}) | "
            f"{best['probability_of_gain']:.0%} |")


def memory_plan(scratch: Path) -> list[str]:
    """Both services on the one GPU, at the demonstration's two shares."""
    lines = ["Memory for both services on the one GPU:", "",
             "| share of each | service | weights, GiB | draft, GiB | runtime, GiB | KV, GiB | KV tokens | "
             "requests of 784 tokens |", "|---|---|---|---|---|---|---|---|"]
    for share in ("0.45", "0.50"):
        record = advise(f"--task json --gpu-memory-utilization {share}", scratch)
        m = record["memory"]
        for service, draft, tokens, per_token, fit in (
            ("target only", 0.0, m["kv_tokens_without"], m["kv_bytes_per_token_target"], m["max_concurrency_without"]),
            ("with the draft", m["draft_weights_gib"], m["kv_tokens_with"],
             m["kv_bytes_per_token_target"] + m["kv_bytes_per_token_draft"], m["max_concurrency_with"]),
        ):
            # Graphs and activations grow with the tokens of a step: what weights and cache leave is the runtime's.
            cache = tokens * per_token / 2**30
            runtime = m["usable_gib"] - m["target_weights_gib"] - draft - cache
            lines.append(f"| {share} ({m['usable_gib']:.1f} GiB) | {service} | {m['target_weights_gib']:.1f} | "
                         f"{draft:.1f} | {runtime:.1f} | {cache:.1f} | {tokens:,} | {whole_requests(fit):,} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="replace the table between the markers of this page")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="demonstration-") as scratch:
        text = answers(Path(scratch))
    if options.write is None:
        print(text, end="")
        return 0
    page = options.write.read_text(encoding="utf-8")
    if BEGIN not in page or END not in page:
        print(f"{options.write} has no lines {BEGIN} and {END}", file=sys.stderr)
        return 2
    before, _, rest = page.partition(BEGIN)
    options.write.write_text(f"{before}{BEGIN}\n{text}{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
