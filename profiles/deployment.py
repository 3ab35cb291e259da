"""The deployment file: what the user states, one pydantic model, extra keys refused.

`specadvise init` writes a commented one from these docstrings; docs/deployment.schema.json is exported from them.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from profiles.methods import method
from profiles.model_ref import ModelRef
from profiles.schema import (
    MAX_K,
    MAX_TOKENS,
    Gib,
    Gpus,
    PositiveMs,
    PositiveSeconds,
    RequestLimit,
    Schema,
    Setting,
    TokenLimit,
    Watts,
    Whole,
    number,
    shown,
)
from profiles.workload import Workload

Rate = Annotated[float, Field(ge=1e-3, le=10**7), number]
"""GB/s or TFLOP/s."""


def _is_finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _release_text(value: object) -> object:
    """A release without quotes is a number to YAML, which drops its last zeros: `0.30` arrives as 0.3."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    text = repr(value)
    if isinstance(value, float) and re.fullmatch(r"[0-9]+\.[0-9]{2,4}", text):
        return text
    longer = f" or {text}0" if isinstance(value, float) and "." in text else ""
    raise PydanticCustomError("release_number", "text in quotes, such as \"0.30\": without them YAML reads a number "
                              "and drops its last zeros, so this could mean {text}{longer}",
                              {"text": text, "longer": longer})


