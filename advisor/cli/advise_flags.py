"""What the flags of `advise` mean in a deployment: each flag is a place in the file, and wins over it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from profiles.errors import InputError
from profiles.schema import shown
from profiles.yaml_lines import KeyPath

Flags = dict[KeyPath, tuple[str, Any]]

_PLACES: dict[str, tuple[KeyPath, str]] = {
    "target": (("target",), "--target"),
    "gpu": (("hardware", "gpu"), "--gpu"),
    "gpus": (("hardware", "count"), "--gpus"),
    "vllm_version": (("engine", "vllm_version"), "--vllm-version"),
    "tensor_parallel_size": (("engine", "tensor_parallel_size"), "--tensor-parallel-size"),
    "max_model_len": (("engine", "max_model_len"), "--max-model-len"),
    "max_num_seqs": (("engine", "max_num_seqs"), "--max-num-seqs"),
    "gpu_memory_utilization": (("engine", "gpu_memory_utilization"), "--gpu-memory-utilization"),
    "concurrency": (("workload", "concurrency"), "--concurrency"),
    "rate": (("workload", "arrival_rate_rps"), "--rate"),
    "prompt_len": (("workload", "prompt_tokens"), "--prompt-len"),
    "output_len": (("workload", "output_tokens"), "--output-len"),
    "task": (("workload", "tasks"), "--task"),
    "goal": (("objective", "goal"), "--goal"),
    "worthwhile_gain": (("objective", "worthwhile_gain"), "--worthwhile-gain"),
    "trial": (("trial", "enabled"), "--trial"),
    "budget": (("trial", "budget_s"), "--budget"),
    "prompts": (("trial", "prompts"), "--prompts"),
    "server": (("sources", "server"), "--server"),
}


def prompts_file(name: str) -> str:
    """The absolute path of a file of prompts; InputError where there is none, also for a run that would not read it."""
    path = os.path.abspath(os.path.expanduser(name))
    if not os.path.exists(path) or os.path.isdir(path):
        raise InputError(f"--prompts {shown(name)}: there is no such file; name a JSONL file with one prompt a line, "
                         "or leave it out for the built-in prompts")
    return path


def flags_of(given: dict[str, Any]) -> Flags:
    """The flags that were given, each at its place in a deployment, under the name to use in messages."""
    flags: Flags = {}
    for name, (place, flag) in _PLACES.items():
        value = given.get(name)
        if value is None or value == ():
            continue
        if name == "task":
            value = list(value)
        elif name == "prompts":
            value = prompts_file(value)
        elif name == "trial" and value is False:
            flag = "--no-trial"
        flags[place] = (flag, value)
    if given.get("temperature") is not None:
        flags[("workload", "sampling", "temperature")] = ("--temperature", given["temperature"])
    if given.get("concurrency") is not None and given.get("rate") is not None:
        raise InputError("both --concurrency and --rate are given: state one, the other follows from it")
    candidates = candidates_of(given.get("method") or (), given.get("draft") or (), given.get("k"), given.get("target"))
    if candidates:
        flags[("candidates",)] = ("--method" if given.get("method") else "--draft", candidates)
    return flags


def candidates_of(
    methods: Sequence[str], drafts: Sequence[str], k: str | None, target: str | None = None
) -> list[dict[str, Any]]:
    """Candidates from --method, --draft and --k; they replace those of the file.

    A draft goes to the one method given that needs a draft; without one, to the method its catalog entry says, or to
    draft_model. Methods that need no draft stand by themselves, and so do methods of trained heads without one: the
    heads are looked up in the catalog once the target is known (`load_deployment`).
    """
    from profiles.methods import METHODS, method

    described = []
    for name in methods:
        try:
            described.append(method(name))
        except KeyError as error:
            raise InputError(f"--method: {error.args[0]}") from None
    needing = [m.name for m in described if m.needs_draft]
    alone = [m.name for m in described if not m.needs_draft and m.name != "none"]
    found: list[dict[str, Any]] = []
    for draft in drafts:
        if len(needing) > 1:
            raise InputError(
                f"--draft {draft} could go to each of {', '.join(needing)}: give one method that needs a draft, "
                "or state the pairs under `candidates` in a deployment file"
            )
        found.append({"method": needing[0] if needing else _method_of(draft), "draft": _where(draft)})
    if needing and not drafts:
        from advisor.cli.published_heads import trained_head_methods

        for name in needing:
            if name not in trained_head_methods():
                raise InputError(needs_draft(name, target))
            found.append({"method": name})
    found += [{"method": name} for name in alone]
    if described and not found:
        # `none` alone: nothing is to be proposed either.
        found.append({"method": "none"})
    if k is not None:
        for candidate in found:
            candidate["k"] = _ks(k)
    assert all(candidate["method"] in METHODS for candidate in found)  # noqa: S101 - names come from the registry
    return found


def needs_draft(name: str, target: str | None) -> str:
    """The sentence for a method given by --method without a draft, with what the catalog has for the target."""
    from profiles.catalog.models import drafts_hint

    return f"--method {name} needs a draft: name it with --draft{drafts_hint(name, target) if target else ''}"


def _method_of(draft: str) -> str:
    from profiles.catalog.models import find_head
    from profiles.methods import METHODS

    head = find_head(draft)
    if head is None:
        return "draft_model"
    if head.method not in METHODS:
        raise InputError(f"--draft {draft} is a {head.method} head: vLLM has no such method; choose another draft")
    return head.method


def _where(draft: str) -> str:
    """A folder given on the command line is relative to the working folder, not to the deployment file."""
    folder = Path(os.path.expanduser(draft))
    try:
        return os.path.abspath(folder) if folder.is_dir() else draft
    except OSError:
        return draft


def ks_of(text: str) -> tuple[int, ...]:
    """Numbers of speculative tokens of `--k`, where no candidate is named that could carry them. InputError where they
    are none."""
    from pydantic import ValidationError

    from profiles.deployment import Candidate

    try:
        return Candidate.model_validate({"method": "ngram", "k": _ks(text)}).k
    except ValidationError:
        raise InputError(
            f"--k is {text!r}: expected numbers from 1 to 64, a list like 1,3,5 or a range like 1-5"
        ) from None


def _ks(text: str) -> Any:
    """`3`, `1-5` or `1,3,5` as a deployment states it."""
    if "," in text:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        # Three digits are out of bounds already, which the deployment says better than an overflow.
        if not all(re.fullmatch("[0-9]{1,9}", part) for part in parts):
            raise InputError(f"--k is {shown(text)}: expected a number, a list like 1,3,5 or a range like 1-5")
        return [int(part) for part in parts]
    return text
