"""Values for the chart of vLLM's production stack.

The chart knows a few options by name and takes the rest as arguments, so the config is written out instead of mounted:
another config changes the arguments, and the pod rolls. Keys as the chart's `templates/deployment-vllm-multi.yaml`,
`templates/_helpers.tpl` and `values.schema.json` read them (github.com/vllm-project/production-stack).
"""

from __future__ import annotations

import json
from typing import Any

from advisor.emit.pod import (
    container_security,
    extra_mounts,
    folder_volumes,
    pod_security,
    probes,
    security_reason,
    token,
    token_advice,
)
from advisor.emit.serving import Serving, Written
from advisor.emit.yaml_text import Entry
from advisor.emit.yaml_text import write as write_yaml

TITLE = "values for the vLLM production stack's chart"
FILES = ("helm-values.yaml",)
NAMED = {
    "max-model-len": "maxModelLen",
    "dtype": "dtype",
    "tensor-parallel-size": "tensorParallelSize",
    "max-num-seqs": "maxNumSeqs",
    "gpu-memory-utilization": "gpuMemoryUtilization",
}
"""Options that the chart takes by name."""
CHART_GRACE_S = 30
"""What a pod of its gets to stop: Kubernetes' own default, which no value changes."""
CHART_DEADLINE_S = 1200
"""Its progressDeadlineSeconds, which no value changes."""
_CHARTS_OWN = frozenset({"model", "host", "port", "enable-prefix-caching", "no-enable-prefix-caching"})


def write(serving: Serving) -> Written:
    """helm-values.yaml, for `helm install -f`."""
    notes = [*serving.container_notes]
    cached = _prefix_caching(serving)
    if serving.start_s > CHART_DEADLINE_S:
        notes.append(f"the chart calls a roll-out failed after {CHART_DEADLINE_S} s, which no value changes; the pod "
                     "goes on starting all the same")
    notes.append(f"the chart leaves a pod {CHART_GRACE_S} s to stop, which no value changes: what runs longer is cut "
                 "off when it is rolled")
    header = serving.heading(
        TITLE, "helm repo add vllm https://vllm-project.github.io/production-stack",
        "helm upgrade --install vllm vllm/vllm-stack -f helm-values.yaml", *token_advice(serving),
        "To ask clients for a key: vllmApiKey: {secretName: NAME, secretKey: KEY}; the chart's router passes it on.",
        notes=notes,
    )
    said = ["The chart rolls with twice the devices by default; here the new pod waits for the old one's.",
            serving.start_reason, security_reason(serving),
            f"The chart always says --enable-prefix-caching or its negative: {cached[1]}."]
    spec = {"servingEngineSpec": {
        "enableEngine": True,
        # Unset, not empty: the chart would refer to a Secret without a name.
        "vllmApiKey": None,
        **({} if serving.vendor == "nvidia" else {"runtimeClassName": ""}),
        "containerPort": serving.port,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "securityContext": pod_security(serving),
        "containerSecurityContext": container_security(),
        **probes(serving, serving.port),
        "modelSpec": [_model(serving, cached[0])],
    }}
    entries = [Entry(key, value, tuple(said)) for key, value in spec.items()]
    return Written({"helm-values.yaml": write_yaml(header, entries)}, tuple(notes))


def _model(serving: Serving, prefix_caching: bool) -> dict[str, Any]:
    stored = {"pvcStorage": f"{serving.storage_gib}Gi", "pvcAccessMode": ["ReadWriteOnce"]} if serving.from_hub else {}
    devices = {"requestGPU": serving.accelerators}
    if serving.resource is not None:
        devices["requestGPUType"] = serving.resource  # type: ignore[assignment]
    folders = {"extraVolumes": folder_volumes(serving),
               "extraVolumeMounts": [m for m in extra_mounts(serving) if m["name"] != "shm"]} if serving.folders else {}
    return {
        "name": serving.name,
        "repository": serving.image.repository,
        "tag": serving.image.tag,
        "modelURL": str(serving.options["model"]),
        "replicaCount": 1,
        "requestCPU": serving.cpus,
        "requestMemory": f"{serving.memory_gib}Gi",
        **devices,
        **stored,
        **folders,
        **({"shmSize": f"{serving.shared_gib}Gi"} if serving.shared_gib else {}),
        "env": _variables(serving),
        "vllmConfig": _config(serving, prefix_caching),
    }


def _variables(serving: Serving) -> list[dict[str, Any]]:
    """The chart sets HF_HOME itself: /data with storage, /tmp without."""
    home = "/data" if serving.from_hub else "/tmp"  # noqa: S108 - a folder of the container
    own = {"HOME": home, "USER": "vllm", "VLLM_CACHE_ROOT": f"{home}/vllm", **serving.environment}
    return [*({"name": name, "value": _plain(value)} for name, value in own.items()), *token(serving)]


def _config(serving: Serving, prefix_caching: bool) -> dict[str, Any]:
    options = serving.options
    # The chart takes a number for the window; `auto` has to go the other way.
    by_name = {option for option in NAMED if option != "max-model-len" or isinstance(options.get(option), int)}
    named = {NAMED[option]: value for option, value in options.items() if option in by_name}
    if serving.shared_gib:
        # The chart gives shared memory only where this is stated.
        named.setdefault("tensorParallelSize", 1)
    rest = {option: value for option, value in options.items() if option not in by_name and option not in _CHARTS_OWN}
    if serving.drain_arguments:
        rest["shutdown-timeout"] = CHART_GRACE_S - 10
    return {**named, "enablePrefixCaching": prefix_caching, "extraArgs": [_plain(word) for word in arguments(rest)]}


def arguments(options: dict[str, Any]) -> list[str]:
    """Options of a config file as the words of a command line, the way the server itself turns them."""
    words: list[str] = []
    for option, value in options.items():
        flag = f"--{option}"
        if value is True:
            words.append(flag)
        elif isinstance(value, list):
            words += [flag, *map(str, value)]
        elif isinstance(value, dict):
            words += [flag, json.dumps(value)]
        elif str(value).startswith("-"):
            words.append(f"{flag}={value}")
        elif value is not False:
            words += [flag, str(value)]
    return words


def _prefix_caching(serving: Serving) -> tuple[bool, str]:
    if "no-enable-prefix-caching" in serving.options:
        return False, "off as the config says"
    if "enable-prefix-caching" in serving.options:
        return True, "on as the config says"
    if any(group.kind == "linear" for group in serving.record.provenance.target.attention):
        return False, ("off, because layers of this target keep a state instead of a KV cache, and not every release "
                       "caches those; state enable-prefix-caching under engine.extra_args to have it on")
    return True, "on, which is what the engine does by itself"


def _plain(text: str) -> str:
    """`$(NAME)` is Kubernetes' own."""
    return text.replace("$(", "$$(")
