"""One line of a cases file: what was stated about a setup, read strictly enough that no odd value is priced.

A null is unknown and gets assumed later; a value that cannot be is refused with a sentence, and the line's prediction
carries that sentence instead of numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from advisor.cases.names import DRAFT_B, MODEL_B
from advisor.cases.stated import stated_acceptance
from advisor.cases.texts import family_of
from profiles.errors import InputError
from profiles.json_text import json_problem
from profiles.methods import METHODS, method
from profiles.schema import MAX_TEMPERATURE
from profiles.workload import Task

MOST_K = 128
"""No engine drafts more in a step: suffix trees end at 24 to 64, block drafts at 16; verifying more pays nowhere."""
MOST_TOKENS = 4_000_000
MOST_RUNNING = 65_536
LEAST_LOAD = 1e-6
"""Requests at once or a second: a request in eleven days is no load that anybody measured."""
LEAST_SPEEDUP = 0.01
"""No engine becomes a hundred times slower and stays in service."""
MOST_POINTS = 64
"""Local measurements of one setup: no sweep has more loads and k than that."""
LONGEST_TEXT = 300
"""Characters of a name: no model, card or data set is called more."""
LONGEST_LINE = 1_000_000
"""Characters of a case's line; one of every field takes under a thousand."""
NO_TEXT = "surrogateescape"
"""How bytes that are not UTF-8 are kept in a line, so that it is refused alone."""
_NO_UTF8 = re.compile("[\udc80-\udcff]")
_SHOWN = 60
_OWN_LAYERS = re.compile(r"built-?in|native", re.IGNORECASE)
_ROUNDED_UP = 1.03
"""Beyond k + 1 by so much a measured speed-up may be noise; by more it is of another setup."""

LOAD_KINDS = ("batch_size", "concurrency", "qps")
FIELDS = frozenset({
    "id", "gpu", "n_gpus", "tensor_parallel", "target", "target_params_b", "active_params_b", "draft", "draft_params_b",
    "method", "engine", "engine_version", "dtype", "quantization", "k", "tree", *LOAD_KINDS, "temperature", "task",
    "task_family", "prompt_len", "output_len", "metric", "mean_acceptance_length", "per_position_acceptance",
    "measured",
})
"""Every field that is read; docs/predict.md says what each means."""

# Methods that published measurements name and vLLM does not: each behaves like the nearest one it has.
_ALIKE = {"eagle2": "eagle", "lookahead": "ngram", "pard": "draft_model", "p-eagle": "eagle3", "dflash2": "dflash",
          "hydra": "medusa", "suffix_decoding": "suffix", "prompt-lookup": "ngram", "nextn": "mtp"}


@dataclass(frozen=True)
class LocalPoint:
    """One local measurement of the case's own setup: a load, a k and the speed-up there."""

    load_kind: str
    load_value: float
    k: int
    speedup: float


class Doubled(dict[str, Any]):
    """A JSON object in which a key stands twice: which of its values was meant, nobody can tell."""

    key = ""
    """The last such key."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__()
        for name, value in pairs:
            self.key = name if name in self else self.key
            self[name] = value


def _refuse_doubled(found: object) -> None:
    if isinstance(found, Doubled):
        raise InputError(f"key {_shown(found.key)} stands twice in the same object: expected each once; keep the one "
                         "that is meant")


@dataclass(frozen=True)
class Case:
    """A setup to predict. None is unknown. Lengths are tokens, parameters are billions (10^9)."""

    id: Any
    gpu: str | None
    n_gpus: int | None
    tensor_parallel: int | None
    target: str | None
    target_params_b: float | None
    active_params_b: float | None
    draft: str | None
    draft_params_b: float | None
    method: str
    engine: str
    engine_version: str | None
    dtype: str | None
    quantization: str | None
    k: int | None
    tree: bool
    load_kind: str | None
    load_value: float | None
    temperature: float | None
    task: str | None
    family: Task | None
    prompt_len: float | None
    output_len: float | None
    metric: str | None
    acceptance_length: float | None
    """Tokens per step, bonus included, at most k + 1: from mean_acceptance_length, else per_position_acceptance."""
    acceptance_log_sd: float
    """How far it may be off where what was stated contradicts itself (log); 0 where it does not."""
    measured: tuple[LocalPoint, ...]
    notes: tuple[str, ...] = ()
    """What was stated and cannot be meant quite so, and what is taken instead."""

    @property
    def drafts_itself(self) -> bool:
        """Whether the target's own multi-token-prediction layers draft, not those of a checkpoint beside it."""
        own = self.draft is None or _OWN_LAYERS.search(self.draft) is not None
        return own and method(self.method).drafter == "native"


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply; a whole number of thousands of digits
        return "a value too large to show"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _number(
    row: Mapping[str, Any], name: str, least: float, most: float, *, whole: bool = False
) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, (int, float, str)) else float(value)
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{name} is {_shown(value)}: expected a number or null")
    if not least <= number <= most:
        between = f"{least:g} or more" if math.isinf(most) else f"{least:g} to {most:,.10g}"
        raise InputError(f"{name} is {number:g}: expected {between}, or null where it is unknown")
    if whole and number != int(number):
        raise InputError(f"{name} is {number:g}: expected a whole number")
    return number


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError(f"{name} is {_shown(value)}: expected text or null")
    if len(value) > LONGEST_TEXT:
        raise InputError(f"{name} is {_shown(value)}, of {len(value)} characters: expected at most {LONGEST_TEXT}")
    return value.strip() or None