class Engine(Schema):
    """The vLLM this deployment runs, and its serve arguments."""

    vllm_version: Annotated[str | None, BeforeValidator(_release_text)] = None
    """Release the config must boot on, e.g. 0.32.0; the installed one when left out, else the newest known."""
    tensor_parallel_size: Gpus = 1
    """GPUs one layer is split over."""
    pipeline_parallel_size: Gpus = 1
    """GPUs the layers are spread over."""
    data_parallel_size: Gpus = 1
    """Engine replicas behind one server; a dynamic schedule is dropped above 1."""
    max_model_len: TokenLimit | None = None
    """Longest prompt + output in tokens."""
    max_num_seqs: RequestLimit | None = None
    """Most requests in one step."""
    max_num_batched_tokens: TokenLimit | None = None
    """Most tokens in one step; drafts count."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1), number] = 0.9
    """Share of each GPU the engine may take."""
    dtype: str = "auto"
    """Weights and activations: auto, bfloat16, float16, float32."""
    quantization: str | None = None
    """Weight quantization, where the checkpoint does not say it."""
    kv_cache_dtype: str = "auto"
    """KV cache storage: auto (the model's), fp8, ..."""
    enforce_eager: bool = False
    """No graph capture: starts faster, steps slower."""
    trust_remote_code: bool = False
    """Run code shipped with the model. Off unless you ask."""
    runner: Literal["auto", "v1", "v2"] = "auto"
    """GPU model runner (VLLM_USE_V2_MODEL_RUNNER): auto is what the release picks."""
    extra_args: dict[str, Any] = Field(default_factory=dict)
    """Anything else for `vllm serve`, by its option name; passed through as it is."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the engine process (VLLM_*)."""

    @field_validator("extra_args")
    @classmethod
    def _finite(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, given in value.items():
            if not _is_finite(given):
                raise ValueError(f"{shown(name)} holds a number that is not finite: vLLM reads none")
        return value


class Hardware(Schema):
    """The accelerators one engine runs on."""

    gpu: str = "auto"
    """Name as NVML or people write it (H100, RTX PRO 6000, L40S), `cpu`, or `auto` to probe."""
    count: Annotated[int, Field(ge=0, le=10_000), number] | None = None
    """GPUs of this machine that the engine may use; defaults to what the parallel sizes need."""
    memory_gib: Gib | None = None
    """Memory of one GPU (or the KV space of the CPU engine), where it differs from the catalog's."""
    memory_bandwidth_gbs: Rate | None = None
    """Peak memory bandwidth of one GPU, GB/s (10^9 bytes), where it differs from the catalog's."""
    dense_tflops: dict[Literal["fp16", "bf16", "tf32", "fp8", "int8", "fp4"], Rate] = Field(default_factory=dict)
    """Dense peak by number format, TFLOP/s, where it differs from the catalog's. A GPU the catalog has not needs
    memory_gib, memory_bandwidth_gbs and at least one of these."""
    link_gbs: Rate | None = None
    """Bandwidth between the GPUs of one engine, GB/s per GPU, both directions together."""
    power_cap_w: Annotated[Watts, Field(gt=0)] | None = None
    """Power limit in force, when below the card's own."""


_K_BOUNDS = f"k must hold numbers between 1 and {MAX_K} (no speculation is the candidate `none`)"


def _range_of(text: str) -> tuple[int, ...]:
    """The numbers of `3` or `1-5`. The ends are looked at before the range is built: it may be a billion long."""
    found = re.fullmatch(r"\s*([0-9]+)\s*(-)?\s*([0-9]+)?\s*", text)
    if found is None or (found[3] and not found[2]):
        raise ValueError(f"k is {shown(text)}: expected a number, a list, or a range like 1-5")
    if found[2] and not found[3]:
        raise ValueError(f"k is {shown(text)}: the range has no end: expected one like 1-5")
    ends = [end.lstrip("0") or "0" for end in (found[1], found[3] or found[1])]
    if any(len(end) > 2 or not 1 <= int(end) <= MAX_K for end in ends):
        raise ValueError(f"k is {shown(text)}: {_K_BOUNDS}")
    low, high = map(int, ends)
    if low > high:
        raise ValueError(f"k is {shown(text)}: the range runs backwards: write it as {high}-{low}")
    return tuple(range(low, high + 1))


def _stated_k(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("k is a boolean: expected a number, a list, or a range like 1-5")
    if isinstance(value, int):
        return (value,)
    return _range_of(value) if isinstance(value, str) else value


def _within_bounds(value: tuple[int, ...]) -> tuple[int, ...]:
    if not value or min(value) < 1 or max(value) > MAX_K:
        raise ValueError(_K_BOUNDS)
    return tuple(sorted(set(value)))


Ks = Annotated[tuple[Whole, ...], BeforeValidator(_stated_k), AfterValidator(_within_bounds)]
"""Numbers of speculative tokens: one, a list, or a range as text."""


class Candidate(Schema):
    """A method, its draft and the range of k to look at. `none` is always priced beside them."""

    method: str
    """draft_model, ngram, suffix, eagle, eagle3, mtp, medusa, dflash, ..."""
    draft: ModelRef | None = None
    """The draft model or head, where the method needs one. Left out for a method of trained heads, those that the
    catalog has for the target are taken."""
    k: Ks = (1, 2, 3, 4, 5)
    """Numbers of speculative tokens to look at: a list, or a string like "1-5"."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Further keys of the method, e.g. prompt_lookup_max; values are swept only where a list is allowed."""
    tensor_parallel_size: Gpus | None = None
    """GPUs the draft is split over: 1 or the target's."""

    @model_validator(mode="before")
    @classmethod
    def _string_is_method(cls, value: object) -> object:
        return {"method": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _method_and_draft_agree(self) -> Candidate:
        try:
            known = method(self.method)
        except KeyError as error:
            raise ValueError(str(error.args[0])) from None
        object.__setattr__(self, "method", known.name)
        if known.needs_draft and self.draft is None:
            raise ValueError(f"method {known.name} needs a draft: name it under `draft`")
        if known.drafter in ("lookup", "none") and self.draft is not None:
            raise ValueError(f"method {known.name} takes no draft, but {self.draft.id!r} is named")
        unknown = set(self.settings) - known.settings
        if unknown:
            raise ValueError(f"method {known.name} has no setting {sorted(unknown)[0]!r}: "
                             f"expected one of {', '.join(sorted(known.settings)) or 'none at all'}")
        return self

    @property
    def label(self) -> str:
        """How reports name it: `draft_model SmolLM2-135M`, `ngram`, ..."""
        parts = [self.method]
        if self.draft is not None:
            parts.append(self.draft.id.rstrip("/").split("/")[-1])
        parts += [f"{key.removeprefix('suffix_decoding_').removeprefix('prompt_lookup_')}={value:g}"
                  for key, value in sorted(self.settings.items())]
        return " ".join(parts)


NO_SPECULATION = Candidate(method="none", k=(1,))
"""The null candidate: priced by the same code as every other."""


def spoken(label: str) -> str:
    """A candidate's label in a sentence: the null candidate in words, the others as they are."""
    return "no speculation" if label == NO_SPECULATION.label else label


class Goal(str, Enum):
    """What better means."""

    LATENCY = "latency"
    """Time per output token a user sees (then time to first token)."""
    THROUGHPUT = "throughput"
    """Output tokens per second of the whole engine at the stated load."""
    COST = "cost"
    """Tokens per second and GPU within the SLOs."""


class Objective(Schema):
    """What to optimise, the limits to keep, and the gain that makes it worthwhile."""

    goal: Goal = Goal.LATENCY
    """latency | throughput | cost."""
    ttft_ms: PositiveMs | None = None
    """SLO: time to first token, milliseconds, mean."""
    tpot_ms: PositiveMs | None = None
    """SLO: time per output token, milliseconds, mean."""
    worthwhile_gain: Annotated[float, Field(ge=0, lt=1), number] = 0.05
    """Smallest relative gain that justifies the added complexity (0.05 is 5 %)."""
    min_concurrency: RequestLimit | None = None
    """Requests that must fit in KV memory at full length, speculation included."""


class Trial(Schema):
    """The short run on a real engine."""

    enabled: bool = False
    """Run it as part of `advise` (`--trial` and `--no-trial` override)."""
    budget_s: PositiveSeconds = 600.0
    """Seconds it may take, engine starts included."""
    prompts: str | None = None
    """JSONL of your own prompts (text or chat messages); built-in task sets otherwise."""
    loads: tuple[RequestLimit, ...] = ()
    """Running requests to measure at; by default 1, the workload's load, and one between or beyond."""
    max_tokens: Annotated[int, Field(ge=8, le=MAX_TOKENS), number] = 48
    """Output tokens a request is run for."""
    seed: Whole = 0
    """Seed of prompt choice and of sampled requests."""
    repair_known_faults: bool = False
    """Apply this tool's named, release-gated repairs to the engine under trial (CPU builds only)."""


class Sources(Schema):
    """Where evidence comes from besides the trial; each is optional."""

    server: str | None = None
    """URL of a running vLLM (its /metrics is scraped twice), or a saved dump."""
    server_window_s: PositiveSeconds = 15.0
    """Seconds between the two scrapes."""
    gpu: bool = False
    """Probe this machine's GPUs through NVML."""
    requests: tuple[str, ...] = ()
    """Request logs and traces (files or patterns): they fill in load, lengths, task mix and sampling not stated."""
    files: tuple[str, ...] = ()
    """Saved evidence files."""
    recordings: tuple[str, ...] = ()
    """JSONL of recorded prompts with their outputs: lookups are replayed over them, and drafts scored in a trial."""


class Deployment(Schema):
    """One vLLM deployment: what runs, on what, for whom, and what counts as better."""

    target: ModelRef
    """The large model whose output users get."""
    engine: Engine = Engine()
    hardware: Hardware = Hardware()
    candidates: tuple[Candidate, ...] = ()
    """What to consider; left empty, those that fit the target are proposed from the catalog. `none` alone prices no
    speculation only."""
    k: Ks | None = None
    """Numbers of speculative tokens to look at with the candidates that are proposed; stated ones bring their own."""
    workload: Workload = Workload()
    objective: Objective = Objective()
    trial: Trial = Trial()
    sources: Sources = Sources()

    @field_validator("workload")
    @classmethod
    def _busy_hour_is_no_quieter(cls, value: Workload) -> Workload:
        usual, busy = value.concurrency, value.concurrency_p95
        if usual is not None and busy is not None and busy < usual:
            raise ValueError(f"concurrency_p95 ({busy:g}) is below concurrency ({usual:g}), and the busy hour has at "
                             "least the usual load: correct one of them, or leave concurrency_p95 out")
        return value

    @field_validator("candidates")
    @classmethod
    def _each_once(cls, value: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """`none` is implied beside others; the same candidate stated twice is one with the k of both."""
        merged: dict[str, Candidate] = {}
        for candidate in value:
            if candidate.method == "none":
                continue
            key = candidate.model_copy(update={"k": ()}).model_dump_json()
            known = merged.get(key)
            ks = candidate.k if known is None else tuple(sorted({*known.k, *candidate.k}))
            merged[key] = candidate.model_copy(update={"k": ks})
        if value and not merged:
            return (NO_SPECULATION,)
        named: dict[str, Candidate] = {}
        for candidate in merged.values():
            other = named.setdefault(candidate.label, candidate)
            if other.draft is not None and candidate.draft is not None and other.draft != candidate.draft:
                # Figures are kept by this name: those of one would be taken for the other's.
                both = " and ".join(repr("@".join(filter(None, (one.id, one.revision))))
                                    for one in (other.draft, candidate.draft))
                raise ValueError(f"{both} would both be called {candidate.label!r} here: expected drafts whose last "
                                 "names differ; look at one at a time, or give one a folder of another name")
        return tuple(merged.values())
