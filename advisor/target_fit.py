"""What would hold a target that does not fit: the smallest changes of GPUs, weights and limits that the plan allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from advisor.cost.memory import plan_memory
from advisor.cost.stated_kv import BLOCKS, BYTES
from advisor.prediction import Pricing
from advisor.situation import Situation
from profiles.catalog.gpus import Gpu, gpus
from profiles.catalog.models import quantized
from profiles.catalog.quantization import Quantization
from profiles.deployment import NO_SPECULATION, Hardware

_SPLITS = (1, 2, 4, 8, 16)
"""Tensor parallel sizes that people have machines for."""
_WEIGHTS = (
    ("8-bit weights (FP8, INT8)", Quantization("fp8", 8.0)),
    ("4-bit weights (AWQ, GPTQ)", Quantization("awq", 4.16)),
)
_MOST_SHARE = 0.95


def what_would_fit(pricing: Pricing) -> tuple[str, ...]:
    """Changes that make the target fit, each by itself, from what costs nothing to other hardware; a few words each.
    Empty where none of those looked at does."""
    situation = pricing.situation
    return (*_limits(pricing), *_splits(situation), *_other_gpu(situation))


def _fits(situation: Situation) -> bool:
    return plan_memory(situation, NO_SPECULATION, 0).target_fits is True


def _with_engine(situation: Situation, **changed: Any) -> Situation:
    engine = situation.deployment.engine.model_copy(update=changed)
    return replace(situation, deployment=situation.deployment.model_copy(update={"engine": engine}))


def _limits(pricing: Pricing) -> Iterator[str]:
    """Limits of the engine, on the same GPUs with the same weights."""
    situation, engine = pricing.situation, pricing.situation.deployment.engine
    longest = plan_memory(situation, NO_SPECULATION, 0).max_model_len_without
    if engine.max_model_len is not None and longest and _fits(_with_engine(situation, max_model_len=longest)):
        yield f"a max_model_len of at most {longest:,}"
    unstated = {k: v for k, v in engine.extra_args.items() if k.strip("-").replace("_", "-") not in (BLOCKS, BYTES)}
    if len(unstated) < len(engine.extra_args) and _fits(_with_engine(situation, extra_args=unstated)):
        yield "no stated size of the KV cache (gpu_memory_utilization then decides)"
    more = _with_engine(situation, gpu_memory_utilization=_MOST_SHARE)
    if engine.gpu_memory_utilization < _MOST_SHARE and _fits(more):
        yield f"gpu_memory_utilization {_MOST_SHARE:g}"
    if engine.max_num_seqs is None and _fits(_with_engine(situation, max_num_seqs=pricing.running)):
        yield f"max_num_seqs {pricing.running} (not stated, this release takes {pricing.max_running})"
    if engine.kv_cache_dtype == "auto" and _fits(_with_engine(situation, kv_cache_dtype="fp8")):
        yield "an fp8 KV cache (kv_cache_dtype)"


def _splits(situation: Situation) -> Iterator[str]:
    """The fewest GPUs of this kind, as the weights are and with narrower ones, until one fits on as many as stated."""
    engine, target, fewest = situation.deployment.engine, situation.target, 10**6
    weights = [("", target), *((f" with {words}", quantized(target, form)) for words, form in _WEIGHTS
                               if form.bits < target.bits_per_weight - 1.0)]
    for words, shape in weights:
        for split in _SPLITS:
            if split < engine.tensor_parallel_size or split >= fewest or target.num_attention_heads % split:
                continue
            devices = split * engine.pipeline_parallel_size * engine.data_parallel_size
            if _fits(replace(_with_engine(situation, tensor_parallel_size=split), target=shape, gpu_count=devices)):
                fewest = split
                name = situation.gpu.name if situation.gpu is not None else "such GPUs"
                same = "the same GPU" + ("s" if devices > 1 else "")
                where = (same if split == engine.tensor_parallel_size else
                         f"{devices} x {name} (tensor_parallel_size {split})")
                yield f"{where}{words}"
                break


def _other_gpu(situation: Situation) -> Iterator[str]:
    """The smallest card of the same maker that holds it split as stated."""
    card = situation.gpu
    if card is None:
        return
    larger = [one for one in gpus() if one.vendor == card.vendor and one.memory_gib > card.memory_gib
              and not one.unified_memory]
    for one in sorted(larger, key=lambda one: (one.memory_gib, not one.common, one.name)):
        if _fits(_on(situation, one)):
            engine = situation.deployment.engine
            count = engine.tensor_parallel_size * engine.pipeline_parallel_size * engine.data_parallel_size
            yield f"{count} x {one.name} ({one.memory_gib:.0f} GiB each)" if count > 1 else (
                f"one {one.name} ({one.memory_gib:.0f} GiB)")
            return


def _on(situation: Situation, gpu: Gpu) -> Situation:
    """The same on another card: nothing that was stated or measured of this one holds there."""
    deployment = situation.deployment.model_copy(update={"hardware": Hardware(gpu=gpu.name)})
    return replace(situation, gpu=gpu, deployment=deployment, evidence=())
