"""What it takes to serve a record's config somewhere: image, accelerators, folders, memory, probes, environment.

Every form of deployment is written from this, so that a pod, a compose service and a unit start the same server. Pure:
read from the record alone.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import yaml

from advisor.emit.heading import cautions_of, decision_lines, speculates, written_for
from advisor.emit.options import is_secret
from advisor.record import Record
from advisor.workload_load import ASSUMED_OUTPUT_TOKENS
from profiles.catalog.gpus import find_gpu
from profiles.catalog.images import Image, image_of
from profiles.catalog.releases import Release, release
from profiles.errors import InputError

CONFIG_FOLDER = "/etc/specadvise"
"""Where a container finds vllm.yaml."""
CACHE_FOLDER = "/cache"
"""Where a container keeps downloaded models and compiled graphs."""
TOKEN_SECRET = ("hf-token", "token")
"""Secret and key that hold the Hugging Face token."""
ADDED = frozenset({"shutdown-timeout", "host"})
"""Options that forms add to what vllm.yaml says: how long a server waits at its end, and where it listens."""
GPUS_OF_A_NODE = 8
CPU_KV_GIB = 4
"""KV space of the CPU engine when nobody states one (its VLLM_CPU_KVCACHE_SPACE)."""

_RESOURCES = {
    "nvidia": "nvidia.com/gpu",
    "amd": "amd.com/gpu",
    "intel": "gpu.intel.com/xe",
    "google": "google.com/tpu",
}
"""Names that the vendors' device plugins give to a whole device."""
_LOAD_GIB_S = 0.1
"""Weights read in a second: a first start that downloads over about 1 Gbit/s."""
_PREPARATION_S = 600
"""Compiling, profiling and capturing graphs, taken with a margin."""
_PERIOD_S = 10
_DRAIN_S, _LONGEST_DRAIN_S = 60, 1800
_DEREGISTER_S = 15
"""Time for proxies to learn that a pod is going."""
_EXIT_S = 30
"""Time for the processes to end after the last request; Kubernetes' own default for all of it."""
_SERVER_MEMORY_GIB = 6
"""Host memory besides weights that vLLM's own Kubernetes guide asks for."""
_SHARED_GIB = 2
"""Shared memory that vLLM's own Kubernetes guide gives a server."""


