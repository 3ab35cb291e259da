"""One pure function from a situation to the record that holds everything the advice rests on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from advisor.checks.finding import CheckResult, moved
from advisor.checks.measured import NOTHING_MEASURED, Measured, measured_of
from advisor.compatibility import accelerator_note, doubts, engine_warnings, foreign_evidence, unconfirmed
from advisor.cost.measured import MeasuredCost
from advisor.cost.step import runner_for
from advisor.cost.window import needed_tokens
from advisor.decision import Choice, best_cell, decide
from advisor.draft_map import draft_map
from advisor.larger_k import larger_k
from advisor.observed import unused_evidence
from advisor.prediction import Pricing, price
from advisor.reasons import left_out, write_reasons
from advisor.record import EmittedConfig, Memory, Priced, Provenance, Reason, Record
from advisor.room_reasons import SPREAD, room_warnings
from advisor.saturation import at_rate, saturation_of, saturation_sentence
from advisor.situation import Situation
from advisor.workload_load import workload_used
from profiles.deployment import NO_SPECULATION, spoken
from profiles.methods import method
from profiles.schema import Source
from profiles.version import __version__


def advise(situation: Situation, created_at: str) -> Record:
    """The advice for a situation, its config included.

    created_at is UTC in ISO 8601, passed in because the advisor reads no clock. The same situation always gives the
    same record.
    """
    settled = _settle(situation)
    pricing, choice, reasons = settled.pricing, settled.choice, settled.reasons
    workload, sources = workload_used(situation, pricing.traffic)
    return Record(
        decision=settled.choice.decision,
        reasons=reasons,
        candidates=_marked(pricing),
        memory=settled.memory,
        memory_by_candidate=_memory_by_candidate(pricing, choice, settled.memory),
        emitted=settled.emitted,
        deployment=situation.deployment,
        evidence=situation.evidence,
        assumptions=tuple(pricing.assumptions) + situation.notes,
        warnings=settled.warnings,
        provenance=Provenance(
            tool_version=__version__,
            created_at=created_at,
            vllm_version=situation.release.version,
            runner=_runner(pricing, choice),
            gpu=situation.gpu.name
            if situation.gpu is not None
            else ("cpu" if situation.runner == "cpu" else "unknown"),
            gpu_count=situation.gpu_count,
            target=situation.target,
            drafts=tuple(situation.drafts.values()),
            cost_source=pricing.cost.description,
        ),
        per_position={
            label: acceptance.per_position for label, acceptance in pricing.acceptance.items() if label != "none"
        },
        matched_shares={
            candidate.label: pricing.acceptance[candidate.label].matched_share
            for candidate in pricing.candidates if not method(candidate.method).always_drafts
        },
        proposals=situation.proposals,
        draft_map=draft_map(pricing),
        acceptance_tiers={
            label: acceptance.tier for label, acceptance in pricing.acceptance.items() if label != "none"
        },
        checklist=settled.checklist,
        workload=workload,
        workload_sources=sources,
        saturation=saturation_of(pricing, choice.best),
        at_rate=at_rate(pricing, choice.best) if not choice.blocked else None,
        extra={
            "loads": list(pricing.loads),
            "fit": pricing.cost.coefficients if isinstance(pricing.cost, MeasuredCost) else {},
            "fit_residual": pricing.cost.residual_log_sd if isinstance(pricing.cost, MeasuredCost) else None,
        },
    )


@dataclass(frozen=True)
class _Settled:
    """A choice, the config it is served with, and what the checklist says of that config."""

    pricing: Pricing
    choice: Choice
    reasons: tuple[Reason, ...]
    memory: Memory
    emitted: EmittedConfig
    checklist: CheckResult
    warnings: tuple[str, ...]


def _settle(situation: Situation) -> _Settled:
    """The choice whose config passes its own checklist: a candidate whose config does not is one that cannot run, and
    the next best is taken."""
    from advisor.checks.emitted import check_text, errors_of, known_of
    from advisor.emit.heading import cautions_of
    from advisor.emit.vllm_config import emit
    from advisor.startable import deployment_errors

    pricing, known = price(situation), known_of(situation)
    refused = "; ".join(deployment_errors(situation))
    while True:
        choice = decide(pricing, refused)
        best, measured = choice.best, _measured(pricing, choice)
        deeper = larger_k(pricing, best, measured) if best is not None and not choice.blocked else None
        reasons = (*write_reasons(pricing, choice, refused), *([deeper] if deeper else []), *left_out(pricing, choice))
        decision = choice.decision.model_copy(update={"reasons": tuple(reason.sentence for reason in reasons)})
        # The engine sizes its memory for the k it is started with, the largest of a schedule.
        runs = best is not None and choice.blocked != "unusable"
        memory = pricing.plan(best.candidate, choice.k_loaded) if best is not None and runs else (
            pricing.plan(NO_SPECULATION, 0))
        emitted = emit(decision, situation, memory, decision.reasons)
        checklist = check_text(emitted.vllm_yaml, emitted.env,
                               replace(known, running=decision.running, measured=measured))
        errors = errors_of(checklist)
        if errors and not decision.enable and not refused and choice.blocked != "target":
            refused = "; ".join(errors)
            continue
        warned = _warned_of(pricing, choice, checklist, measured)
        if warned:
            pricing = replace(pricing, avoided={**pricing.avoided, **warned})
            continue
        if not (errors and decision.enable and best is not None):
            warnings = tuple(_warnings(pricing, choice, memory))
            cautions = cautions_of(warnings, checklist)
            if cautions:
                # They are comments above all options: the findings stay, so many lines further down.
                bare, emitted = emitted, emit(decision, situation, memory, decision.reasons, cautions)
                checklist = moved(checklist, emitted.vllm_yaml.count("\n") - bare.vllm_yaml.count("\n"))
            return _Settled(pricing, replace(choice, decision=decision), reasons, memory, emitted, checklist, warnings)
        # Everything is priced anew: what cannot run ranks last, and its cells say why.
        pricing = replace(pricing, unusable={**pricing.unusable, best.label: errors[0]}, _cache={})


def _measured(pricing: Pricing, choice: Choice) -> Measured:
    """What rules of thumb about the chosen candidate give way to; nothing where its acceptance and times are modelled
    or assumed."""
    best = choice.best
    if best is None:
        return NOTHING_MEASURED
    # No model's cell is a measurement: the whole table is asked for only where a trial stands behind it.
    cells = pricing.table if isinstance(pricing.cost, MeasuredCost) else ()
    return measured_of(best.candidate, cells, pricing.acceptance[best.label].per_position)


def _warned_of(
    pricing: Pricing, choice: Choice, checklist: CheckResult, measured: Measured
) -> dict[tuple[str, int], tuple[int, str]]:
    """The k of the chosen candidate, from the one the engine would start with on, where the checklist warns of it:
    what is advised is to pass without a warning about the number advised. Empty where the trial measured the cell,
    where it has been tried already, and where nothing is chosen."""
    from advisor.startable import judged, warned_about_k

    best, k = choice.best, choice.k_loaded
    if best is None or choice.blocked or choice.decision.enable is False or (best.label, k) in pricing.avoided:
        return {}
    if best.from_trial:
        return {}
    situation, candidate = pricing.situation, best.candidate
    codes = warned_about_k(checklist if choice.decision.enable else
                     judged(situation, candidate, k, best.running, measured))
    if not codes:
        return {}
    # Some rules speak whatever the load, others from this load on.
    since = 1 if set(codes) & set(warned_about_k(judged(situation, candidate, k, measured=measured))) else best.running
    return {(best.label, each): (since, ", ".join(codes)) for each in candidate.k if each >= k}


def _marked(pricing: Pricing) -> tuple[Priced, ...]:
    """Every cell priced, the one of each candidate and load marked that would be decided for there."""
    chosen = {
        (cell.label, cell.running, cell.k)
        for candidate in pricing.candidates
        for load in pricing.loads
        if (cell := best_cell(pricing, load, (candidate,))) is not None
    }
    return tuple(
        cell.model_copy(update={"chosen": True}) if (cell.label, cell.running, cell.k) in chosen else cell
        for cell in pricing.table
    )


def _memory_by_candidate(pricing: Pricing, choice: Choice, memory: Memory) -> dict[str, Memory]:
    """Each candidate's plan at its best k for the load decided for; none of those that cannot run."""
    plans: dict[str, Memory] = {}
    for candidate in (one for one in pricing.candidates if one.label not in pricing.unusable):
        cell = best_cell(pricing, pricing.running, (candidate,))
        if cell is not None:
            plans[candidate.label] = pricing.plan(candidate, cell.k)
    if choice.best is not None and choice.blocked != "unusable":
        plans[choice.best.label] = memory
    return plans


