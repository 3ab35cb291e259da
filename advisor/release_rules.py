"""What a release refuses or does not honour, asked of single values: shared by the advice (compatibility, emit) and the
checks, so that what is advised passes what is checked.
"""

from __future__ import annotations

from typing import Literal

from profiles.catalog.releases import Release
from profiles.catalog.shapes import ModelShape
from profiles.methods import Method

AnyRunner = Literal["v0", "v1", "v2", "cpu"]


def picked_runner(release: Release, target: ModelShape) -> Literal["v1", "v2"]:
    """The GPU runner a release takes for a target by itself, when no variable forces one."""
    picked = release.picks_v2(
        target.architectures, moe=target.moe is not None, quantized=target.quantization is not None,
        hybrid=any(group.kind == "linear" for group in target.attention))
    return "v2" if picked else "v1"


def refused_split(split: int, whole: int, described: Method, runner: AnyRunner) -> str | None:
    """Why vLLM does not take a draft split over `split` GPUs under a target split over `whole`; None where it does."""
    if split == whole:
        return None
    if split != 1:
        return f"the draft is split over {split} GPUs: vLLM takes 1 or the target's {whole}"
    if described.drafter == "model" and runner in ("v1", "cpu"):
        # The CPU engine's runner is the V1 one's child, and checks the same.
        return f"the draft is split over 1 GPU: the V1 runner takes a draft model only split like the target ({whole})"
    return None


def refused_window(low: float | None, high: float | None) -> tuple[str, str] | None:
    """The setting and the reason why vLLM does not take an n-gram window; None where it does."""
    for name, value in (("prompt_lookup_min", low), ("prompt_lookup_max", high)):
        if value is not None and (value < 1 or value != int(value)):
            return name, f"{name} is {value:g}: vLLM takes a whole number of at least 1"
    if low is not None and high is not None and low > high:
        return "prompt_lookup_min", f"prompt_lookup_min is {low:g}, above prompt_lookup_max, {high:g}"
    return None


def mtp_depth_fits(k: int, layers: int) -> bool:
    """Whether vLLM takes k with this many MTP layers: within them, or a multiple."""
    return k <= layers or k % layers == 0


def refused_schedule(described: Method, release: Release, runner: AnyRunner, replicas: int) -> str | None:
    """Why a schedule of k by batch size would not be followed here; None where it would. replicas: data parallel."""
    if not release.has("dynamic_schedule"):
        return f"vLLM {release.version} has no schedule by batch size (0.24 brought it)"
    if replicas > 1:
        return "a schedule is dropped with data parallel replicas"
    if ("v1" if runner == "cpu" else runner) not in described.dynamic_schedule:
        return f"{described.title} does not honour a schedule on the {runner.upper()} runner"
    if not honours_schedule(described, release, runner):
        return f"vLLM {release.version} reads a schedule on the {runner.upper()} runner and does not follow it"
    return None


def honours_schedule(described: Method, release: Release, runner: AnyRunner) -> bool:
    """Whether a schedule of k by batch size reaches the drafter on this runner."""
    if not release.has("dynamic_schedule"):
        return False
    if runner == "v2":
        return "v2" in described.dynamic_schedule and release.has("v2_schedule_honoured")
    return "v1" in described.dynamic_schedule
