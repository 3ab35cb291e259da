"""`vllm serve`, as `python -m tests.engine.vllm_serve serve --config FILE ...`, also where the engine is the CPU build.

Nothing but the name of the distribution is changed: parsing, configuration and server are the command's own.
"""

from __future__ import annotations

import sys

from probes.trial.serve_worker import name_the_distribution

if __name__ == "__main__":
    name_the_distribution()
    from vllm.entrypoints.cli.main import main

    sys.exit(main())
