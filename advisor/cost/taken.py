"""What speculation takes of the memory for KV, cause by cause: every page that names a loss says where it goes."""

from __future__ import annotations

from advisor.record import Memory
from profiles.catalog.shapes import ModelShape
from profiles.methods import Method

_LEAST_GIB = 0.05
"""Of activations, graphs and sampling: less is no cause of anything a reader sees."""


def drafter_verb(described: Method) -> str:
    """Who takes it, with the verb: layers of the target's own checkpoint are no draft that somebody named."""
    return f"the {described.title} take" if described.drafter == "native" else "the draft takes"


def drafter_takes(plan: Memory) -> tuple[str, ...]:
    """What the drafter itself takes: `0.3 GiB of weights`, `22 KiB of KV a token (the target itself: 90 KiB)`."""
    weights = (f"{plan.draft_weights_gib:.1f} GiB of weights",) if plan.draft_weights_gib > 0 else ()
    if plan.kv_bytes_per_token_draft <= 0:
        return weights
    return (*weights, f"{plan.kv_bytes_per_token_draft / 1024:.0f} KiB of KV a token (the target itself: "
                      f"{plan.kv_bytes_per_token_target / 1024:.0f} KiB)")


def engine_takes(plan: Memory, target: ModelShape | None, runner: str, plain_runner: str) -> tuple[str, ...]:
    """What the engine takes besides, because it speculates: `runner` serves the candidate, `plain_runner` the
    deployment without it."""
    found = []
    more = (plan.overhead_with_gib or 0.0) - (plan.overhead_gib or 0.0)
    # A KV cache of a stated size loses nothing to them.
    if more >= _LEAST_GIB and plan.overhead_with_gib is not None and not plan.kv_stated_by:
        other = f" on the {runner.upper()} runner than on {plain_runner.upper()} without it" \
            if runner != plain_runner else ""
        found.append(f"{more:.1f} GiB more for graphs, sampling and activations{other}")
    states = 0 if target is None else sum(group.layers for group in target.attention if group.kind == "linear")
    if states:
        found.append(f"a state for each drafted token in {states} layers")
    return tuple(found)


def joined(parts: tuple[str, ...]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
