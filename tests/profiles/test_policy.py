"""The policy file's shape: what it takes, and what it refuses."""

from __future__ import annotations

from datetime import date

import pytest
from pydantic import ValidationError

from profiles.policy import Policy


def test_every_section_may_be_left_out_or_empty():
    assert Policy.model_validate({}) == Policy.model_validate({"severities": None, "ignore": None}) == Policy()


def test_codes_are_read_in_any_case_and_days_as_yaml_gives_them():
    policy = Policy.model_validate({"ignore": [{"code": "spd104", "reason": " x ", "until": date(2027, 1, 31)}]})
    (entry,) = policy.ignore
    assert (entry.code, entry.reason, entry.until) == ("SPD104", "x", date(2027, 1, 31))


@pytest.mark.parametrize("document", [
    {"severities": {"SPD1": "warn"}}, {"severities": {"SPD104": "fatal"}}, {"severities": {"SPD104": True}},
    {"ignore": [{"code": "SPD104"}]}, {"ignore": [{"code": "SPD104", "reason": "  "}]},
    {"ignore": [{"code": "SPD104", "reason": "x", "until": "31.01.2027"}]},
    {"ignore": [{"code": "SPD104", "reason": "x", "until": 20270131}]},
    {"ignore": [{"code": "SPD104", "reason": "x", "untill": "2027-01-31"}]}, {"rules": {}},
])
def test_what_is_no_decision_is_refused(document: object):
    with pytest.raises(ValidationError):
        Policy.model_validate(document)
