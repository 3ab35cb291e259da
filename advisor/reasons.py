"""The reasons, in plain sentences with the numbers: the four questions people ask, then prefill and step cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.compared import apart
from advisor.cost.step import weakest
from advisor.decision import Choice, best_cell, break_even_length
from advisor.intervals import shown_apart
from advisor.prediction import Pricing
from advisor.record import Priced, Reason
from advisor.room_reasons import draft_unfit, room, target_unfit, written_window
from advisor.saturation import at_rate, at_rate_sentence
from advisor.schedule import NOISE, Band, fitting, k_at, warned_of
from advisor.slo_reason import slos_kept
from advisor.spoken_figures import crossover_said, drafts_found, held_back_said, ms_said, source_said
from profiles.deployment import NO_SPECULATION
from profiles.methods import method
from profiles.schema import Quantity, Source
from profiles.workload import Task

_TIER_SAID = {
    "replay": "recomputed from recorded outputs",
    "scoring": "scored over recorded outputs",
    "server": "recorded on the server",
}
_CREATIVE_SHARE = 0.3
_HOT = 0.8


def _range(quantity: Quantity, unit: str, threshold: float) -> str:
    if quantity.low is None or quantity.high is None:
        return f"{quantity.value:.2f}{unit}"
    low, high = shown_apart(quantity.low, threshold), shown_apart(quantity.high, threshold)
    return f"{quantity.value:.2f}{unit} ({low} to {high})"


_TASK_NAMES = {Task.JSON_SQL: "JSON or SQL", Task.RAG_LONG_CONTEXT: "answers from long documents"}


def _tasks(pricing: Pricing) -> str:
    tasks = pricing.situation.deployment.workload.tasks
    ordered = sorted(tasks.items(), key=lambda item: -item[1])
    named = [(_TASK_NAMES.get(task, task.value), share) for task, share in ordered]
    if len(named) == 1:
        return named[0][0]
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in named)


def _config_refused(refused: str) -> Reason:
    """Why the deployment starts no server, whatever is decided about speculation."""
    return Reason(
        question="other",
        for_or_against="against",
        sentence=f"This deployment does not start as it is stated, with or without speculation: {refused}.",
    )


def write_reasons(pricing: Pricing, choice: Choice, refused: str = "") -> tuple[Reason, ...]:
    """Every reason, the verdict first; each says which question it answers and which way it speaks.

    refused: why the deployment starts no engine even without speculation, as `decide` was told.
    """
    best = choice.best
    if choice.blocked == "target":
        return (target_unfit(pricing),)
    if choice.blocked == "config":
        return (_config_refused(refused),)
    window = written_window(pricing, choice)
    if best is None:
        return (Reason(question="other", sentence=_nothing_to_turn_on(pricing)), *window)
    if choice.blocked in ("memory", "unusable"):
        # What never runs here has no speed worth telling.
        blocked = [_verdict(pricing, choice, best), room(pricing, choice, best), *window, _creative(pricing, best)]
        return tuple(blocked)
    reasons = [
        _verdict(pricing, choice, best),
        _predictable(pricing, best),
        room(pricing, choice, best),
        *window,
        _creative(pricing, best),
        _concurrency(pricing, choice, best),
        _prefill(pricing, best),
        _step(pricing, best),
        *_two_bases(best),
    ]
    written = best if choice.decision.enable else pricing.at(NO_SPECULATION, 0, best.running)
    reasons += [found for found in (slos_kept(pricing.situation.deployment.objective, written),) if found is not None]
    if choice.decision.enable:
        reasons.append(_schedule(pricing, choice, best))
    if choice.decision.would_settle:
        reasons.append(Reason(question="evidence", sentence=f"What would settle it: {choice.decision.would_settle}."))
    return tuple(reasons)


def _schedule(pricing: Pricing, choice: Choice, best: Priced) -> Reason:
    """Why k follows the load, or why it does not, in one sentence."""
    schedule, cross = choice.decision.schedule, choice.decision.crossover_load
    if schedule is None:
        why = choice.schedule_note or f"no other k is better by more than noise at any load up to {pricing.max_running}"
        sentence = f"One k for every load, no schedule: {why}"
        if choice.schedule_note and cross is not None:
            sentence += f"; for loads that stay at {cross} or more it should be off"
        return Reason(question="concurrency", sentence=sentence + ".")
    bands = ", ".join(f"k={k} up to {end}" if k else f"none up to {end}" for _, end, k in schedule)
    sentence = (
        f"A schedule is written, because the best k depends on how many requests run: {bands}; k={best.k} at the "
        f"{best.running} decided for.{_unlike_chosen(pricing, best, schedule)}"
    )
    if choice.k_loaded != best.k:
        sentence += f" The engine is started with k={choice.k_loaded}, the largest of them."
    rate = at_rate(pricing, best)
    if rate is not None and (there := k_at(schedule, max(1, round(rate.running_with)))) != best.k:
        sentence += (f" At the rate stated about {rate.running_with:.3g} run with it, and there "
                     f"the schedule asks for k={there}.")
    idle_from = next((start for start, _, k in schedule if k == 0), None)
    if idle_from is not None:
        idle = pricing.speedup(best.candidate, 0, idle_from)
        sentence += (
            f" A loaded but idle speculation still costs {100 * max(0.0, 1 - idle):.0f} % there: for loads that "
            f"stay at {idle_from} or more, leave it off."
        )
    return Reason(question="concurrency", sentence=sentence)


def _unlike_chosen(pricing: Pricing, best: Priced, schedule: Sequence[Band]) -> str:
    """Why a schedule's k is not everywhere the one that would be chosen there; empty where it is."""
    for load in pricing.loads:
        kept, alone = k_at(schedule, load), best_cell(pricing, load, (best.candidate,))
        if kept and alone is not None and alone.k != kept:
            return (" From one load to the next it changes k only where the middle of the estimate says that another "
                    f"is better by more than noise ({100 * NOISE:.0f} %): at {load} it asks for k={kept}, where "
                    f"k={alone.k} would be chosen were that the usual load.")
    return ""


