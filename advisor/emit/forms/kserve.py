"""KServe: an InferenceService whose predictor is vLLM's own server.

The container is given whole instead of a serving runtime's model section: KServe's own runtimes add arguments and serve
through another program, and what was advised would not be what runs.
"""

from __future__ import annotations

from advisor.emit.pod import CHECKSUM, cache_claim, config_map, labels, pod_spec, secret_advice, security_reason
from advisor.emit.serving import Serving, Written
from advisor.emit.yaml_text import write_all

TITLE = "a KServe InferenceService"
FILES = ("kserve.yaml",)


def write(serving: Serving) -> Written:
    """kserve.yaml, for `kubectl apply -f`."""
    header = serving.heading(TITLE, "Apply it with: kubectl apply -f kserve.yaml", *secret_advice(serving),
                             notes=serving.container_notes)
    documents = [(["The config as vllm.yaml holds it."], config_map(serving))]
    if serving.from_hub:
        documents.append((["Models and compiled graphs outlive the pod."], cache_claim(serving)))
    documents.append(([
        "deploymentMode Standard (RawDeployment before KServe 0.16): a plain Deployment. Knative would hold requests "
        "back by its own count and stop the server when idle, and a start takes minutes.",
        serving.start_reason, serving.stop_reason, security_reason(serving),
        "One replica, and none beside it during a roll-out: each takes its own devices.",
    ], _service(serving)))
    return Written({"kserve.yaml": write_all(header, documents)}, serving.container_notes)


def _service(serving: Serving) -> dict[str, object]:
    return {
        "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
        "metadata": {"name": serving.name, "labels": labels(serving), "annotations": {
            "serving.kserve.io/deploymentMode": "Standard", CHECKSUM: serving.checksum}},
        "spec": {"predictor": {
            "minReplicas": 1, "maxReplicas": 1,
            "deploymentStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            **pod_spec(serving, "kserve-container")}},
    }
