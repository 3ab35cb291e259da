"""The manifests: valid against the API's own schemas, and every number in them from the record."""

from __future__ import annotations

import hashlib
from typing import Any

import kubernetes_validate
import pytest
import yaml

from advisor.emit.forms import write_forms
from advisor.record import Record
from tests.advisor.emit.forms.records import DRAFT_MODEL, many, record

RECORDS = many()
CASES = [pytest.param(one, id=name) for name, one in RECORDS.items()]
API = kubernetes_validate.latest_version()
KSERVE_OWN = ("minReplicas", "maxReplicas", "deploymentStrategy")


def documents(deployed: Record, form: str = "kubernetes") -> dict[str, dict[str, Any]]:
    text = write_forms(deployed, (form,))[form].files[f"{form}.yaml"]
    return {document["kind"]: document for document in yaml.safe_load_all(text) if document is not None}


def pod(deployed: Record) -> dict[str, Any]:
    found: dict[str, Any] = documents(deployed)["Deployment"]["spec"]["template"]["spec"]
    return found


def variables(spec: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in spec["containers"][0]["env"]}


@pytest.mark.parametrize("deployed", CASES)
def test_every_document_is_valid_for_the_api(deployed: Record) -> None:
    found = documents(deployed)
    assert {"ConfigMap", "Deployment", "Service"} <= set(found)
    for document in found.values():
        kubernetes_validate.validate(document, API, strict=True)


@pytest.mark.parametrize("deployed", CASES)
def test_kserves_predictor_is_a_valid_pod_and_its_other_documents_are_valid(deployed: Record) -> None:
    found = documents(deployed, "kserve")
    service = found.pop("InferenceService")
    assert service["apiVersion"] == "serving.kserve.io/v1beta1"
    for document in found.values():
        kubernetes_validate.validate(document, API, strict=True)
    spec = {key: value for key, value in service["spec"]["predictor"].items() if key not in KSERVE_OWN}
    kubernetes_validate.validate(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}, API, strict=True)
    assert spec["containers"][0]["name"] == "kserve-container"


@pytest.mark.parametrize("deployed", CASES)
@pytest.mark.parametrize("form", ["kubernetes", "kserve"])
def test_the_mounted_config_is_vllm_yaml_to_the_letter(deployed: Record, form: str) -> None:
    found = documents(deployed, form)
    assert found["ConfigMap"]["data"]["vllm.yaml"] == deployed.emitted.vllm_yaml


def test_another_config_changes_the_pods_checksum_and_the_same_one_does_not() -> None:
    def checksum(deployed: Record) -> str:
        template = documents(deployed)["Deployment"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/vllm.yaml"])

    assert checksum(RECORDS["draft model"]) != checksum(RECORDS["off"])
    expected = hashlib.sha256(RECORDS["off"].emitted.vllm_yaml.encode()).hexdigest()
    assert checksum(RECORDS["off"]) == expected


@pytest.mark.parametrize(("name", "resource", "count"), [
    ("draft model", "nvidia.com/gpu", "1"), ("split over four", "nvidia.com/gpu", "4"), ("amd", "amd.com/gpu", "1")])
def test_as_many_devices_are_taken_as_the_parallel_sizes_need(name: str, resource: str, count: str) -> None:
    limits = pod(RECORDS[name])["containers"][0]["resources"]["limits"]
    assert limits == {resource: count}


def test_the_cpu_engine_takes_no_device_and_its_memory_holds_weights_and_kv_cache() -> None:
    resources = pod(RECORDS["cpu"])["containers"][0]["resources"]
    assert "limits" not in resources
    # 15 and 2.3 GiB of weights, 8 GiB of KV space, 6 for the server.
    assert resources["requests"] == {"cpu": "3", "memory": "32Gi"}


def test_only_a_server_of_several_workers_gets_shared_memory_of_its_own() -> None:
    def shared(deployed: Record) -> list[dict[str, Any]]:
        return [one for one in pod(deployed)["volumes"] if one["name"] == "shm"]

    assert shared(RECORDS["draft model"]) == []
    assert shared(RECORDS["split over four"]) == [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}}]


def test_the_start_may_take_as_long_as_its_weights_need_and_the_rollout_waits_longer() -> None:
    small, large = RECORDS["draft model"], RECORDS["split over four"]
    for deployed, gib in ((small, 17.3), (large, 4 * 17.3)):
        start = pod(deployed)["containers"][0]["startupProbe"]
        seconds = start["failureThreshold"] * start["periodSeconds"]
        assert gib / 0.1 + 600 <= seconds < gib / 0.1 + 600 + start["periodSeconds"]
        assert documents(deployed)["Deployment"]["spec"]["progressDeadlineSeconds"] > seconds
        assert start["httpGet"]["path"] == "/health"


