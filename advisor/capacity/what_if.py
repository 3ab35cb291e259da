"""What-ifs: one registry of the things that can be changed in a deployment, and what each leaves of the evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from advisor.situation import Situation
from profiles.catalog.models import find_head, quantized
from profiles.catalog.quantization import Quantization, quantization_of_name, read_quantization
from profiles.deployment import Deployment
from profiles.errors import InputError
from profiles.evidence import Evidence, TrialEvidence
from profiles.mistakes import first_mistake
from profiles.once import once
from profiles.schema import shown


def _same(situation: Situation, value: str) -> Situation:
    return situation


@dataclass(frozen=True)
class Change:
    """One kind of what-if: what it makes of the deployment as stated, and of the situation found for it."""

    name: str
    title: str
    example: str
    deployment: Callable[[dict[str, Any], str], None]
    """Changes the deployment's document in place. InputError for a value that means nothing."""
    situation: Callable[[Situation, str], Situation] = _same
    keeps_timings: bool = True
    """False where step times measured before say nothing afterwards; acceptance stays."""


def _set(*place: str, whole: bool = False) -> Callable[[dict[str, Any], str], None]:
    def change(document: dict[str, Any], value: str) -> None:
        section = document
        for key in place[:-1]:
            section = section.setdefault(key, {})
        section[place[-1]] = _whole(".".join(place), value) if whole else value

    return change


def _whole(name: str, value: str) -> int:
    if not re.fullmatch("[0-9]{1,8}", value) or int(value) < 1:
        raise InputError(f"--what-if: {name} is {shown(value)}: expected a whole number of at least 1")
    return int(value)


def _gpu(document: dict[str, Any], value: str) -> None:
    # Whatever else is stated of the hardware was stated of the card that is changed.
    kept = {name: stated for name, stated in document.get("hardware", {}).items() if name == "count"}
    document["hardware"] = {"gpu": value, **kept}


def _gpus(document: dict[str, Any], value: str) -> None:
    document.setdefault("engine", {})["tensor_parallel_size"] = _whole("gpus", value)
    document.setdefault("hardware", {}).pop("count", None)


def _draft(document: dict[str, Any], value: str) -> None:
    head = find_head(value)
    document["candidates"] = [{"method": head.method if head is not None else "draft_model", "draft": value}]


def _times(kind: str) -> Callable[[dict[str, Any], str], None]:
    """Lengths times a factor (`2x`), or with a stated mean."""

    def change(document: dict[str, Any], value: str) -> None:
        lengths = document["workload"].get(kind)
        if lengths is None:
            raise InputError(f"--what-if: the deployment states no workload.{kind} that could be changed: state it")
        match = re.fullmatch(r"([0-9]{1,8}(?:\.[0-9]{1,3})?)(x?)", value.lower())
        amount = float(match[1]) if match else 0.0
        if match is None or amount <= 0:
            raise InputError(f"--what-if: {kind} is {shown(value)}: expected a factor like 2x, or a mean in tokens")
        factor = amount if match[2] else amount / float(lengths["mean"])
        document["workload"][kind] = {name: number * factor for name, number in lengths.items() if number is not None}
        limit = document.get("engine", {}).get("max_model_len")
        if limit is not None and factor > 1:
            document["engine"]["max_model_len"] = int(limit * factor)

    return change


def _quantization(document: dict[str, Any], value: str) -> None:
    _format(value)


def _format(value: str) -> Quantization:
    known = quantization_of_name(f"model-{value}")
    if known is not None:
        return known[1]
    found = read_quantization({"quant_method": value.lower()})
    if found is None or found.note.startswith("quantization method"):
        raise InputError(f"--what-if: quantization is {shown(value)}: expected one like fp8, awq, gptq-int4, nvfp4")
    return found


def _quantized(situation: Situation, value: str) -> Situation:
    """The target with its matrices in another format."""
    return replace(situation, target=quantized(situation.target, _format(value)))


CHANGES: dict[str, Change] = {
    change.name: change
    for change in (
        Change("gpu", "another GPU", "gpu=H200", _gpu, keeps_timings=False),
        Change("gpus", "the target split over so many GPUs", "gpus=2", _gpus, keeps_timings=False),
        Change("draft", "another draft", "draft=org/name", _draft),
        Change("quantization", "the target's weights in another format", "quantization=fp8", _quantization,
               _quantized, keeps_timings=False),
        Change("kv_cache_dtype", "the KV cache in another format", "kv_cache_dtype=fp8",
               _set("engine", "kv_cache_dtype"), keeps_timings=False),
        Change("context", "longer or shorter prompts", "context=2x", _times("prompt_tokens")),
        Change("output", "longer or shorter outputs", "output=2x", _times("output_tokens")),
        Change("max_num_seqs", "another limit of requests in a step", "max_num_seqs=128",
               _set("engine", "max_num_seqs", whole=True)),
    )
}


def parse_change(text: str) -> tuple[tuple[Change, str], ...]:
    """`gpu=H200` or `gpu=H200,context=2x`: the changes of one what-if. InputError names the known ones."""

    def pairs() -> Iterator[tuple[str, str]]:
        for part in text.split(","):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if name not in CHANGES or not equals or not value:
                raise InputError(f"--what-if {shown(text)}: {shown(part)} is no change: expected one of "
                                 f"{', '.join(change.example for change in CHANGES.values())}")
            yield name, value

    return tuple((CHANGES[name], value) for name, value in once(f"--what-if {shown(text)}", pairs()).items())


def changed_deployment(deployment: Deployment, changes: tuple[tuple[Change, str], ...]) -> Deployment:
    """The deployment as it would be stated. InputError where a value means nothing."""
    from pydantic import ValidationError

    document = deployment.model_dump(mode="json", exclude_unset=True)
    document.setdefault("workload", {})
    for change, value in changes:
        change.deployment(document, value)
    try:
        return Deployment.model_validate(document)
    except ValidationError as error:
        raise InputError(f"--what-if: {first_mistake(error)}; see `specadvise plan --help`") from error


def changed_situation(situation: Situation, changes: tuple[tuple[Change, str], ...]) -> tuple[Situation, list[str]]:
    """The situation found for the changed deployment, with what the changes leave of the evidence, and notes."""
    notes: list[str] = []
    for change, value in changes:
        situation = change.situation(situation, value)
    if not all(change.keeps_timings for change, _ in changes) and situation.trial is not None:
        situation = replace(situation, evidence=tuple(_without_timings(e) for e in situation.evidence))
        notes.append("step times of the trial do not carry over and are modelled; its acceptance is kept")
    return situation, notes


def _without_timings(evidence: Evidence) -> Evidence:
    """The same evidence with what the trial measured of this hardware taken out: acceptance travels, time does not."""
    trial = evidence.trial
    if trial is None:
        return evidence
    bare: TrialEvidence = trial.model_copy(update={
        "arms": tuple(
            arm.model_copy(update={"steps": (), "prefill": (), "blocks": (), "kv_cache_tokens": None,
                                   "model_memory_bytes": None})
            for arm in trial.arms
        ),
        "comparison": None,
    })
    return evidence.model_copy(update={"trial": bare})
