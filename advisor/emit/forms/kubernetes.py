"""A Kubernetes manifest: ConfigMap, claim for the models, Deployment, Service."""

from __future__ import annotations

from advisor.emit.pod import CHECKSUM, cache_claim, config_map, labels, pod_spec, secret_advice, security_reason
from advisor.emit.serving import Serving, Written
from advisor.emit.yaml_text import write_all

TITLE = "a Kubernetes manifest"
FILES = ("kubernetes.yaml",)


def write(serving: Serving) -> Written:
    """kubernetes.yaml, for `kubectl apply -f`."""
    header = serving.heading(TITLE, "Apply it with: kubectl apply -f kubernetes.yaml", *secret_advice(serving),
                             notes=serving.container_notes)
    documents = [(["The config as vllm.yaml holds it."], config_map(serving))]
    if serving.from_hub:
        documents.append((
            [f"Models and compiled graphs outlive the pod: weights of {serving.weights_gib:.1f} GiB and a tenth, and "
             "10 GiB. A cluster without a default storage class needs storageClassName here."],
            cache_claim(serving)))
    documents += [(_said(serving), _deployment(serving)), (
        ["Reached inside the cluster only; put your own gateway before it."], _service(serving))]
    return Written({"kubernetes.yaml": write_all(header, documents)}, serving.container_notes)


def _said(serving: Serving) -> list[str]:
    said = ["The checksum rolls the pod when the config changes.", serving.start_reason, serving.stop_reason,
            security_reason(serving)]
    if serving.accelerators:
        said.append(f"{serving.accelerators} of {serving.resource}: tensor x pipeline x data parallel size. A new pod "
                    "waits for the old one's devices, hence no surge.")
    if serving.shared_gib:
        said.append("Its processes talk through /dev/shm, which a container has 64 MiB of by default; the limit takes "
                    "no memory until it is used.")
    return said


def _deployment(serving: Serving) -> dict[str, object]:
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": serving.name, "labels": labels(serving)},
        "spec": {
            "replicas": 1,
            # Longer than the start may take, or a slow download counts as a failed rollout.
            "progressDeadlineSeconds": serving.start_s + 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "selector": {"matchLabels": labels(serving)},
            "template": {
                "metadata": {"labels": labels(serving), "annotations": {
                    CHECKSUM: serving.checksum, "prometheus.io/scrape": "true", "prometheus.io/path": "/metrics",
                    "prometheus.io/port": str(serving.port)}},
                "spec": pod_spec(serving, "vllm"),
            },
        },
    }


def _service(serving: Serving) -> dict[str, object]:
    return {
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": serving.name, "labels": labels(serving)},
        "spec": {"type": "ClusterIP", "selector": labels(serving),
                 "ports": [{"name": "http", "port": serving.port, "targetPort": "http", "protocol": "TCP"}]},
    }
