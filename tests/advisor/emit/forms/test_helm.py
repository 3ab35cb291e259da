"""The chart's values: only keys that the chart reads, and all of the config in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from advisor.emit.forms import write_forms
from advisor.emit.forms.helm import CHART_GRACE_S, NAMED, arguments
from advisor.record import Record
from tests.advisor.emit.forms.records import many

RECORDS = many()
CASES = [pytest.param(one, id=name) for name, one in RECORDS.items()]
# Keys of values.schema.json and templates/deployment-vllm-multi.yaml of github.com/vllm-project/production-stack.
ENGINE_KEYS = {"enableEngine", "vllmApiKey", "runtimeClassName", "containerPort", "strategy", "securityContext",
               "containerSecurityContext", "startupProbe", "readinessProbe", "livenessProbe", "modelSpec"}
MODEL_KEYS = {"name": str, "repository": str, "tag": str, "modelURL": str, "replicaCount": int, "requestCPU": int,
              "requestMemory": str, "requestGPU": int, "requestGPUType": str, "pvcStorage": str, "pvcAccessMode": list,
              "extraVolumes": list, "extraVolumeMounts": list, "shmSize": str, "env": list, "vllmConfig": dict}
CONFIG_KEYS = {"maxModelLen": int, "dtype": str, "tensorParallelSize": int, "maxNumSeqs": int,
               "gpuMemoryUtilization": float, "enablePrefixCaching": bool, "extraArgs": list}


def engine(deployed: Record) -> dict[str, Any]:
    text = write_forms(deployed, ("helm",))["helm"].files["helm-values.yaml"]
    values = yaml.safe_load(text)
    assert list(values) == ["servingEngineSpec"]
    found = values["servingEngineSpec"]
    assert isinstance(found, dict)
    return found


def model(deployed: Record) -> dict[str, Any]:
    (found,) = engine(deployed)["modelSpec"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("deployed", CASES)
def test_every_key_is_one_that_the_chart_reads_with_the_type_it_asks_for(deployed: Record) -> None:
    assert set(engine(deployed)) <= ENGINE_KEYS
    found = model(deployed)
    for values, known in ((found, MODEL_KEYS), (found["vllmConfig"], CONFIG_KEYS)):
        for key, value in values.items():
            assert isinstance(value, known[key]), key
    assert all(isinstance(word, str) for word in found["vllmConfig"]["extraArgs"])


@pytest.mark.parametrize("deployed", CASES)
def test_every_option_of_the_config_is_named_or_an_argument(deployed: Record) -> None:
    options = yaml.safe_load(deployed.emitted.vllm_yaml)
    found = model(deployed)
    config = found["vllmConfig"]
    assert found["modelURL"] == options["model"]
    for option, value in options.items():
        if option in NAMED:
            assert config[NAMED[option]] == value
        elif option not in ("model", "host", "port", "no-enable-prefix-caching"):
            assert f"--{option}" in config["extraArgs"]


def test_speculation_is_one_argument_as_json() -> None:
    words = model(RECORDS["draft model"])["vllmConfig"]["extraArgs"]
    given_ = json.loads(words[words.index("--speculative-config") + 1])
    assert given_ == yaml.safe_load(RECORDS["draft model"].emitted.vllm_yaml)["speculative-config"]


def test_prefix_caching_which_the_chart_would_turn_off_stays_as_the_engine_or_the_user_has_it() -> None:
    assert model(RECORDS["draft model"])["vllmConfig"]["enablePrefixCaching"] is True
    assert model(RECORDS["options"])["vllmConfig"]["enablePrefixCaching"] is False


def test_the_port_is_the_charts_business_and_follows_the_config() -> None:
    assert engine(RECORDS["options"])["containerPort"] == 9000
    assert "--port" not in model(RECORDS["options"])["vllmConfig"]["extraArgs"]


def test_shared_memory_comes_with_several_workers_because_the_chart_gives_none_otherwise() -> None:
    found = model(RECORDS["split over four"])
    assert (found["shmSize"], found["vllmConfig"]["tensorParallelSize"]) == ("4Gi", 4)
    assert "shmSize" not in model(RECORDS["draft model"])


def test_an_amd_cluster_is_not_asked_for_nvidias_runtime_class() -> None:
    assert engine(RECORDS["amd"])["runtimeClassName"] == ""
    assert model(RECORDS["amd"])["requestGPUType"] == "amd.com/gpu"
    assert "runtimeClassName" not in engine(RECORDS["draft model"])


def test_a_start_longer_than_the_chart_allows_is_pointed_out() -> None:
    notes = write_forms(RECORDS["split over four"], ("helm",))["helm"].notes
    assert any("1200 s" in note for note in notes)


@given(st.dictionaries(
    st.from_regex(r"[a-z]{1,8}(-[a-z]{1,8})?", fullmatch=True),
    st.one_of(st.booleans(), st.integers(-9, 9), st.text("ab -{}", max_size=6), st.lists(st.integers(0, 9), min_size=1),
              st.dictionaries(st.text("ab", max_size=2), st.integers(0, 9))), max_size=5))
def test_each_option_is_one_flag_and_no_value_is_taken_for_a_flag(options: dict[str, Any]) -> None:
    words = arguments(options)
    flags = [word.split("=", 1)[0] for word in words if word.startswith("--") and word[2:3] != "-" and word != "--"]
    on = [f"--{option}" for option, value in options.items() if value is not False]
    assert [flag for flag in flags if flag in on] == on
    values = [word for word in words if word.split("=", 1)[0] not in on]
    assert not any(word.startswith("-") for word in values)


def test_the_server_stops_within_the_time_that_the_chart_leaves_it_and_that_is_said() -> None:
    words = model(RECORDS["draft model"])["vllmConfig"]["extraArgs"]
    assert 0 < int(words[words.index("--shutdown-timeout") + 1]) < CHART_GRACE_S
    assert "--shutdown-timeout" not in model(RECORDS["old"])["vllmConfig"]["extraArgs"]
    notes = write_forms(RECORDS["draft model"], ("helm",))["helm"].notes
    assert any(f"{CHART_GRACE_S} s to stop" in note for note in notes)
