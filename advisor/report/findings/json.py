"""JSON: one object for one config, a list of them for several."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from advisor.checks.finding import CheckResult
from profiles.printable import escaped


def render(results: Sequence[CheckResult], *, width: int | None = None, color: bool = False) -> str:
    """The results as scripts read them."""
    documents: list[Any] = [result.model_dump(mode="json") for result in results]
    return escaped(json.dumps(documents[0] if len(documents) == 1 else documents, indent=2, ensure_ascii=False))
