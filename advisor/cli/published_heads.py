"""Candidates that name a method of trained heads and no head: the catalog's heads for the target are filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profiles.methods import METHODS, method


def fill_heads(candidates: Sequence[Any], target_id: str) -> tuple[list[Any], list[str]]:
    """The candidates as stated, each that lacks its head with the catalog's for this target, and a sentence about each
    head taken, without a full stop.

    Where the catalog has several, the further ones stand behind all that is stated, so that the places of the stated
    ones stay. What cannot be filled in is left as it is: whoever reads the candidates says what is missing.
    """
    from advisor.candidates import head_reason, heads_to_price

    filled, further, said = [], [], []
    for stated in candidates:
        name = lacking(stated)
        heads = heads_to_price(target_id, name) if name is not None else []
        beside = dict(stated) if isinstance(stated, Mapping) else {}
        found = [{**beside, "method": name, "draft": head.id, "settings": {**head.settings, **_settings(beside)}}
                 for head in heads]
        for head in heads:
            said.append(f"no draft is named for {name}: {head.id} is taken from the catalog, {head_reason(head)} "
                        f"(source: {head.sources[0] if head.sources else 'the catalog'})")
        filled.append(found[0] if found else stated)
        further += found[1:]
    return [*filled, *further], said


def _settings(stated: Mapping[str, Any]) -> dict[str, Any]:
    given = stated.get("settings")
    return given if isinstance(given, dict) else {}


def lacking(stated: object) -> str | None:
    """The method of trained heads that a candidate names without a head; None for every other one."""
    named = stated.get("method") if isinstance(stated, Mapping) else stated
    if not isinstance(named, str) or (isinstance(stated, Mapping) and stated.get("draft") is not None):
        return None
    try:
        described = method(named)
    except KeyError:
        return None
    return described.name if described.drafter == "head" and described.needs_draft else None


def trained_head_methods() -> frozenset[str]:
    """Methods whose draft the catalog may know."""
    return frozenset(name for name, described in METHODS.items() if described.drafter == "head")
