"""Tokens and requests of a step: drafts count against the same budget."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from profiles.methods import METHODS

_PAIR = ("model: Qwen/Qwen3-32B\ntensor-parallel-size: 2\nmax-model-len: 16384\nmax-num-seqs: 32\n"
         "max-num-batched-tokens: 8192\nspeculative-config:\n  method: draft_model\n  model: Qwen/Qwen3-0.6B\n"
         "  num_speculative_tokens: 4\n")
_OLD = ("model: meta-llama/Llama-2-7b-chat-hf\nmax-model-len: 4096\nspeculative-model: '[ngram]'\n"
        "num-speculative-tokens: 4\nngram-prompt-lookup-max: 4\n")
_V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}


def _slots(subject: Subject) -> int:
    """Token slots a scheduled request takes beside its own k + 1."""
    speculation = subject.speculation
    if speculation is None or speculation.method not in METHODS or speculation.k is None:
        return 0
    if speculation.settings.get("parallel_drafting") is True and speculation.method in ("draft_model", "eagle3"):
        return speculation.k if speculation.method == "draft_model" else speculation.k - 1
    return {"0": 0, "1": 1, "k": speculation.k, "k-1": speculation.k - 1}[METHODS[speculation.method].slots_per_request]


def _too_small(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    tokens = engine.stated_tokens
    if speculation is None or speculation.k is None or tokens is None or engine.runner == "v0":
        return
    running = engine.stated_seqs or engine.defaults.max_num_seqs
    if subject.workload is not None and subject.workload.concurrency is not None:
        running = min(running, subject.workload.concurrency)
    elif engine.stated_seqs is None:
        # Nobody says how many run: below what any server is for, the budget is the mistake.
        running = min(running, 16)
    slots = _slots(subject)
    needed = running * (speculation.k + 1 + slots)
    if tokens >= needed:
        return
    extra = f" and {slots} more for the drafter" if slots else ""
    yield Fault(("max-num-batched-tokens",), f"max_num_batched_tokens is {tokens}: a step of {running} requests takes "
                f"{running} x ({speculation.k} + 1) tokens to verify{extra}, {needed} in all. The token budget leaves "
                f"part "
                "of the batch waiting and prompts hardly move.")


def _below_requests(subject: Subject) -> Iterable[Fault]:
    tokens, seqs = subject.engine.stated_tokens, subject.engine.stated_seqs
    slots = _slots(subject)
    if tokens is not None and slots and tokens <= slots:
        yield Fault(("max-num-batched-tokens",), f"max_num_batched_tokens is {tokens}, and the drafter takes {slots} "
                                                 f"slots of "
                    "each request: not one token is left to schedule, and the server does not start.")
        return
    if tokens is not None and seqs is not None and tokens < seqs and subject.speculation is not None:
        yield Fault(("max-num-batched-tokens",), f"max_num_batched_tokens is {tokens}, below max_num_seqs, {seqs}: "
                                                 f"vLLM "
                    "refuses that.")


def _adapters(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    if speculation is None or speculation.k is None or engine.switch("enable-lora") is not True:
        return
    if engine.runner == "v0":
        return
    needed = engine.max_num_seqs * (speculation.k + 1)
    tokens = engine.max_num_batched_tokens
    if tokens < needed:
        yield Fault(("max-num-batched-tokens",) if engine.stated_tokens else ("enable-lora",),
                    f"With LoRA, max_num_batched_tokens ({tokens}) has to be at least max_num_seqs x (k + 1) = "
                    f"{engine.max_num_seqs} x {speculation.k + 1} = {needed}: the server does not start.")


def _scheduled(subject: Subject) -> Iterable[Fault]:
    """vLLM's own warning: below 8192 schedulable tokens with a drafter that takes slots."""
    speculation, engine = subject.speculation, subject.engine
    slots = _slots(subject)
    if speculation is None or slots == 0 or engine.runner not in ("v1", "v2"):
        return
    if engine.max_num_batched_tokens < 8192:
        yield Fault(("max-num-batched-tokens",) if engine.stated_tokens else speculation.path("method"),
                    f"The drafter takes {slots} token slot{'s' if slots > 1 else ''} of each scheduled request out of "
                    f"a budget of {engine.max_num_batched_tokens} tokens: vLLM warns below 8192, and starts."
                    f"{_left_for_prompts(subject, slots)}")


