"""The pod that serves a config: shared by the manifest and by KServe's resource."""

from __future__ import annotations

from typing import Any

from advisor.emit.serving import CACHE_FOLDER, CONFIG_FOLDER, TOKEN_SECRET, Serving
from advisor.emit.yaml_text import Block

USER = 1000
"""User and group of the server in its container: any that is not root."""
CHECKSUM = "checksum/vllm.yaml"

Mapping = dict[str, Any]


def config_map(serving: Serving) -> Mapping:
    """vllm.yaml as a ConfigMap."""
    return {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": f"{serving.name}-config", "labels": labels(serving)},
        "data": {"vllm.yaml": Block(serving.vllm_yaml)},
    }


def cache_claim(serving: Serving) -> Mapping:
    """Storage that outlives the pod, so that a restart downloads nothing."""
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{serving.name}-cache", "labels": labels(serving)},
        "spec": {"accessModes": ["ReadWriteOnce"],
                 "resources": {"requests": {"storage": f"{serving.storage_gib}Gi"}}},
    }


def labels(serving: Serving) -> Mapping:
    return {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/instance": serving.name}


def pod_spec(serving: Serving, container: str) -> Mapping:
    """The pod: one container under the given name, and its volumes."""
    spec: Mapping = {
        # A Service's variables would be read as the engine's own (VLLM_PORT and the like).
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": serving.stop_s,
        "securityContext": pod_security(serving),
        "containers": [_container(serving, container)],
        "volumes": volumes(serving),
    }
    return spec


def pod_security(serving: Serving) -> Mapping:
    """Not root, except where the devices belong to a group that differs from node to node."""
    common: Mapping = {"seccompProfile": {"type": "RuntimeDefault"}}
    if serving.vendor in ("amd", "intel"):
        return common
    return {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch", **common}


def container_security() -> Mapping:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def security_reason(serving: Serving) -> str:
    """Why the pod runs as whom it runs."""
    if serving.vendor in ("amd", "intel"):
        return ("It runs as root without capabilities: the render devices belong to a group whose number differs "
                "from node to node. Set runAsUser and that group as supplementalGroups once you know it.")
    return f"It runs as user {USER}, not root; HOME and caches are in {CACHE_FOLDER}, which that user can write."


def variables(serving: Serving) -> list[Mapping]:
    """The container's environment: caches, the record's variables, and secrets by reference only."""
    own = {"HOME": CACHE_FOLDER, "HF_HOME": f"{CACHE_FOLDER}/huggingface", "VLLM_CACHE_ROOT": f"{CACHE_FOLDER}/vllm",
           # Without an entry in /etc/passwd, the compiler's cache asks for the user's name here.
           "USER": "vllm"}
    found: list[Mapping] = [{"name": name, "value": value.replace("$(", "$$(")}
                            for name, value in {**own, **serving.environment}.items()]
    return [*found, *secrets(serving)]


def secrets(serving: Serving) -> list[Mapping]:
    """References that may stay unfilled: the Hugging Face token where a model is fetched, and the server's key."""
    return [*token(serving), _secret("VLLM_API_KEY", f"{serving.name}-api-key", "key")]


def token(serving: Serving) -> list[Mapping]:
    """The reference to the Hugging Face token, where a model is fetched."""
    return [_secret("HF_TOKEN", *TOKEN_SECRET)] if serving.from_hub else []


def _secret(variable: str, name: str, key: str) -> Mapping:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": name, "key": key, "optional": True}}}


def host_argument(serving: Serving) -> list[str]:
    """A server that listens on loopback alone would never answer the kubelet: the command line wins over the file."""
    return ["--host", "0.0.0.0"] if serving.options.get("host") in ("127.0.0.1", "localhost", "::1") else []  # noqa: S104


def resources(serving: Serving) -> Mapping:
    requests: Mapping = {"cpu": str(serving.cpus), "memory": f"{serving.memory_gib}Gi"}
    if serving.resource is None:
        return {"requests": requests}
    devices = {serving.resource: str(serving.accelerators)}
    return {"requests": {**requests, **devices}, "limits": devices}


def probes(serving: Serving, port: str | int) -> Mapping:
    """Start-up until the first answer of /health, then readiness and liveness on the same."""
    get = {"httpGet": {"path": "/health", "port": port, "scheme": serving.scheme}}
    return {
        "startupProbe": {**get, "periodSeconds": serving.period_s, "timeoutSeconds": 5,
                         "failureThreshold": serving.start_s // serving.period_s},
        "readinessProbe": {**get, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 2},
        "livenessProbe": {**get, "periodSeconds": serving.period_s, "timeoutSeconds": 5, "failureThreshold": 6},
    }


def _container(serving: Serving, name: str) -> Mapping:
    return {
        "name": name,
        "image": serving.image.name,
        "imagePullPolicy": "IfNotPresent",
        # Written out: the entry point of the image is another one in older releases.
        "command": ["vllm", "serve"],
        "args": ["--config", f"{CONFIG_FOLDER}/vllm.yaml", *serving.drain_arguments, *host_argument(serving)],
        "env": variables(serving),
        "ports": [{"name": "http", "containerPort": serving.port, "protocol": "TCP"}],
        **probes(serving, "http"),
        # Endpoints and routers need a moment to leave a pod out.
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(serving.leave_s)]}}},
        "resources": resources(serving),
        "securityContext": container_security(),
        "volumeMounts": [{"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
                         {"name": "cache", "mountPath": CACHE_FOLDER}, *extra_mounts(serving)],
    }


def extra_mounts(serving: Serving) -> list[Mapping]:
    """Model folders at the place that vllm.yaml names, and shared memory."""
    mounts = [{"name": f"model-{index}", "mountPath": folder, "readOnly": True}
              for index, folder in enumerate(serving.folders)]
    return [*mounts, *([{"name": "shm", "mountPath": "/dev/shm"}] if serving.shared_gib else [])]  # noqa: S108


def volumes(serving: Serving) -> list[Mapping]:
    cache: Mapping = {"persistentVolumeClaim": {"claimName": f"{serving.name}-cache"}} if serving.from_hub else {
        "emptyDir": {}}
    found = [{"name": "config", "configMap": {"name": f"{serving.name}-config"}}, {"name": "cache", **cache},
             *folder_volumes(serving)]
    if serving.shared_gib:
        found.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{serving.shared_gib}Gi"}})
    return found


def folder_volumes(serving: Serving) -> list[Mapping]:
    """Local model folders, from the node."""
    return [{"name": f"model-{index}", "hostPath": {"path": folder, "type": "Directory"}}
            for index, folder in enumerate(serving.folders)]


def secret_advice(serving: Serving) -> list[str]:
    """How the secrets that are only referred to come to be."""
    return [*token_advice(serving),
            f"Clients must send a key once this exists: kubectl create secret generic {serving.name}-api-key "
            "--from-file=key=FILE (no newline at its end)"]


def token_advice(serving: Serving) -> list[str]:
    if not serving.from_hub:
        return []
    return [f"A model behind a licence needs a token: kubectl create secret generic {TOKEN_SECRET[0]} "
            f"--from-file={TOKEN_SECRET[1]}=FILE (it is referred to here, no value is written)."]
