"""What the checklist reads out of each form is the config that was advised."""

from __future__ import annotations

import os
from typing import Any

import pytest
import yaml

from advisor.checks.sources import read_source
from advisor.emit.forms import write_forms
from advisor.record import Record
from tests.advisor.emit.forms.records import many

RECORDS = many()
CASES = [pytest.param(one, id=name) for name, one in RECORDS.items()]
FORMS = ("compose", "helm", "kserve", "kubernetes", "systemd")


def read(deployed: Record, form: str) -> Any:
    name, text = next(iter(write_forms(deployed, (form,))[form].files.items()))

    def beside(path: str) -> str | None:
        return deployed.emitted.vllm_yaml if os.path.basename(path) == "vllm.yaml" else None

    (config,) = read_source(text, name, open_file=beside)
    return config


def spelled(values: dict[str, Any]) -> dict[str, Any]:
    """Values whatever way an option was turned off, and without where the server listens: a form may state that."""
    found = {}
    for option, value in values.items():
        if option in ("host", "port"):
            continue
        if option.startswith("no-") and value is True:
            option, value = option[3:], False
        if option == "shutdown-timeout":
            # How long a server may take to stop belongs to the form, like the probes.
            continue
        # Releases before 0.18 take a mapping as JSON in text.
        found[option] = yaml.safe_load(value) if isinstance(value, str) and value.startswith("{") else value
    return found


@pytest.mark.parametrize("deployed", CASES)
@pytest.mark.parametrize("form", FORMS)
def test_the_options_read_from_a_form_are_those_of_vllm_yaml(deployed: Record, form: str) -> None:
    stated = spelled(yaml.safe_load(deployed.emitted.vllm_yaml))
    found = spelled(dict(read(deployed, form).values))
    if form == "helm" and "enable-prefix-caching" not in stated:
        # The chart always says it or its negative.
        found.pop("enable-prefix-caching")
    assert found == stated


@pytest.mark.parametrize("deployed", CASES)
@pytest.mark.parametrize("form", FORMS)
def test_the_runner_and_the_image_are_read_too(deployed: Record, form: str) -> None:
    config = read(deployed, form)
    variable = "VLLM_USE_V2_MODEL_RUNNER"
    assert config.env.get(variable) == deployed.emitted.env.get(variable)
    assert "vllm" in config.image or form == "systemd"
