"""JSON is the record: it comes back equal, and renders the same report."""

from __future__ import annotations

import json

import pytest

from advisor.report import formats, render
from advisor.report.reading import parse_record
from profiles.errors import InputError
from profiles.schema import SCHEMA_VERSION
from tests.advisor.report import synthetic_record as synthetic

ALL = [synthetic.enabled, synthetic.off, synthetic.abstained, synthetic.hostile]


@pytest.mark.parametrize("make", ALL)
def test_json_comes_back_as_an_equal_record(make):
    record = make()
    assert parse_record(render(record, "json"), "record.json") == record


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("format", ["text", "markdown", "html", "json"])
def test_a_saved_record_prints_what_the_run_printed(make, format):
    record = make()
    assert render(parse_record(render(record, "json"), "r"), format) == render(record, format)


def test_registry_knows_the_four_formats_and_refuses_others_by_name():
    assert set(formats()) == {"text", "markdown", "json", "html"}
    with pytest.raises(InputError, match="unknown report format 'pdf': expected one of html, json, markdown, text"):
        render(synthetic.enabled(), "pdf")


@pytest.mark.parametrize(
    ("make", "fields", "said"),
    [
        (synthetic.off, {"method": "ngram"}, "decision.enable is false, but a method or k is chosen"),
        (synthetic.enabled, {"method": None}, "decision.enable is true, but no method or no k is chosen"),
        (synthetic.enabled, {"method": "banana"}, "decision: unknown method 'banana': expected one of"),
        (synthetic.enabled, {"k": 0}, "decision.k is 0: expected a number between 1 and 64"),
        (synthetic.enabled, {"k": 1000}, "decision.k is 1000: expected"),
        (synthetic.enabled, {"speedup_low": 3, "speedup_high": 1},
         "decision: the interval of speedup, 3 to 1, is upside down"),
        (synthetic.enabled, {"probability_of_gain": 1.5},
         "decision.probability_of_gain is 1.5: expected a number of at most 1"),
        (synthetic.enabled, {"schedule": [[1, 8, 3], [5, 16, 1]]}, "decision.schedule has the band [5, 16, 1]"),
        (synthetic.enabled, {"schedule": [[1, 8, 300]]}, "decision.schedule has the band [1, 8, 300]"),
        (synthetic.enabled, {"running": 0}, "decision.running is 0"),
        (synthetic.enabled, {"speedup": 1e400}, "Infinity is no JSON number"),
        (synthetic.enabled, {"speedup": 9},
         "decision: speedup is 9, outside of its own interval: expected a number from"),
        (synthetic.enabled, {"speedup_low": -1}, "decision.speedup_low is -1: expected a number of at least 0"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(make, fields, said):
    document = json.loads(render(make(), "json"))
    document["decision"].update(fields)
    with pytest.raises(InputError) as error:
        parse_record(json.dumps(document), "r.json")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_number_beyond_all_floats_is_refused():
    text = render(synthetic.enabled(), "json").replace('"probability_of_gain": ', '"probability_of_gain": 1e400,"x":')
    with pytest.raises(InputError, match=r"r\.json: '1e400' is too large a number; write a finite one"):
        parse_record(text, "r.json")


def changed(**fields: object) -> str:
    return json.dumps({**json.loads(render(synthetic.enabled(), "json")), **fields})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            changed(schema_version=SCHEMA_VERSION + 1),
            "newer specadvise (schema_version 2, this one reads 1): upgrade specadvise",
        ),
        (
            changed(schema_version=0),
            "older specadvise (schema_version 0, this one reads 1): run `specadvise advise` again",
        ),
        (changed(schema_version="1"), "schema_version is '1', expected the number 1"),
        (changed(schema_version=True), "schema_version is True, expected the number 1"),
        (changed(decision={"enable": "maybe"}), "r.json: decision.enable is 'maybe': expected true or false"),
        (changed(surprise=1), "r.json: the record has no field 'surprise'"),
        ("{}", "is not a record"),
        ("[1]", "is not a record"),
        ("", "is not JSON (line 1, column 1"),
        ('{"decision": ', "is not JSON (line 1"),
        ('{"decision": NaN, "schema_version": 1}', "r.json: NaN is no JSON number"),
        ("[" * 100_000, "r.json: nested too deeply"),
        (b"\xff\xfe{}", "is not UTF-8 text"),
    ],
)
def test_what_is_not_a_readable_record_is_refused_in_one_sentence(text, said):
    with pytest.raises(InputError) as caught:
        parse_record(text, "r.json")
    message = str(caught.value)
    assert message.startswith("r.json")
    assert said in message
    assert "\n" not in message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("place", "value", "said"), [
    (("speedup", "value"), 99.0, "candidates[0].speedup: value is 99, outside of its own interval"),
    (("speedup", "low"), -1.0, "candidates[0].speedup: value is"),
    (("probability_of_gain",), 2, "candidates[0].probability_of_gain is 2: expected a number of at most 1"),
    (("k",), 65, "candidates[0].k is 65: expected a number of at most 64"),
    (("running",), 0, "candidates[0].running is 0: expected a number of at least 1"),
    (("draft_ms",), -3, "candidates[0].draft_ms is -3: expected a number of at least 0"),
    (("acceptance_length",), {"value": 40, "source": "assumed"},
     "candidates[0].acceptance_length is 40 with k"),
])
def test_a_priced_cell_that_cannot_be_is_refused_with_field_and_value(place, value, said):
    document = json.loads(render(synthetic.enabled(), "json"))
    cell = document["candidates"][0]
    if place == ("speedup", "low"):
        cell["speedup"]["value"] = -0.5
    for key in place[:-1]:
        cell = cell[key]
    cell[place[-1]] = value
    with pytest.raises(InputError) as error:
        parse_record(json.dumps(document), "r.json")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_counts_that_a_trial_cannot_have_seen_are_refused_in_a_record():
    document = json.loads(render(synthetic.enabled(), "json"))
    at = next(i for i, one in enumerate(document["evidence"]) if one["kind"] == "trial")
    for request in document["evidence"][at]["trial"]["arms"][1]["requests"]:
        request["accepted"] = [99, 11, 8]
    with pytest.raises(InputError, match=rf"evidence\[{at}\]: position 1: 2376 accepted of 480 drafted"):
        parse_record(json.dumps(document), "r.json")


def test_a_key_that_stands_twice_in_a_record_is_refused():
    text = render(synthetic.enabled(), "json").replace('"enable": true', '"enable": false, "enable": true', 1)
    with pytest.raises(InputError, match=r"r\.json: key 'enable' stands twice"):
        parse_record(text, "r.json")


def test_json_drives_no_terminal_and_means_the_same():
    record = synthetic.enabled()
    named = record.model_copy(update={"warnings": ("a name with \x9b31m, \x7f and \u202e in it",)})
    text = render(named, "json")
    assert not any(mark in text for mark in "\x9b\x7f\u202e")
    assert parse_record(text, "record.json") == named


@pytest.mark.parametrize("field", ["speedup", "k"])
def test_a_map_whose_rows_are_of_another_length_is_refused_in_a_sentence(field):
    document = json.loads(render(synthetic.enabled(), "json"))
    document["draft_map"]["rows"][0][field] = []
    with pytest.raises(InputError, match="every row holds one speedup and one k"):
        parse_record(json.dumps(document), "record.json")
