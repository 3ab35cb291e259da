"""What holds for every form of deployment: the same server, no secrets, and the decision on top."""

from __future__ import annotations

import re

import pytest

from advisor.emit.forms import form, form_names, write_forms
from advisor.record import Record
from tests.advisor.emit.forms.records import abstained, many, record

RECORDS = many()
CASES = [pytest.param(one, id=name) for name, one in RECORDS.items()]


def test_the_forms_are_those_that_have_a_file() -> None:
    assert form_names() == ("compose", "helm", "kserve", "kubernetes", "prometheus", "systemd")


def test_no_form_is_asked_for_and_none_is_written() -> None:
    assert write_forms(record(), ()) == {}


def test_a_form_asked_for_twice_is_written_once() -> None:
    assert list(write_forms(record(), ("helm", "compose", "helm"))) == ["helm", "compose"]


@pytest.mark.parametrize("deployed", CASES)
def test_every_file_is_plain_ascii_ends_in_a_line_and_is_named_by_one_form_only(deployed: Record) -> None:
    written = write_forms(deployed, form_names())
    files = [name for one in written.values() for name in one.files]
    assert len(files) == len(set(files))
    assert files == [name for one in form_names() for name in form(one).FILES]
    for one in written.values():
        for text in one.files.values():
            assert text.isascii()
            assert text.endswith("\n")
            assert not text.endswith("\n\n")


@pytest.mark.parametrize("name", form_names())
def test_the_first_comment_says_what_it_is_and_the_decision_with_its_reasons(name: str) -> None:
    files = write_forms(record(), (name,))[name].files
    text = next(iter(files.values())).replace("\n# ", " ")
    assert f"for vLLM 0.32.0: {form(name).TITLE}" in text
    assert "Decision: speculation ON: draft_model with org/draft, k = 3" in text
    assert "The text is predictable." in text


@pytest.mark.parametrize("name", form_names())
def test_an_abstention_is_deployed_without_speculation_and_says_so(name: str) -> None:
    for text in write_forms(abstained(), (name,))[name].files.values():
        values = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
        assert "specul" not in values.lower()
        assert "spec_decode" not in values
    first = next(iter(write_forms(abstained(), (name,))[name].files.values()))
    assert "could not decide, so this is the deployment WITHOUT speculation" in first.replace("\n# ", " ")


@pytest.mark.parametrize("deployed", CASES)
def test_the_runner_that_was_priced_is_asked_for_wherever_the_server_starts(deployed: Record) -> None:
    for name, one in write_forms(deployed, [n for n in form_names() if n != "prometheus"]).items():
        text = "".join(one.files.values())
        for variable in deployed.emitted.env:
            assert re.search(rf"\b{variable}\b[=:]|name: {variable}\n", text), (name, variable)


def test_a_secret_that_found_its_way_into_a_record_is_still_not_written() -> None:
    clean = record()
    leaky = clean.model_copy(update={"emitted": clean.emitted.model_copy(update={
        "env": {"HF_TOKEN": "hf_verysecret", "MY_API_KEY": "sk-verysecret", "VLLM_LOGGING_LEVEL": "INFO"}})})
    for one in write_forms(leaky, form_names()).values():
        for text in one.files.values():
            assert "verysecret" not in text


def test_folders_of_this_machine_and_files_that_the_config_names_are_pointed_out() -> None:
    notes = " ".join(write_forms(RECORDS["folders"], ("kubernetes",))["kubernetes"].notes)
    assert "/models/my target" in notes
    notes = " ".join(write_forms(RECORDS["options"], ("systemd",))["systemd"].notes)
    assert "/tls/cert" in notes


def test_an_accelerator_nobody_knows_is_taken_for_nvidias_and_that_is_said() -> None:
    unknown = record()
    unknown = unknown.model_copy(update={"provenance": unknown.provenance.model_copy(update={"gpu": "unknown"})})
    written = write_forms(unknown, ("kubernetes",))["kubernetes"]
    assert "nvidia.com/gpu" in written.files["kubernetes.yaml"]
    assert any("NVIDIA is assumed" in note for note in written.notes)
