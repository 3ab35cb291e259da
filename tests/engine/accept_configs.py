"""Run by the engine's Python: feeds serve configs to vLLM's own parser and configuration stage, reports as JSON.

python accept_configs.py REPORT.json CONFIG.yaml...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


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


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps({path: judge(path) for path in sys.argv[2:]}))
