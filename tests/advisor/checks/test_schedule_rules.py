"""What the rules on schedules say to do fits what they found."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.checks.examples import subject_of
from advisor.checks.rule import Example
from advisor.checks.rules.schedule import _EAGLE3
from advisor.checks.run import run


def remedy(schedule: list[list[int]], **more: Any) -> str:
    (found,) = [one for one in run(subject_of(Example(f"{_EAGLE3}{schedule}\n", "0.32.0", "H100", **more)))
                if one.code == "SPD362"]
    return found.remedy


@pytest.mark.parametrize(("schedule", "more", "said"), [
    ([[1, 16, 3], [17, 32, 1]], {}, "Say what holds for 33 to 64: end the last band there ([17, 64, 1]), or add one "
                                    "([33, 64, 0] drafts nothing)."),
    ([[1, 16, 5], [17, 64, 1]], {}, "Raise num_speculative_tokens to 5, or ask for no more than 3 in any band."),
    ([[1, 16, 3], [17, 64, 1]], {"workload": {"concurrency": 18}},
     "Move that threshold a fifth of the load or more away from 18, to one side."),
])
def test_each_fault_of_a_schedule_has_its_own_remedy(schedule: list[list[int]], more: dict[str, Any],
                                                     said: str) -> None:
    assert remedy(schedule, **more) == said
