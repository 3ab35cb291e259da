"""Starting two servers side by side, the parts that need no engine: memory, ports, the command line, refusals."""

from __future__ import annotations

import errno
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.trial import two_servers
from probes.trial.two_servers import (
    GPU_RUNTIME_GIB,
    Share,
    free_port,
    local_model,
    serve_arguments,
    shares_of,
    split_cpu,
    split_gpu,
    started_pair,
)
from profiles.deployment import Candidate, Deployment
from profiles.errors import InputError, ProbeError
from profiles.evidence import GpuDevice
from profiles.model_ref import ModelRef

NGRAM = Candidate(method="ngram", k=(3,))


def deployment(**engine: Any) -> Deployment:
    return Deployment.model_validate({"target": "org/target", "engine": engine})


# --- memory ----------------------------------------------------------------------------------------------------------
def test_the_draft_gets_its_own_room_and_kv_is_the_same_on_both() -> None:
    baseline, speculative = split_gpu(0.9, 96.0, 95.0, 15.0, 2.3)
    assert baseline.gpu_memory_utilization is not None
    assert speculative.gpu_memory_utilization is not None
    assert speculative.gpu_memory_utilization - baseline.gpu_memory_utilization == pytest.approx(2.3 / 96, abs=0.002)


@given(st.floats(0.1, 1.0), st.floats(8, 200), st.floats(0, 1), st.floats(0.1, 80), st.floats(0, 10))
def test_a_split_gpu_is_never_overcommitted_and_holds_the_weights(
        utilization: float, total: float, free_share: float, target: float, draft: float) -> None:
    free = total * free_share
    try:
        shares = split_gpu(utilization, total, free, target, draft)
    except InputError:
        assert (min(utilization * total, free) - draft) / 2 <= target + GPU_RUNTIME_GIB
        return
    taken = [share.gpu_memory_utilization or 0.0 for share in shares]
    assert sum(taken) * total <= min(utilization * total, free) + 1e-6
    assert taken[0] * total > target - total / 1000
    assert taken[1] * total > target + draft - total / 1000


def test_a_gpu_too_small_for_two_is_refused_with_the_numbers() -> None:
    with pytest.raises(InputError, match=r"more than 36\.3 GiB .*21\.6 GiB of the GPU's 24\.0 GiB are usable"):
        split_gpu(0.9, 24.0, 23.5, 15.0, 2.3)


def test_memory_that_others_hold_on_the_gpu_is_not_given_away() -> None:
    gpu = GpuDevice(index=0, name="A", total_bytes=96 * 2**30, free_bytes=40 * 2**30)
    shares = shares_of(deployment(), Path("."), NGRAM, gpu, (15.0, 0.0))
    assert sum(share.gpu_memory_utilization or 0 for share in shares) <= 40 / 96


def test_a_gpu_that_tells_no_memory_is_refused() -> None:
    with pytest.raises(InputError, match="can't be read"):
        shares_of(deployment(), Path("."), NGRAM, GpuDevice(index=0, name="A"), (15.0, 0.0))


def test_the_cpu_engines_kv_space_is_halved_and_the_hosts_memory_respected() -> None:
    assert split_cpu(4, 32.0, 1.7, 0.3) == (Share(None, 2), Share(None, 2))
    assert split_cpu(1, 32.0, 1.7, 0.3)[0].cpu_kv_gib == 1
    with pytest.raises(InputError, match=r"need about 12\.7 GiB .* 8\.0 GiB are available"):
        split_cpu(4, 8.0, 1.7, 0.3)


# --- command line ----------------------------------------------------------------------------------------------------
def test_the_deployments_arguments_reach_the_server_and_only_loopback_is_bound() -> None:
    stated = deployment(tensor_parallel_size=2, max_model_len=4096, enforce_eager=True,
                        extra_args={"host": "0.0.0.0", "api-key": "secret", "enable-prefix-caching": False,
                                    "compilation_config": {"level": 3}, "served-model-name": ["a", "b"]})
    arguments = serve_arguments(stated, Path("."), 4321, Share(0.4, None), None)
    assert arguments[:5] == ["org/target", "--host", "127.0.0.1", "--port", "4321"]
    assert arguments.count("--host") == 1
    assert "secret" not in arguments
    assert "--no-enable-prefix-caching" in arguments
    assert "--enforce-eager" in arguments
    for option, values in (("--tensor-parallel-size", ["2"]), ("--max-model-len", ["4096"]),
                           ("--gpu-memory-utilization", ["0.4"]), ("--served-model-name", ["a", "b"]),
                           ("--compilation-config", ['{"level": 3}'])):
        at = arguments.index(option)
        assert arguments[at + 1:at + 1 + len(values)] == values
    assert "--speculative-config" not in arguments


def test_the_speculative_config_is_passed_as_json() -> None:
    config = {"method": "ngram", "num_speculative_tokens": 3}
    arguments = serve_arguments(deployment(), Path("."), 1, Share(None, 2), config)
    assert json.loads(arguments[arguments.index("--speculative-config") + 1]) == config
    assert "--gpu-memory-utilization" not in arguments


def test_a_relative_model_folder_is_found_from_the_deployments_place(tmp_path: Path) -> None:
    (tmp_path / "models" / "m").mkdir(parents=True)
    (tmp_path / "models" / "m" / "config.json").write_text("{}")
    assert local_model(ModelRef(id="models/m"), tmp_path) == str(tmp_path / "models" / "m")
    assert local_model(ModelRef(id="org/model"), tmp_path) == "org/model"
    with pytest.raises(InputError, match=r"\./missing has no config.json"):
        local_model(ModelRef(id="./missing"), tmp_path)


# --- ports and packages ----------------------------------------------------------------------------------------------
def test_a_free_port_can_be_bound() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", free_port()))


@pytest.mark.parametrize(("number", "said"), [(errno.EACCES, "denies binding a port"), (errno.EPERM, "denies binding"),
                                              (errno.EADDRNOTAVAIL, "no port on 127.0.0.1 can be had")])
def test_a_denied_port_is_one_sentence(monkeypatch: pytest.MonkeyPatch, number: int, said: str) -> None:
    class Denied(socket.socket):
        def bind(self, address: object) -> None:
            raise OSError(number, "not here")

    monkeypatch.setattr(two_servers.socket, "socket", Denied)
    with pytest.raises(ProbeError, match=said):
        free_port()


def test_without_vllm_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_servers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ProbeError, match=r"install specadvise\[vllm\]"), \
            started_pair(deployment(), Path("."), NGRAM, 3, (Share(0.4, None), Share(0.4, None)), None):  # type: ignore[arg-type]
        pass


def test_a_temporary_folder_too_deep_for_the_engines_sockets_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_servers.tempfile, "gettempdir", lambda: "/scratch/" + "deep/" * 20)
    assert two_servers._scratch_parent() == "/tmp"  # noqa: S108
    monkeypatch.setattr(two_servers.tempfile, "gettempdir", lambda: "/scratch/me")
    assert two_servers._scratch_parent() == "/scratch/me"
