"""`probe gpu` over synthetic NVML answers (NVML's own structures, values of real cards)."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pynvml
import pytest

from probes.gpu import probe_gpu
from probes.nvml import DriverNvml
from profiles.errors import ProbeError
from profiles.evidence import GpuDevice, GpuEvidence
from tests.probes import synthetic_nvml as syn

MIB = 2**20
HOST = (128 * 2**30, 32 * 2**30)


def probe(*devices: syn.SyntheticDevice, environment: dict[str, str] | None = None, window_s: float = 1.0,
          own: frozenset[int] = frozenset(), **machine: Any) -> GpuEvidence:
    return probe_gpu(window_s, nvml=syn.SyntheticNvml(list(devices), **machine), environment=environment or {},
                     sleep=lambda _: None, host_memory=lambda: HOST, own_pids=lambda: own)


def only(evidence: GpuEvidence) -> GpuDevice:
    (device,) = evidence.devices
    return device


def test_a_plain_card_reports_memory_others_power_and_versions() -> None:
    evidence = probe(syn.synthetic_h100())
    device = only(evidence)
    assert (evidence.driver, evidence.cuda, evidence.nvml) == ("590.48.01", "13.1", "13.590.48.01")
    assert device.name == "NVIDIA H100 80GB HBM3"
    assert (device.total_bytes, device.used_bytes) == (81559 * MIB, 19818 * MIB)
    assert device.free_bytes == (81559 - 19818 - 478) * MIB
    assert device.processes is not None
    assert sum(p.used_bytes or 0 for p in device.processes) == 19798 * MIB
    assert (device.power_cap_w, device.power_default_w) == (700.0, 700.0)
    assert device.power_draw_w == pytest.approx(690.1)
    assert device.compute_capability == "9.0"
    assert device.ecc is True
    assert not device.mig_enabled
    assert any("478 MiB" in note and "reserved" in note for note in device.notes)


def test_utilisation_is_the_mean_of_several_samples_with_their_range() -> None:
    quantity = only(probe(syn.synthetic_h100())).utilization
    assert quantity is not None
    assert quantity.value == pytest.approx(0.97)
    assert (quantity.low, quantity.high, quantity.n) == (0.9, 1.0, 5)
    assert quantity.source.value == "measured"


def test_mig_slices_are_listed_with_their_own_memory_and_sparse_slots_are_skipped() -> None:
    device = only(probe(syn.synthetic_h100_mig()))
    assert device.mig_enabled
    assert [m.name for m in device.mig] == ["MIG 3g.40gb", "MIG 2g.20gb", "MIG 1g.10gb", "MIG 1g.10gb"]
    assert [m.total_bytes for m in device.mig] == [40448 * MIB, 20096 * MIB, 9984 * MIB, 9984 * MIB]
    assert device.mig[0].used_bytes == 11091 * MIB
    assert device.utilization is None
    assert any("one instance" in note for note in device.notes)


def test_mig_without_an_instance_says_that_nothing_can_run() -> None:
    card = syn.synthetic_h100_mig()
    card.instances = {}
    assert any("holds no instance" in note for note in only(probe(card)).notes)


@pytest.mark.parametrize("card", [syn.synthetic_gb10, syn.synthetic_jetson_orin])
def test_unified_memory_takes_the_hosts_sizes_and_says_so(card: Any) -> None:
    device = only(probe(card()))
    assert device.unified_memory
    assert (device.total_bytes, device.free_bytes) == HOST
    assert device.used_bytes == HOST[0] - HOST[1]
    assert device.power_cap_w is None
    assert any("host's memory" in note for note in device.notes)


def test_processes_not_supported_is_unknown_rather_than_none_running() -> None:
    assert only(probe(syn.synthetic_jetson_orin())).processes is None


def test_a_process_in_both_lists_is_counted_once_and_our_own_is_left_out() -> None:
    device = only(probe(syn.synthetic_rtx_4080_super(), own=frozenset({1511})))
    assert device.processes is not None
    assert {p.pid: p.used_bytes for p in device.processes} == {
        1600: 25 * MIB, 1700: 503 * MIB, 1800: 360 * MIB}


def test_unknown_process_memory_stays_unknown() -> None:
    card = syn.synthetic_rtx_4080_super()
    card.processes = [syn.process(7, None)]
    processes = only(probe(card)).processes
    assert processes is not None
    assert processes[0].used_bytes is None


def test_refused_permission_is_noted_and_the_rest_is_still_reported() -> None:
    card = syn.synthetic_h100()
    card.processes, card.draw_w = syn.NO_PERMISSION, syn.NO_PERMISSION
    device = only(probe(card))
    assert device.processes is None
    assert device.power_draw_w is None
    assert device.total_bytes == 81559 * MIB
    assert any("no permission to read the processes" in note for note in device.notes)


def test_refused_memory_is_unknown_and_not_taken_for_unified() -> None:
    card = syn.synthetic_h100_mig()
    card.memory = syn.NO_PERMISSION
    device = only(probe(card))
    assert device.total_bytes is None
    assert not device.unified_memory
    assert device.mig[0].total_bytes == 40448 * MIB


def test_an_old_drivers_memory_structure_is_read_too() -> None:
    card = syn.synthetic_a100()
    card.memory = syn.old_memory(40960, 1000)
    device = only(probe(card))
    assert (device.total_bytes, device.used_bytes, device.free_bytes) == (40960 * MIB, 1000 * MIB, 39960 * MIB)


def test_an_impossible_memory_size_is_left_out() -> None:
    card = syn.synthetic_a100()
    card.memory.total = 0
    device = only(probe(card))
    assert device.total_bytes is None
    assert any("cannot be" in note for note in device.notes)


def test_a_lowered_power_cap_is_said() -> None:
    card = syn.synthetic_a100()
    card.cap_w = 300
    device = only(probe(card))
    assert device.power_cap_w == 300
    assert any("300 W" in note and "400 W" in note for note in device.notes)


def test_one_lost_device_does_not_hide_the_healthy_one() -> None:
    broken = syn.SyntheticDevice("unknown", syn.LOST, handle_error=syn.LOST)
    evidence = probe(syn.synthetic_a100(), broken)
    assert [d.name for d in evidence.devices] == ["NVIDIA A100-SXM4-80GB", "unknown"]
    assert "GPU is lost" in evidence.devices[1].notes[0]
    assert evidence.devices[1].total_bytes is None


def test_a_device_lost_while_sampled_is_reported_as_lost() -> None:
    broken = syn.synthetic_a100()
    broken.uuid, broken.loads = "GPU-x", (50, syn.LOST)
    evidence = probe(syn.synthetic_a100(), broken)
    assert any("reset or a reboot" in note for note in evidence.devices[1].notes)


def test_only_lost_devices_is_a_failure() -> None:
    with pytest.raises(ProbeError, match="GPU is lost"):
        probe(syn.SyntheticDevice("unknown", syn.LOST, handle_error=syn.LOST))


@pytest.mark.parametrize(("error", "says"), [
    (pynvml.NVMLError_LibraryNotFound(), "libnvidia-ml"),
    (pynvml.NVMLError_DriverNotLoaded(), "not loaded"),
    (pynvml.NVMLError_NoPermission(), "no permission"),
    (pynvml.NVMLError_LibRmVersionMismatch(), "differ in version"),
    (pynvml.NVMLError_Unknown(), "does not start"),
])
def test_nvml_that_does_not_start_is_one_sentence_with_the_way_out(error: Exception, says: str) -> None:
    with pytest.raises(ProbeError, match=says) as caught:
        probe(start_error=error)
    assert caught.value.exit_code == 4
    assert "hardware.gpu: cpu" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_device_at_all_is_a_failure_that_says_what_to_do() -> None:
    with pytest.raises(ProbeError, match="sees no GPU"):
        probe()


def test_nvml_is_shut_down_also_after_a_failure() -> None:
    machine = syn.SyntheticNvml([])
    with pytest.raises(ProbeError):
        probe_gpu(nvml=machine, environment={}, sleep=lambda _: None)
    assert machine.stopped == 1


def test_visible_devices_by_number_hide_the_others_and_say_so() -> None:
    device = only(probe(syn.synthetic_a100(), syn.synthetic_a100(), environment={"CUDA_VISIBLE_DEVICES": "1"}))
    assert device.index == 1
    assert any("CUDA_VISIBLE_DEVICES=1" in note and "1 other device hidden" in note for note in device.notes)


def test_visible_devices_keep_the_stated_order_and_end_at_the_first_unknown() -> None:
    cards = [syn.synthetic_a100() for _ in range(3)]
    evidence = probe(*cards, environment={"CUDA_VISIBLE_DEVICES": "2,0,9,1"})
    assert [d.index for d in evidence.devices] == [2, 0]


def test_unlike_cards_chosen_by_number_are_warned_of_unless_ordered_by_bus() -> None:
    chosen = {"CUDA_VISIBLE_DEVICES": "0"}
    cards = (syn.synthetic_rtx_4080_super(), syn.synthetic_h100())
    assert any("fastest first" in n for n in only(probe(*cards, environment=chosen)).notes)
    ordered = {**chosen, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert not any("fastest first" in n for n in only(probe(*cards, environment=ordered)).notes)


def test_visible_devices_by_uuid_and_mig_uuid() -> None:
    by_uuid = probe(syn.synthetic_a100(), syn.synthetic_h100(), environment={"CUDA_VISIBLE_DEVICES": "GPU-111"})
    assert only(by_uuid).name == "NVIDIA H100 80GB HBM3"
    device = only(probe(syn.synthetic_a100(), syn.synthetic_h100_mig(),
                        environment={"CUDA_VISIBLE_DEVICES": "MIG-bbbb"}))
    assert [m.name for m in device.mig] == ["MIG 2g.20gb"]


@pytest.mark.parametrize("stated", ["", "-1", "7", "NoDevFiles"])
def test_hiding_every_device_is_a_failure_that_names_the_variable(stated: str) -> None:
    with pytest.raises(ProbeError, match="CUDA_VISIBLE_DEVICES"):
        probe(syn.synthetic_a100(), environment={"CUDA_VISIBLE_DEVICES": stated})


def test_without_a_driver_this_machine_says_so_in_one_sentence() -> None:
    """No synthetic answers: the real nvidia-ml-py finds no driver library to load here."""
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this machine has an NVIDIA driver")
    with pytest.raises(ProbeError, match=r"hardware\.gpu"):
        probe_gpu(0.0, environment={})


def test_with_a_driver_the_real_nvml_answers() -> None:
    if not Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this machine has no NVIDIA driver")
    evidence = probe_gpu(1.0, environment={})
    assert evidence.driver
    assert all(device.name != "unknown" for device in evidence.devices)


class FakeLibrary:
    """Stands in for libnvidia-ml below pynvml: C functions that fill the structures they are given."""

    def __init__(self, functions: dict[str, Any]) -> None:
        self.functions = functions

    def pointer(self, name: str) -> Any:
        if name not in self.functions:
            raise pynvml.NVMLError_FunctionNotFound()
        return self.functions[name]


def test_the_driver_seam_falls_back_to_what_an_old_library_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def memory(handle: Any, answer: Any) -> int:
        answer._obj.total, answer._obj.used, answer._obj.free = 100, 40, 60
        return pynvml.NVML_SUCCESS

    def compute(handle: Any, count: Any, array: Any) -> int:
        if array is None:
            count._obj.value = 1
            return pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        count._obj.value = 1
        array[0].pid, array[0].usedGpuMemory, array[0].gpuInstanceId = 5, 7 * MIB, syn.NO_INSTANCE
        return pynvml.NVML_SUCCESS

    library = FakeLibrary({"nvmlDeviceGetMemoryInfo": memory, "nvmlDeviceGetComputeRunningProcesses_v2": compute})
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", library.pointer)
    seam = DriverNvml()
    answer = seam.memory(object())
    assert (answer.total, answer.used, answer.free) == (100, 40, 60)
    (process,) = seam.processes(object())
    assert (process.pid, process.usedGpuMemory) == (5, 7 * MIB)


def test_every_call_of_the_driver_seam_exists_in_the_installed_binding() -> None:
    called = set(re.findall(r"self\._n\.(\w+)", inspect.getsource(DriverNvml)))
    assert len(called) > 15
    assert sorted(name for name in called if not hasattr(pynvml, name)) == []
