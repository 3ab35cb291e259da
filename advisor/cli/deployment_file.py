"""Loads the deployment: the file, the flags over it, and one clear sentence for each thing that is wrong.

Local model folders become absolute here, so that the emitted config boots from wherever it is started.
"""

from __future__ import annotations

import difflib
import os
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from profiles import mistakes
from profiles.deployment import Candidate, Deployment
from profiles.errors import InputError
from profiles.model_ref import ModelRef
from profiles.schema import FROM_A_FILE
from profiles.yaml_lines import KeyPath, LinedYaml, read_yaml

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_SENTENCES = 12
"""More mistakes than this are counted, not listed."""


@dataclass
class Stated:
    """What the user stated: file and flags merged, and where each value was given."""

    value: dict[str, Any]
    source: LinedYaml | None = None
    flags: dict[KeyPath, str] = field(default_factory=dict)

    def where(self, path: KeyPath) -> str:
        """The flag (`--concurrency`) or `file:line` that gave the value at `path`."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.flags:
                return self.flags[path[:length]]
        if self.source is not None:
            return self.source.where(path)
        return "the command line"


def load_deployment(
    path: Path | None, flags: Mapping[KeyPath, tuple[str, Any]] | None = None, filled: list[str] | None = None
) -> Deployment:
    """The deployment of `path` (or of flags alone) with `flags` over it.

    `flags` maps the place in the file, e.g. ("engine", "max_model_len"), to the flag's name and its value; a flag wins
    over the file. Candidates that name a method of trained heads and no head get the catalog's, and a sentence about
    each goes into `filled`. Raises InputError with one sentence a mistake: file:line or flag, field, value, what was
    expected.
    """
    stated = _merge(read_yaml(path) if path is not None else None, flags or {})
    _fill_heads(stated, filled if filled is not None else [])
    try:
        deployment = Deployment.model_validate(stated.value, context=FROM_A_FILE)
    except ValidationError as error:
        sentences = list(dict.fromkeys(_sentence(detail, stated) for detail in error.errors(include_url=False)))
        if len(sentences) > MAX_SENTENCES:
            sentences = [*sentences[:MAX_SENTENCES], f"and {len(sentences) - MAX_SENTENCES} more"]
        raise InputError("\n".join(sentences)) from None
    _refuse_shadowing(deployment, stated)
    deployment = split_over_gpus(deployment)
    return with_absolute_paths(deployment, path.absolute().parent if path is not None else Path.cwd())


def _fill_heads(stated: Stated, filled: list[str]) -> None:
    """Heads from the catalog where a candidate names none; InputError where a flag asks for what the catalog lacks."""
    candidates, target = stated.value.get("candidates"), _target_of(stated)
    if not isinstance(candidates, list) or not candidates:
        return
    from advisor.cli.published_heads import fill_heads, lacking

    if target is not None:
        stated.value["candidates"], said = fill_heads(candidates, target)
        filled += said
    missing = next((name for one in stated.value["candidates"] if (name := lacking(one)) is not None), None)
    if missing is not None and stated.flags.get(("candidates",)) is not None:
        from advisor.cli.advise_flags import needs_draft

        raise InputError(needs_draft(missing, target))


def _target_of(stated: Stated) -> str | None:
    target = stated.value.get("target")
    target = target.get("id") if isinstance(target, Mapping) else target
    return target if isinstance(target, str) else None


def split_over_gpus(deployment: Deployment) -> Deployment:
    """Four GPUs without parallel sizes mean one engine over the four: layers split, as vLLM users do it first."""
    engine, count = deployment.engine, deployment.hardware.count or 1
    sizes = {"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"}
    if count <= 1 or sizes & engine.model_fields_set:
        return deployment
    return deployment.model_copy(update={"engine": engine.model_copy(update={"tensor_parallel_size": count})})


def _merge(source: LinedYaml | None, flags: Mapping[KeyPath, tuple[str, Any]]) -> Stated:
    value: Any = {} if source is None else source.value
    if source is not None and value is None:
        raise InputError(
            f"{source.name} is empty: expected at least `target: <model>`; `specadvise init` writes a file to "
            "start from"
        )
    if not isinstance(value, dict):
        assert source is not None  # noqa: S101 - without a file the value is a mapping
        raise InputError(
            f"{source.where(())}: the document is {mistakes.given(value)}: expected a mapping that starts like "
            "`target: <model>`; `specadvise init` writes a file to start from"
        )
    value = _without_empty_sections(value)
    stated = Stated(value, source, {place: name for place, (name, _) in flags.items()})
    for place, (name, given) in flags.items():
        section = value
        for part in place[:-1]:
            inner = section.setdefault(part, {})
            if not isinstance(inner, dict):
                raise InputError(
                    f"{stated.where(place[:-1])}: {mistakes.dotted(place[:-1])} is {mistakes.given(inner)}: expected a "
                    f"mapping, so that {name} can set a field in it"
                )
            section = inner
        section[place[-1]] = given
        if place == ("workload", "concurrency"):
            section.pop("arrival_rate_rps", None) if ("workload", "arrival_rate_rps") not in flags else None
        elif place == ("workload", "arrival_rate_rps"):
            # One load only may be stated: the one on the command line replaces whichever the file has.
            section.pop("concurrency", None) if ("workload", "concurrency") not in flags else None
    return stated


def _without_empty_sections(value: dict[Any, Any], place: KeyPath = ()) -> dict[Any, Any]:
    """A copy without sections left empty (`engine:` with every field commented out reads as null)."""
    kept: dict[Any, Any] = {}
    owner = _model_at(place)
    for key, inner in value.items():
        info = owner.model_fields.get(key) if owner and isinstance(key, str) else None
        if inner is None and info is not None and isinstance(info.default, BaseModel):
            continue
        if info is not None and isinstance(inner, dict):
            inner = (
                _without_empty_sections(inner, (*place, key)) if isinstance(info.default, BaseModel) else dict(inner)
            )
        kept[key] = inner
    return kept


# --- one sentence a mistake ----------------------------------------------------------------------------------------
def _sentence(detail: ErrorDetails, stated: Stated) -> str:
    place, kind = mistakes.place_of(detail), detail["type"]
    if kind == "extra_forbidden":
        owner = _model_at(place[:-1])
        names = sorted(owner.model_fields) if owner else []
        near = difflib.get_close_matches(str(place[-1]), names, n=1)
        fields = {p[-1]: mistakes.dotted(p) for p in reversed(_all_fields())}
        alike = difflib.get_close_matches(str(place[-1]), [str(name) for name in fields], n=1, cutoff=0.8)
        hint = (
            f"did you mean {near[0]!r}?"
            if near
            else f"it belongs under {fields[place[-1]]}"
            if place[-1] in fields
            else f"did you mean {fields[alike[0]]}?"
            if alike
            else f"expected one of {', '.join(names)}"
        )
        return (
            f"{stated.where(place)}: {mistakes.dotted(place[:-1]) or 'the deployment'} has no field "
            f"{str(place[-1])!r}: {hint}"
        )
    if kind == "missing":
        if place == ("target",):
            return (
                f"{stated.where(())}: no target is named: expected `target: <HF id or folder>` in the file or "
                "--target on the command line"
            )
        return (f"{stated.where(place)}: {mistakes.dotted(place)} is missing: expected "
                f"{_expected_at(place) or 'a value'}")
    said = mistakes.own_sentence(detail)
    if said is not None:
        # A validator's own sentence already names value and expectation; it needs only the place.
        said += _drafts_for(detail["input"], stated) if "needs a draft" in said else ""
        return f"{stated.where(place)}: {mistakes.dotted(place) + ': ' if place else ''}{said}"
    return (f"{stated.where(place)}: {mistakes.dotted(place)} is {mistakes.given(detail['input'])}: expected "
            f"{_expected(detail, place)}")


def _drafts_for(given: object, stated: Stated) -> str:
    """What the catalog has for the target, where a candidate lacks its draft."""
    from profiles.catalog.models import drafts_hint
    from profiles.methods import method

    named = given.get("method") if isinstance(given, Mapping) else given
    target = _target_of(stated)
    return drafts_hint(method(str(named)).name, target) if target is not None else ""


def _expected(detail: ErrorDetails, place: KeyPath) -> str:
    if detail["type"] in ("model_type", "model_attributes_type"):
        owner = _model_at(place)
        if owner is ModelRef:
            return "an HF id, a folder, or a mapping with `id`"
        if owner is Candidate:
            return "a method's name, or a mapping with `method`"
        if owner is not None:
            return f"a mapping of {', '.join(owner.model_fields)}"
    return mistakes.expected(detail)


def _expected_at(place: KeyPath) -> str:
    """The field's own docstring, first sentence: what it is for says what was expected."""
    owner = _model_at(place[:-1])
    info = owner.model_fields.get(str(place[-1])) if owner else None
    return info.description.split(". ")[0].rstrip(".") if info and info.description else ""


