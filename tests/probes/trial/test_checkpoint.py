"""What a checkpoint keeps, refuses and survives."""

import errno
import json
import os

import pytest

from advisor.cli.output import write_whole
from probes.trial.checkpoint import Checkpoint
from profiles.errors import InputError
from profiles.evidence import PromptSummary, TrialEvidence

TRIAL = TrialEvidence(device="cpu", hardware="synthetic", target="t", max_tokens=8,
                      prompts=PromptSummary(source="built-in", count=1))


def make(path, digest="plan-1", notes=None):
    return Checkpoint(path, digest, (notes if notes is not None else []).append, write_whole)


def test_what_was_saved_comes_back(tmp_path):
    checkpoint = make(tmp_path / "c.json")
    checkpoint.save({"0 none": ["outputs", "load 1"]}, TRIAL)
    document = make(tmp_path / "c.json").load()
    assert document.done == {"0 none": ("outputs", "load 1")}
    assert document.trial == TRIAL
    assert os.listdir(tmp_path) == ["c.json"]


def test_no_file_is_nothing_to_resume(tmp_path):
    assert make(tmp_path / "none.json").load() is None


def test_another_plan_is_refused_in_one_sentence_that_says_what_to_do(tmp_path):
    make(tmp_path / "c.json").save({}, TRIAL)
    with pytest.raises(InputError, match=r"another trial .* run without --resume") as caught:
        make(tmp_path / "c.json", digest="plan-2").load()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 1, "plan": "plan-1"}', "\xff"])
def test_a_damaged_file_is_refused(tmp_path, text):
    (tmp_path / "c.json").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match="--resume"):
        make(tmp_path / "c.json").load()


def test_another_schema_version_is_refused_by_its_number(tmp_path):
    path = tmp_path / "c.json"
    make(path).save({}, TRIAL)
    document = json.loads(path.read_text())
    document["schema_version"] = 99
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="99"):
        make(path).load()


def test_a_full_disk_is_told_once_and_the_old_file_stays_whole(tmp_path, monkeypatch):
    notes = []
    checkpoint = make(tmp_path / "c.json", notes=notes)
    checkpoint.save({"a": ["1"]}, TRIAL)
    before = (tmp_path / "c.json").read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    checkpoint.save({"a": ["1", "2"]}, TRIAL)
    checkpoint.save({"a": ["1", "2", "3"]}, TRIAL)
    assert len(notes) == 1
    assert "No space left" in notes[0]
    assert (tmp_path / "c.json").read_bytes() == before
    assert os.listdir(tmp_path) == ["c.json"]
    assert checkpoint.refused == os.strerror(errno.ENOSPC)
    monkeypatch.undo()
    checkpoint.save({"a": ["1", "2", "3", "4"]}, TRIAL)
    assert checkpoint.refused is None
    assert checkpoint.load().done["a"][-1] == "4"


def test_removing_a_checkpoint_that_is_gone_is_no_error(tmp_path):
    make(tmp_path / "c.json").remove()


def test_a_signal_while_it_is_written_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    checkpoint = make(tmp_path / "c.json")
    checkpoint.save({"a": ["1"]}, TRIAL)

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save({"a": ["1", "2"]}, TRIAL)
    assert os.listdir(tmp_path) == ["c.json"]
    assert checkpoint.load().done == {"a": ("1",)}


def test_a_checkpoint_that_is_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "c.json")
    with pytest.raises(InputError, match="no regular file"):
        make(tmp_path / "c.json").load()
