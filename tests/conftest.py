"""What every test shares."""

from __future__ import annotations

from hypothesis import settings

# Tests never judge by time: a busy machine is not a fault of the code.
settings.register_profile("any_machine", deadline=None)
settings.load_profile("any_machine")
