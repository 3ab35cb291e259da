"""KV memory of a stated size, instead of what the engine's share of the GPU leaves.

Read in vLLM 0.32: `kv_cache_memory_bytes` skips the memory profile and the share of the GPU
(v1/worker/gpu_worker.py; on the CPU engine VLLM_CPU_KVCACHE_SPACE is written over it, platforms/cpu.py);
`num_gpu_blocks_override` replaces the number of blocks whatever memory was found, for the admission of max_model_len
too (`get_kv_cache_configs` in v1/core/kv_cache_utils.py; before 0.21 that check looked at the memory alone, vllm pull
41069). Neither asks whether so much memory is there: the allocation fails where it is not.
"""

from __future__ import annotations

from dataclasses import dataclass

from advisor.cost.kv_pool import Pool
from profiles.catalog.options import size_of
from profiles.deployment import Engine

BYTES, BLOCKS = "kv-cache-memory-bytes", "num-gpu-blocks-override"


@dataclass(frozen=True)
class StatedKv:
    """A size of the KV cache that an option names. `amount` is bytes of one GPU, or blocks."""

    option: str
    amount: int

    def bytes_of(self, pool: Pool) -> float:
        """Bytes of one GPU that a pool of this size takes."""
        return float(self.amount * pool.bytes_per_block if self.option == BLOCKS else self.amount)


def stated_option(engine: Engine, name: str) -> object:
    """A serve option of `extra_args`, whatever its dashes; None where it is not stated."""
    return next((v for k, v in engine.extra_args.items() if k.strip("-").replace("_", "-") == name), None)


def stated_kv(engine: Engine) -> StatedKv | None:
    """The size of the KV cache that the serve options state; None where the engine finds it by itself. Blocks win over
    bytes, as in the engine."""
    for option in (BLOCKS, BYTES):
        value = stated_option(engine, option)
        amount = size_of(value) if isinstance(value, str) else value
        if isinstance(amount, int) and not isinstance(amount, bool) and amount > 0:
            return StatedKv(option, amount)
    return None