def _left_for_prompts(subject: Subject, slots: int) -> str:
    """What a full step leaves to prompts, where the load is known; empty where nobody states one."""
    speculation, load = subject.speculation, subject.workload.concurrency if subject.workload is not None else None
    if speculation is None or speculation.k is None or load is None:
        return ""
    budget, running = subject.engine.max_num_batched_tokens, min(load, subject.engine.max_num_seqs)
    taken = running * (speculation.k + 1 + slots)
    said = f" With {running} running a step takes {taken} of them to decode"
    if 2 * taken > budget:
        return f"{said}, and prompts hardly move."
    return f"{said}, which leaves {budget - taken} for prompts: at this load the slots cost next to nothing."


def _below_window(subject: Subject) -> Iterable[Fault]:
    engine = subject.engine
    tokens, window = engine.stated_tokens, engine.stated_window
    if (subject.speculation is None or engine.runner != "v0" or tokens is None or window is None or tokens >= window
            or engine.switch("enable-chunked-prefill") is True):
        return
    yield Fault(("max-num-batched-tokens",), f"max_num_batched_tokens is {tokens}, below the window of {window} "
                "tokens, and the V0 engine takes prompts whole (chunked prefill is off with speculation): vLLM refuses "
                "that.")


RULES = (
    Rule("SPD321", "Token budget below a full verify step",
         "N requests verify N x (k + 1) tokens in a step, and some drafters take further slots of the same budget.",
         "Raise max-num-batched-tokens to 8192 or more, or lower k or max-num-seqs.", "warn",
         "vllm/v1/core/sched/scheduler.py (0.32); vllm issue 32591",
         Example(_PAIR.replace("8192", "64"), env=_V1, gpus=2), Example(_PAIR, env=_V1, gpus=2), _too_small),
    Rule("SPD322", "Token budget below the number of requests", "Each request needs a token in a step.",
         "Raise max-num-batched-tokens or lower max-num-seqs.", "error", "vllm/config/scheduler.py (0.32)",
         Example(_PAIR.replace("8192", "16"), env=_V1, gpus=2), Example(_PAIR, env=_V1, gpus=2), _below_requests),
    Rule("SPD323", "LoRA with a token budget below max_num_seqs x (k + 1)",
         "The LoRA kernels' buffers are sized by max_num_batched_tokens, and vLLM checks them against the widest "
         "verify step.",
         "Raise max-num-batched-tokens, or lower k or max-num-seqs.", "error", "vllm/engine/arg_utils.py of 0.12 to "
                                                                               "0.32",
         Example(_PAIR.replace("8192", "128") + "enable-lora: true\n", env=_V1, gpus=2),
         Example(_PAIR + "enable-lora: true\n", env=_V1, gpus=2), _adapters, releases="0.12 and newer"),
    Rule("SPD324", "Small budget for a drafter that takes slots",
         "vLLM subtracts the drafter's slots from the budget.",
         "Set max-num-batched-tokens to 8192 or more where steps have little room left for prompts; it takes memory "
         "for activations.", "info", "vllm/config/vllm.py (0.32)",
         Example(_PAIR.replace("8192", "2048"), env=_V1, gpus=2), Example(_PAIR, env=_V1, gpus=2), _scheduled,
         releases="0.16 and newer"),
    Rule("SPD325", "Token budget below the window on the old engine",
         "The V0 engine takes prompts whole: each has to fit one step.",
         "Raise max-num-batched-tokens to max-model-len, or lower max-model-len.", "error",
         "vllm/config.py (0.8.5, SchedulerConfig)",
         Example(_OLD + "max-num-batched-tokens: 2048\n", "0.6.6", "A100-80GB"),
         Example(_OLD + "max-num-batched-tokens: 4096\n", "0.6.6", "A100-80GB"), _below_window, releases="before 0.10"),
)
