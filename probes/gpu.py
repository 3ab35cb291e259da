"""This machine's NVIDIA GPUs as `GpuEvidence`: memory, who else uses it, MIG, load, power."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from probes.nvml import DriverNvml, Handle, Nvml
from profiles.errors import ProbeError
from profiles.evidence import GpuDevice, GpuEvidence, GpuProcess, MigInstance
from profiles.schema import Quantity, measured

__all__ = ["probe_gpu"]

T = TypeVar("T")
NO_GPU = "on a machine without an NVIDIA GPU state `hardware.gpu: cpu`, or name the GPU you mean in `hardware.gpu`"
SAMPLE_PAUSE_S = 0.2
"""NVML itself averages over 1/6 to 1 second, so closer samples repeat each other."""
LARGEST_PLAUSIBLE_BYTES = 2**50


def probe_gpu(window_s: float = 1.0, *, nvml: Nvml | None = None, environment: Mapping[str, str] | None = None,
              sleep: Callable[[float], None] = time.sleep,
              host_memory: Callable[[], tuple[int, int]] | None = None,
              own_pids: Callable[[], frozenset[int]] | None = None) -> GpuEvidence:
    """Ask NVML about every visible device; utilisation is sampled over `window_s` seconds.

    CUDA_VISIBLE_DEVICES of `environment` (the process's own by default) is respected and said in the notes. A value
    NVML does not support or refuses is None, with a note; a device that is lost is reported beside the healthy ones.
    ProbeError, one sentence with what to do, where no device can be asked at all. The other arguments are for tests.
    """
    machine = nvml if nvml is not None else _driver()
    error_type = _nvml_error()
    try:
        machine.start()
    except error_type as error:
        raise ProbeError(_start_sentence(error)) from None
    try:
        return _probe(machine, window_s, os.environ if environment is None else environment, sleep,
                      host_memory or _host_memory, (own_pids or _own_pids)())
    except error_type as error:
        raise ProbeError(f"NVML stopped answering ({error}): check `nvidia-smi` and the kernel log; {NO_GPU}") from None
    finally:
        with suppress(error_type):
            machine.stop()


def _driver() -> Nvml:
    try:
        return DriverNvml()
    except ImportError:
        raise ProbeError("the package nvidia-ml-py is not installed, so no GPU can be probed: install it with "
                         f"`pip install nvidia-ml-py`; {NO_GPU}") from None


def _nvml_error() -> type[Exception]:
    import pynvml

    error: type[Exception] = pynvml.NVMLError
    return error


def _code(error: Exception) -> int:
    return int(getattr(error, "value", -1))


def _start_sentence(error: Exception) -> str:
    import pynvml

    reasons = {
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver library (libnvidia-ml) on this machine: install the "
                                             "driver, or start the container with GPUs (--gpus all)",
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is installed and not loaded: load it (modprobe nvidia) "
                                             "or reboot",
        pynvml.NVML_ERROR_NO_PERMISSION: "no permission to talk to the NVIDIA driver: check the rights of "
                                         "/dev/nvidia*, or start the container with GPUs (--gpus all)",
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the NVIDIA library and the loaded kernel driver differ in version "
                                                   "(the driver was updated): reboot, or reload the nvidia module",
    }
    return f"{reasons.get(_code(error), f'NVML does not start ({error}): check `nvidia-smi`')}; {NO_GPU}"


# --- one machine --------------------------------------------------------------------------------------------------
@dataclass
class _Asked:
    """One device being asked: what it refused is remembered as notes, in plain words."""

    index: int
    handle: Handle
    name: str
    uuid: str | None = None
    lost: bool = False
    notes: list[str] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)

    def ask(self, call: Callable[[Handle], T], what: str) -> T | None:
        """The answer, or None with a note. Not supported is normal for many cards and noted only where asked to."""
        import pynvml

        try:
            return call(self.handle)
        except _nvml_error() as error:
            code = _code(error)
            if code == pynvml.NVML_ERROR_NO_PERMISSION:
                self.notes.append(f"no permission to read {what}: run as root or ask the administrator")
            elif code in (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED):
                self.say_lost(error)
            elif code not in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                self.notes.append(f"{what} unknown: NVML says {error}")
            return None

    def say_lost(self, error: Exception) -> None:
        if not self.lost:
            self.notes.append(f"the device does not answer ({error}): it needs a reset or a reboot, see the kernel log")
        self.lost = True


def _probe(nvml: Nvml, window_s: float, environment: Mapping[str, str], sleep: Callable[[float], None],
           host_memory: Callable[[], tuple[int, int]], own_pids: frozenset[int]) -> GpuEvidence:
    count = nvml.device_count()
    if count == 0:
        raise ProbeError(f"the NVIDIA driver sees no GPU: check `nvidia-smi -L` and the container's GPUs; {NO_GPU}")
    everything = [_open(nvml, index) for index in range(count)]
    visible, chosen_mig = _visible(nvml, everything, environment)
    _sample_utilization(nvml, visible, window_s, sleep)
    devices = tuple(_device(nvml, device, host_memory, own_pids, chosen_mig) for device in visible)
    if all(device.handle is None or device.lost for device in visible):
        raise ProbeError(f"GPU {visible[0].index}: {visible[0].notes[0]}; {NO_GPU}")
    return GpuEvidence(driver=_optional(nvml.driver_version), cuda=_cuda(_optional(nvml.cuda_version)),
                       nvml=_optional(nvml.library_version), devices=devices, window_s=window_s)


def _open(nvml: Nvml, index: int) -> _Asked:
    import pynvml

    try:
        handle = nvml.device(index)
    except _nvml_error() as error:
        asked = _Asked(index, None, "unknown")
        if _code(error) == pynvml.NVML_ERROR_NO_PERMISSION:
            asked.notes.append("no permission to open this device: check the rights of /dev/nvidia*")
        else:
            asked.say_lost(error)
        return asked
    asked = _Asked(index, handle, "unknown")
    asked.name = asked.ask(nvml.name, "the name") or "unknown"
    asked.uuid = asked.ask(nvml.uuid, "the UUID")
    return asked


def _optional(call: Callable[[], T]) -> T | None:
    try:
        return call()
    except _nvml_error():
        return None


def _cuda(version: int | None) -> str | None:
    return None if version is None else f"{version // 1000}.{version % 1000 // 10}"


# --- CUDA_VISIBLE_DEVICES -----------------------------------------------------------------------------------------
def _visible(nvml: Nvml, devices: list[_Asked], environment: Mapping[str, str]) -> tuple[list[_Asked], frozenset[str]]:
    """The devices a CUDA process would see, and the UUIDs of the MIG instances named, if any."""
    stated = environment.get("CUDA_VISIBLE_DEVICES")
    if stated is None:
        return devices, frozenset()
    chosen: list[_Asked] = []
    instances: set[str] = set()
    for entry in (part.strip() for part in stated.split(",")):
        found = _find(nvml, devices, entry)
        if found is None:
            # CUDA stops at the first entry it cannot resolve: what stands behind it stays hidden.
            break
        if entry.startswith("MIG-"):
            instances.update(_mig_uuids(nvml, found, entry))
        if found not in chosen:
            chosen.append(found)
    if not chosen:
        raise ProbeError(f"CUDA_VISIBLE_DEVICES={stated!r} hides every GPU of this machine ({len(devices)}): unset it "
                         f"or name one of them; {NO_GPU}")
    hidden = len(devices) - len(chosen)
    for device in chosen:
        if hidden or instances:
            device.notes.append(f"CUDA_VISIBLE_DEVICES={stated}: {hidden} other device{'s' if hidden != 1 else ''} "
                                "hidden" + (", and only the named MIG instances shown" if instances else ""))
        by_number = any(part.strip().isdigit() for part in stated.split(","))
        if by_number and len({d.name for d in devices}) > 1 and environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            device.notes.append("unlike cards: CUDA numbers them fastest first, NVML by bus; set "
                                "CUDA_DEVICE_ORDER=PCI_BUS_ID so that both mean the same")
    return chosen, frozenset(instances)


def _find(nvml: Nvml, devices: Sequence[_Asked], entry: str) -> _Asked | None:
    if entry.isdigit():
        return next((d for d in devices if d.index == int(entry)), None)
    if entry.startswith("GPU-"):
        matches = [d for d in devices if d.uuid is not None and d.uuid.startswith(entry)]
        return matches[0] if len(matches) == 1 else None
    if entry.startswith("MIG-"):
        return next((d for d in devices if _mig_uuids(nvml, d, entry)), None)
    return None


def _mig_uuids(nvml: Nvml, device: _Asked, start: str) -> list[str]:
    found = [_quiet(nvml.uuid, instance) for instance in _mig_handles(nvml, device)]
    return [uuid for uuid in found if uuid is not None and uuid.startswith(start)]


# --- one device ---------------------------------------------------------------------------------------------------
def _device(nvml: Nvml, asked: _Asked, host_memory: Callable[[], tuple[int, int]], own_pids: frozenset[int],
            chosen_mig: frozenset[str]) -> GpuDevice:
    if asked.handle is None or asked.lost:
        return GpuDevice(index=asked.index, name=asked.name, notes=tuple(dict.fromkeys(asked.notes)))
    total, used, free, unified = _memory(nvml, asked, host_memory)
    mig_mode = asked.ask(nvml.mig_mode, "the MIG mode")
    mig_on = bool(mig_mode and mig_mode[0])
    instances = _mig(nvml, asked, chosen_mig) if mig_on else ()
    if mig_on:
        asked.notes.append("MIG is on: an engine gets one instance, not the card" if instances
                           else "MIG is on and holds no instance: nothing can run here until one is created")
    processes = asked.ask(nvml.processes, "the processes of others")
    capability = asked.ask(nvml.compute_capability, "the compute capability")
    ecc = asked.ask(nvml.ecc_mode, "the ECC mode")
    draw, cap, default = (
        None if (milliwatts := asked.ask(call, what)) is None else milliwatts / 1000
        for call, what in ((nvml.power_draw_mw, "the power draw"), (nvml.power_cap_mw, "the power cap"),
                           (nvml.power_default_mw, "the default power cap"))
    )
    if cap is not None and default is not None and cap < default:
        asked.notes.append(f"the power cap ({cap:.0f} W) is below the card's own ({default:.0f} W): steps are slower "
                           "than the catalog's numbers")
    if asked.lost:
        return GpuDevice(index=asked.index, name=asked.name, notes=tuple(dict.fromkeys(asked.notes)))
    return GpuDevice(
        index=asked.index, name=asked.name, total_bytes=total, used_bytes=used, free_bytes=free,
        unified_memory=unified, processes=None if processes is None else _others(processes, own_pids),
        mig_enabled=mig_on, mig=instances, utilization=_utilization(asked), power_draw_w=draw, power_cap_w=cap,
        power_default_w=default, compute_capability=None if capability is None else ".".join(map(str, capability)),
        ecc=None if ecc is None else bool(ecc[0]), notes=tuple(dict.fromkeys(asked.notes)),
    )


def _memory(nvml: Nvml, asked: _Asked,
            host_memory: Callable[[], tuple[int, int]]) -> tuple[int | None, int | None, int | None, bool]:
    """Total, used and free bytes, and whether they are the host's."""
    import pynvml

    try:
        answer = nvml.memory(asked.handle)
    except _nvml_error() as error:
        if _code(error) == pynvml.NVML_ERROR_NOT_SUPPORTED:
            total, free = host_memory()
            asked.notes.append("NVML has no memory size for this device (N/A): it shares the host's memory, whose "
                               "size and free part are given")
            return total, total - free, free, True

        def failed(_: Handle, error: Exception = error) -> Any:
            raise error

        asked.ask(failed, "the memory")
        return None, None, None, False
    total, used, free = int(answer.total), int(answer.used), int(answer.free)
    if not 0 < total < LARGEST_PLAUSIBLE_BYTES:
        asked.notes.append(f"NVML says {total} bytes of memory, which cannot be: left out")
        return None, None, None, False
    reserved = int(getattr(answer, "reserved", 0))
    if reserved:
        asked.notes.append(f"{reserved / 2**20:.0f} MiB of the memory are reserved by the driver: neither used nor "
                           "free")
    return total, used, free, False


def _others(processes: Sequence[Any], own_pids: frozenset[int]) -> tuple[GpuProcess, ...]:
    """One entry a process. One that computes and draws stands in both lists with the same memory: counted once."""
    largest: dict[tuple[int, int], int | None] = {}
    for process in processes:
        pid, instance = int(process.pid), int(getattr(process, "gpuInstanceId", 0) or 0)
        used = process.usedGpuMemory
        # Windows answers all ones for "not known here".
        size = int(used) if used is not None and int(used) < LARGEST_PLAUSIBLE_BYTES else None
        known = largest.get((pid, instance))
        largest[pid, instance] = size if known is None else max(known, size or 0)
    totals: dict[int, int | None] = {}
    for (pid, _), size in largest.items():
        if pid not in own_pids:
            before = totals.get(pid)
            totals[pid] = size if before is None else before + (size or 0)
    return tuple(GpuProcess(pid=pid, used_bytes=size) for pid, size in sorted(totals.items()))


def _mig_handles(nvml: Nvml, asked: _Asked) -> list[Handle]:
    mode = _quiet(nvml.mig_mode, asked.handle) if asked.handle is not None else None
    if not mode or not mode[0]:
        return []
    found: list[Handle] = []
    for index in range(_quiet(nvml.mig_capacity, asked.handle) or 0):
        # The slots are sparse: NVML answers "not found" for those without an instance.
        with suppress(_nvml_error()):
            found.append(nvml.mig_device(asked.handle, index))
    return found


def _mig(nvml: Nvml, asked: _Asked, chosen: frozenset[str]) -> tuple[MigInstance, ...]:
    instances: list[MigInstance] = []
    for handle in _mig_handles(nvml, asked):
        if chosen and _quiet(nvml.uuid, handle) not in chosen:
            continue
        name = (_quiet(nvml.name, handle) or "MIG").removeprefix(asked.name).strip()
        memory = _quiet(nvml.memory, handle)
        instances.append(MigInstance(
            name=name, total_bytes=None if memory is None else int(memory.total),
            used_bytes=None if memory is None else int(memory.used),
            free_bytes=None if memory is None else int(memory.free)))
    return tuple(instances)


def _quiet(call: Callable[[Handle], T], handle: Handle) -> T | None:
    try:
        return call(handle)
    except _nvml_error():
        return None


def _sample_utilization(nvml: Nvml, devices: Sequence[_Asked], window_s: float,
                        sleep: Callable[[float], None]) -> None:
    count = max(1, min(50, int(window_s / SAMPLE_PAUSE_S)))
    asking = [d for d in devices if d.handle is not None and not d.lost]
    for sample in range(count):
        for device in list(asking):
            answer = device.ask(nvml.utilization, "the utilisation")
            if answer is None:
                asking.remove(device)
            else:
                device.samples.append(min(float(answer.gpu), 100.0) / 100)
        if sample + 1 < count and asking:
            sleep(window_s / count)


def _utilization(asked: _Asked) -> Quantity | None:
    if not asked.samples:
        return None
    return measured(sum(asked.samples) / len(asked.samples), min(asked.samples), max(asked.samples),
                    n=len(asked.samples), note="lowest and highest of the samples")


# --- this machine -------------------------------------------------------------------------------------------------
def _host_memory() -> tuple[int, int]:
    """Total and available bytes of the host."""
    import psutil

    memory = psutil.virtual_memory()
    return int(memory.total), int(memory.available)


def _own_pids() -> frozenset[int]:
    """This process and its children: their memory is not somebody else's."""
    import psutil

    own = {os.getpid()}
    with suppress(psutil.Error):
        own.update(child.pid for child in psutil.Process().children(recursive=True))
    return frozenset(own)
