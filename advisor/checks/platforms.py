"""Which of vLLM's platforms a stated GPU means."""

from __future__ import annotations

from advisor.checks.subject import Platform
from profiles.catalog.gpus import find_gpu
from profiles.errors import InputError

_BY_WORD: tuple[tuple[str, Platform], ...] = (
    ("cpu", "cpu"), ("ascend", "npu"), ("tpu", "tpu"), ("trillium", "tpu"), ("gaudi", "unknown"),
    ("intel", "xpu"), ("arc", "xpu"), ("bmg", "xpu"), ("pvc", "xpu"),
    ("mi2", "rocm"), ("mi3", "rocm"), ("instinct", "rocm"), ("radeon", "rocm"),
)
_BY_VENDOR: dict[str, Platform] = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu", "google": "tpu"}


def platform_of(gpu: str) -> Platform:
    """cuda, rocm, xpu, npu, tpu, cpu, or unknown; cuda where nobody names a GPU."""
    text = gpu.strip().lower()
    if not text:
        return "cuda"
    for word, platform in _BY_WORD:
        if text.startswith(word):
            return platform
    try:
        return _BY_VENDOR.get(find_gpu(gpu).vendor, "unknown")
    except InputError:
        return "unknown"
