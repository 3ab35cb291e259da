"""The catalog's facts about a release against the engine that is installed, asked in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from profiles.catalog.releases import release

ASK = """
import dataclasses, json, typing
import vllm
from vllm.config.speculative import RejectionSampleMethod, SpeculativeConfig, SpeculativeMethod
from vllm.engine.arg_utils import EngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser

def names(literal):
    found = []
    for value in typing.get_args(literal):
        found += names(value) if typing.get_origin(value) else [value]
    return found

parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
options = sorted({option.lstrip("-") for action in parser._actions for option in action.option_strings})
print("ANSWER" + json.dumps({
    "version": vllm.__version__,
    "fields": sorted(field.name for field in dataclasses.fields(SpeculativeConfig) if field.init),
    "methods": sorted(set(names(SpeculativeMethod))),
    "rejection": sorted(names(RejectionSampleMethod)),
    "options": options,
}))
"""


@pytest.fixture(scope="module")
def engine() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, timeout=300, check=False)
    answers = [line.removeprefix("ANSWER") for line in done.stdout.splitlines() if line.startswith("ANSWER")]
    assert answers, f"the engine did not answer: {done.stderr.strip().splitlines()[-1:]}"
    answer: dict[str, Any] = json.loads(answers[-1])
    return answer


@pytest.mark.engine
def test_the_catalog_knows_the_installed_release(engine: dict[str, Any]) -> None:
    assert release(engine["version"]).rules.startswith("0.32")


@pytest.mark.engine
def test_speculative_keys_are_the_fields_the_engine_accepts(engine: dict[str, Any]) -> None:
    facts = release(engine["version"])
    assert facts.speculative_keys | facts.internal_keys == set(engine["fields"])


@pytest.mark.engine
def test_methods_and_their_spellings_are_the_engines_literal(engine: dict[str, Any]) -> None:
    facts = release(engine["version"])
    assert facts.methods | set(facts.method_spellings) == set(engine["methods"])
    assert facts.rejection_methods == set(engine["rejection"])


@pytest.mark.engine
def test_serve_options_of_the_catalog_are_options_of_the_engine(engine: dict[str, Any]) -> None:
    assert release(engine["version"]).serve_options <= set(engine["options"])
    gone = release("0.7").serve_options - release(engine["version"]).serve_options
    assert not gone & set(engine["options"])
