"""The formats that other machines read: GitHub annotations, SARIF and JUnit."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from junitparser import Failure, JUnitXml, Skipped

from advisor.checks.finding import CheckResult
from advisor.report.findings import render
from advisor.report.findings.sarif import uri
from tests.advisor.report.findings.synthetic_results import failed, finding, hostile, passed

SCHEMA = json.loads((Path(__file__).parent / "sarif_schema" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))


# --- GitHub ------------------------------------------------------------------------------------------------------
def test_an_annotation_names_file_line_and_title_and_keeps_both_sentences_in_one_command():
    first = render([failed()], "github").splitlines()[0]
    assert first == ("::error file=deploy/vllm.yaml,line=7,title=SPD101 speculative-config.model::the target has "
                     "32,000 tokens, the draft 32,064%0Atake a draft of the same vocabulary")


def test_severities_become_error_warning_and_notice():
    lines = render([failed()], "github").splitlines()
    assert [line.split(" ")[0] for line in lines[:3]] == ["::error", "::warning", "::notice"]


def test_nothing_of_a_name_or_message_ends_a_property_or_begins_a_command():
    lines = render([hostile()], "github").splitlines()
    assert len(lines) == 3
    head = lines[0].split("::")[1]
    assert head.startswith("error file=dir%2C with%3Aodd%25name%0A.yaml,line=7,title=SPD101 a%3A%3Ab%2Cc%250A%0A%3A%3A")
    assert lines[2].startswith("specadvise: ")


# --- SARIF -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("results", [[failed()], [failed(), passed()], [passed()], [hostile()], []])
def test_sarif_is_valid_by_the_official_schema(results: list[CheckResult]):
    document = json.loads(render(results, "sarif"))
    jsonschema.Draft4Validator(SCHEMA).validate(document)


def test_the_schema_would_notice_a_mistake():
    document = json.loads(render([failed()], "sarif"))
    document["runs"][0]["results"][0]["level"] = "warn"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(SCHEMA).validate(document)


def test_sarif_points_at_file_and_line_and_its_rule_index_finds_the_rule():
    run = json.loads(render([failed()], "sarif"))["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    first = run["results"][0]
    assert rules[first["ruleIndex"]] == first["ruleId"] == "SPD101"
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "deploy/vllm.yaml"}, "region": {"startLine": 7}}
    assert [result["level"] for result in run["results"]] == ["error", "warning", "note", "warning"]


def test_a_suppressed_finding_is_in_sarif_as_suppressed_with_its_reason():
    results = json.loads(render([failed()], "sarif"))["runs"][0]["results"]
    assert [result["suppressions"] for result in results if "suppressions" in result] == [
        [{"kind": "inSource", "justification": "known | accepted (deploy/vllm.yaml:3)"}]]


def test_a_finding_keeps_its_fingerprint_when_its_line_moves_and_not_when_its_key_differs():
    def fingerprint(line: int, where: str) -> str:
        result = failed().model_copy(update={"findings": (finding(line=line, where=where),)})
        return json.loads(render([result], "sarif"))["runs"][0]["results"][0]["partialFingerprints"]["specadvise/v1"]

    assert fingerprint(7, "a") == fingerprint(70, "a") != fingerprint(7, "b")


@pytest.mark.parametrize(("name", "expected"), [
    ("a b/ü.yaml", "a%20b/%C3%BC.yaml"), ("./a.yaml", "a.yaml"), ("/etc/a#b.yaml", "file:///etc/a%23b.yaml"),
    ("-", "stdin"), ("a:b.yaml", "a%3Ab.yaml"), ("..\\a.yaml", "../a.yaml"),
])
def test_file_names_become_uris(name: str, expected: str):
    assert uri(name) == expected


# --- JUnit -------------------------------------------------------------------------------------------------------
def test_junit_has_a_suite_for_each_config_and_a_case_for_each_rule():
    document = JUnitXml.fromstring(render([failed(), passed()], "junit").encode())
    suites = list(document)
    assert [suite.name for suite in suites] == ["deploy/vllm.yaml", "ok.yaml"]
    assert [(suite.tests, suite.failures, suite.skipped) for suite in suites] == [(5, 1, 1), (2, 0, 0)]
    assert (document.tests, document.failures) == (7, 1)


def test_junit_fails_from_the_severity_asked_for_on():
    strict = failed().model_copy(update={"fail_on": "info"})
    cases = {case.name.split()[0]: case for case in next(iter(JUnitXml.fromstring(render([strict], "junit").encode())))}
    assert all(isinstance(cases[code].result[0], Failure) for code in ("SPD101", "SPD201", "SPD301"))
    assert isinstance(cases["SPD401"].result[0], Skipped)
    assert cases["SPD501"].result == []
    lenient = {case.name.split()[0]: case
               for case in next(iter(JUnitXml.fromstring(render([failed()], "junit").encode())))}
    assert lenient["SPD201"].result == []
    assert "k is 9" in lenient["SPD201"].system_out


def test_junit_is_well_formed_whatever_stands_in_it():
    case = next(iter(next(iter(JUnitXml.fromstring(render([hostile()], "junit").encode())))))
    assert "]]>&" in case.result[0].message