def _runner(pricing: Pricing, choice: Choice) -> str:
    if choice.best is None or choice.decision.enable is not True:
        return pricing.situation.runner
    return runner_for(choice.best.candidate, pricing.situation)


def _warnings(pricing: Pricing, choice: Choice, memory: Memory) -> list[str]:
    situation = pricing.situation
    counted = {label for label, found in pricing.acceptance.items()
               if found.source in (Source.MEASURED, Source.RECORDED)}
    own = [best_cell(pricing, pricing.running, (candidate,)) for candidate in pricing.candidates]
    gaining = {cell.label for cell in own
               if cell is not None and cell.from_trial and cell.speedup.value > 1.0}
    warnings: list[str] = [
        *foreign_evidence(situation.target.id, situation.evidence),
        *engine_warnings(situation.deployment, situation.target),
        *(doubts(situation, pricing.unusable, counted, gaining) if choice.blocked not in ("target", "config") else ()),
    ]
    doubt = unconfirmed(situation, choice.best.candidate) if choice.best is not None and not choice.blocked else None
    if choice.best is not None and doubt is not None and (said := f"{choice.best.label}: {doubt}") not in warnings:
        warnings.append(said)
    note = accelerator_note(situation.gpu) if situation.gpu is not None else None
    warnings += [note] if note is not None else []
    warnings += unused_evidence(situation.evidence)
    server = situation.server
    if server is not None:
        warnings += [f"{item.arm}: {item.message}" for item in server.implausible]
    trial = situation.trial
    if trial is not None:
        warnings += [f"{spoken(item.arm)}: {item.message}" for item in trial.implausible if item.severity != "info"]
        warnings += [
            f"{spoken(arm.candidate.label)}: {arm.status.value}{f' ({arm.error})' if arm.error else ''}"
            for arm in trial.arms
            if arm.status.value not in ("done", "skipped")
        ]
        if not isinstance(pricing.cost, MeasuredCost):
            warnings.append(
                "the trial's step times were not used: it ran on another kind of device, or without a timed baseline; "
                "its acceptance was"
            )
    full = saturation_sentence(pricing, choice.best) if choice.blocked not in ("target", "config") else None
    warnings += [full] if full is not None else []
    if pricing.capped:
        warnings.append(pricing.capped)
    sampling = situation.deployment.workload.sampling
    if sampling.min_p > 1e-5 and choice.decision.enable:
        warnings.append("vLLM refuses requests with min_p above 1e-5 once speculation is on")
    warnings += room_warnings(pricing, choice, memory)
    warnings += _window_warnings(pricing, choice, memory)
    warnings += _slo_warnings(pricing, choice)
    if memory.fits is None:
        warnings.append("whether it fits in memory is unknown")
    if choice.decision.enable and choice.best is not None:
        runner = runner_for(choice.best.candidate, situation)
        if runner != situation.runner:
            described = method(choice.best.candidate.method)
            warnings.append(
                f"serve on the {runner.upper()} runner (VLLM_USE_V2_MODEL_RUNNER={'1' if runner == 'v2' else '0'}): "
                f"{described.title} is priced there"
            )
    return warnings


