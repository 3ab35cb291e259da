"""The reasons, in plain sentences with the numbers: the four questions people ask, then prefill and step cost."""

from __future__ import annotations

from advisor.decision import Choice, break_even_length
from advisor.prediction import Pricing
from advisor.record import Memory, Priced, Reason
from profiles.deployment import NO_SPECULATION
from profiles.methods import method
from profiles.schema import Quantity, Source
from profiles.workload import Task

_SAID = {
    Source.MEASURED: "measured",
    Source.RECORDED: "recorded on the server",
    Source.MODELLED: "modelled",
    Source.ASSUMED: "assumed",
}
_CREATIVE_SHARE = 0.3
_HOT = 0.8


def _range(quantity: Quantity, unit: str = "") -> str:
    if quantity.low is None or quantity.high is None:
        return f"{quantity.value:.2f}{unit}"
    return f"{quantity.value:.2f}{unit} ({quantity.low:.2f} to {quantity.high:.2f})"


_TASK_NAMES = {Task.JSON_SQL: "JSON or SQL", Task.RAG_LONG_CONTEXT: "answers from long documents"}


def _tasks(pricing: Pricing) -> str:
    tasks = pricing.situation.deployment.workload.tasks
    ordered = sorted(tasks.items(), key=lambda item: -item[1])
    named = [(_TASK_NAMES.get(task, task.value), share) for task, share in ordered]
    if len(named) == 1:
        return named[0][0]
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in named)


def write_reasons(pricing: Pricing, choice: Choice) -> tuple[Reason, ...]:
    """Every reason, the verdict first; each says which question it answers and which way it speaks."""
    best = choice.best
    if best is None:
        return (
            Reason(
                question="other",
                sentence=_nothing_to_turn_on(pricing),
            ),
        )
    reasons = [
        _verdict(pricing, choice, best),
        _predictable(pricing, best),
        _memory(pricing, best),
        _creative(pricing, best),
        _concurrency(pricing, choice, best),
        _prefill(pricing, best),
        _step(pricing, best),
    ]
    if choice.decision.schedule is not None:
        bands = ", ".join(f"k={k} up to {end}" if k else f"none up to {end}" for _, end, k in choice.decision.schedule)
        sentence = f"The best k depends on how many requests run: {bands}."
        if any(k == 0 for _, _, k in choice.decision.schedule):
            idle = pricing.decode_gain(best.candidate, 0, next(s for s, _, k in choice.decision.schedule if k == 0))
            sentence += f" A loaded but idle speculation still costs {100 * (1 - idle):.0f} % there."
        reasons.append(Reason(question="concurrency", sentence=sentence))
    elif choice.schedule_note and choice.decision.enable:
        reasons.append(Reason(question="concurrency", sentence=f"One k for every load: {choice.schedule_note}."))
    if choice.decision.would_settle:
        reasons.append(Reason(question="evidence", sentence=f"What would settle it: {choice.decision.would_settle}."))
    return tuple(reasons)


def _verdict(pricing: Pricing, choice: Choice, best: Priced) -> Reason:
    worth = 100 * pricing.situation.deployment.objective.worthwhile_gain
    what = f"{best.label} with k={best.k} at {best.running} running request{'s' if best.running > 1 else ''}"
    speed = f"{_range(best.speedup, 'x')} end to end, {_SAID[best.speedup.source]}"
    if choice.decision.enable is True:
        return Reason(
            question="other",
            for_or_against="for",
            sentence=f"Turn speculation on: {what} gives {speed}; the whole interval is above a gain of {worth:.0f} %.",
        )
    if choice.decision.enable is None:
        return Reason(
            question="evidence",
            sentence=f"Not decided: {what} would give {speed}, and a gain of {worth:.0f} % lies inside "
            "that interval, so the config is written without speculation.",
        )
    if best.label in pricing.unusable:
        return Reason(
            question="evidence",
            for_or_against="against",
            sentence=f"Leave speculation off: {best.label} cannot be run here ({pricing.unusable[best.label]}).",
        )
    if not best.fits:
        return Reason(
            question="memory", for_or_against="against", sentence=f"Leave speculation off: {best.label} does not fit."
        )
    if best.meets_slo is False:
        return Reason(
            question="other",
            for_or_against="against",
            sentence=f"Leave speculation off: {what} would break a limit on latency that the baseline keeps.",
        )
    return Reason(
        question="other",
        for_or_against="against",
        sentence=f"Leave speculation off: the best of what was looked at, {what}, gives {speed}; "
        f"even the upper end is below a gain of {worth:.0f} %.",
    )


def _predictable(pricing: Pricing, best: Priced) -> Reason:
    acceptance = pricing.acceptance[best.label]
    first = acceptance.per_position[0].value if acceptance.per_position else 0.0
    length = best.acceptance_length
    described = method(best.candidate.method)
    sentence = (
        f"The text ({_tasks(pricing)}) gives {length.value:.2f} tokens per step of at "
        f"most {best.k + 1} ({_SAID[length.source]}, {length.low or 1:.2f} to {length.high or best.k + 1:.2f}); "
        f"the first drafted token is accepted in {100 * first:.0f} % of the steps"
    )
    if described.drafter == "lookup":
        sentence += f", and {100 * acceptance.matched_share:.0f} % of the steps find a draft at all"
    share = (length.value - 1.0) / best.k
    verdict = "for" if share >= 0.5 else "against" if share < 0.25 else "neutral"
    return Reason(question="predictable_text", sentence=sentence + ".", for_or_against=verdict)


