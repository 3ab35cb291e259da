"""Record what a target answers to the built-in prompts, as token ids with their task, for `probe replay` and
`probe scoring`.

    python -m benchmarks.record_outputs --target MODEL --out recorded.jsonl [--task code --task summarization]
        [--prompts 6] [--max-tokens 128] [--running 4]

Greedy, on the real engine (loopback only, one child process that is reaped). The file holds token ids, no text.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from probes.trial.engine_process import EngineProcess
from probes.trial.prompts import BUILT_IN_TASKS, load_prompts
from profiles.workload import parse_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--task", action="append", help="by default every built-in set")
    parser.add_argument("--prompts", type=int, default=6, help="of each task")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--running", type=int, default=4)
    options = parser.parse_args()
    tasks = [parse_task(name) for name in options.task] if options.task else list(BUILT_IN_TASKS)
    prompts = [p for task in tasks for p in load_prompts(None, (task,))[: options.prompts]]
    arguments = {"model": options.target, "dtype": "bfloat16", "enforce_eager": True, "max_model_len": 2048,
                 "max_num_seqs": options.running}
    with EngineProcess(arguments, env={"VLLM_CPU_KVCACHE_SPACE": "1"}) as process:
        process.start()
        ids = process.call("tokenize", prompts=[{"messages": p.as_messages()} for p in prompts])["ids"]
        data = process.call("run_block", prompts=ids, running=options.running, k=None, max_tokens=options.max_tokens,
                            ignore_eos=False, temperature=0.0)
    rows = [{"prompt_token_ids": ids[r["place"]], "output_token_ids": r["ids"], "task": prompts[r["place"]].task.value,
             "temperature": 0.0, "model": Path(options.target).name}
            for r in sorted(data["requests"], key=lambda r: r["place"])]
    options.out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} requests, {sum(len(row['output_token_ids']) for row in rows)} output tokens")


if __name__ == "__main__":
    main()
