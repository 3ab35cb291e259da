"""Most requests and tokens of one step, as the engine is started."""

from __future__ import annotations

from advisor.situation import Situation
from profiles.catalog.releases import Limits


def engine_limits(situation: Situation) -> Limits:
    """Most requests and most tokens of one step: as stated, else what this release takes by itself."""
    engine, gpu = situation.deployment.engine, situation.gpu
    default = situation.release.default_limits(
        # Drivers report no total for memory shared with the host, which counts as a small card.
        gpu.memory_gib if gpu and not gpu.unified_memory else None,
        gpu.name if gpu else "",
        cpu=situation.runner == "cpu",
        workers=engine.tensor_parallel_size * engine.pipeline_parallel_size,
    )
    return Limits(
        max_num_seqs=engine.max_num_seqs or default.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens or default.max_num_batched_tokens,
    )
