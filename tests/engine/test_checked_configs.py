"""What `check` says of a config against what vLLM's own configuration stage says of it, one way.

Whatever the engine refuses has to be an error here. What it accepts and we call an error shows later, when weights load
or the first step runs, or on another platform than this build's: each such rule stands in the table with its reason.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.checks.examples import subject_of
from advisor.checks.finding import Finding
from advisor.checks.registry import all_rules
from advisor.checks.rule import Example
from advisor.checks.run import run
from profiles.catalog.models import find_model
from profiles.catalog.shapes import ModelShape
from tests.engine.accept_configs import ask_engine

pytestmark = pytest.mark.engine

RELEASE = "0.32.0"
DENSE = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
SEEN_LATER = {
    "SPD110": "the text behind a switch is read as the model's name, which the command takes over after this stage",
    "SPD144": "a variable of the GPU runners: the CPU build does not read it",
    "SPD202": "only sizes are compared at this stage",
    "SPD211": "shapes of a head are compared when its weights load",
    "SPD212": "the class of a head is looked at when its weights load",
    "SPD213": "the class of a head is looked at when its weights load",
    "SPD214": "the kind of a head is looked at when its weights load",
    "SPD215": "shapes of a head are compared when its weights load",
    "SPD216": "what a head was trained on stands in no config",
    "SPD221": "the class is looked up when the model is built",
    "SPD222": "the interface is asked for when the model is built",
    "SPD223": "the mask token is read when the drafter is built",
    "SPD241": "lengths differ at run time",
    "SPD301": "the split is compared when the drafter is built",
    "SPD304": "the CPU build counts no GPUs",
    "SPD342": "the CPU build captures no graphs",
    "SPD343": "the CPU build captures no graphs",
    "SPD361": "schedules are read when the scheduler is built",
    "SPD363": "asserted in the first step with another k",
    "SPD383": "padding is looked at when the drafter is built",
    "SPD401": "memory is counted when the engine starts",
    "SPD501": "refused request by request",
    "SPD505": "processors are loaded with the runner",
    "SPD507": "wrong texts, at run time",
    "SPD524": "positions are looked at when the drafter is built",
    "SPD565": "the CPU build does not read it",
    "SPD581": "shows as acceptance",
    "SPD582": "shows when the head's weights load",
    "SPD621": "wrong texts, at run time",
    "SPD661": "the CPU build has no adaptive verification",
    "SPD681": "the drafter's kernels are looked at when it is built",
}


def _config_of(shape: ModelShape) -> dict[str, Any]:
    """A config.json that says what the catalog knows of a dense model."""
    group = shape.attention[0]
    return {
        "architectures": list(shape.architectures), "model_type": shape.model_type, "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size, "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_attention_heads, "num_key_value_heads": group.kv_heads,
        "head_dim": group.head_dim, "vocab_size": shape.vocab_size, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16",
        "max_position_embeddings": shape.max_position_embeddings or 32768,
        "tie_word_embeddings": shape.tie_word_embeddings,
    }


@dataclass(frozen=True)
class Given:
    """An example as both sides get it: config-only folders on a CPU server."""

    name: str
    path: Path
    findings: tuple[Finding, ...]
    env: tuple[tuple[str, str], ...]


def _references(values: dict[str, Any]) -> list[str]:
    nested = values.get("speculative-config")
    named = [values.get("model"), nested.get("model") if isinstance(nested, dict) else None]
    return [name for name in named if isinstance(name, str) and "/" in name]


def _models(example: Example, values: dict[str, Any]) -> dict[str, dict[str, Any]] | None:
    """config.json by reference; None where a model is none that a test can write a config for."""
    found: dict[str, dict[str, Any]] = {}
    for name in _references(values):
        files = example.models.get(name)
        config = dict(files["config"]) if files is not None and "config" in files else None
        shape = find_model(name)
        if config is None and shape is not None and set(shape.architectures) & DENSE and shape.moe is None:
            config = _config_of(shape)
        if config is None or not set(config.get("architectures", ())) & (DENSE | {"LlamaForCausalLMEagle3"}):
            return None
        found[name] = {"rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "hidden_act": "silu", **config}
    return found


def _given(example: Example, name: str, folder: Path) -> Given | None:
    try:
        values = yaml.safe_load(example.config)
    except yaml.YAMLError:
        return None
    if example.vllm_version != RELEASE or not isinstance(values, dict) or not _references(values):
        return None
    models = _models(example, values)
    if models is None:
        return None
    text = example.config
    for number, (reference, config) in enumerate(sorted(models.items())):
        place = folder / name / f"m{number}"
        place.mkdir(parents=True)
        (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
        text = text.replace(f"{reference}\n", f"{place}\n")
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    subject = subject_of(replace(
        example, config=text, gpu="cpu", gpus=0,
        models={str(folder / name / f"m{number}"): {"config": config}
                for number, (_, config) in enumerate(sorted(models.items()))},
    ))
    return Given(name, path, run(subject), tuple(sorted(example.env.items())))


@pytest.fixture(scope="module")
def judged(engine: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Given, dict[str, Any]]]:
    """Every example that can be judged here, and the engine's report on it."""
    folder = tmp_path_factory.mktemp("examples")
    given: list[Given] = []
    for rule in all_rules():
        for kind, example in (("fails", rule.fails), ("passes", rule.passes)):
            one = _given(example, f"{rule.code}-{kind}", folder)
            if one is not None:
                given.append(one)
    answers = ask_engine([(one.path, dict(one.env)) for one in given], folder)
    return {one.name: (one, answers[str(one.path)]) for one in given}


def test_enough_examples_can_be_judged_here(judged: dict[str, tuple[Given, dict[str, Any]]]) -> None:
    assert len(judged) > 60
    assert sum("error" in answer for _, answer in judged.values()) > 8


def test_what_the_engine_refuses_is_an_error_here(judged: dict[str, tuple[Given, dict[str, Any]]]) -> None:
    missed = {name: answer["error"][:200] for name, (given, answer) in judged.items()
              if "error" in answer and not any(f.severity == "error" for f in given.findings)}
    assert missed == {}


def test_what_the_engine_accepts_and_we_refuse_has_its_reason(judged: dict[str, tuple[Given, dict[str, Any]]]) -> None:
    unexplained = {name: [f.code for f in given.findings if f.severity == "error"]
                   for name, (given, answer) in judged.items() if "error" not in answer}
    unexplained = {name: codes for name, codes in unexplained.items() if set(codes) - SEEN_LATER.keys()}
    assert unexplained == {}
