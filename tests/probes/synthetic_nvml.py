"""A synthetic NVML: the same calls as the driver's, answered with NVML's own structures and exceptions.

The values are those that people's `nvidia-smi` printed for these cards (name, sizes, power, MIG layout, processes of
others); nothing here was captured from an NVML call. Sizes in MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pynvml

MIB = 2**20
NO_INSTANCE = 0xFFFFFFFF


def memory(total: int, used: int, reserved: int = 0) -> pynvml.c_nvmlMemory_v2_t:
    answer = pynvml.c_nvmlMemory_v2_t()
    answer.version = pynvml.nvmlMemory_v2
    answer.total, answer.used, answer.reserved = total * MIB, used * MIB, reserved * MIB
    answer.free = (total - used - reserved) * MIB
    return answer


def old_memory(total: int, used: int) -> pynvml.c_nvmlMemory_t:
    answer = pynvml.c_nvmlMemory_t()
    answer.total, answer.used, answer.free = total * MIB, used * MIB, (total - used) * MIB
    return answer


def process(pid: int, used: int | None, instance: int = NO_INSTANCE) -> pynvml.c_nvmlProcessInfo_t:
    answer = pynvml.c_nvmlProcessInfo_t()
    answer.pid, answer.gpuInstanceId = pid, instance
    answer.usedGpuMemory = pynvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value if used is None else used * MIB
    return answer


def utilization(percent: int) -> pynvml.c_nvmlUtilization_t:
    answer = pynvml.c_nvmlUtilization_t()
    answer.gpu, answer.memory = percent, 0
    return answer


NOT_SUPPORTED = pynvml.NVMLError_NotSupported
NO_PERMISSION = pynvml.NVMLError_NoPermission
LOST = pynvml.NVMLError_GpuIsLost


@dataclass
class SyntheticInstance:
    name: str
    memory: Any
    uuid: str = ""


@dataclass
class SyntheticDevice:
    """One card; a value that is an exception's class is raised instead of returned."""

    name: Any
    memory: Any
    uuid: str = "GPU-0"
    loads: Sequence[Any] = (0,)
    """Utilisation in percent, one a sample, the last repeated."""
    processes: Any = ()
    mig: Any = NOT_SUPPORTED
    instances: dict[int, SyntheticInstance] = field(default_factory=dict)
    """By slot: NVML answers "not found" for the others."""
    slots: int = 7
    draw_w: Any = NOT_SUPPORTED
    cap_w: Any = NOT_SUPPORTED
    default_w: Any = NOT_SUPPORTED
    capability: Any = (9, 0)
    ecc: Any = NOT_SUPPORTED
    handle_error: type[Exception] | None = None
    asked: int = 0


def _answer(value: Any) -> Any:
    if isinstance(value, type) and issubclass(value, Exception):
        raise value()
    return value


@dataclass
class SyntheticNvml:
    devices: list[SyntheticDevice]
    driver: str = "590.48.01"
    cuda: int = 13010
    start_error: Exception | None = None
    stopped: int = 0

    def start(self) -> None:
        if self.start_error is not None:
            raise self.start_error

    def stop(self) -> None:
        self.stopped += 1

    def driver_version(self) -> str:
        return self.driver

    def library_version(self) -> str:
        return f"13.{self.driver}"

    def cuda_version(self) -> int:
        return self.cuda

    def device_count(self) -> int:
        return len(self.devices)

    def device(self, index: int) -> Any:
        device = self.devices[index]
        if device.handle_error is not None:
            raise device.handle_error()
        return device

    def name(self, handle: Any) -> str:
        return str(_answer(handle.name))

    def uuid(self, handle: Any) -> str:
        return str(handle.uuid)

    def memory(self, handle: Any) -> Any:
        return _answer(handle.memory)

    def utilization(self, handle: Any) -> Any:
        load = handle.loads[min(handle.asked, len(handle.loads) - 1)]
        handle.asked += 1
        return utilization(_answer(load))

    def processes(self, handle: Any) -> Any:
        found = _answer(handle.processes)
        return [pynvml.nvmlStructToFriendlyObject(one) for one in found]

    def mig_mode(self, handle: Any) -> Any:
        return _answer(handle.mig)

    def mig_capacity(self, handle: Any) -> int:
        return int(handle.slots)

    def mig_device(self, handle: Any, index: int) -> Any:
        if index not in handle.instances:
            raise pynvml.NVMLError_NotFound()
        return handle.instances[index]

    def power_draw_mw(self, handle: Any) -> int:
        return int(_answer(handle.draw_w) * 1000)

    def power_cap_mw(self, handle: Any) -> int:
        return int(_answer(handle.cap_w) * 1000)

    def power_default_mw(self, handle: Any) -> int:
        return int(_answer(handle.default_w) * 1000)

    def compute_capability(self, handle: Any) -> Any:
        return _answer(handle.capability)

    def ecc_mode(self, handle: Any) -> Any:
        return _answer(handle.ecc)


