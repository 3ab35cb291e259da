"""The one seam to NVML: exactly the calls the GPU probe makes, nothing decided here.

Answers are NVML's own structures, failures NVML's own exceptions (`pynvml.NVMLError` subclasses), so that a synthetic
machine in a test speaks the same language as a driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Handle = Any
"""A device or MIG instance, opaque."""


class Nvml(Protocol):
    """A machine's NVML. Every call may raise a `pynvml.NVMLError`."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def driver_version(self) -> str: ...
    def library_version(self) -> str: ...
    def cuda_version(self) -> int:
        """1000 * major + 10 * minor."""
        ...

    def device_count(self) -> int: ...
    def device(self, index: int) -> Handle: ...
    def name(self, handle: Handle) -> str: ...
    def uuid(self, handle: Handle) -> str: ...
    def memory(self, handle: Handle) -> Any:
        """`total`, `used`, `free` in bytes; newer drivers also `reserved`, which is then not in `used`."""
        ...

    def utilization(self, handle: Handle) -> Any:
        """`gpu`: percent of the last sampling period with a kernel running."""
        ...

    def processes(self, handle: Handle) -> Sequence[Any]:
        """Compute and graphics processes: `pid`, `usedGpuMemory` (bytes or None), `gpuInstanceId`."""
        ...

    def mig_mode(self, handle: Handle) -> Sequence[int]:
        """Current and pending mode, 1 is on."""
        ...

    def mig_capacity(self, handle: Handle) -> int: ...
    def mig_device(self, handle: Handle, index: int) -> Handle: ...
    def power_draw_mw(self, handle: Handle) -> int: ...
    def power_cap_mw(self, handle: Handle) -> int: ...
    def power_default_mw(self, handle: Handle) -> int: ...
    def compute_capability(self, handle: Handle) -> Sequence[int]: ...
    def ecc_mode(self, handle: Handle) -> Sequence[int]:
        """Current and pending mode, 1 is on."""
        ...


class DriverNvml:
    """This machine's driver, through nvidia-ml-py (imports as pynvml)."""

    def __init__(self) -> None:
        import pynvml

        self._n = pynvml

    def start(self) -> None:
        self._n.nvmlInit()

    def stop(self) -> None:
        self._n.nvmlShutdown()

    def driver_version(self) -> str:
        return str(self._n.nvmlSystemGetDriverVersion())

    def library_version(self) -> str:
        return str(self._n.nvmlSystemGetNVMLVersion())

    def cuda_version(self) -> int:
        return int(self._n.nvmlSystemGetCudaDriverVersion_v2())

    def device_count(self) -> int:
        return int(self._n.nvmlDeviceGetCount())

    def device(self, index: int) -> Handle:
        return self._n.nvmlDeviceGetHandleByIndex(index)

    def name(self, handle: Handle) -> str:
        return str(self._n.nvmlDeviceGetName(handle))

    def uuid(self, handle: Handle) -> str:
        return str(self._n.nvmlDeviceGetUUID(handle))

    def memory(self, handle: Handle) -> Any:
        try:
            return self._n.nvmlDeviceGetMemoryInfo(handle, version=self._n.nvmlMemory_v2)
        except (self._n.NVMLError_FunctionNotFound, self._n.NVMLError_ArgumentVersionMismatch):
            # Drivers before 510 know only the first version, which counts the reserved part as used.
            return self._n.nvmlDeviceGetMemoryInfo(handle)

    def utilization(self, handle: Handle) -> Any:
        return self._n.nvmlDeviceGetUtilizationRates(handle)

    def processes(self, handle: Handle) -> Sequence[Any]:
        try:
            compute = self._n.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        except self._n.NVMLError_FunctionNotFound:
            compute = self._n.nvmlDeviceGetComputeRunningProcesses_v2(handle)
        try:
            graphics = self._n.nvmlDeviceGetGraphicsRunningProcesses_v3(handle)
        except self._n.NVMLError:
            # MIG and compute-only cards have no graphics list; the compute list is what counts.
            graphics = []
        return [*compute, *graphics]

    def mig_mode(self, handle: Handle) -> Sequence[int]:
        return list(self._n.nvmlDeviceGetMigMode(handle))

    def mig_capacity(self, handle: Handle) -> int:
        return int(self._n.nvmlDeviceGetMaxMigDeviceCount(handle))

    def mig_device(self, handle: Handle, index: int) -> Handle:
        return self._n.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)

    def power_draw_mw(self, handle: Handle) -> int:
        return int(self._n.nvmlDeviceGetPowerUsage(handle))

    def power_cap_mw(self, handle: Handle) -> int:
        return int(self._n.nvmlDeviceGetEnforcedPowerLimit(handle))

    def power_default_mw(self, handle: Handle) -> int:
        return int(self._n.nvmlDeviceGetPowerManagementDefaultLimit(handle))

    def compute_capability(self, handle: Handle) -> Sequence[int]:
        return list(self._n.nvmlDeviceGetCudaComputeCapability(handle))

    def ecc_mode(self, handle: Handle) -> Sequence[int]:
        return list(self._n.nvmlDeviceGetEccMode(handle))