def _verdict(pricing: Pricing, choice: Choice, best: Priced) -> Reason:
    worth = 100 * pricing.situation.deployment.objective.worthwhile_gain
    what = f"{best.label} with k={best.k} at {best.running} running request{'s' if best.running > 1 else ''}"
    source = source_said(best.speedup.source, best.from_trial)
    speed = f"{_range(best.speedup, 'x', 1.0 + worth / 100)} end to end, {source}"
    cause = held_back_said(best)
    if choice.decision.enable is True:
        return Reason(
            question="other",
            for_or_against="for",
            sentence=f"Turn speculation on: {what} gives {speed}; the whole interval is above a gain of {worth:.0f} %"
            f"{_shade(pricing, choice, best)}.",
        )
    if choice.decision.enable is None:
        return Reason(
            question="evidence",
            sentence=f"Not decided: {what} would give {speed}, and {_undecided(pricing, best, worth)}, so the config "
            f"is written without speculation{_shade(pricing, choice, best)}.",
        )
    if choice.blocked == "unusable":
        return Reason(
            question="evidence",
            for_or_against="against",
            sentence=f"Leave speculation off: {best.label} cannot be run here ({pricing.unusable[best.label]}).",
        )
    if choice.blocked == "memory":
        return Reason(question="memory", for_or_against="against", sentence=draft_unfit(pricing, best))
    if choice.blocked == "slo":
        return Reason(
            question="other",
            for_or_against="against",
            sentence=f"Leave speculation off: {what} would break a limit on latency that the baseline keeps.",
        )
    return Reason(
        question="other",
        for_or_against="against",
        sentence=f"Leave speculation off: the best of what was looked at, {what}, gives {speed}; "
        f"even the upper end is below a gain of {worth:.0f} %{f'; {cause}' if cause else ''}.",
    )


def _undecided(pricing: Pricing, best: Priced, worth: float) -> str:
    """What keeps an interval from deciding: what it holds, or what it was measured beside."""
    if pricing.disturbed(best.candidate):
        return "other work stretched the steps of the trial behind it, which therefore decide nothing"
    inside, cause = f"a gain of {worth:.0f} % lies inside that interval", held_back_said(best)
    below = cause and best.speedup.value < 1.0 + worth / 100
    return f"{inside} (its middle does not reach it: {cause})" if below else inside


def _shade(pricing: Pricing, choice: Choice, best: Priced) -> str:
    """Why the k with the largest speed-up was not chosen; empty where it was."""
    most = choice.passed_over
    if most is None:
        return ""
    text = f"; k={most.k} would give {most.speedup.value:.2f}x, "
    warned = warned_of(pricing, most.label, most.k, most.running)
    if warned:
        return f"{text}but the checklist advises against it ({warned}) until a trial has measured it"
    if most.k > best.k and best.speedup.value >= (1.0 - NOISE) * most.speedup.value:
        return f"{text}which is no more than noise apart: the smaller k verifies less in vain"
    return f"{text}but is less sure: its interval begins at {most.speedup.low or most.speedup.value:.2f}"


