"""`specadvise plan`: what the advice means in requests per second, GPUs and money."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.number_types import Number, Whole
from advisor.cli.output import format_option, print_json, print_text, quiet_option, say, stdout_terminal
from advisor.cli.unread_options import refuse_unread
from profiles.errors import EXIT_ABSTAINED, EXIT_OK, InputError
from profiles.schema import MAX_CONCURRENCY

if TYPE_CHECKING:
    from advisor.capacity.document import CapacityPlan
    from advisor.situation import Situation
    from profiles.catalog.prices import PriceTable
    from profiles.deployment import Candidate, Deployment


@click.command()
@click.argument("deployment", metavar="DEPLOYMENT.yaml")
@click.option("--evidence", multiple=True, help="Saved evidence file; repeat for several.")
@click.option("--candidate", "named", multiple=True, metavar="METHOD[:DRAFT][:K]",
              help="Plan for this candidate too; repeat for several.")
@click.option("--peak", type=Number(1e-6, MAX_CONCURRENCY), metavar="RPS",
              help="Requests per second of the whole deployment at the busiest time; by default what the stated p95 of "
                   "concurrency implies.")
@click.option("--burstiness", type=Number(0.01, 100), default=1.0, show_default=True,
              help="Shape of the gaps between arrivals: 1 is a Poisson process, below 1 burstier.")
@click.option("--trace", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Recorded arrivals instead of a process: CSV or JSON lines of arrival_s, prompt_tokens and "
                   "output_tokens, or another trace that `probe requests` reads.")
@click.option("--prices", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Price table (YAML) instead of the catalog's.")
@click.option("--price", type=Number(0, 10_000, above=True), metavar="USD",
              help="Price of one GPU and hour, whatever the GPU.")
@click.option("--what-if", "what_ifs", multiple=True, metavar="CHANGE",
              help="The same question with something changed: gpu=H200, gpus=2, draft=ORG/NAME, quantization=fp8, "
                   "kv_cache_dtype=fp8, context=2x, output=2x, max_num_seqs=128; several joined by commas; repeat.")
@click.option("--seed", type=Whole(0, 2**31), default=0, show_default=True,
              help="Seed of the simulated traffic.")
@click.option("--effort", type=Number(0.25, 100), default=1.0, show_default=True,
              help="Simulate so many times more requests than by default.")
@click.option("--offline", is_flag=True, help="Never ask the model hub.")
@format_option("text", "json")
@quiet_option
def plan(
    deployment: str,
    evidence: tuple[str, ...],
    named: tuple[str, ...],
    peak: float | None,
    burstiness: float,
    trace: Path | None,
    prices: Path | None,
    price: float | None,
    what_ifs: tuple[str, ...],
    seed: int,
    effort: float,
    offline: bool,
    output_format: str,
    quiet: bool,
) -> int:
    """Say what the advice means in requests per second, GPUs and money.

    Simulates one replica under the stated traffic, without speculation and with the recommended candidate: latencies
    against the arrival rate, the highest rate within the SLOs, the replicas and GPUs of the peak and of its growth,
    their cost, and where speculation starts to hurt.

    Exit codes: 0 planned, 2 unreadable input, 3 the inputs cannot carry the plan's main answer.
    """
    from advisor.capacity.what_if import changed_deployment, changed_situation, parse_change
    from advisor.cli.deployment_file import load_deployment
    from advisor.cli.trace_file import read_arrivals

    refuse_unread(trace is None, "without --trace", "burstiness")
    changes = [(text, parse_change(text)) for text in what_ifs]
    table = _prices(prices, price)
    arrivals = read_arrivals(trace, lambda note: say(f"specadvise: {note}", quiet)) if trace is not None else None
    path = Path(deployment)
    filled: list[str] = []
    stated = load_deployment(path, None, filled)
    if evidence:
        files = (*stated.sources.files, *(os.path.abspath(name) for name in evidence))
        stated = stated.model_copy(update={"sources": stated.sources.model_copy(update={"files": files})})
    base = path.absolute().parent

    def situation_of(wanted: Deployment, muted: bool) -> tuple[Situation, tuple[tuple[str, int | None], ...]]:
        return _gathered(wanted, base, named, filled, offline=offline, quiet=quiet or muted)

    from advisor.capacity.plan import Question, capacity_plan, variant_of
    from advisor.capacity.rates import Effort
    from advisor.capacity.simulation import numba_installed

    situation, labels = situation_of(stated, False)
    # Several plans of one run pay for loading the compiler.
    chosen = Effort(seed, effort, True if numba_installed() and len(what_ifs) * effort > 1 else None)
    question = Question(prices=table, peak_rate_rps=peak, burstiness=burstiness, named=labels, trace=arrivals,
                        trace_name=trace.name if trace is not None else "", effort=chosen)
    found = capacity_plan(situation, question)
    variants = []
    for text, change in changes:
        say(f"specadvise: what if {text}", quiet)
        other, names = situation_of(changed_deployment(stated, change), True)
        other, notes = changed_situation(other, change)
        # Everything but the change is asked as before: the same peak, whatever latency it has there.
        asked = replace(question, named=names, peak_rate_rps=found.traffic.peak_rate_rps,
                        usual_rate_rps=found.traffic.usual_rate_rps)
        variants.append(variant_of(capacity_plan(other, asked), text, notes))
    found = found.model_copy(update={"what_if": tuple(variants)})
    _print(found, output_format)
    fleets = bool(found.arms) and all(arm.fleets for arm in found.arms if arm.role == "null")
    return EXIT_OK if fleets else EXIT_ABSTAINED


def _print(found: CapacityPlan, output_format: str) -> None:
    if output_format == "json":
        print_json(found.model_dump(mode="json"))
        return
    from advisor.capacity.text import render_plan

    seen = stdout_terminal()
    print_text(render_plan(found, width=seen.width or 100, color=seen.color), seen.color)


# --- input ---------------------------------------------------------------------------------------------------------
def _gathered(
    stated: Deployment, base: Path, named: tuple[str, ...], filled: list[str], *, offline: bool, quiet: bool
) -> tuple[Situation, tuple[tuple[str, int | None], ...]]:
    """The situation with the named candidates among its own, and their labels with the k asked for."""
    from advisor.cli.gathering import gather
    from advisor.cli.server_source import TOKEN_VARIABLE

    token = os.environ.get(TOKEN_VARIABLE)
    noted = list(filled)
    asked = [one for text in named for one in parse_candidates(text, stated.target.id, noted)]

    def warn(message: str) -> None:
        say(f"specadvise: {message}", quiet)

    if asked:
        given = stated.candidates
        if not given:
            # Naming one must not keep the others from being proposed.
            given = gather(stated, base, offline=offline, token=token, warn=lambda _: None).candidates
        known = {candidate.label: candidate for candidate in given if candidate.method != "none"}
        for candidate, k in asked:
            before = known.get(candidate.label)
            if before is None:
                known[candidate.label] = candidate
            elif k is not None and k not in before.k:
                known[candidate.label] = before.model_copy(update={"k": tuple(sorted({*before.k, k}))})
        stated = stated.model_copy(update={"candidates": tuple(known.values())})
    situation = gather(stated, base, offline=offline, token=token, warn=warn, noted=noted)
    have = {candidate.label for candidate in situation.candidates}
    return situation, tuple((c.label, k) for c, k in asked if c.label in have)


def parse_candidates(text: str, target: str, noted: list[str]) -> list[tuple[Candidate, int | None]]:
    """`ngram`, `ngram:3`, `eagle3:org/head`, `draft_model:org/name:4`: the candidate and the k asked for, if any.

    `eagle3` alone stands for the catalog's heads for the target; a sentence about each goes into `noted`.
    """
    from pydantic import ValidationError

    from advisor.cli.published_heads import fill_heads
    from profiles.deployment import Candidate
    from profiles.mistakes import first_mistake

    name, *rest = text.split(":")
    k = int(rest.pop()) if rest and re.fullmatch("[0-9]{1,3}", rest[-1]) else None
    document: dict[str, Any] = {"method": name}
    if rest:
        document["draft"] = ":".join(rest)
    if k is not None:
        document["k"] = k
    documents, said = fill_heads([document], target)
    noted += said
    try:
        return [(Candidate.model_validate(one), k) for one in documents]
    except ValidationError as error:
        reason = first_mistake(error, "the candidate")
        raise InputError(f"--candidate {text}: {reason}; expected METHOD[:DRAFT][:K], such as ngram:3") from error


def _prices(path: Path | None, price: float | None) -> PriceTable:
    from profiles.catalog.prices import StatedPrice, price_table

    if price is not None and path is not None:
        raise InputError("both --prices and --price are given: state one of them")
    return StatedPrice(usd_per_gpu_hour=price) if price is not None else price_table(path)
