"""What a case's `task` says of its text: the data set in one spelling, and the family that a known data set is of."""

from __future__ import annotations

import re
from functools import lru_cache

from profiles.workload import Task, parse_task

_FAMILIES: dict[Task, tuple[str, ...]] = {
    Task.CODE: ("humaneval", "mbpp", "livecodebench", "instructcoder", "bigcodebench", "codeforces"),
    Task.MATH: ("gsm8k", "math500", "aime", "minervamath", "aqua"),
    Task.CHAT: ("mtbench", "alpaca", "sharegpt", "naturalquestions", "lmsyschat", "wildchat", "arenahard", "ultrachat",
                "dolly", "financeqa"),
    Task.SUMMARIZATION: ("cnndm", "cnndailymail", "dailymail", "xsum", "govreport"),
    Task.TRANSLATION: ("wmt", "flores"),
    Task.REASONING: ("gpqa", "mmlu"),
    Task.RAG_LONG_CONTEXT: ("nqdpr", "longbench", "pg19", "hotpotqa"),
    Task.AGENT: ("swebench", "gaia", "bfcl"),
    Task.MIXED: ("specbench",),
}
"""Families by how the names of their data sets begin, as papers and benchmarks call them."""


@lru_cache(maxsize=16384)
def dataset_of(task: str | None) -> str:
    """A data set's name in one spelling: `code/HumanEval` and `humaneval` are the same.

    Empty where none is named: a task that only repeats a family's name says no more than the family does.
    """
    if not task:
        return ""
    last = re.sub(r"\(.*?\)", "", task).split(",")[0].strip().rsplit("/", 1)[-1]
    try:
        parse_task(last)
    except ValueError:
        return _squeezed(last)[:24]
    return ""


def _squeezed(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


@lru_cache(maxsize=16384)
def family_of(*texts: str | None) -> Task | None:
    """The task's family: the first of the texts that says one, else the one whose data set a text names."""
    for text in texts:
        for part in (text, re.split(r"[/:(]", text)[0]) if text else ():
            try:
                return parse_task(part)
            except ValueError:
                continue
    for text in texts:
        for name in (dataset_of(text), _squeezed(text)) if text else ():
            for family, beginnings in _FAMILIES.items():
                if name.startswith(beginnings):
                    return family
    return None
