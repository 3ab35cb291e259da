"""Exports the JSON schemas of deployment, policy and record: `python -m advisor.cli.schema [--check]`.

Editors validate and complete a deployment against docs/deployment.schema.json and a policy against
docs/policy.schema.json; scripts rely on docs/record.schema.json. All come from the fields and their docstrings, never
from a hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

# The short forms that the deployment reads besides the full ones (validators that run before pydantic's own).
_SHORT_FORMS: dict[str, list[dict[str, Any]]] = {
    "ModelRef": [{"type": "string", "minLength": 1, "description": "HF id or folder."}],
    "Candidate": [{"type": "string", "description": "A method that needs no draft."}],
    "Lengths": [{"type": "number", "exclusiveMinimum": 0, "description": "The mean."}],
}
_SECTIONS = ("Engine", "Hardware", "Workload", "Sampling", "Objective", "Trial", "Sources")


def deployment_schema() -> dict[str, Any]:
    """The schema of a deployment file as the loader reads it, short forms included."""
    from profiles.deployment import Deployment

    schema = Deployment.model_json_schema()
    definitions = schema["$defs"]
    for name, forms in _SHORT_FORMS.items():
        definitions[name] = {"anyOf": [*forms, definitions[name]]}
    for name in _SECTIONS:
        definitions[name] = {
            "anyOf": [definitions[name], {"type": "null", "description": "Every field at its default."}]
        }
    some_k: list[dict[str, Any]] = [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^\d+\s*(-\s*\d+)?$"},
        {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1},
    ]
    candidate = definitions["Candidate"]["anyOf"][-1]["properties"]
    for properties, more in ((candidate, []), (schema["properties"], [{"type": "null"}])):
        properties["k"] = {**properties["k"], "anyOf": [*some_k, *more]}
        for key in ("type", "items"):
            properties["k"].pop(key, None)
    workload = definitions["Workload"]["anyOf"][0]["properties"]
    shares = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}, "minProperties": 1}
    workload["tasks"] = {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}, shares],
        "description": workload["tasks"]["description"],
        "title": "Tasks",
    }
    return {"$schema": DIALECT, **schema}


def record_schema() -> dict[str, Any]:
    """The schema of record.json as it is written."""
    from advisor.record import Record

    return {"$schema": DIALECT, **Record.model_json_schema(mode="serialization")}


def policy_schema() -> dict[str, Any]:
    """The schema of `.specadvise.yaml` as it is read: off may be YAML's false, sections may be empty."""
    from profiles.policy import Policy

    schema = Policy.model_json_schema()
    for section in schema["properties"].values():
        section["type"] = [section["type"], "null"]
    levels = schema["properties"]["severities"]["additionalProperties"]
    levels["enum"] = [*levels["enum"], False]
    levels.pop("type", None)
    code = "^\\s*[Ss][Pp][Dd][0-9]{3}\\s*$"
    schema["$defs"]["PolicyIgnore"]["properties"]["code"]["pattern"] = code
    schema["properties"]["severities"]["patternProperties"] = {code: levels}
    schema["properties"]["severities"]["additionalProperties"] = False
    schema["properties"]["severities"].pop("propertyNames", None)
    return {"$schema": DIALECT, **schema}


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "deployment.schema.json": deployment_schema,
    "policy.schema.json": policy_schema,
    "record.schema.json": record_schema,
}


def text_of(name: str) -> str:
    """The file's text."""
    return json.dumps(SCHEMAS[name](), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Writes both files, or with --check says which are out of date (exit 1)."""
    from advisor.cli.output import say, write_whole

    stale = [
        name for name in SCHEMAS if not (DOCS / name).exists() or (DOCS / name).read_text("utf-8") != text_of(name)
    ]
    if "--check" in arguments:
        for name in stale:
            say(f"docs/{name} is out of date: run python -m advisor.cli.schema")
        return 1 if stale else 0
    for name in stale:
        write_whole(DOCS / name, text_of(name))
        say(f"wrote docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
