"""The hardware numbers a modelled step needs, and the constants file they are joined with."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.cost.constants import constant, constants
from advisor.situation import Situation
from profiles.catalog.gpus import Gpu
from profiles.catalog.releases import Limits
from profiles.catalog.shapes import ModelShape
from profiles.schema import Source


@dataclass(frozen=True)
class Machine:
    """One accelerator as the model sees it, and how far the model may be off on it (log standard deviations)."""

    name: str
    bandwidth_gbs: float
    tflops: dict[str, float]
    link_gbs: float
    """One direction, between the GPUs of one engine."""
    allreduce_ms: float
    step_host_ms: float
    graph_tokens: int
    """Largest step, in tokens, that runs under captured graphs; 0 where there are none."""
    step_log_sd: float
    ratio_log_sd: float
    source: Source

    def compute_tflops(self, shape: ModelShape) -> float:
        """Dense rate this model's matrix products run at, weight-only kernels' inefficiency included."""
        base = self.tflops.get("bf16") or self.tflops.get("fp16") or max(self.tflops.values())
        if shape.quantization is None or shape.bits_per_weight > 12:
            return base
        low = shape.quantization.lower()
        if "fp4" in low and self.tflops.get("fp4"):
            return self.tflops["fp4"]
        if 6 < shape.bits_per_weight <= 12 and self.tflops.get("fp8"):
            return self.tflops["fp8"]
        return base * constant("weight_only_compute_efficiency")


def _gpu_machine(gpu: Gpu) -> Machine:
    known = {name: value for name, value in gpu.dense_tflops.items() if value}
    errors = constants()["relative_error"]
    latency = constants()["allreduce_latency_ms"]
    nvlink = gpu.nvlink_gbs
    unsure = 1.5 if gpu.check != "ok" or not known else 1.0
    bandwidth, timed = gpu.memory_bandwidth_gbs, gpu.measured
    if timed is not None and timed.weights_gbs:
        # Timed rates are effective ones: given as the peak that the efficiency of a step makes them of.
        bandwidth = timed.weights_gbs / constant("bandwidth_efficiency")
    if timed is not None and timed.bf16_tflops:
        known = {**known, "bf16": timed.bf16_tflops / constant("compute_efficiency")}
    return Machine(
        name=gpu.name,
        bandwidth_gbs=bandwidth,
        # A card whose rate nobody could read: the ratio of rate to bandwidth of its generation is about 150.
        tflops=known or {"bf16": gpu.memory_bandwidth_gbs * 0.15},
        link_gbs=(nvlink / 2 if nvlink else constant("pcie_gbs")),
        allreduce_ms=float(latency["nvlink"] if nvlink else latency["pcie"]),
        step_host_ms=constant("step_host_ms"),
        graph_tokens=1024 if (gpu.compute_capability or "").startswith("10.") else 512,
        step_log_sd=float(errors["step"]) * unsure,
        ratio_log_sd=float(errors["ratio"]) * unsure,
        source=Source.MODELLED,
    )


def machine_for(situation: Situation) -> Machine:
    """The machine of a situation: its GPU, the CPU engine, or an assumed middle where nothing is known."""
    if situation.gpu is not None:
        return _gpu_machine(situation.gpu)
    errors_of = constants()["cpu_engine" if situation.runner == "cpu" else "unknown_gpu"]
    on_cpu = situation.runner == "cpu"
    return Machine(
        name="cpu" if on_cpu else "unknown GPU",
        bandwidth_gbs=float(errors_of["bandwidth_gbs"]),
        tflops={"bf16": float(errors_of["tflops"])},
        link_gbs=constant("pcie_gbs"),
        allreduce_ms=float(constants()["allreduce_latency_ms"]["pcie"]),
        step_host_ms=float(errors_of.get("step_host_ms", constant("step_host_ms"))),
        graph_tokens=0 if on_cpu else 512,
        step_log_sd=float(errors_of["relative_step_error"]),
        ratio_log_sd=float(errors_of["relative_ratio_error"]),
        source=Source.ASSUMED,
    )


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
