"""The reasons, in plain sentences with the numbers: the four questions people ask, then prefill and step cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from advisor.cost.memory import plan_memory, request_tokens
from advisor.decision import Choice, break_even_length
from advisor.prediction import Pricing
from advisor.record import Memory, Priced, Reason
from profiles.deployment import NO_SPECULATION
from profiles.methods import method
from profiles.schema import Quantity, Source
from profiles.workload import Task

_SAID = {
    Source.MEASURED: "measured",
    Source.RECORDED: "recorded",
    Source.MODELLED: "modelled",
    Source.ASSUMED: "assumed",
}
_TIER_SAID = {
    "replay": "recomputed from recorded outputs",
    "scoring": "scored over recorded outputs",
    "server": "recorded on the server",
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


def _requests(count: float) -> str:
    """`1 request`, `12 requests`: whole ones, as only whole ones run."""
    whole = int(count)
    return f"{whole:,} request{'' if whole == 1 else 's'}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " or " + parts[-1]


def _target_unfit(pricing: Pricing) -> Reason:
    """Why the target alone does not run here, with the numbers and what would help."""
    plan = pricing.plan(NO_SPECULATION, 0)
    engine = pricing.situation.deployment.engine
    needed = request_tokens(pricing.situation)
    if plan.usable_gib is None:
        return Reason(
            question="memory",
            for_or_against="against",
            sentence=f"The target does not fit: the KV space holds {plan.kv_tokens_without or 0:,} tokens, and one "
            f"request takes {needed:,.0f}; give the engine a larger VLLM_CPU_KVCACHE_SPACE.",
        )
    each = "each GPU" if pricing.situation.gpu_count > 1 else "the GPU"
    taken = plan.target_weights_gib + (plan.overhead_gib or 0.0)
    sentence = (
        f"The target does not fit: {plan.target_weights_gib:.1f} GiB of weights and {plan.overhead_gib or 0.0:.1f} GiB "
        f"for activations and runtime are needed of {plan.usable_gib:.1f} GiB usable on {each}"
    )
    if taken < plan.usable_gib and plan.kv_tokens_without is not None:
        sentence += f", which leaves {plan.kv_tokens_without:,} KV tokens where one request takes {needed:,.0f}"
    remedies = ["more GPUs with a larger tensor_parallel_size", "a quantized target"]
    if engine.gpu_memory_utilization < 0.95:
        remedies.append(f"a gpu_memory_utilization above {engine.gpu_memory_utilization:g}")
    if engine.max_num_seqs is None:
        remedies.append(f"a stated max_num_seqs below the {pricing.max_running} this release takes by itself")
    return Reason(
        question="memory", for_or_against="against", sentence=f"{sentence}; what helps: {_listed(remedies)}."
    )


def _draft_unfit(pricing: Pricing, best: Priced) -> str:
    """The sentence for a candidate that does not fit at any k beside a target that does."""
    k = min(best.candidate.k)
    plan = pricing.plan(best.candidate, k)
    situation = pricing.situation
    asked = situation.deployment.objective.min_concurrency or 1
    tokens = request_tokens(situation)
    text = (
        f"Leave speculation off: {best.label} does not fit at any k: with k={k}, {plan.kv_tokens_with or 0:,} KV "
        f"tokens would be left, and {_requests(asked)} of this length take{'s' if asked == 1 else ''} "
        f"{asked * tokens:,.0f}"
    )
    if plan.kv_tokens_without is not None and plan.kv_tokens_without < asked * tokens:
        text += f" (without speculation {plan.kv_tokens_without:,} are left, too few as well)"
    if situation.deployment.engine.max_num_seqs is None and situation.runner != "cpu":
        fewer = max(pricing.running, asked)
        engine = situation.deployment.engine.model_copy(update={"max_num_seqs": fewer})
        stated = replace(situation, deployment=situation.deployment.model_copy(update={"engine": engine}))
        if fewer < pricing.max_running and plan_memory(stated, best.candidate, k).fits:
            text += (
                f"; max_num_seqs is not stated, and {pricing.max_running} is what this release takes by itself: state "
                f"it, with {fewer} it would fit"
            )
    return text + "."


def write_reasons(pricing: Pricing, choice: Choice) -> tuple[Reason, ...]:
    """Every reason, the verdict first; each says which question it answers and which way it speaks."""
    best = choice.best
    if choice.blocked == "target":
        return (_target_unfit(pricing),)
    if best is None:
        return (
            Reason(
                question="other",
                sentence=_nothing_to_turn_on(pricing),
            ),
        )
    if choice.blocked in ("memory", "unusable"):
        # What never runs here has no speed worth telling.
        blocked = [_verdict(pricing, choice, best), _memory(pricing, choice, best), _creative(pricing, best)]
        return tuple(blocked)
    reasons = [
        _verdict(pricing, choice, best),
        _predictable(pricing, best),
        _memory(pricing, choice, best),
        _creative(pricing, best),
        _concurrency(pricing, choice, best),
        _prefill(pricing, best),
        _step(pricing, best),
    ]
    if choice.decision.schedule is not None:
        bands = ", ".join(f"k={k} up to {end}" if k else f"none up to {end}" for _, end, k in choice.decision.schedule)
        sentence = (
            f"The best k depends on how many requests run: {bands}; k={best.k} at the {best.running} decided for."
        )
        idle_from = next((start for start, _, k in choice.decision.schedule if k == 0), None)
        if idle_from is not None:
            idle = pricing.speedup(best.candidate, 0, idle_from)
            sentence += (
                f" A loaded but idle speculation still costs {100 * max(0.0, 1 - idle):.0f} % there: for loads that "
                f"stay at {idle_from} or more, leave it off."
            )
        reasons.append(Reason(question="concurrency", sentence=sentence))
    elif choice.schedule_note and choice.decision.enable:
        sentence = f"One k for every load: {choice.schedule_note}"
        if choice.decision.crossover_load is not None:
            sentence += f"; for loads that stay at {choice.decision.crossover_load} or more it should be off"
        reasons.append(Reason(question="concurrency", sentence=sentence + "."))
    if pricing.capped:
        reasons.append(Reason(question="concurrency", sentence=f"{pricing.capped[0].upper()}{pricing.capped[1:]}."))
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
    if choice.blocked == "unusable":
        return Reason(
            question="evidence",
            for_or_against="against",
            sentence=f"Leave speculation off: {best.label} cannot be run here ({pricing.unusable[best.label]}).",
        )
    if choice.blocked == "memory":
        return Reason(question="memory", for_or_against="against", sentence=_draft_unfit(pricing, best))
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
        f"even the upper end is below a gain of {worth:.0f} %.",
    )


def _predictable(pricing: Pricing, best: Priced) -> Reason:
    acceptance = pricing.acceptance[best.label]
    first = acceptance.per_position[0].value if acceptance.per_position else 0.0
    length = best.acceptance_length
    described = method(best.candidate.method)
    said = _TIER_SAID.get(acceptance.tier, _SAID[length.source])
    sentence = (
        f"The text ({_tasks(pricing)}) gives {length.value:.2f} tokens per step of at "
        f"most {best.k + 1} ({said}, {length.low or 1:.2f} to {length.high or best.k + 1:.2f}); "
        f"the first drafted token is accepted in {100 * first:.0f} % of the steps"
    )
    if described.drafter == "lookup":
        sentence += f", and {100 * acceptance.matched_share:.0f} % of the steps find a draft at all"
    share = (length.value - 1.0) / best.k
    verdict = "for" if share >= 0.5 else "against" if share < 0.25 else "neutral"
    return Reason(question="predictable_text", sentence=sentence + ".", for_or_against=verdict)


def _memory(pricing: Pricing, choice: Choice, best: Priced) -> Reason:
    plan: Memory = pricing.plan(best.candidate, choice.k_loaded)
    if plan.kv_tokens_with is None or plan.kv_tokens_without is None:
        return Reason(
            question="memory",
            sentence="How much memory is left for KV is unknown: name the GPU, its memory, or probe it.",
        )
    without, with_it = plan.max_concurrency_without or 0.0, plan.max_concurrency_with or 0.0
    lost = 1.0 - plan.kv_tokens_with / plan.kv_tokens_without if plan.kv_tokens_without else 0.0
    own_kv = f"{plan.kv_bytes_per_token_draft / 1024:.0f} KiB of KV a token beside "
    own_kv += f"{plan.kv_bytes_per_token_target / 1024:.0f} KiB"
    if method(best.candidate.method).drafter == "lookup":
        takes = f"{method(best.candidate.method).title} needs no weights and no KV of its own"
        takes = takes[0].upper() + takes[1:]
    elif plan.draft_weights_gib == 0:
        takes = f"The draft needs no weights of its own and {own_kv}"
    else:
        takes = f"The draft takes {plan.draft_weights_gib:.1f} GiB of weights and {own_kv}"
    sentence = (
        f"{takes}: {plan.kv_tokens_with:,} KV tokens are left of {plan.kv_tokens_without:,} ({100 * lost:.0f} % less), "
        f"enough for {_requests(with_it)} of this length at once (without: {int(without):,})"
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
    sentence = (
        f"At {best.running} running a step verifies {best.running * (best.k + 1)} tokens "
        f"and takes {best.step_ms.value:.1f} ms against {best.baseline_step_ms.value:.1f} ms"
    )
    if best.running > 1:
        sentence += f"; the same k gives {one.speedup.value:.2f}x at one request and {best.speedup.value:.2f}x here"
    if cross is None:
        sentence += f"; no load up to {pricing.max_running} was found at which it stops gaining"
    elif cross <= 1:
        sentence += "; no k gains at any load"
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
