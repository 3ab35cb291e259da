"""Named repairs of known faults of engine builds, applied only inside the engine child and only when asked.

Each is gated by the release and build it was checked on, and reported in the evidence by its name. A repair that does
not apply is not an error: nothing is done and nothing is reported.
"""

from __future__ import annotations

from typing import Any

EXPAND_COPY_LOST = "cpu-expand-copy-lost"
"""vLLM 0.32 CPU build: `vllm/utils/cpu_triton_utils.py` (`_expand_kernel_impl`) writes the per-token temperature, top-p
and top-k into a converted copy of the float tensor and never copies it back, so sampled speculation (temperature > 0)
reads uninitialised memory. The repair writes into the real output."""


def apply_repairs() -> list[str]:
    """Repair what is known to be broken in the engine about to start here; returns the names of what was repaired."""
    import vllm

    done = []
    if vllm.__version__.startswith("0.32.0") and _is_cpu():
        from vllm.utils import cpu_triton_utils

        cpu_triton_utils._expand_kernel_impl = _expand
        done.append(EXPAND_COPY_LOST)
    return done


def _is_cpu() -> bool:
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


def _expand(output: Any, input_val: Any, cu_num_tokens: Any, replace_from: Any, replace_to: Any,
            MAX_NUM_TOKENS: Any = None) -> None:
    """Repeat each request's value over its tokens; `cu_num_tokens` is the running total of tokens per request."""
    import torch

    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
    values = torch.where(input_val == replace_from, torch.as_tensor(replace_to, dtype=input_val.dtype), input_val)
    output.copy_(torch.repeat_interleave(values, counts.to(torch.int64)))