def _predictable(pricing: Pricing, best: Priced) -> Reason:
    acceptance = pricing.acceptance[best.label]
    first = acceptance.per_position[0].value if acceptance.per_position else 0.0
    length = best.acceptance_length
    described = method(best.candidate.method)
    said = _TIER_SAID.get(acceptance.tier, length.source.value)
    stated = pricing.situation.deployment.workload.tasks_stated
    text = f"The text ({_tasks(pricing)})" if stated else "Text of a kind that nobody stated"
    sentence = (
        f"{text} gives {length.value:.2f} tokens per step of at "
        f"most {best.k + 1} ({said}, {length.low or 1:.2f} to {length.high or best.k + 1:.2f}); "
        + (f"the first drafted token is accepted in {100 * first:.0f} % of the steps" if described.always_drafts else
           drafts_found(acceptance.matched_share, first))
    )
    share = (length.value - 1.0) / best.k
    blamed = best.held_back_by in ("acceptance", "matching")
    verdict = "against" if blamed else "for" if share >= 0.5 else "neutral"
    return Reason(question="predictable_text", sentence=sentence + ".", for_or_against=verdict)


def _creative(pricing: Pricing, best: Priced) -> Reason:
    workload = pricing.situation.deployment.workload
    creative = workload.tasks.get(Task.CREATIVE, 0.0)
    heat = workload.sampling.temperature
    parts = []
    if creative >= _CREATIVE_SHARE:
        parts.append(f"{100 * creative:.0f} % of the work is creative writing, which drafts guess badly")
    if heat >= _HOT:
        parts.append(f"sampling at temperature {heat:g} makes the target pick tokens no draft can foresee")
    if parts:
        text = ", and ".join(parts)
        text = f"{text[0].upper()}{text[1:]}"
        acceptance = pricing.acceptance[best.label]
        if acceptance.source in (Source.MEASURED, Source.RECORDED):
            # What was counted says it better than the kind of text, and speaks for itself.
            counted = _TIER_SAID.get(acceptance.tier, acceptance.source.value)
            return Reason(question="creative_or_hot",
                          sentence=f"{text}; the acceptance it is priced with was {counted}, and has that in it.")
        return Reason(question="creative_or_hot", for_or_against="against", sentence=f"{text}.")
    if not workload.temperature_stated:
        how = "Nobody said how requests sample (taken as between greedy and temperature 1)"
    else:
        how = "Sampling is greedy" if heat == 0 else f"Sampling at temperature {heat:g} is not hot"
    if not workload.tasks_stated:
        return Reason(question="creative_or_hot", sentence=f"{how}, nor what kind of text this is."
                      if not workload.temperature_stated else f"{how}; nobody said what kind of text this is.")
    return Reason(question="creative_or_hot", sentence=f"{how}, and little of the work is creative writing.")


def _concurrency(pricing: Pricing, choice: Choice, best: Priced) -> Reason:
    one = pricing.at(best.candidate, best.k, 1)
    cross = choice.decision.crossover_load
    held = math.floor(min(float(best.running), pricing.limit(best.candidate, best.k)))
    fewer = "" if held == best.running else f", of whom memory holds {held:,} at once,"
    sentence = (
        f"At {best.running} running{fewer} a step verifies {held * (best.k + 1)} tokens "
        f"and takes {best.step_ms.value:.1f} ms against {best.baseline_step_ms.value:.1f} ms"
    )
    if best.running > 1:
        sentence += f"; the same k gives {one.speedup.value:.2f}x at one request and {best.speedup.value:.2f}x here"
    ks = fitting(pricing, best.candidate)
    gains = {load: any(pricing.speedup(best.candidate, k, load) > 1.0 for k in ks) for load in pricing.loads}
    always = cross is None and all(gains.values())
    sentence += (f"; no load up to {pricing.max_running} was found from which on no k gains" if always else
                 f"; {crossover_said(gains, cross, pricing.max_running)}")
    beyond = cross is not None and cross <= best.running
    verdict = "against" if beyond or not gains.get(best.running, True) else "neutral"
    if choice.busy is not None and choice.busy.speedup.value < 1.0:
        verdict = "against"
        sentence += f"; in the busy hour ({choice.busy.running} running) it would be {choice.busy.speedup.value:.2f}x"
    rate = at_rate_sentence(pricing, best)
    return Reason(question="concurrency", sentence=f"{sentence}.{f' {rate}.' if rate else ''}", for_or_against=verdict)