def _all_fields() -> list[KeyPath]:
    """The fields of every section and, after those, of the groups in it."""
    sections = [(section, name) for section in Deployment.model_fields
                if (model := _model_at((section,))) is not None for name in model.model_fields]
    return [*sections, *((*place, name) for place in sections
                         if (model := _model_at(place)) is not None for name in model.model_fields)]


def _model_at(place: KeyPath) -> type[BaseModel] | None:
    """The schema class at `place` in a deployment, None where there is none."""
    kind: Any = Deployment
    for part in place:
        if isinstance(part, int):
            continue
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)) or part not in kind.model_fields:
            return None
        kind = _innermost(kind.model_fields[part].annotation)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _innermost(annotation: Any) -> Any:
    """`X` of `X | None` and of `tuple[X, ...]`."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType, tuple):
        inner = [a for a in typing.get_args(annotation) if a is not type(None) and a is not Ellipsis]
        return _innermost(inner[0]) if inner else annotation
    return annotation


# --- what a valid file may still get wrong -------------------------------------------------------------------------
def _refuse_shadowing(deployment: Deployment, stated: Stated) -> None:
    """`extra_args` may not repeat what is stated elsewhere or what this tool decides; nothing may carry secrets."""
    from advisor.emit.options import NOT_TO_BE_WRITTEN, carries_secret, misplaced_option

    for name, value in deployment.engine.env.items():
        if carries_secret(name, value):
            raise InputError(
                f"{stated.where(('engine', 'env', name))}: engine.env.{name} is a secret: it would stand in every "
                "file written; set it in the server's environment instead and remove it here"
            )
    for name, value in deployment.engine.extra_args.items():
        problem = misplaced_option(name) or (NOT_TO_BE_WRITTEN if carries_secret(name, value) else None)
        if problem is not None:
            place: KeyPath = ("engine", "extra_args", name)
            raise InputError(f"{stated.where(place)}: {mistakes.dotted(place)}: {problem}")


def with_absolute_paths(deployment: Deployment, base: Path) -> Deployment:
    """The deployment with folders and files under `base` (or in the home folder) named by absolute paths.

    A model's id stays an id unless a folder of that name is there; prompts, evidence and dumps are always files.
    """

    def file(name: str) -> str:
        return os.path.abspath(base / os.path.expanduser(name))

    trial, sources = deployment.trial, deployment.sources
    server = sources.server
    if server is not None and "://" not in server and (base / os.path.expanduser(server)).exists():
        server = file(server)
    return deployment.model_copy(
        update={
            "target": _absolute(deployment.target, base),
            "candidates": tuple(
                c.model_copy(update={"draft": _absolute(c.draft, base)}) if c.draft else c
                for c in deployment.candidates
            ),
            "trial": trial.model_copy(update={"prompts": file(trial.prompts)}) if trial.prompts else trial,
            "sources": sources.model_copy(update={
                "files": tuple(map(file, sources.files)), "recordings": tuple(map(file, sources.recordings)),
                "requests": tuple(map(file, sources.requests)), "server": server}),
        }
    )


def _absolute(ref: ModelRef, base: Path) -> ModelRef:
    try:
        # Not resolved: a link such as models/current is the user's name for what is behind it.
        folder = Path(os.path.abspath(base / os.path.expanduser(ref.id)))
        if not folder.is_dir():
            return ref
    except (OSError, RuntimeError, ValueError):
        # Not a path this system can even ask about (too long, no such home): then it is an id.
        return ref
    return ref.model_copy(update={"id": str(folder)})