def _slo_warnings(pricing: Pricing, choice: Choice) -> list[str]:
    """A limit on latency that is missed with and without speculation: no k mends it alone."""
    null, objective = pricing.at(NO_SPECULATION, 0, pricing.running), pricing.situation.deployment.objective
    best = choice.best if not choice.blocked else None
    if null.meets_slo is not False or choice.blocked in ("target", "config"):
        return []
    if best is not None and best.meets_slo is not False:
        return []
    found = []
    for name, limit, plain, beside in (
        ("ttft", objective.ttft_ms, null.ttft_ms, best.ttft_ms if best is not None else None),
        ("tpot", objective.tpot_ms, null.tpot_ms, best.tpot_ms if best is not None else None),
    ):
        if limit is not None and plain is not None and plain.value > limit:
            other = f", {beside.value:,.0f} ms with {best.label}" if best is not None and beside is not None else ""
            found.append(f"objective.{name}_ms {limit:g} is missed at {pricing.running} running: {plain.value:,.0f} ms "
                         f"without speculation{other}; fewer requests a replica, or faster hardware, would keep it")
    return found


def _window_warnings(pricing: Pricing, choice: Choice, memory: Memory) -> list[str]:
    """What is only just so about the longest request the emitted config lets in."""
    on = choice.decision.enable is True
    longest = memory.max_model_len_with if on else memory.max_model_len_without
    written = memory.write_max_model_len_with if on else memory.write_max_model_len_without
    fits = memory.window_fits_with if on else memory.window_fits_without
    if memory.window is None or longest is None or choice.blocked == "target":
        return []
    if written is None and fits is None and longest < memory.window:
        return [f"max_model_len {memory.window:,} takes about all the memory that is left for KV (room for {longest:,} "
                "tokens is planned): the server may refuse to start; lower it if it does"]
    needed, tail_known = needed_tokens(pricing.situation)
    if written is not None and not tail_known and written < SPREAD * needed:
        return [f"max-model-len {written:,} is written, and of the lengths only means are known ({needed:,} tokens "
                "together): longer requests are refused; state percentiles, or make room"]
    return []