def test_secrets_are_referred_to_and_need_not_exist() -> None:
    found = variables(pod(RECORDS["draft model"]))
    assert found["HF_TOKEN"] == {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}}
    assert found["VLLM_API_KEY"]["secretKeyRef"]["optional"] is True


def test_local_folders_are_mounted_where_the_config_names_them_and_nothing_is_fetched() -> None:
    spec = pod(RECORDS["folders"])
    mounts = {one["name"]: one for one in spec["containers"][0]["volumeMounts"]}
    assert mounts["model-0"] == {"name": "model-0", "mountPath": "/models/my target", "readOnly": True}
    assert mounts["model-1"]["mountPath"] == "/models/$draft"
    assert "HF_TOKEN" not in variables(spec)
    assert "PersistentVolumeClaim" not in documents(RECORDS["folders"])


def test_it_runs_as_no_root_except_where_the_devices_group_is_unknown() -> None:
    assert pod(RECORDS["draft model"])["securityContext"]["runAsNonRoot"] is True
    assert "runAsNonRoot" not in pod(RECORDS["amd"])["securityContext"]
    for name in ("draft model", "amd"):
        own = pod(RECORDS[name])["containers"][0]["securityContext"]
        assert own == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_a_stated_port_scheme_and_loopback_are_followed_so_that_the_probes_reach_the_server() -> None:
    container = pod(RECORDS["options"])["containers"][0]
    assert container["ports"][0]["containerPort"] == 9000
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert container["args"][-2:] == ["--host", "0.0.0.0"]
    # Kubernetes would fill $(HOME) in.
    assert variables(pod(RECORDS["options"]))["VLLM_LOGGING_LEVEL"] == "$$(HOME) %h $HOME"


def test_more_devices_than_a_machine_has_are_pointed_out() -> None:
    wide = record(engine={"tensor_parallel_size": 8, "pipeline_parallel_size": 2},
                  candidates=[{"method": "draft_model", "draft": "org/draft", "k": [1, 2, 3]}])
    notes = write_forms(wide, ("kubernetes",))["kubernetes"].notes
    assert any("16 devices in one server" in note for note in notes)


def test_names_are_labels_whatever_the_model_is_called() -> None:
    odd = record(target="org/" + "_Ünïcode.Model " * 9,
                 candidates=[{"method": "draft_model", "draft": "org/draft", "k": [1, 2, 3]}])
    for document in documents(odd).values():
        assert len(document["metadata"]["name"]) <= 63
        kubernetes_validate.validate(document, API, strict=True)


@pytest.mark.parametrize("deployed", CASES)
@pytest.mark.parametrize("form", ["kubernetes", "kserve"])
def test_a_pod_that_goes_leaves_its_service_first_and_its_running_requests_may_finish(
    deployed: Record, form: str
) -> None:
    found = documents(deployed, form)
    spec = (found["Deployment"]["spec"]["template"]["spec"] if form == "kubernetes" else
            found["InferenceService"]["spec"]["predictor"])
    container = spec["containers"][0]
    (command, seconds) = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    arguments = container["args"]
    drain = int(arguments[arguments.index("--shutdown-timeout") + 1]) if "--shutdown-timeout" in arguments else 0
    assert spec["terminationGracePeriodSeconds"] > int(seconds) + drain
    # A release that aborts what runs when it is told to stop has to be left alone until it is done.
    assert drain >= 60 if deployed.provenance.vllm_version != "0.9.2" else int(seconds) >= 60


def test_a_shutdown_timeout_that_the_config_states_is_not_given_twice() -> None:
    stated = record(engine={"extra_args": {"shutdown-timeout": 300}}, **DRAFT_MODEL)
    spec = pod(stated)
    assert "--shutdown-timeout" not in spec["containers"][0]["args"]
    assert spec["terminationGracePeriodSeconds"] > 300


def test_revisions_that_are_stated_are_served() -> None:
    pinned = record(target={"id": "org/target", "revision": "abc123"},
                    candidates=[{"method": "draft_model", "draft": {"id": "org/draft", "revision": "def456"},
                                 "k": [1, 2, 3]}])
    held = yaml.safe_load(documents(pinned)["ConfigMap"]["data"]["vllm.yaml"])
    assert held["revision"] == "abc123"
    assert held["speculative-config"]["revision"] == "def456"
