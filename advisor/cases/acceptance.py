"""Acceptance length where nothing was measured: a fitted prior by method, text, temperature, target and draft.

The conditional acceptance of position i is sigmoid(eta - fade * ln(i)); eta is a sum of fitted effects, each shrunk
toward zero, so that an unknown target or data set is the mean of its kind. `acceptance.json` holds the effects;
`make fit` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.cases.table import Labels, Table
from profiles.methods import method

MOST_POSITIONS = 64
_LOSS_SCALE, _LOSS_FALL = 406.4, 0.34
"""What a model's size leaves to learn, in nats a token: 406.4 / parameters^0.34 (arxiv.org/abs/2203.15556)."""
_EDITS = re.compile(r"edit|instructcoder")
"""Data sets whose answers repeat most of the prompt: a lookup finds there what it finds in no other text."""
_USUAL_HEAD = re.compile(
    r"(?:official-.*|draft|medusa(?:-heads)?|eagle-?[123]?(?:-head|-(?:llama|vicuna|mixtral).*)?"
    r"|(?!.*(?:speculator|dflash2)).*(?:dflash|dspark).*)?"
)
"""What the head that a method's authors published for a target is called: by the method alone, or method and target."""


def lengths(eta: Any, fade: Any, k: Any) -> Any:
    """Acceptance length of each row: 1 + the sum over positions of the product of conditional acceptances."""
    import numpy as np

    positions = np.arange(1, MOST_POSITIONS + 1, dtype=float)
    logits = eta[:, None] - fade[:, None] * np.log(positions)[None, :]
    conditional = 1.0 / (1.0 + np.exp(-np.clip(logits, -30.0, 30.0)))
    reached = np.cumprod(conditional, axis=1)
    return 1.0 + np.sum(np.where(positions[None, :] <= k[:, None], reached, 0.0), axis=1)


def effect_names(label: Labels, tree: bool, foreign: bool) -> list[tuple[str, str]]:
    """The (kind, name) pairs of effects that a row has; kinds share one shrinkage."""
    described = method(label.method)
    side = "lookup" if described.drafter == "lookup" else "neural"
    found = [("method", label.method), ("drafter", described.drafter)]
    if side == "lookup" and _EDITS.search(label.dataset):
        found.append(("copied", "lookup:edit"))
    elif label.family:
        found.append(("copied" if side == "lookup" else "family", f"{side}:{label.family}"))
    if label.dataset:
        found.append(("dataset", f"{side}:{label.dataset}"))
    if label.target:
        found.append(("target", label.target))
        found.append(("target_method", f"{label.target}|{label.method}"))
    if described.needs_draft and described.drafter == "head" and _USUAL_HEAD.fullmatch(label.draft):
        # `EAGLE-3 head`, `official EAGLE-3 head` and the name it is published under are one head, and another target's
        # is another.
        found.append(("draft", f"usual:{label.method}|{label.target}"))
    elif label.draft and described.needs_draft:
        found.append(("draft", label.draft))
    if tree:
        found.append(("tree", side))
    if foreign:
        # Other programs look up the last one or two tokens, vLLM no fewer than `prompt_lookup_min` (5 by default).
        found.append(("shorter", side) if side == "lookup" else ("engine", "foreign"))
    return found


def numeric_effects(table: Table) -> dict[str, Any]:
    """Columns of the effects that are slopes: temperature, size of the target, what its draft model has learnt less,
    prompt length."""
    import numpy as np

    c = table.of
    temperature = np.where(np.isnan(c["temperature"]), 0.3, np.minimum(c["temperature"], 1.5))
    size = np.log(np.maximum(c["active"], 1e8) / 2e10)
    # A draft differs from its target by what it has learnt less, which depends on its own size more than on its share
    # of the target's: 68 M beside 7 B miss much more than 1 B beside 70 B.
    unlearnt = _LOSS_SCALE * np.maximum(c["draft_read"], 1e7) ** -_LOSS_FALL
    unlearnt = unlearnt - _LOSS_SCALE * np.maximum(c["params"], np.maximum(c["draft_read"], 1e7)) ** -_LOSS_FALL
    alike = -np.log(np.maximum(unlearnt, 0.02) / 0.3)
    neural = c["lookup"] < 0.5
    trained = neural & (c["drafter_model"] < 0.5)
    return {
        "temperature": np.where(neural, temperature, 0.0),
        "size": np.where(neural, size, 0.0),
        "draft_alike": np.where(c["drafter_model"] > 0, alike, 0.0),
        "long_prompt": np.where(trained, np.maximum(0.0, np.log(np.maximum(c["prompt"], 1.0) / 2048.0)), 0.0),
        "lookup_prompt": np.where(neural, 0.0, np.log(np.clip(c["prompt"], 32.0, 1000.0) / 300.0)),
    }


def prior_lengths(table: Table, prior: Mapping[str, Any]) -> tuple[Any, Any]:
    """(lengths, log standard deviations) of the prior for every row of the table."""
    import numpy as np

    effects: Mapping[str, Mapping[str, float]] = prior["effects"]
    eta = np.full(len(table), float(prior["intercept"]))
    spread = np.zeros(len(table))
    tree, foreign = table.of["tree"] > 0, table.of["other_engine"] > 0
    kinds: Mapping[str, float] = prior["unseen_sd"]
    cache: dict[tuple[Labels, bool, bool], tuple[float, float]] = {}
    for i, label in enumerate(table.labels):
        key = (label, bool(tree[i]), bool(foreign[i]))
        if key not in cache:
            cache[key] = _sum_of(effect_names(*key), effects, kinds)
        eta[i] += cache[key][0]
        spread[i] = cache[key][1]
    for name, column in numeric_effects(table).items():
        eta += float(prior["slopes"][name]) * column
    fades: Mapping[str, float] = prior["fade"]
    fade = np.array([fades.get(label.method, fades["none"]) for label in table.labels])
    k = np.minimum(table.of["k"], MOST_POSITIONS)
    middle = lengths(eta, fade, k)
    slope = np.log(lengths(eta + 0.25, fade, k) / lengths(eta - 0.25, fade, k)) / 0.5
    return middle, np.sqrt(slope**2 * (spread + float(prior["eta_sd"]) ** 2) + float(prior["noise_sd"]) ** 2)


def _sum_of(
    names: Sequence[tuple[str, str]], effects: Mapping[str, Mapping[str, float]], unseen: Mapping[str, float]
) -> tuple[float, float]:
    """Sum of the known effects and the variance of the unknown ones."""
    total, variance = 0.0, 0.0
    present = {kind for kind, _ in names}
    for kind, name in names:
        known = effects.get(kind, {})
        if name in known:
            total += known[name]
        else:
            variance += unseen.get(kind, 0.0) ** 2
    without = {"dataset", "target"} - present
    if not present & {"family", "copied"}:
        without.add("copied" if ("drafter", "lookup") in names else "family")
    if ("drafter", "model") in names and "draft" not in present:
        without.add("draft")
    variance += sum(unseen.get(kind, 0.0) ** 2 for kind in without)
    return total, variance