def _memory(pricing: Pricing, best: Priced) -> Reason:
    plan: Memory = pricing.memory[best.label]
    if plan.kv_tokens_with is None or plan.kv_tokens_without is None:
        return Reason(
            question="memory",
            sentence="How much memory is left for KV is unknown: name the GPU, its memory, or probe it.",
        )
    without, with_it = plan.max_concurrency_without or 0.0, plan.max_concurrency_with or 0.0
    lost = 1.0 - plan.kv_tokens_with / plan.kv_tokens_without if plan.kv_tokens_without else 0.0
    sentence = (
        f"The draft takes {plan.draft_weights_gib:.1f} GiB of weights and "
        f"{plan.kv_bytes_per_token_draft / 1024:.0f} KiB of KV a token beside "
        f"{plan.kv_bytes_per_token_target / 1024:.0f} KiB: {plan.kv_tokens_with:,} KV tokens are left of "
        f"{plan.kv_tokens_without:,} ({100 * lost:.0f} % less), enough for {with_it:.0f} requests of "
        f"this length at once (without: {without:.0f})"
    )
    if plan.fits is False:
        return Reason(question="memory", sentence=sentence + ": too few.", for_or_against="against")
    return Reason(
        question="memory",
        sentence=sentence + ".",
        for_or_against="against" if with_it < best.running <= without else "neutral",
    )


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
        text = " and ".join(parts)
        return Reason(question="creative_or_hot", for_or_against="against", sentence=f"{text[0].upper()}{text[1:]}.")
    how = "Sampling is greedy" if heat == 0 else f"Sampling at temperature {heat:g} is not hot"
    return Reason(question="creative_or_hot", sentence=f"{how}, and little of the work is creative writing.")


def _concurrency(pricing: Pricing, choice: Choice, best: Priced) -> Reason:
    one = pricing.at(best.candidate, best.k, 1)
    cross = choice.decision.crossover_load
    sentence = (
        f"At {best.running} running a step verifies {best.running * (best.k + 1)} tokens "
        f"and takes {best.step_ms.value:.1f} ms against {best.baseline_step_ms.value:.1f} ms"
    )
    if best.running > 1:
        sentence += f"; the same k gives {one.speedup.value:.2f}x at one request and {best.speedup.value:.2f}x here"
    if cross is None:
        sentence += f"; no load up to {pricing.max_running} was found at which it stops gaining"
    else:
        sentence += f"; from {cross} running requests on no k gains"
    verdict = "against" if cross is not None and cross <= best.running else "neutral"
    if choice.busy is not None and choice.busy.speedup.value < 1.0:
        verdict = "against"
        sentence += f"; in the busy hour ({choice.busy.running} running) it would be {choice.busy.speedup.value:.2f}x"
    return Reason(question="concurrency", sentence=sentence + ".", for_or_against=verdict)


def _prefill(pricing: Pricing, best: Priced) -> Reason:
    base = pricing.request(NO_SPECULATION, 0, min(float(best.running), pricing.limit(NO_SPECULATION)))
    share = 1.0 - base.decode_share
    sentence = (
        f"Prompts of {pricing.traffic.prompt_tokens:.0f} and answers of {pricing.traffic.output_tokens:.0f} tokens "
        f"spend {100 * share:.0f} % of a request's engine time in prefill, which speculation cannot shorten"
    )
    if share >= 0.1:
        sentence += f": {best.decode_speedup.value:.2f}x in decode is {best.speedup.value:.2f}x end to end"
    return Reason(
        question="prefill_share", sentence=sentence + ".", for_or_against="against" if share > 0.4 else "neutral"
    )


def _step(pricing: Pricing, best: Priced) -> Reason:
    total = best.step_ms.value
    even = break_even_length(pricing, best.candidate, best.k, best.running)
    sentence = (
        f"A step of {total:.1f} ms spends {100 * best.draft_ms / total:.0f} % drafting, "
        f"{100 * best.verify_ms / total:.0f} % verifying and {100 * best.overhead_ms / total:.0f} % in "
        f"overhead ({_SAID[best.step_ms.source]})"
    )
    if even is not None:
        if even > best.k + 1:
            sentence += f"; it would need {even:.2f} tokens per step to break even, more than k={best.k} can ever give"
        else:
            sentence += f"; it breaks even at {even:.2f} tokens per step"
    for note in best.notes:
        sentence += f"; {note}"
    return Reason(question="cost_of_step", sentence=sentence + ".")


def _nothing_to_turn_on(pricing: Pricing) -> str:
    if pricing.situation.deployment.candidates:
        return "Only no speculation was to be priced, so there is nothing to turn on."
    return "No candidate fits this target on this release, so there is nothing to turn on."


def left_out(pricing: Pricing, choice: Choice) -> tuple[Reason, ...]:
    """One sentence for each candidate that cannot run, but the one the verdict is about."""
    about = choice.best.label if choice.best is not None else None
    return tuple(
        Reason(question="other", for_or_against="neutral", sentence=f"{label} is left out: {why}.")
        for label, why in pricing.unusable.items()
        if label != about
    )
