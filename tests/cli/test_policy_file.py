"""The policy file is found as linters find theirs, and each mistake in it is said with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.cli.policy_file import find_policy, load_policy
from profiles.errors import InputError


def test_the_nearest_policy_above_a_config_is_taken(tmp_path: Path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / ".specadvise.yaml").write_text("")
    assert find_policy(inner) == tmp_path / ".specadvise.yaml"
    (tmp_path / "a" / ".specadvise.yaml").write_text("")
    find_policy.cache_clear()
    assert find_policy(inner) == tmp_path / "a" / ".specadvise.yaml"


def test_a_repositorys_root_is_the_last_folder_looked_in(tmp_path: Path):
    inner = tmp_path / "repository" / "deploy"
    inner.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    (tmp_path / ".specadvise.yaml").write_text("")
    assert find_policy(inner) is None


def test_places_of_entries_are_known(tmp_path: Path):
    path = tmp_path / "p.yaml"
    path.write_text("severities:\n  spd305: off\nignore:\n- code: SPD104\n  reason: x\n")
    policy = load_policy(path, "p.yaml")
    assert policy.where("severities", "SPD305") == "p.yaml:2"
    assert policy.where("ignore", 0) == "p.yaml:4"
    assert policy.policy.severities == {"SPD305": "off"}


@pytest.mark.parametrize(("text", "message"), [
    ("- a\n", "p.yaml:1: the policy is a list: expected a mapping"),
    ("ignore:\n- code: SPD104\n", "p.yaml:2: ignore[0].reason is missing: every ignore needs a code and a reason"),
    ("ignore:\n- code: 104\n  reason: x\n", "p.yaml:2: ignore[0].code is 104: expected text"),
    ("ignore:\n- code: X104\n  reason: x\n", "p.yaml:2: 'X104' is no rule's code: expected SPD and three digits"),
    ("ignore:\n- code: SPD104\n  reason: x\n  till: 1\n",
     "p.yaml:4: the policy has no field 'till': expected code, reason, until or paths"),
    ("ignored: []\n", "p.yaml:1: the policy has no field 'ignored': expected severities or ignore"),
    ("severities:\n  SPD104: fatal\n", "p.yaml:2: severities.SPD104 is 'fatal': expected"),
    ("severities:\n  SPD1: warn\n", "p.yaml:2: 'SPD1' is no rule's code"),
    ("ignore:\n- code: SPD104\n  reason: x\n  until: soon\n", "p.yaml:4: ignore[0].until is 'soon': expected a day"),
    ("ignore: [", "not valid YAML"),
])
def test_each_mistake_is_said_with_its_line(tmp_path: Path, text: str, message: str):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_policy(path, "p.yaml")
    assert message in str(caught.value)
