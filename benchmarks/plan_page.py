"""The runs that docs/plan.md shows, run again: what stands between the page's markers is written anew.

    python -m benchmarks.plan_page [plan] [speed] [--write docs/plan.md]

`plan` is the command that stands in the page, `speed` is benchmarks.simulation_speed (times of this machine: keep it
free of other work). Both by default. Without --write the blocks are printed.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "plan.md"
BLOCKS = ("plan", "speed")


def markers(name: str) -> tuple[str, str]:
    return f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"


def block(page: str, name: str) -> str:
    """What stands between a block's markers. SystemExit where the page has none."""
    begin, end = markers(name)
    found = re.search(f"{re.escape(begin)}(.*?){re.escape(end)}", page, re.DOTALL)
    if found is None:
        sys.exit(f"the page has no lines {begin.strip()} and {end}")
    return found[1]


def command_of(text: str) -> str:
    """The first indented command of a block."""
    found = re.search(r"^    ((?:specadvise|python) .+)$", text, re.MULTILINE)
    if found is None:
        sys.exit("the block shows no command: expected a line of four blanks and the command")
    return found[1]


def run_again(text: str) -> str:
    """A block's command, and what it prints now."""
    command = command_of(text)
    program, *arguments = shlex.split(command)
    module = ["-m", "advisor.cli.main"] if program == "specadvise" else []
    done = subprocess.run([sys.executable, *module, *arguments], cwd=ROOT, capture_output=True, text=True,
                          encoding="utf-8", check=False, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"})
    if done.returncode:
        sys.exit(f"`{command}` ended with status {done.returncode}: {done.stderr.strip()}")
    return f"    {command}\n\n```\n{done.stdout.rstrip()}\n```\n"


def rewritten(page: str, names: Sequence[str]) -> str:
    """The page with these blocks run again."""
    for name in names:
        begin, end = markers(name)
        old = block(page, name)
        page = page.replace(f"{begin}{old}{end}", f"{begin}{run_again(old)}{end}")
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("blocks", nargs="*", metavar="BLOCK", help=f"which to run: {', '.join(BLOCKS)}")
    parser.add_argument("--write", type=Path, help="rewrite the blocks of this page")
    given = parser.parse_args()
    unknown = set(given.blocks) - set(BLOCKS)
    if unknown:
        parser.error(f"no block {unknown.pop()!r}: expected one of {', '.join(BLOCKS)}")
    names = given.blocks or BLOCKS
    page = (given.write or PAGE).read_text(encoding="utf-8")
    new = rewritten(page, names)
    if given.write is None:
        print("\n".join(block(new, name) for name in names), end="")
    else:
        given.write.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
