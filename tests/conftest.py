"""What every test shares."""

from __future__ import annotations

from hypothesis import settings

# Tests never judge by time: a busy machine is not a fault of the code. And one tree gives one answer: a run repeats the
# examples of the run before it. `pytest --hypothesis-profile=explore` looks for new ones.
settings.register_profile("any_machine", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("any_machine")
