"""Times as logs write them: ISO texts, and numbers whose size tells seconds from milli-, micro- and nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from probes.requests.shapes import SECONDS, Unit, number

EPOCH_FROM_S = 631_152_000.0
"""1990-01-01: numbers of seconds above it are dates, below it the time since a start."""
BEYOND_S = 9.2e12
"""Times that no 64-bit count of microseconds holds."""
_SIZES = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))


def unit_by_size(values: Sequence[Any]) -> Unit:
    """The unit that makes dates of large numbers; seconds for small ones. One value that is off decides nothing."""
    sizes = sorted(abs(v) for one in values if (v := number(one)) is not None)
    middle = sizes[len(sizes) // 2] if sizes else 0.0
    for least, unit in _SIZES:
        if middle >= least:
            return unit  # type: ignore[return-value]
    return "s"


def moment(value: Any, unit: str = "time") -> float | None:
    """Seconds: since 1970 (UTC, also for texts that state no zone) for dates, since the log's start otherwise."""
    found = number(value)
    if found is not None:
        return found * SECONDS[unit_by_size((found,)) if unit == "time" else unit]
    if not isinstance(value, str):
        return None
    value = re.sub(r"(\d),(\d)", r"\1.\2", value)
    text = re.sub(r"(\.\d{6})\d+", r"\1", value.strip().replace("Z", "+00:00").replace("z", "+00:00"))
    text = re.sub(r"\.(\d{1,5})(?=\D|$)", lambda m: "." + m[1].ljust(6, "0"), text)
    text = re.sub(r"([+-]\d\d)$", r"\1:00", text) if len(text) > 16 else text
    text = re.sub(r"\s+UTC$|\s+GMT$", "+00:00", text)
    for form in (None, "%d/%b/%Y:%H:%M:%S %z", "%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S%z",
                 "%Y/%m/%d %H:%M:%S", "%m/%d/%Y %H:%M:%S"):
        try:
            when = datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)
        except ValueError:
            continue
        try:
            return (when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp()
        except (OverflowError, OSError, ValueError):
            return None
    return None