def _method(row: Mapping[str, Any]) -> str:
    name = _text(row, "method")
    if name is None:
        raise InputError(f"method is missing: expected one of {', '.join(METHODS)}")
    known = _method_called(name.lower())
    if known is None:
        raise InputError(f"method is {_shown(name)}: expected one of {', '.join(METHODS)}")
    return known


@lru_cache(maxsize=1024)
def _method_called(name: str) -> str | None:
    try:
        return method(_ALIKE.get(name, name)).name
    except KeyError:
        return None


def _load(row: Mapping[str, Any]) -> tuple[str | None, float | None]:
    given = [kind for kind in LOAD_KINDS if row.get(kind) is not None]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} are given: expected one load; leave the others null")
    if not given:
        return None, None
    return given[0], _number(row, given[0], LEAST_LOAD, MOST_RUNNING)


def _rates(row: Mapping[str, Any]) -> tuple[float, ...]:
    rates = row.get("per_position_acceptance")
    if rates is None:
        return ()
    if not isinstance(rates, list) or len(rates) > MOST_K or not all(
        isinstance(r, (int, float)) and not isinstance(r, bool) and 0 <= r <= 1 for r in rates
    ):
        raise InputError(f"per_position_acceptance is {_shown(rates)}: expected a list of shares from 0 to 1, at most "
                         f"{MOST_K}, or null")
    return tuple(float(r) for r in rates)


def _measured(row: Mapping[str, Any], k: int | None) -> tuple[tuple[LocalPoint, ...], list[str]]:
    """The local measurements, and what is odd about them."""
    points = row.get("measured")
    if points is None:
        return (), []
    if not isinstance(points, list) or len(points) > MOST_POINTS:
        raise InputError(f"measured is {_shown(points)}: expected a list of at most {MOST_POINTS} local measurements, "
                         "or null")
    found, notes = [], []
    for point in points:
        if not isinstance(point, Mapping):
            raise InputError(f"measured has {_shown(point)}: expected load_kind, load_value, k and speedup")
        _refuse_doubled(point)
        speedup = _number(point, "speedup", LEAST_SPEEDUP, math.inf)
        value = _number(point, "load_value", LEAST_LOAD, MOST_RUNNING)
        if speedup is None or value is None:
            raise InputError(f"measured has {_shown(dict(point))}: expected load_kind, load_value, k and speedup")
        kind = _text(point, "load_kind") or "concurrency"
        if kind not in LOAD_KINDS:
            raise InputError(f"load_kind is {_shown(kind)}: expected one of {', '.join(LOAD_KINDS)}")
        own_k = _number(point, "k", 0, MOST_K, whole=True)
        depth = int(own_k) if own_k is not None else k or 0
        if depth == 0 and (own_k is not None or k == 0):
            notes.append("measured has a point of k = 0, which is no speculation and no change: it is left out")
            continue
        if speedup > ((depth or MOST_K) + 1.0) * _ROUNDED_UP:
            notes.append(f"measured has a speed-up of {speedup:g} at k = {depth or MOST_K}: no step is more than k + 1 "
                         "times as fast, so it is left out; is it this setup's?")
            continue
        found.append(LocalPoint(kind, value, depth, speedup))
    return tuple(found), list(dict.fromkeys(notes))


