"""Texts become the target's tokens, through its chat template where there is one."""

import json

import pytest

from probes.replay.tokens import token_requests
from profiles.errors import InputError, ModelNotFound
from profiles.workload import Task

TEMPLATE = ("{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }} {% endfor %}"
            "{% if add_generation_prompt %}<assistant>{% endif %}")


@pytest.fixture
def target(tmp_path):
    """A synthetic tokenizer: words, with a start token before a plain text."""
    words = ["<s>", "<unk>", "<", ">", "user", "assistant", "a", "b", "c"]
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "decoder": None,
        "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {"type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [
            {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
        "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {word: i for i, word in enumerate(words)}}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "bos_token": "<s>"}))
    return folder


def tokens(tmp_path, rows, target=None, **more):
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return token_requests([path], str(target) if target else None, base=tmp_path, **more)


def test_a_plain_prompt_gets_its_start_token_and_the_output_none(tmp_path, target):
    (found,) = tokens(tmp_path, [{"prompt": "a b", "output": "c a"}], target).requests
    assert (found.ids, found.prompt_tokens) == ((0, 6, 7, 8, 6), 3)


def test_messages_go_through_the_targets_template(tmp_path, target):
    messages = [{"role": "user", "content": "a"}]
    (found,) = tokens(tmp_path, [{"messages": messages, "output": "b c"}], target).requests
    assert found.ids == (2, 4, 3, 6, 2, 5, 3, 7, 8)
    assert found.prompt_tokens == 7


def test_without_a_template_messages_are_joined_and_that_is_said(tmp_path, target):
    (target / "tokenizer_config.json").unlink()
    found = tokens(tmp_path, [{"messages": [{"role": "user", "content": "a"}], "output": "b c"}], target)
    assert found.requests[0].ids == (0, 6, 7, 8)
    assert any("no chat template" in note for note in found.notes)


def test_a_template_that_refuses_or_reaches_out_loses_its_record_only(tmp_path, target):
    rows = [{"messages": [{"role": "user", "content": "a"}], "output": "b c"}, {"prompt": "a", "output": "b c"}]
    for template in ("{{ raise_exception('no') }}", "{{ messages.__class__.__mro__[1].__subclasses__() }}", "{% if %}"):
        (target / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
        found = tokens(tmp_path, rows, target)
        assert len(found.requests) == 1
        (reason,) = found.recordings.skipped
        assert "chat template does not take it" in reason


def test_token_ids_need_no_target_and_texts_do(tmp_path):
    rows = [{"prompt_token_ids": [1], "output_token_ids": [2, 3]}]
    found = tokens(tmp_path, rows, task=Task.CODE)
    assert (found.requests[0].ids, found.tasks) == ((1, 2, 3), [Task.CODE])
    with pytest.raises(InputError, match="--target"):
        tokens(tmp_path, [{"prompt": "a", "output": "b c"}])


def test_outputs_of_one_token_make_no_step_and_are_counted(tmp_path):
    rows = [{"prompt_token_ids": [1], "output_token_ids": [2]}, {"prompt_token_ids": [1], "output_token_ids": [2, 3]}]
    found = tokens(tmp_path, rows)
    assert dict(found.recordings.skipped) == {"fewer than two output tokens": 1}
    with pytest.raises(InputError, match="fewer than two output tokens"):
        tokens(tmp_path, rows[:1])


def test_a_target_without_a_tokenizer_and_a_damaged_one_are_one_sentence(tmp_path, target):
    rows = [{"prompt": "a", "output": "b c"}]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelNotFound, match=r"no tokenizer\.json"):
        tokens(tmp_path, rows, tmp_path / "empty", offline=True)
    (target / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read as a tokenizer"):
        tokens(tmp_path, rows, target)


@pytest.mark.parametrize("odd", [-1, 1e9, float("nan"), float("inf"), 10**400])
def test_a_temperature_that_cannot_be_is_said_and_not_used(tmp_path, target, odd):
    row = {"prompt": "a b", "output": "c a"}
    found = tokens(tmp_path, [{**row, "temperature": odd}, {**row, "temperature": 0.7}], target)
    assert len(found.requests) == 2
    assert found.temperature is None
    assert "1 temperature outside of 0 to 5 not used; the requests count" in found.notes


def test_what_was_read_is_summed_up_without_any_text(tmp_path, target):
    rows = [{"prompt": "a b", "output": "c a", "task": "code", "model": "m", "temperature": 0.7}]
    summary = tokens(tmp_path, rows, target).summary()
    assert summary["requests"] == 1
    assert summary["output_tokens"].mean == 2
    assert (summary["models"], summary["temperature"], summary["tasks"]) == (("m",), 0.7, {Task.CODE: 1})
    assert "a b" not in str(summary)


def test_a_file_that_two_names_lead_to_is_read_once(tmp_path):
    rows = [{"prompt_token_ids": [1], "output_token_ids": [2, 3]}] * 2
    alone = tokens(tmp_path, rows)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "r.jsonl")
    found = token_requests([tmp_path / "r.jsonl", tmp_path / "link.jsonl"], None, base=tmp_path)
    assert (len(found.requests), found.files) == (2, ("r.jsonl",))
    assert set(found.notes) - set(alone.notes) == {"1 name led to a file that was named already: each is read once"}