def synthetic_h100() -> SyntheticDevice:
    return SyntheticDevice(
        "NVIDIA H100 80GB HBM3", memory(81559, 19818, 478), uuid="GPU-11111111-h100", loads=(90, 100, 95, 100, 100),
        processes=[process(21180, 2566), process(21181, 1542), process(21198, 15690)], mig=(0, 0), draw_w=690.1,
        cap_w=700, default_w=700, ecc=(1, 1))


def synthetic_h100_mig() -> SyntheticDevice:
    return SyntheticDevice(
        "NVIDIA H100 80GB HBM3", memory(81559, 11125, 478), uuid="GPU-22222222-mig", loads=(NOT_SUPPORTED,),
        processes=[process(21180, 2296, 2), process(21181, 1272, 2), process(21198, 7484, 2)], mig=(1, 1),
        instances={
            0: SyntheticInstance("NVIDIA H100 80GB HBM3 MIG 3g.40gb", memory(40448, 11091), "MIG-aaaa"),
            1: SyntheticInstance("NVIDIA H100 80GB HBM3 MIG 2g.20gb", memory(20096, 17), "MIG-bbbb"),
            4: SyntheticInstance("NVIDIA H100 80GB HBM3 MIG 1g.10gb", memory(9984, 9), "MIG-cccc"),
            6: SyntheticInstance("NVIDIA H100 80GB HBM3 MIG 1g.10gb", memory(9984, 9), "MIG-dddd"),
        }, draw_w=432, cap_w=700, default_w=700, ecc=(1, 1))


def synthetic_a100() -> SyntheticDevice:
    return SyntheticDevice("NVIDIA A100-SXM4-80GB", memory(81920, 50, 630), uuid="GPU-33333333-a100", mig=(0, 0),
                           draw_w=58.2, cap_w=400, default_w=400, capability=(8, 0), ecc=(1, 1))


def synthetic_rtx_4080_super() -> SyntheticDevice:
    return SyntheticDevice(
        "NVIDIA GeForce RTX 4080 SUPER", memory(16376, 1474, 434), uuid="GPU-44444444-4080", loads=(40, 60),
        processes=[process(1511, 270), process(1600, 25), process(1700, 503), process(1700, 503), process(1800, 360)],
        draw_w=100.5, cap_w=320, default_w=320, capability=(8, 9))


def synthetic_gb10() -> SyntheticDevice:
    return SyntheticDevice(
        "NVIDIA GB10", NOT_SUPPORTED, uuid="GPU-55555555-gb10", loads=(0,),
        processes=[process(329657, 43), process(329691, 17), process(577729, 89093)], draw_w=10.2,
        capability=(12, 1))


def synthetic_jetson_orin() -> SyntheticDevice:
    return SyntheticDevice("Orin (nvgpu)", NOT_SUPPORTED, uuid="GPU-66666666-orin", loads=(NOT_SUPPORTED,),
                           processes=NOT_SUPPORTED, capability=(8, 7))
