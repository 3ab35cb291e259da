"""What every format of findings has in common, and the two for people: text and markdown."""

from __future__ import annotations

import json

import pytest

from advisor.report.findings import formats, render
from profiles.errors import InputError
from tests.advisor.report.findings.synthetic_results import failed, hostile, passed


def test_the_formats_are_those_of_the_contract():
    assert set(formats()) == {"text", "json", "github", "sarif", "junit", "markdown"}


def test_an_unknown_format_is_refused_by_name():
    with pytest.raises(InputError, match="expected one of github, json, junit, markdown, sarif, text"):
        render([passed()], "pdf")


@pytest.mark.parametrize("format", ["text", "json", "github", "sarif", "junit", "markdown"])
def test_every_format_ends_in_one_newline_and_can_be_encoded(format):
    for results in ([failed()], [failed(), passed()], [passed()], [hostile()]):
        text = render(results, format)
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        text.encode("utf-8")


@pytest.mark.parametrize("format", ["text", "github", "junit", "markdown"])
def test_no_format_for_people_passes_on_what_drives_a_terminal(format):
    text = render([hostile()], format)
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_text_says_place_severity_code_key_then_what_and_what_to_do():
    lines = render([failed()], "text").splitlines()
    assert lines[0] == "deploy/vllm.yaml:7: error SPD101 speculative-config.model"
    assert lines[1] == "    the target has 32,000 tokens, the draft 32,064"
    assert lines[2] == "    -> take a draft of the same vocabulary"
    assert lines[6] == "deploy/vllm.yaml: info SPD301"
    assert lines[-1] == "deploy/vllm.yaml: fail, 1 error, 1 warning, 1 info, 1 suppressed, for vLLM 0.32.0"


def test_text_of_a_clean_config_is_one_line():
    assert render([passed()], "text") == "ok.yaml: pass, no findings, for vLLM 0.32.0\n"


def test_text_is_wrapped_only_where_a_width_is_given_and_coloured_only_on_request():
    long = failed().model_copy(update={"findings": (failed().findings[0].model_copy(
        update={"message": "word " * 60}),)})
    assert max(map(len, render([long], "text").splitlines())) > 200
    assert max(len(line) for line in render([long], "text", width=60).splitlines() if line.startswith(" ")) <= 60
    assert "\x1b[" not in render([long], "text", width=60)
    assert "\x1b[1;31merror\x1b[0m" in render([long], "text", color=True)


def test_json_is_one_object_for_one_config_and_a_list_for_several():
    one = json.loads(render([failed()], "json"))
    assert one["verdict"] == "fail"
    assert one["vllm_version"] == "0.32.0"
    assert one["checked"] == ["SPD101", "SPD201", "SPD301", "SPD401", "SPD501"]
    assert set(one["findings"][0]) >= {"code", "severity", "family", "message", "remedy", "where", "source"}
    several = json.loads(render([failed(), passed()], "json"))
    assert [result["verdict"] for result in several] == ["fail", "pass"]


def test_markdown_is_a_table_that_no_cell_breaks():
    text = render([hostile()], "markdown")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    columns = {line.replace("\\|", "").count("|") for line in rows}
    assert len(columns) == 1
    assert "<b>" not in text


def test_markdown_names_suppressed_findings_with_their_reasons():
    assert "suppressed: warn SPD401 (known \\| accepted; deploy/vllm.yaml:3)" in render([failed()], "markdown")
