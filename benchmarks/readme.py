"""The command that the README shows for advice without an engine: what is timed and tested is what people copy."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def advise_flags() -> list[str]:
    """The README's flags of `specadvise advise`, without where the files go."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    command = re.search(r"specadvise advise (--target (?:.*\\\n)*.*)", text)
    assert command is not None, "README.md shows no `specadvise advise --target ...`"
    flags = shlex.split(command.group(1).replace("\\\n", " "))
    out = flags.index("--out")
    return flags[:out] + flags[out + 2 :]
