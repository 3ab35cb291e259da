"""Saved evidence with numbers that cannot be, or of another kind than it says, is refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.evidence_file import load_evidence
from profiles.errors import InputError
from profiles.schema import Quantity, Source

QUANTITY = {"value": 4.0, "source": "recorded"}
SPECULATION = {"enabled": True, "drafts": 10, "draft_tokens": 30, "accepted_tokens": 15, "per_position": [0.9, 0.6],
               "acceptance_length": 2.5}


def document(**server: Any) -> dict[str, Any]:
    section = {"url": "http://h/metrics", "engine": "vllm", "models": ["m"], "window_s": 15, "running": QUANTITY,
               "waiting": None, "kv_cache_usage": None, "speculation": SPECULATION, **server}
    return {"schema_version": 1, "kind": "server", "collected_at": "", "tool_version": "0", "command": "",
            "server": section}


def saved(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "e.json"
    path.write_text(text)
    return path


def test_what_a_probe_writes_is_read(tmp_path: Path) -> None:
    assert load_evidence(saved(tmp_path, json.dumps(document()))).server is not None


@pytest.mark.parametrize(
    ("server", "place"),
    [
        ({"running": {**QUANTITY, "value": -4}}, "server.running"),
        ({"running": {**QUANTITY, "value": 1e300}}, "server.running.value is 1e+300"),
        ({"running": {**QUANTITY, "value": True}}, "server.running.value is true"),
        ({"running": {**QUANTITY, "n": -1}}, "server.running.n is -1"),
        ({"kv_cache_usage": {**QUANTITY, "value": 1.5}}, "server.kv_cache_usage"),
        ({"prefix_cache_hit_rate": 2}, "server.prefix_cache_hit_rate is 2"),
        ({"window_s": 1e9}, "server.window_s is 1000000000.0"),
        ({"prompt_tokens": {"mean": 5, "p50": 9, "p99": 2}}, "server.prompt_tokens"),
        ({"speculation": {**SPECULATION, "acceptance_length": 0.5}}, "server.speculation.acceptance_length is 0.5"),
        ({"speculation": {**SPECULATION, "drafts": -1}}, "server.speculation.drafts is -1"),
        ({"engine_version": ["x" * 5000]}, "server.engine_version"),
    ],
)
def test_an_impossible_number_is_refused_with_its_place(tmp_path: Path, server: dict[str, Any], place: str) -> None:
    with pytest.raises(InputError) as error:
        load_evidence(saved(tmp_path, json.dumps(document(**server))))
    assert place in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize("counts", [{"per_position": [3.0, 0.1]},
                                    {"accepted_tokens": 90}, {"per_position": [0.2, 0.9]}])
def test_counters_that_cannot_be_are_said_and_bring_no_acceptance(tmp_path: Path, counts: dict[str, Any]) -> None:
    found = load_evidence(saved(tmp_path, json.dumps(document(speculation={**SPECULATION, **counts}))))
    assert found.server is not None
    assert found.server.speculation is not None
    assert len(found.implausible) == 1
    assert "this acceptance is not used" in found.implausible[0].message
    assert found.server.speculation.acceptance_length is None
    assert found.server.speculation.per_position == ()


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e400", "9" * 5000])
def test_a_number_that_is_not_finite_is_refused(tmp_path: Path, value: str) -> None:
    text = json.dumps(document()).replace('"value": 4.0', f'"value": {value}')
    with pytest.raises(InputError) as error:
        load_evidence(saved(tmp_path, text))
    assert len(str(error.value)) < 600


@pytest.mark.parametrize("change", [{"kind": "gpu"}, {"gpu": {}}, {"kind": "trial", "server": None}])
def test_evidence_of_another_kind_than_its_section_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected the section of that kind and no other"):
        load_evidence(saved(tmp_path, json.dumps({**document(), **change})))


@pytest.mark.parametrize(("change", "said"), [
    ({"collected_at": "1999-01-01T00:00:00Z"}, "collected_at: '1999-01-01T00:00:00Z' is before 2020"),
    ({"collected_at": "9999-01-01T00:00:00Z"}, "collected_at is 9999-01-01T00:00:00Z, and this machine's clock says"),
    ({"collected_at": "yesterday"}, "collected_at: 'yesterday' is no time"),
    ({"server": {**document()["server"], "running": {**QUANTITY, "low": 5, "high": 6}}},
     "server.running: value is 4, outside of its own interval: expected a number from 5 to 6"),
    ({"server": {**document()["server"], "prompt_tokens": {"mean": 900, "max": 20}}},
     "server.prompt_tokens: mean is 900 and max is 20"),
])
def test_what_cannot_be_true_together_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        load_evidence(saved(tmp_path, json.dumps({**document(), **change})))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    text = json.dumps(document()).replace('"kind": "server"', '"kind": "trial", "kind": "server"', 1)
    with pytest.raises(InputError, match="key 'kind' stands twice"):
        load_evidence(saved(tmp_path, text))


def test_what_was_just_measured_is_written_down_as_it_was_seen() -> None:
    """A median may lie outside of an interval that few requests give: no reason to lose the measurement."""
    assert Quantity(value=4, low=5, high=6, source=Source.MEASURED).value == 4
