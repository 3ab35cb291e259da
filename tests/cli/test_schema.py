"""The exported JSON schemas: up to date, and in agreement with the loader."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from advisor.cli.deployment_file import load_deployment
from advisor.cli.deployment_template import template
from advisor.cli.policy_file import load_policy
from advisor.cli.schema import DOCS, SCHEMAS, deployment_schema, policy_schema, record_schema, text_of
from profiles.errors import InputError

EXAMPLES = sorted(
    # Those of the checklist are serve configs and manifests.
    path for path in (Path(__file__).parents[2] / "examples").rglob("*.yaml") if "check" not in path.parts
)


@pytest.mark.parametrize("name", list(SCHEMAS))
def test_committed_schema_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == text_of(name), "run python -m advisor.cli.schema"


def test_schemas_are_valid_schemas() -> None:
    for schema in (deployment_schema(), policy_schema(), record_schema()):
        jsonschema.Draft202012Validator.check_schema(schema)


ACCEPTED = [
    "target: m",
    "target: {id: m, revision: r}",
    "target: m\nengine:\nworkload:\n  sampling:\n",
    "target: m\ncandidates: [ngram, {method: draft_model, draft: d, k: 3}, {method: eagle, draft: {id: h}, k: 1-4}]",
    "target: m\nworkload: {prompt_tokens: 30, output_tokens: {mean: 5, p95: 9}, tasks: code}",
    "target: m\nworkload: {tasks: [code, sql]}",
    "target: m\nworkload: {tasks: {code: 1, json: 2}}",
]
REFUSED = [
    "target: ''",
    "{}",
    "target: m\nengin: {}",
    "target: m\nengine: {max_model_len: 0}",
    "target: m\nengine: {runner: v3}",
    "target: m\ncandidates: [{method: ngram, k: 0}]",
    "target: m\ncandidates: [{method: ngram, k: many}]",
    "target: m\nworkload: {prompt_tokens: 0}",
    "target: m\nobjective: {goal: speed}",
    "target: m\nhardware: {count: -1}",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_the_loader_reads_the_schema_accepts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "d.yaml"
    path.write_text(text)
    load_deployment(path)
    jsonschema.validate(yaml.safe_load(text), deployment_schema())


@pytest.mark.parametrize("text", REFUSED)
def test_what_the_schema_refuses_the_loader_refuses(tmp_path: Path, text: str) -> None:
    path = tmp_path / "d.yaml"
    path.write_text(text)
    with pytest.raises(InputError):
        load_deployment(path)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), deployment_schema())


def test_the_template_and_the_examples_satisfy_it() -> None:
    jsonschema.validate(yaml.safe_load(template()), deployment_schema())
    for path in EXAMPLES:
        document = yaml.safe_load(path.read_text("utf-8"))
        if isinstance(document, dict) and "target" in document:
            load_deployment(path)
            jsonschema.validate(document, deployment_schema())


@pytest.mark.parametrize("text", [
    "{}", "severities:\nignore:\n", "severities: {SPD104: warn, spd105: off}",
    'ignore: [{code: spd104, reason: x, until: "2027-01-31", paths: [a/*.yaml]}]',
])
def test_policies_that_are_read_the_schema_accepts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    load_policy(path, "p.yaml")
    jsonschema.validate(yaml.safe_load(text), policy_schema())


@pytest.mark.parametrize("text", [
    "rules: {}", "severities: {SPD1: warn}", "severities: {SPD104: fatal}", "ignore: [{code: SPD104}]",
    "ignore: [{code: X, reason: y}]", "ignore: [{code: SPD104, reason: ''}]",
    "ignore: [{code: SPD104, reason: x, no: 1}]",
])
def test_policies_that_are_refused_the_schema_refuses(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(InputError):
        load_policy(path, "p.yaml")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), policy_schema())
