"""The catalog's facts about a release against the engine that is installed, asked in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from profiles.catalog.options import find_option, option_names
from profiles.catalog.releases import release

ASK = """
import dataclasses, json, typing
import vllm
from vllm.config.speculative import RejectionSampleMethod, SpeculativeConfig, SpeculativeMethod
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

def names(literal):
    found = []
    for value in typing.get_args(literal):
        found += names(value) if typing.get_origin(value) else [value]
    return found

parser = make_arg_parser(FlexibleArgumentParser())
options, choices = set(), {}
for action in parser._actions:
    for option in action.option_strings:
        negated = option.startswith("--no-") and "--" + option[5:] in action.option_strings
        if option.startswith("--") and not negated and option != "--help":
            options.add(option[2:])
            if action.choices:
                choices[option[2:]] = sorted(str(choice) for choice in action.choices if choice is not None)
print("ANSWER" + json.dumps({
    "version": vllm.__version__,
    "fields": sorted(field.name for field in dataclasses.fields(SpeculativeConfig) if field.init),
    "methods": sorted(set(names(SpeculativeMethod))),
    "rejection": sorted(names(RejectionSampleMethod)),
    "options": sorted(options),
    "choices": choices,
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
    # Declared still, and no runner routes it: the engine stops when it builds the drafter.
    assert facts.methods | set(facts.method_spellings) | {"mlp_speculator"} == set(engine["methods"])
    assert facts.rejection_methods == set(engine["rejection"])


@pytest.mark.engine
def test_serve_options_of_the_catalog_are_options_of_the_engine(engine: dict[str, Any]) -> None:
    assert release(engine["version"]).serve_options <= set(engine["options"])
    gone = release("0.7").serve_options - release(engine["version"]).serve_options
    assert not gone & set(engine["options"])


@pytest.mark.engine
def test_options_derived_from_the_source_are_those_of_the_servers_own_parser(engine: dict[str, Any]) -> None:
    assert option_names(release(engine["version"]).rules) == set(engine["options"])


@pytest.mark.engine
def test_choices_derived_from_the_source_are_those_of_the_servers_own_parser(engine: dict[str, Any]) -> None:
    rules = release(engine["version"]).rules
    for name, choices in engine["choices"].items():
        known = find_option(name, rules)
        assert known is not None
        # Choices that the server computes when it starts are not known from the source; none may be missing.
        assert not known.choices or set(choices) <= set(map(str, known.choices)), name