def _prefill(pricing: Pricing, best: Priced) -> Reason:
    there = min(float(best.running), pricing.limit(NO_SPECULATION))
    share = 1.0 - pricing.request(NO_SPECULATION, 0, there).decode_share
    sentence = (
        f"Prompts of {pricing.traffic.prompt_tokens:.0f} and answers of {pricing.traffic.output_tokens:.0f} tokens "
        f"spend {100 * share:.0f} % of a request's engine time in prefill, which speculation cannot shorten"
    )
    drafts, without = _draft_prefill(pricing, best)
    sentence += drafts
    if share >= 0.1 or drafts:
        sentence += f": {best.decode_speedup.value:.2f}x in decode is {best.speedup.value:.2f}x end to end{without}"
        if pricing.limit(best.candidate, best.k) < there:
            sentence += ", fewer requests at once counted too"
    return Reason(
        question="prefill_share", sentence=sentence + ".", for_or_against="against" if share > 0.4 else "neutral"
    )


_DRAFT_PREFILL = 0.01
"""Share of the speed-up below which the draft's own reading of the prompts needs no word."""


def _draft_prefill(pricing: Pricing, best: Priced) -> tuple[str, str]:
    """That the draft reads each prompt as well as the target, and what the speed-up would be if it did not; empty where
    that is next to nothing."""
    tokens, cost = max(1.0, pricing.traffic.uncached_prompt_tokens), pricing.cost
    own, target = cost.draft_prefill(best.candidate, tokens), cost.prefill(tokens)
    # What a step takes without any prompt is no part of reading one.
    own_ms, target_ms = own.ms - cost.draft_prefill(best.candidate, 0.0).ms, target.ms - cost.prefill(0.0).ms
    request = pricing.request(best.candidate, best.k, min(float(best.running), pricing.limit(best.candidate, best.k)))
    left = request.total_ms - request.running * own_ms
    spared = request.total_ms / left if left > 0 else 1.0
    if spared < 1.0 + _DRAFT_PREFILL:
        return "", ""
    source = source_said(weakest(own.source, target.source))
    return (f", and the draft reads each prompt as well ({ms_said(own_ms)} ms beside the target's "
            f"{ms_said(target_ms)} ms, {source})",
            f", {best.speedup.value * spared:.2f}x without the draft's reading")


def _step(pricing: Pricing, best: Priced) -> Reason:
    total = best.step_ms.value
    blamed = best.held_back_by in ("draft_time", "verify_compute", "overhead", "together")
    even = break_even_length(pricing, best.candidate, best.k, best.running)
    sentence = (
        f"A step of {total:.1f} ms spends {100 * best.draft_ms / total:.0f} % drafting, "
        f"{100 * best.verify_ms / total:.0f} % verifying and {100 * best.overhead_ms / total:.0f} % in "
        f"overhead ({source_said(best.step_ms.source, best.from_trial)})"
    )
    if even is not None:
        if even > best.k + 1:
            sentence += f"; it would need {even:.2f} tokens per step to break even, more than k={best.k} can ever give"
        else:
            sentence += f"; it breaks even at {even:.2f} tokens per step"
    for note in best.notes:
        sentence += f"; {note}"
    return Reason(question="cost_of_step", sentence=sentence + ".", for_or_against="against" if blamed else "neutral")


def _two_bases(best: Priced) -> tuple[Reason, ...]:
    """That the paired comparison and the steps timed one by one contradict each other, where they do."""
    alone = best.unpaired_speedup
    if alone is None or not apart(alone, best.speedup):
        return ()
    carried = "" if best.speedup.n is not None else ", carried over to this k and load,"
    return (Reason(question="evidence", sentence=(
        f"Two measurements of this differ by more than either is unsure: steps timed one by one would give "
        f"{_range(alone, 'x', 1.0)}, the comparison in pairs{carried} {_range(best.speedup, 'x', 1.0)}; the pairs "
        "count, since they time whole requests, and step times, break-even and crossover here follow them.")),)


def _nothing_to_turn_on(pricing: Pricing) -> str:
    if pricing.situation.deployment.candidates:
        return "Only no speculation was to be priced, so there is nothing to turn on."
    return "No candidate fits this target on this release, so there is nothing to turn on."


def left_out(pricing: Pricing, choice: Choice) -> tuple[Reason, ...]:
    """One sentence for each candidate that cannot run, but the one the verdict is about. None where the deployment
    itself is what has to be mended first."""
    if choice.blocked in ("target", "config"):
        return ()
    about = choice.best.label if choice.best is not None else None
    return tuple(
        Reason(question="other", for_or_against="neutral", sentence=f"{label} is left out: {why}.")
        for label, why in pricing.unusable.items()
        if label != about
    )