@dataclass(frozen=True)
class Written:
    """One form: its files by name, and what the reader should know before using them."""

    files: dict[str, str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Serving:
    """One server, wherever it runs."""

    record: Record
    release: Release
    name: str
    """A DNS label: vllm-llama-3-1-8b-instruct."""
    vendor: str
    """nvidia, amd, intel, google, or cpu."""
    image: Image
    accelerators: int
    """Devices that one server takes; 0 on the CPU engine."""
    options: dict[str, Any]
    """vllm.yaml, read back."""
    folders: tuple[str, ...]
    """Local model folders that it names, target first."""
    from_hub: bool
    """Whether a model is fetched from the hub."""
    notes: tuple[str, ...]
    """What whoever starts it should know, wherever it runs."""

    @property
    def container_notes(self) -> tuple[str, ...]:
        """The same for a container, whose image may be another one or none."""
        return (*((self.image.note,) if self.image.note else ()), *self.notes)

    @property
    def vllm_yaml(self) -> str:
        return self.record.emitted.vllm_yaml

    @property
    def checksum(self) -> str:
        """Of vllm.yaml, SHA-256."""
        return hashlib.sha256(self.vllm_yaml.encode()).hexdigest()

    @property
    def resource(self) -> str | None:
        """Name of the device as Kubernetes schedules it; None on the CPU engine."""
        return _RESOURCES.get(self.vendor)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the server. Secrets never are among them: a deployment that carries one is refused."""
        return {name: value for name, value in self.record.emitted.env.items() if not is_secret(name)}

    @property
    def served_name(self) -> str:
        """What requests and metrics call the model: the first served name, else the model as it is named."""
        named = self.options.get("served-model-name")
        first = named[0] if isinstance(named, list) and named else named
        return str(first or self.options["model"])

    @property
    def port(self) -> int:
        """Port of the server; vLLM's own default where vllm.yaml states none."""
        stated = self.options.get("port")
        return stated if isinstance(stated, int) else 8000

    @property
    def scheme(self) -> str:
        return "HTTPS" if "ssl-certfile" in self.options else "HTTP"

    @property
    def weights_gib(self) -> float:
        """Weights of target and draft, all devices together."""
        memory, engine = self.record.memory, self.record.deployment.engine
        drafted = memory.draft_weights_gib if speculates(self.record.decision) else 0.0
        target, shape = memory.target_weights_gib, self.record.provenance.target
        split = engine.tensor_parallel_size * engine.pipeline_parallel_size
        if shape.moe is not None and engine.data_parallel_size > 1:
            # Its experts are spread over the replicas: what one GPU holds says little of the whole.
            return shape.weights_bytes / 2**30 + drafted * split
        return (target + drafted) * split

    @property
    def start_s(self) -> int:
        """Longest time the first start may take, in whole probe periods: loading, then compiling and capturing."""
        seconds = self.weights_gib / _LOAD_GIB_S + _PREPARATION_S
        return math.ceil(seconds / _PERIOD_S) * _PERIOD_S

    @property
    def start_reason(self) -> str:
        """Where that budget comes from."""
        return (f"The first start may take {self.start_s:,} s: {self.weights_gib:.1f} GiB of weights at an assumed "
                f"{_LOAD_GIB_S:g} GiB/s (a download), and {_PREPARATION_S} s for compiling and capturing graphs. "
                "Shorten it once you have seen a start.")

    @property
    def period_s(self) -> int:
        return _PERIOD_S

    @property
    def drain_s(self) -> int:
        """Seconds that running requests may take to finish before the server goes: twice the longest one at the load
        decided for, at least a minute and at most half an hour."""
        record = self.record
        cell = next((c for c in record.candidates if c.label == "none" and c.running == record.decision.running), None)
        if cell is None:
            return _DRAIN_S
        stated = record.deployment.workload.output_tokens
        longest = None if stated is None else stated.p99 or stated.max or stated.p95 or stated.mean
        first = cell.ttft_ms.value if cell.ttft_ms is not None else 0.0
        seconds = 2.0 * (first + (longest or ASSUMED_OUTPUT_TOKENS) * cell.tpot_ms.value) / 1000.0
        return min(_LONGEST_DRAIN_S, max(_DRAIN_S, math.ceil(seconds / _PERIOD_S) * _PERIOD_S))

    @property
    def drains_itself(self) -> bool:
        """Whether the server waits for running requests once it is told to stop."""
        return "shutdown-timeout" in self.options or self.release.has("shutdown_timeout")

    @property
    def drain_arguments(self) -> list[str]:
        """What makes the server wait for them; nothing where the config says it, or the release cannot."""
        if "shutdown-timeout" in self.options or not self.release.has("shutdown_timeout"):
            return []
        return ["--shutdown-timeout", str(self.drain_s)]

    @property
    def leave_s(self) -> int:
        """Seconds to wait before the server is told to stop: until nobody sends it requests any more, and where it
        would then abort the running ones, until these are done."""
        return _DEREGISTER_S + (0 if self.drains_itself else self.drain_s)

    @property
    def stop_s(self) -> int:
        """Longest time from the wish to stop until the server is killed."""
        stated = self.options.get("shutdown-timeout")
        drain = stated if isinstance(stated, int) and stated > 0 else self.drain_s
        return _DEREGISTER_S + drain + _EXIT_S

    @property
    def stop_reason(self) -> str:
        """What happens to running requests at the end."""
        how = ("the server then waits for those that run (--shutdown-timeout)" if self.drains_itself else
               "and those that run finish meanwhile, because this release aborts them when it is told to stop")
        return (f"Before it is told to stop, {self.leave_s} s pass in which no new requests are sent to it; {how}. It "
                f"is killed after {self.stop_s} s.")

    @property
    def shared_gib(self) -> int | None:
        """Shared memory in GiB for the processes of one server; None where it is a single worker.

        vLLM's Kubernetes guide gives 2 GiB; one for each worker where they are more. It is a limit: what is not used
        takes no memory.
        """
        return max(_SHARED_GIB, self.workers) if self.workers > 1 else None

    @property
    def workers(self) -> int:
        """Processes that run the model."""
        engine = self.record.deployment.engine
        return engine.tensor_parallel_size * engine.pipeline_parallel_size * engine.data_parallel_size

    @property
    def cpus(self) -> int:
        """Processor cores to ask for: one each for the API server, every engine core and every worker, which is the
        least that vLLM's optimisation guide names."""
        return 1 + self.record.deployment.engine.data_parallel_size + self.workers

    @property
    def memory_gib(self) -> int:
        """Host memory to ask for, GiB: the server's own and the shared; on the CPU engine weights and KV too."""
        own = _SERVER_MEMORY_GIB + (self.shared_gib or 0)
        if self.vendor != "cpu":
            return own
        space = self.environment.get("VLLM_CPU_KVCACHE_SPACE", "")
        return own + math.ceil(self.weights_gib) + (int(space) if space.isdigit() else CPU_KV_GIB)

    @property
    def storage_gib(self) -> int:
        """Room for downloaded weights, a tenth more, and 10 GiB of compiled graphs and kernels."""
        return math.ceil(self.weights_gib * 1.1) + 10

    def heading(self, title: str, *use: str, notes: Sequence[str] = ()) -> list[str]:
        """First lines of a file: who wrote it for what, how it is used, the decision and why, and notes."""
        known = "" if self.release.known else " (a release that this tool does not know)"
        noted = ["", "Notes:", *(f"- {note}" for note in notes)] if notes else []
        return [f"{written_for(self.release)}{known}: {title}.", *use, "",
                *decision_lines(self.record.decision, self.record.decision.reasons,
                                cautions_of(self.record.warnings, self.record.checklist)), *noted]


def serving_of(record: Record) -> Serving:
    """How to serve the config of a record."""
    engine, decision = record.deployment.engine, record.decision
    facts = release(record.provenance.vllm_version)
    vendor, unsure = _vendor(record)
    image = image_of(facts, vendor)
    options = yaml.safe_load(record.emitted.vllm_yaml)
    models = [str(options["model"]), *([decision.draft] if speculates(decision) and decision.draft else [])]
    accelerators = (0 if vendor == "cpu" else
                    engine.tensor_parallel_size * engine.pipeline_parallel_size * engine.data_parallel_size)
    notes = [unsure] if unsure else []
    if accelerators > GPUS_OF_A_NODE:
        notes.append(f"{accelerators} devices in one server: a machine with that many is asked for; a server spread "
                     "over several machines (Ray, LeaderWorkerSet) is not written here")
    folders = tuple(dict.fromkeys(one for one in models if PurePosixPath(one).is_absolute()))
    if folders:
        notes.append(f"the model folder{'s' if len(folders) > 1 else ''} {', '.join(folders)} must be there, at the "
                     "same place and readable, wherever this runs")
    files = _files(options, models)
    if files:
        notes.append(f"the config names {', '.join(files)} on this machine: see that it is there wherever this runs")
    return Serving(
        record=record, release=facts, name=_name(models[0]), vendor=vendor, image=image, accelerators=accelerators,
        options=options, folders=folders, from_hub=len(folders) < len(set(models)), notes=tuple(notes),
    )


def _files(options: dict[str, Any], models: list[str]) -> list[str]:
    """Paths among the options besides the models: templates, certificates, adapters."""
    return sorted({value for option, value in options.items() if option not in ("model", "root-path")
                   and isinstance(value, str) and PurePosixPath(value).is_absolute() and value not in models})


def _vendor(record: Record) -> tuple[str, str | None]:
    name = record.provenance.gpu
    if name == "cpu" or record.provenance.runner == "cpu":
        return "cpu", None
    try:
        return find_gpu(name).vendor, None
    except InputError:
        return "nvidia", f"the accelerator ({name}) is not one of the catalog's: NVIDIA is assumed"


def _name(model: str) -> str:
    """A DNS label that begins with a letter, short enough for what charts and controllers put around it."""
    last = re.sub(r"[^a-z0-9]+", "-", PurePosixPath(model).name.lower()).strip("-")
    return f"vllm-{last}"[:40].strip("-")