def parse_case(row: object) -> Case:
    """A case from one decoded JSON line.

    Raises:
        InputError: a value is of the wrong kind or cannot be; the sentence names the field, the value and what was
            expected.
    """
    if not isinstance(row, Mapping):
        raise InputError(f"the line is {_shown(row)}: expected a JSON object with the fields of a case")
    _refuse_doubled(row)
    name = _method(row)
    k_value = _number(row, "k", 0, MOST_K, whole=True)
    k = int(k_value) if k_value is not None else None
    if method(name).drafter == "none":
        # No speculation drafts nothing, whatever k stands beside it.
        k = 0
    stated = stated_acceptance(_number(row, "mean_acceptance_length", 1.0, MOST_K + 1.0), _rates(row), k)
    kind, value = _load(row)
    gpus = _number(row, "n_gpus", 1, 4096, whole=True)
    parallel = _number(row, "tensor_parallel", 1, 1024, whole=True)
    tree = row.get("tree")
    if tree is not None and not isinstance(tree, bool):
        raise InputError(f"tree is {_shown(tree)}: expected true, false or null")
    target_params = _number(row, "target_params_b", *MODEL_B)
    active = _number(row, "active_params_b", *MODEL_B)
    drafted = _number(row, "draft_params_b", *DRAFT_B)
    if target_params is not None and drafted is not None and drafted > target_params:
        raise InputError(
            f"draft_params_b is {drafted:g} and target_params_b is {target_params:g}: the draft is larger than its "
            "target; were they swapped?"
        )
    if target_params is not None and active is not None and active > target_params * 1.001:
        raise InputError(
            f"active_params_b is {active:g} and target_params_b is {target_params:g}: expected no more active "
            "parameters than there are"
        )
    measured, odd = _measured(row, k)
    task, family = _text(row, "task"), _text(row, "task_family")
    if family is not None and family_of(family) is None:
        odd.append(f"task_family is {_shown(family)}, which is no known one ({', '.join(t.value for t in Task)}): "
                   "task says it, where it does; else nothing is known of the text")
    return Case(
        id=row.get("id"),
        gpu=_text(row, "gpu"),
        n_gpus=int(gpus) if gpus is not None else None,
        tensor_parallel=int(parallel) if parallel is not None else None,
        target=_text(row, "target"),
        target_params_b=target_params,
        active_params_b=active,
        draft=_text(row, "draft"),
        draft_params_b=drafted,
        method=name,
        engine=(_text(row, "engine") or "vllm").lower(),
        engine_version=_text(row, "engine_version"),
        dtype=_text(row, "dtype"),
        quantization=_text(row, "quantization"),
        k=k,
        tree=tree is True,
        load_kind=kind,
        load_value=value,
        temperature=_number(row, "temperature", 0.0, MAX_TEMPERATURE),
        task=task,
        family=family_of(family, task),
        prompt_len=_number(row, "prompt_len", 0.0, MOST_TOKENS),
        output_len=_number(row, "output_len", 1.0, MOST_TOKENS),
        metric=_text(row, "metric"),
        acceptance_length=stated.length,
        acceptance_log_sd=stated.log_sd,
        measured=measured,
        notes=(*stated.notes, *odd),
    )


def decode_line(line: str) -> object:
    """A line's JSON value; objects in which a key stands twice are `Doubled`.

    Raises:
        InputError: the line is no JSON, not UTF-8 (as read with `NO_TEXT`), or far too long for a case.
    """
    foreign = _NO_UTF8.search(line)
    if foreign is not None:
        byte = len(line[:foreign.start()].encode("utf-8", "surrogatepass")) + 1
        raise InputError(f"the line is not UTF-8 text (byte {byte}): expected one JSON object a line; save the file as "
                         "UTF-8")
    if len(line) > LONGEST_LINE:
        raise InputError(f"the line has more than {LONGEST_LINE:,} characters: expected one case of some hundreds")
    try:
        return json.loads(line, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the line is no JSON ({json_problem(error)}): expected one JSON object a line") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    # What is wrong with it is said in its place, with its id, once the line is read.
    return found if len(found) == len(pairs) else Doubled(pairs)
