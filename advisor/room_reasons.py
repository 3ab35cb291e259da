"""The reasons that are about memory: what fits, what a draft takes, and how long a request may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from advisor.cost.memory import plan_memory, request_tokens
from advisor.cost.step import runner_for
from advisor.cost.taken import drafter_takes, drafter_verb, engine_takes, joined
from advisor.cost.window import needed_tokens
from advisor.decision import Choice
from advisor.prediction import Pricing
from advisor.record import Memory, Priced, Reason
from advisor.situation import Situation
from advisor.target_fit import what_would_fit
from profiles.deployment import NO_SPECULATION
from profiles.methods import method
from profiles.schema import counted


def target_unfit(pricing: Pricing) -> Reason:
    """Why the target alone does not run here, with the numbers and what would help."""
    plan, situation = pricing.plan(NO_SPECULATION, 0), pricing.situation
    engine = situation.deployment.engine
    needed = _longest_said(situation)
    if plan.usable_gib is None:
        return Reason(
            question="memory",
            for_or_against="against",
            sentence=f"The target does not fit: the KV space holds {plan.kv_tokens_without or 0:,} tokens, and "
            f"{needed}; give the engine a larger {plan.kv_stated_by or 'VLLM_CPU_KVCACHE_SPACE'}.",
        )
    each = "each GPU" if situation.gpu_count > 1 else "the GPU"
    taken = plan.target_weights_gib + (plan.overhead_gib or 0.0)
    if plan.kv_fits_without is False:
        return Reason(question="memory", for_or_against="against", sentence=(
            "The target does not fit beside the KV cache that is stated: "
            f"{_stated_kv_said(plan, plan.kv_gib_without)}, {plan.target_weights_gib:.1f} GiB of weights and "
            f"{plan.overhead_gib or 0.0:.1f} GiB for activations and runtime are more than the {plan.usable_gib:.1f} "
            f"GiB of {each}; state less, or leave it to gpu_memory_utilization."))
    sentence = (
        f"The target does not fit: {plan.target_weights_gib:.1f} GiB of weights and {plan.overhead_gib or 0.0:.1f} GiB "
        f"for activations and runtime are needed of {plan.usable_gib:.1f} GiB usable on {each}"
    )
    if taken < plan.usable_gib and plan.kv_tokens_without is not None:
        leaves = f"and {plan.kv_stated_by} gives" if plan.kv_stated_by else "which leaves"
        sentence += f", {leaves} {plan.kv_tokens_without:,} KV tokens where "
        if _window_refused(pricing, plan, speculating=False):
            sentence += (f"engine.max_model_len asks for one request of {engine.max_model_len:,}, and vLLM refuses to "
                         "start")
        else:
            sentence += needed
    remedies = what_would_fit(pricing)
    helps = (f"any one of these would do: {_listed(remedies)}" if remedies else
             "neither 4-bit weights nor 16 GPUs of this kind would hold it: take a smaller target or other hardware")
    return Reason(question="memory", for_or_against="against", sentence=f"{sentence}; {helps}.")


def draft_unfit(pricing: Pricing, best: Priced) -> str:
    """The sentence for a candidate that does not fit at any k beside a target that does."""
    k = min(best.candidate.k)
    plan = pricing.plan(best.candidate, k)
    situation = pricing.situation
    if _window_refused(pricing, plan, speculating=True):
        return (
            f"Leave speculation off: beside {best.label} memory holds one request of at most "
            f"{plan.max_model_len_with:,} tokens, engine.max_model_len is {plan.window:,}, and vLLM would refuse to "
            f"start; with a max_model_len of at most {plan.max_model_len_with:,} it could be looked at again."
        )
    if plan.kv_fits_with is False:
        return (
            f"Leave speculation off: beside {best.label} there is no room for the KV cache that is stated "
            f"({_stated_kv_said(plan, plan.kv_gib_with)}): state less, or leave it to gpu_memory_utilization, and it "
            "could be looked at again."
        )
    asked = situation.deployment.objective.min_concurrency or 1
    tokens = request_tokens(situation)
    taken = (_longest_said(situation) if asked == 1 else
             f"{counted(asked, 'request')} of this length take {asked * tokens:,.0f}")
    text = (
        f"Leave speculation off: {best.label} does not fit at any k: with k={k}, {plan.kv_tokens_with or 0:,} KV "
        f"tokens would be left, and {taken}"
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


def room(pricing: Pricing, choice: Choice, best: Priced) -> Reason:
    """What the draft takes, and how many requests are left room for."""
    plan: Memory = pricing.plan(best.candidate, choice.k_loaded)
    if plan.kv_tokens_with is None or plan.kv_tokens_without is None:
        return Reason(
            question="memory",
            sentence="How much memory is left for KV is unknown: name the GPU, its memory, or probe it.",
        )
    without, with_it = plan.requests_without or 0, plan.requests_with or 0
    lost = 1.0 - plan.kv_tokens_with / plan.kv_tokens_without if plan.kv_tokens_without else 0.0
    situation, described = pricing.situation, method(best.candidate.method)
    if described.drafter == "lookup":
        takes = f"{described.title[0].upper()}{described.title[1:]} needs no weights and no KV of its own"
    else:
        who = drafter_verb(described)
        takes = f"{who[0].upper()}{who[1:]} {joined(drafter_takes(plan)) or 'no weights and no KV of its own'}"
    besides = engine_takes(plan, situation.target, runner_for(best.candidate, situation), situation.runner)
    takes += f"; the engine then takes {joined(besides)}" if besides else ""
    sentence = (
        f"{takes}: {plan.kv_tokens_with:,} KV tokens are left {_lost(lost, plan.kv_tokens_without)}, "
        f"enough for {counted(with_it, 'request')} of this length at once (without: {without:,})"
    )
    if plan.fits is False:
        asked = pricing.situation.deployment.objective.min_concurrency or 1
        lacking = ": too few" if with_it < asked else "; the longest request that has to fit does not"
        return Reason(question="memory", sentence=f"{sentence}{lacking}.", for_or_against="against")
    # A shortage that the candidate does not bring about does not speak against it.
    short = _too_few(pricing, best, plan, True) is not None or bool(room_warnings(pricing, choice, plan))
    against = (short and lost > _LITTLE_LOST) or with_it < best.running <= without
    return Reason(question="memory", sentence=sentence + ".", for_or_against="against" if against else "neutral")


def _lost(share: float, without: int) -> str:
    """`of 1,000 (12 % less)`; where the candidate runs on another runner, it may leave more."""
    if abs(share) < 0.005:
        return f"of {without:,}" if share > 0 else "as without it"
    return f"of {without:,} ({100 * share:.0f} % less)" if share > 0 else (
        f"where the other runner leaves {without:,} without it")


_MOST_LOST, _MUCH_SHORTER, _LITTLE_LOST = 0.5, 0.25, 0.1
"""Share of the KV tokens, and of the longest request, that a draft takes at most without a warning; and the share of
the KV tokens up to which it is not to blame for what memory lacks."""
SPREAD = 2.0
"""Times their mean that requests are commonly long: a window shorter than that refuses some."""


def room_warnings(pricing: Pricing, choice: Choice, plan: Memory) -> tuple[str, ...]:
    """What a draft takes of the memory that the workload needs, with the figures of both sides, a sentence without a
    full stop each. Nothing where it is left off."""
    if choice.best is None or choice.blocked or choice.decision.enable is False:
        return ()
    on = choice.decision.enable is True
    found = (_too_few(pricing, choice.best, plan, on), _shorter(pricing, choice, choice.best, plan))
    said = tuple(sentence for sentence in found if sentence is not None)
    most = _most_of_it(choice.best, plan, on)
    return said if said or most is None else (most,)


def _too_few(pricing: Pricing, best: Priced, plan: Memory, on: bool) -> str | None:
    """Requests that run at the usual load, or in the busy hour, and no longer fit at once."""
    fit, alone = plan.requests_with, plan.requests_without
    busy = min(pricing.max_running, round(pricing.traffic.running_p95 or 0))
    asked = max(best.running, busy)
    if fit is None or alone is None or fit >= min(asked, alone):
        return None
    when = ("in the busy hour" if asked > best.running else "in a full replica without it" if pricing.saturated else
            "at the usual load")
    without = f"{alone:,} fit" if alone >= asked else f"{alone:,} fit, which is too few as well"
    holds, wait = ("holds", "wait") if on else ("would hold", "would wait")
    return (f"beside {best.label} memory {holds} {counted(fit, 'request')} at once, and {asked:,} run {when}: the "
            f"others {wait} for a place ({_tokens_left(plan, on)}; without speculation {without})")


def _shorter(pricing: Pricing, choice: Choice, best: Priced, plan: Memory) -> str | None:
    """How much shorter the longest request becomes that the server lets in."""
    if plan.write_max_model_len_with is None or plan.max_model_len_without is None:
        return None
    written = "is" if choice.decision.enable else "would be"
    beside = plan.write_max_model_len_with
    alone = plan.write_max_model_len_without or plan.max_model_len_without
    needed, tail_known = needed_tokens(pricing.situation)
    short = not tail_known and beside < SPREAD * needed
    if beside >= alone or not (short or beside < (1.0 - _MUCH_SHORTER) * alone):
        return None
    shortens = "shortens" if choice.decision.enable else "would shorten"
    return (f"{best.label} {shortens} the longest request that is let in: max-model-len {beside:,} "
            f"{written} written, and without speculation it could be {alone:,} "
            f"({_tokens_left(plan, choice.decision.enable is True)})")


def _most_of_it(best: Priced, plan: Memory, on: bool) -> str | None:
    with_it, without = plan.kv_tokens_with, plan.kv_tokens_without
    if with_it is None or not without or with_it > (1.0 - _MOST_LOST) * without:
        return None
    fit = "" if plan.requests_with is None else (
        f", {counted(plan.requests_with, 'request')} of mean length at once instead of {plan.requests_without:,}")
    takes = "takes" if on else "would take"
    return f"{best.label} {takes} {100 * (1 - with_it / without):.0f} % of the KV cache: {_tokens_left(plan, on)}{fit}"


def _tokens_left(plan: Memory, on: bool) -> str:
    left = "are" if on else "would be"
    return f"{plan.kv_tokens_with or 0:,} KV tokens of {plan.kv_tokens_without or 0:,} {left} left"


def written_window(pricing: Pricing, choice: Choice) -> tuple[Reason, ...]:
    """Why the config states a max-model-len that the deployment does not; nothing where it states none."""
    on = choice.decision.enable is True
    plan = (pricing.plan(choice.best.candidate, choice.k_loaded) if on and choice.best is not None else
            pricing.plan(NO_SPECULATION, 0))
    written = plan.write_max_model_len_with if on else plan.write_max_model_len_without
    if written is None or plan.window is None:
        return ()
    sentence = (
        f"The config states max-model-len {written:,}: the model takes requests of {plan.window:,} tokens, "
        f"{f'{plan.kv_stated_by} does not' if plan.kv_stated_by else 'memory does not surely'} hold one that long, and "
        "vLLM would refuse to start; longer requests are refused"
    )
    alone = plan.write_max_model_len_without or plan.window
    if on and alone > written:
        sentence += f" (without speculation it could be {alone:,})"
    return (Reason(question="memory", sentence=sentence + "."),)


def _stated_kv_said(plan: Memory, gib: float | None) -> str:
    return f"{plan.kv_stated_by} asks for {gib or 0.0:.1f} GiB"


def _longest_said(situation: Situation) -> str:
    """`one request takes 700`: by its mean, or up to how much where more is known of the lengths."""
    needed, tail_known = needed_tokens(situation)
    mean = request_tokens(situation)
    return f"one request takes up to {needed:,}" if tail_known and needed > mean else f"one request takes {mean:,.0f}"


def _window_refused(pricing: Pricing, plan: Memory, *, speculating: bool) -> bool:
    """Whether it is the stated max_model_len that keeps the engine from starting, and a shorter one would do."""
    fits, longest = ((plan.window_fits_with, plan.max_model_len_with) if speculating else
                     (plan.window_fits_without, plan.max_model_len_without))
    stated = pricing.situation.deployment.engine.max_model_len
    return stated is not None and fits is False and (longest or 0) >= needed_tokens(pricing.situation)[0]


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " or " + parts[-1]
