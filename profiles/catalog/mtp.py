"""Whose multi-token-prediction (MTP) layers vLLM runs, and how many there are: the one answer, from `data/mtp.yaml`.

A config is no witness by itself: some state layers that no release serves, others say nothing of the layers they have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from profiles.catalog.compiled import compiled
from profiles.catalog.releases import Release
from profiles.catalog.shapes import ModelShape

COUNTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers", "n_predict",
          "mtp_num_layers")
"""Keys of a config.json that state the layers, the first that is set counting."""


@dataclass(frozen=True)
class MtpFamily:
    """One kind of MTP layers that vLLM has a class for."""

    name: str
    """vLLM's own name of it."""
    since: str | None
    """The first release that has it; None where every release with MTP does."""
    fixed: int | None
    """Layers that are loaded whatever the config states."""
    silent: int | None
    """Layers where the config states none; None where that cannot be told."""
    dense: bool
    """Whether the layer has no experts although the target has."""
    states_in: str | None
    """The part of a config that states the layers, where it is a part of its own."""

    def layers(self, stated: int | None) -> int | None:
        """Layers that draft, from what the config states (None: nothing). None where that cannot be told."""
        if self.fixed is not None:
            return 0 if stated == 0 else self.fixed
        return self.silent if stated is None else stated


def mtp_family(model_types: Collection[str], architectures: Collection[str] = ()) -> MtpFamily | None:
    """The MTP layers vLLM runs for a target of these model types (outer, text) or classes; None where it has none."""
    kinds = {kind.removesuffix("_text") for kind in model_types}
    for name, facts in compiled("mtp")["families"].items():
        if not kinds.isdisjoint(facts["types"]) or not set(architectures).isdisjoint(facts.get("architectures", ())):
            return MtpFamily(
                name=name, since=facts.get("since"), fixed=facts.get("fixed"), silent=facts.get("silent"),
                dense=facts.get("feed_forward") == "dense", states_in=facts.get("states_in"),
            )
    return None


def refused_mtp(
    release: Release, model_types: Collection[str], architectures: Collection[str], *, stated: int | None, name: str
) -> str | None:
    """Why this release runs no MTP layers of such a target, without a full stop; None where it does or the type is
    unknown.

    Args:
        model_types: the outer model_type first, then the language model's.
        stated: layers that the config states; None where it says nothing.
        name: the target, for the sentence.
    """
    known = [kind for kind in model_types if kind]
    if not known:
        return None
    family = mtp_family(known, architectures)
    if family is None:
        if not stated:
            return f"{name} has no multi-token-prediction layers in its checkpoint"
        return (f"the config of {name} states {stated} multi-token-prediction (MTP) layer{'s' if stated > 1 else ''}, "
                f"and vLLM runs none for the model type {known[0]}")
    if family.since is not None and not release.follows(family.since):
        return (f"vLLM {release.version} runs no multi-token-prediction (MTP) layers for the model type {known[0]} "
                f"yet: {family.since} brought them")
    return None


def shape_refuses_mtp(target: ModelShape, release: Release) -> str | None:
    """`refused_mtp` of a shape."""
    return refused_mtp(release, (target.model_type,), target.architectures, stated=target.mtp_layers, name=target.id)


def stated_layers(config: Mapping[str, Any]) -> int | None:
    """What a flat config states; None where it says nothing or no whole number."""
    return next((config[key] for key in COUNTS if type(config.get(key)) is int), None)
