"""What vLLM's own parser and configuration stage say of serve configs, asked in a process of its own.

    python accept_configs.py REPORT.json < JOBS.json      # a job is [path of a config, its environment]
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def ask_engine(jobs: Iterable[tuple[Path, Mapping[str, str]]], folder: Path) -> dict[str, dict[str, Any]]:
    """What `judge` says of each config under its environment, by path; the report lies in `folder`."""
    report = folder / "report.json"
    ran = subprocess.run(
        [sys.executable, __file__, str(report)], input=json.dumps([[str(path), dict(env)] for path, env in jobs]),
        capture_output=True, text=True, timeout=580, check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"})
    assert ran.returncode == 0, ran.stderr[-2000:]
    found: dict[str, dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))
    return found


def judge(path: str) -> dict[str, Any]:
    """What `vllm serve --config path` does up to the engine's configuration."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.entrypoints.launchers.cli_args import validate_parsed_serve_args
    from vllm.usage.usage_lib import UsageContext
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    command = ServeSubcommand()
    command.subparser_init(parser.add_subparsers(required=False, dest="subparser")).set_defaults(
        dispatch_function=command.cmd
    )
    report: dict[str, Any] = {}
    try:
        arguments = parser.parse_args(["serve", "--config", path])
        validate_parsed_serve_args(arguments)
        report["parsed"] = True
        config = AsyncEngineArgs.from_cli_args(arguments).create_engine_config(
            usage_context=UsageContext.OPENAI_API_SERVER
        )
    except SystemExit as stop:
        return {**report, "error": f"the parser exits with {stop.code}"}
    except Exception as error:
        return {**report, "error": f"{type(error).__name__}: {error}"[:600]}
    speculation = config.speculative_config
    report["accepted"] = True
    report["prefix_caching"] = config.cache_config.enable_prefix_caching
    report["max_model_len"] = config.model_config.max_model_len
    report["tensor_parallel_size"] = config.parallel_config.tensor_parallel_size
    if speculation is not None:
        report["speculation"] = {
            "method": speculation.method,
            "k": speculation.num_speculative_tokens,
            "schedule": speculation.num_speculative_tokens_per_batch_size,
        }
    return report


def judge_in(env: dict[str, str], paths: list[str]) -> dict[str, Any]:
    """The judgements made under an environment, in a copy of this process: importing the engine takes longer than they
    do, and it reads its variables when it is asked."""
    reads, writes = os.pipe()
    if (child := os.fork()) == 0:
        os.close(reads)
        os.environ.update(env)
        with os.fdopen(writes, "w") as answers:
            json.dump({path: judge(path) for path in paths}, answers)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as answers:
        text = answers.read()
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"judging under {env} ended with status {status}")
    found: dict[str, Any] = json.loads(text)
    return found


if __name__ == "__main__":
    # Once, for every copy of this process.
    importlib.import_module("vllm.entrypoints.cli.serve")
    groups: dict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    for path, environment in json.load(sys.stdin):
        groups[tuple(sorted(environment.items()))].append(path)
    report: dict[str, Any] = {}
    for variables, paths in groups.items():
        report |= judge_in(dict(variables), paths)
    Path(sys.argv[1]).write_text(json.dumps(report))
