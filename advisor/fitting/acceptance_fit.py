"""Fits the acceptance prior: effects on the logit of the conditional acceptance, by Gauss-Newton.

How far effects of one kind are shrunk is estimated with them (expectation-maximisation), around usual deviations: that
same deviation is how far off a prediction may be for one that nobody has measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.cases.acceptance import MOST_POSITIONS, effect_names, lengths, numeric_effects
from advisor.cases.table import Table

USUAL_SD = {"method": 0.5, "drafter": 0.4, "family": 0.3, "copied": 0.6, "dataset": 0.2, "target": 0.2,
            "target_method": 0.2, "draft": 0.35, "tree": 0.4, "engine": 0.15, "shorter": 0.4, "publication": 0.3,
            "depth": 0.5}
"""Standard deviations of the effects in logits where their estimate starts; it weighs as `_USUAL_WEIGHT` effects."""
_USUAL_WEIGHT = 4.0
_OWN = ("publication", "depth")
"""Kinds that only training rows have: what a publication measures higher than others, and what an unknown k is off."""
_SLOPES = {"temperature": (-0.3, 0.2), "size": (0.0, 0.1), "draft_alike": (0.9, 0.3), "long_prompt": (-0.1, 0.15),
           "lookup_prompt": (0.15, 0.15)}
_FADE = (0.1, 0.15)
_MEANS = {("drafter", "lookup"): -1.9, ("drafter", "model"): 0.2, ("copied", "lookup:edit"): 1.2,
          ("shorter", "lookup"): 0.6}
"""What papers say of whole kinds: n-gram drafts are accepted three times in ten, and find a draft in eight steps of
ten of an edit, in two to four of other text (arxiv.org/abs/2601.11580). Lookups of one or two tokens always draft, with
1.7 tokens a step on mathematics (Spec-Bench) where those of vLLM give 1.2: assumed."""
_NOISE = 0.06
_ROUNDS = 9
_FIRST_ESTIMATE = 3
"""The round from which on deviations are estimated: before, the effects are still under way."""


def fit_acceptance(
    table: Table, observed: Any, noise: Any, publications: Sequence[str], assumed_depth: Sequence[bool]
) -> dict[str, Any]:
    """The prior's effects from observed lengths.

    observed: lengths by row; noise: extra log standard deviation by row (0 for published lengths, more for those
    inferred from a speed-up); publications: label by row, whose own effect is fitted and then left out. assumed_depth:
    whether a row's k was assumed; its publication's level for the method is then left out too.
    """
    import numpy as np

    from profiles.methods import METHODS

    names: dict[tuple[str, str], int] = {}
    rows: list[list[int]] = []
    tree, foreign = table.of["tree"] > 0, table.of["other_engine"] > 0
    for i, label in enumerate(table.labels):
        own = [*effect_names(label, bool(tree[i]), bool(foreign[i])), ("publication", publications[i])]
        if assumed_depth[i]:
            own.append(("depth", f"{publications[i]}|{label.method}"))
        rows.append([names.setdefault(name, len(names)) for name in own])
    slopes = numeric_effects(table)
    effects, numeric, methods = len(names), len(slopes), list(METHODS)
    width = 1 + effects + numeric
    x = np.zeros((len(rows), width))
    x[:, 0] = 1.0
    for i, own_columns in enumerate(rows):
        x[i, [1 + j for j in own_columns]] = 1.0
    for j, column in enumerate(slopes.values()):
        x[:, 1 + effects + j] = column
    which = np.array([methods.index(label.method) for label in table.labels])
    mean = np.zeros(width + len(methods))
    sd = np.ones(width + len(methods))
    mean[0], sd[0] = 0.9, 0.5
    members: dict[str, list[int]] = {}
    for (kind, name), j in names.items():
        sd[1 + j] = USUAL_SD[kind]
        mean[1 + j] = _MEANS.get((kind, name), 0.0)
        members.setdefault(kind, []).append(1 + j)
    spread = dict(USUAL_SD)
    for j, name in enumerate(slopes):
        mean[1 + effects + j], sd[1 + effects + j] = _SLOPES[name]
    mean[width:], sd[width:] = _FADE
    theta = mean.copy()
    k = np.minimum(table.of["k"], MOST_POSITIONS)
    target = np.log(np.clip(observed, 1.02, None))
    weight = 1.0 / (noise**2 + _NOISE**2)
    # Many rows of one setting are one observation of its text: a publication of hundreds must not drown the others.
    groups: dict[Any, int] = {}
    keys = [(publications[i], table.labels[i], float(k[i])) for i in range(len(rows))]
    for key in keys:
        groups[key] = groups.get(key, 0) + 1
    weight = weight / np.array([groups[key] for key in keys], dtype=float)
    for turn in range(_ROUNDS):
        eta, fade = x @ theta[:width], theta[width:][which]
        fitted = np.log(lengths(eta, fade, k))
        step = 1e-3
        by_eta = (np.log(lengths(eta + step, fade, k)) - fitted) / step
        by_fade = (np.log(lengths(eta, fade + step, k)) - fitted) / step
        jacobian = np.zeros((len(rows), width + len(methods)))
        jacobian[:, :width] = by_eta[:, None] * x
        jacobian[np.arange(len(rows)), width + which] = by_fade
        residual = target - fitted
        # Tukey-like: a row four deviations away is a typing error or another convention, and is heard less.
        scale = np.sqrt(noise**2 + 0.12**2)
        robust = weight / (1.0 + (residual / (3.0 * scale)) ** 2)
        normal = jacobian.T @ (robust[:, None] * jacobian) + np.diag(1.0 / sd**2)
        gradient = jacobian.T @ (robust * residual) + (mean - theta) / sd**2
        theta = theta + np.linalg.solve(normal, gradient)
        if _FIRST_ESTIMATE <= turn < _ROUNDS - 1:
            left = np.diag(np.linalg.inv(normal))
            for kind, own_kind in members.items():
                total = float(np.sum((theta[own_kind] - mean[own_kind]) ** 2 + left[own_kind]))
                weighed = (_USUAL_WEIGHT * USUAL_SD[kind] ** 2 + total) / (_USUAL_WEIGHT + len(own_kind))
                spread[kind] = sd[own_kind] = weighed ** 0.5
    by_kind: dict[str, dict[str, float]] = {}
    for (kind, name), j in names.items():
        by_kind.setdefault(kind, {})[name] = float(theta[1 + j])
    for kind in _OWN:
        by_kind.pop(kind, None)
    return {
        "intercept": float(theta[0]),
        "effects": by_kind,
        "slopes": {name: float(theta[1 + effects + j]) for j, name in enumerate(slopes)},
        "fade": {name: float(theta[width + j]) for j, name in enumerate(methods)},
        "unseen_sd": {kind: value for kind, value in spread.items() if kind not in _OWN},
        "eta_sd": spread["publication"],
        "noise_sd": _NOISE,
    }
