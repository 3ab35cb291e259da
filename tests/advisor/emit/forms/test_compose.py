"""The compose file: valid against the compose specification, and the same server as the config."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
import yaml

from advisor.emit.forms import write_forms
from advisor.record import Record
from tests.advisor.emit.forms.records import many

RECORDS = many()
CASES = [pytest.param(one, id=name) for name, one in RECORDS.items()]
# The compose specification's own schema (Apache-2.0), as the package check-jsonschema carries it.
SCHEMA = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text("utf-8"))


def compose(deployed: Record) -> dict[str, Any]:
    found = yaml.safe_load(write_forms(deployed, ("compose",))["compose"].files["compose.yaml"])
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("deployed", CASES)
def test_it_is_valid_for_the_specification(deployed: Record) -> None:
    jsonschema.validate(compose(deployed), SCHEMA)


def test_the_schema_would_refuse_a_key_that_is_none() -> None:
    wrong = compose(RECORDS["off"])
    wrong["services"]["vllm"]["gpu"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, SCHEMA)


def test_the_config_is_the_file_beside_it_and_the_port_is_open_on_loopback_only() -> None:
    found = compose(RECORDS["draft model"])
    service = found["services"]["vllm"]
    assert found["configs"]["vllm"] == {"file": "./vllm.yaml"}
    assert service["command"][:2] == ["--config", service["configs"][0]["target"]]
    assert service["ports"] == ["127.0.0.1:8000:8000"]


def test_tokens_are_passed_on_from_outside_without_a_value() -> None:
    environment = compose(RECORDS["draft model"])["services"]["vllm"]["environment"]
    assert environment["HF_TOKEN"] is None
    assert environment["VLLM_API_KEY"] is None


def test_dollar_signs_reach_the_container_as_they_are() -> None:
    service = compose(RECORDS["folders"])["services"]["vllm"]
    assert service["volumes"][-1]["target"] == "/models/$$draft"
    assert compose(RECORDS["options"])["services"]["vllm"]["environment"]["VLLM_LOGGING_LEVEL"] == "$$(HOME) %h $$HOME"


@pytest.mark.parametrize(("name", "expected"), [
    ("split over four", {"driver": "nvidia", "count": 4, "capabilities": ["gpu"]}), ("cpu", None), ("amd", None)])
def test_devices_are_reserved_where_compose_can(name: str, expected: dict[str, Any] | None) -> None:
    service = compose(RECORDS[name])["services"]["vllm"]
    if expected is None:
        assert "deploy" not in service
        assert ("/dev/kfd:/dev/kfd" in service.get("devices", [])) is (name == "amd")
    else:
        assert service["deploy"]["resources"]["reservations"]["devices"] == [expected]
        assert service["shm_size"] == "4gb"


def test_running_requests_get_time_to_finish_before_the_container_is_killed() -> None:
    service = compose(RECORDS["draft model"])["services"]["vllm"]
    drain = int(service["command"][service["command"].index("--shutdown-timeout") + 1])
    assert int(service["stop_grace_period"].rstrip("s")) > drain
    assert "--shutdown-timeout" not in compose(RECORDS["old"])["services"]["vllm"]["command"]
