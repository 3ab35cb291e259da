"""The reasons that are about memory: what fits, what a draft takes, and how long a request may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from advisor.cost.memory import plan_memory, request_tokens
from advisor.cost.window import needed_tokens
from advisor.decision import Choice
from advisor.prediction import Pricing
from advisor.record import Memory, Priced, Reason
from advisor.situation import Situation
from profiles.deployment import NO_SPECULATION
from profiles.methods import method


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
            f"{needed}; give the engine a larger VLLM_CPU_KVCACHE_SPACE.",
        )
    each = "each GPU" if situation.gpu_count > 1 else "the GPU"
    taken = plan.target_weights_gib + (plan.overhead_gib or 0.0)
    sentence = (
        f"The target does not fit: {plan.target_weights_gib:.1f} GiB of weights and {plan.overhead_gib or 0.0:.1f} GiB "
        f"for activations and runtime are needed of {plan.usable_gib:.1f} GiB usable on {each}"
    )
    remedies = ["more GPUs with a larger tensor_parallel_size", "a quantized target"]
    if engine.gpu_memory_utilization < 0.95:
        remedies.append(f"a gpu_memory_utilization above {engine.gpu_memory_utilization:g}")
    if engine.max_num_seqs is None:
        remedies.append(f"a stated max_num_seqs below the {pricing.max_running} this release takes by itself")
    if taken < plan.usable_gib and plan.kv_tokens_without is not None:
        sentence += f", which leaves {plan.kv_tokens_without:,} KV tokens where "
        if _window_refused(pricing, plan, speculating=False):
            sentence += (f"engine.max_model_len asks for one request of {engine.max_model_len:,}, and vLLM refuses to "
                         "start")
            remedies.insert(0, f"a max_model_len of at most {plan.max_model_len_without:,}")
        else:
            sentence += needed
    return Reason(
        question="memory", for_or_against="against", sentence=f"{sentence}; what helps: {_listed(remedies)}."
    )


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
    asked = situation.deployment.objective.min_concurrency or 1
    tokens = request_tokens(situation)
    taken = (_longest_said(situation) if asked == 1 else
             f"{_requests(asked)} of this length take {asked * tokens:,.0f}")
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
        asked = pricing.situation.deployment.objective.min_concurrency or 1
        lacking = ": too few" if with_it < asked else "; the longest request that has to fit does not"
        return Reason(question="memory", sentence=f"{sentence}{lacking}.", for_or_against="against")
    return Reason(
        question="memory",
        sentence=sentence + ".",
        for_or_against="against" if with_it < best.running <= without else "neutral",
    )


def written_window(pricing: Pricing, choice: Choice) -> tuple[Reason, ...]:
    """Why the config states a max-model-len that the deployment does not; nothing where it states none."""
    on = choice.decision.enable is True
    plan = (pricing.plan(choice.best.candidate, choice.k_loaded) if on and choice.best is not None else
            pricing.plan(NO_SPECULATION, 0))
    written = plan.write_max_model_len_with if on else plan.write_max_model_len_without
    if written is None or plan.window is None:
        return ()
    sentence = (
        f"The config states max-model-len {written:,}: the model takes requests of {plan.window:,} tokens, memory "
        "does not surely hold one that long, and vLLM would refuse to start; longer requests are refused"
    )
    alone = plan.write_max_model_len_without or plan.window
    if on and alone > written:
        sentence += f" (without speculation it could be {alone:,})"
    return (Reason(question="memory", sentence=sentence + "."),)


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


def _requests(count: float) -> str:
    """`1 request`, `12 requests`: whole ones, as only whole ones run."""
    whole = int(count)
    return f"{whole:,} request{'' if whole == 1 else 's'}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " or " + parts[-1]
