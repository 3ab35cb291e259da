"""What a trial will run: engine arguments of every arm, prompts, loads, blocks. Starts nothing.

The arms differ from the deployment in nothing but the speculation. Blocks are short and ordered by what they tell:
first the outputs at the largest k (acceptance for every k, and one timed cell), then the largest k at every load, then
the other k at the user's load and at the others. A budget cuts from the end.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probes.trial.prompts import Prompt, prompts_summary
from probes.trial.samples import BlockPlan
from profiles.deployment import NO_SPECULATION, Candidate, Deployment, Engine
from profiles.evidence import PromptSummary
from profiles.methods import method
from profiles.model_ref import ModelRef
from profiles.workload import Sampling, Task

OUTPUT_BLOCK = "outputs"
"""The block every arm runs first, on the same prompts: the target's own outputs, and every arm's acceptance."""

LONG_CONTEXT_TOKENS = 512
"""The second context at which the baseline's step is timed, where the deployment does not state a longer prompt."""

_SCHEDULE = "num_speculative_tokens_per_batch_size"

_SERVER_ONLY = frozenset({
    "host", "port", "uds", "api_key", "api_keys", "served_model_name", "chat_template", "response_role", "root_path",
    "middleware", "ssl_keyfile", "ssl_certfile", "ssl_ca_certs", "ssl_cert_reqs", "allowed_origins",
    "allow_credentials",
    "enable_auto_tool_choice", "tool_call_parser", "tool_parser_plugin", "uvicorn_log_level", "disable_log_requests",
    "enable_log_requests", "enable_log_outputs", "max_log_len", "disable_uvicorn_access_log", "disable_log_stats",
    "enable_prompt_tokens_details", "enable_server_load_tracking", "lora_modules", "api_server_count", "headless",
})


@dataclass(frozen=True)
class ArmPlan:
    """One engine configuration: the candidate, its start arguments and the blocks it owes."""

    key: str
    candidate: Candidate
    engine_args: dict[str, Any]
    k_max: int
    dynamic: bool
    """k is changed between blocks through the engine's own schedule lookup."""
    blocks: tuple[BlockPlan, ...]
    env: dict[str, str] = field(default_factory=dict)
    """Variables of this arm alone: the model runner it is to be served on."""


@dataclass(frozen=True)
class TrialPlan:
    """Everything a trial needs to know; `digest` ties a checkpoint to it."""

    target: str
    base_args: dict[str, Any]
    env: dict[str, str]
    baseline: ArmPlan
    arms: tuple[ArmPlan, ...]
    prompts: tuple[Prompt, ...]
    prompts_source: str
    loads: tuple[int, ...]
    user_load: int
    max_tokens: int
    sampling: Sampling
    budget_s: float | None
    worthwhile_gain: float
    seed: int
    repair: bool
    on_cpu: bool
    weight_bytes: int | None
    """Of the target, where it is a folder: for the first estimate only."""
    silence_s: float = 120.0
    """Seconds without a step after which an engine counts as hung."""
    fingerprints: dict[str, str] = field(default_factory=dict)
    """sha256 of each local model's config.json and file sizes, to notice that a model changed under a checkpoint."""

    @property
    def digest(self) -> str:
        """sha256 over all that decides what is measured; the budget is free to change between runs."""
        facts = {
            "base": self.base_args, "env": self.env, "models": self.fingerprints, "loads": self.loads,
            "seed": self.seed, "max_tokens": self.max_tokens, "sampling": self.sampling.model_dump(),
            "repair": self.repair, "prompts": prompts_summary(self.prompts).sha256,
            "arms": [[a.key, a.engine_args, a.env, [b.__dict__ for b in a.blocks]]
                     for a in (self.baseline, *self.arms)],
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()

    def summary(self, mean_prompt_tokens: float | None) -> PromptSummary:
        return prompts_summary(self.prompts, self.prompts_source, mean_prompt_tokens)

    def env_of(self, arm: ArmPlan) -> dict[str, str]:
        """The environment of an arm's engine: its own variables over the deployment's."""
        return {**self.env, **arm.env}

    def task_of(self, places: Sequence[int]) -> Task | None:
        """The one task of these prompts, or None where they are mixed."""
        tasks = {self.prompts[place].task for place in places}
        return tasks.pop() if len(tasks) == 1 else None

    def comparison_args(self, arm: ArmPlan, k: int) -> dict[str, Any]:
        """Engine arguments of the chosen candidate for the paired comparison.

        On a GPU the engine is started with the fixed k that would be deployed: a schedule can cost it its full graphs.
        On the CPU engine there are none, and the schedule lets a cell of the first start be repeated.
        """
        if self.on_cpu and arm.dynamic:
            return arm.engine_args
        fixed = {key: value for key, value in arm.engine_args["speculative_config"].items() if key != _SCHEDULE}
        return {**arm.engine_args, "speculative_config": {**fixed, "num_speculative_tokens": k}}

    def pair_places(self, turn: int) -> tuple[int, ...]:
        """The prompts of the turn-th paired block: another slice each time, a bit more than the load of them."""
        size = self.user_load + max(1, self.user_load // 2)
        return tuple((turn * size + i) % len(self.prompts) for i in range(size))


def speculative_config(candidate: Candidate, k: int, seats: int | None) -> dict[str, Any]:
    """vLLM's `speculative_config`; with `seats` (max_num_seqs) a schedule of k for every batch size is added."""
    config: dict[str, Any] = {"method": candidate.method, "num_speculative_tokens": k, **candidate.settings}
    if candidate.draft is not None:
        config["model"] = candidate.draft.id
        if candidate.draft.revision:
            config["revision"] = candidate.draft.revision
    if candidate.tensor_parallel_size is not None:
        config["draft_tensor_parallel_size"] = candidate.tensor_parallel_size
    if seats is not None:
        config[_SCHEDULE] = [[1, seats, k]]
    return config


def build_plan(deployment: Deployment, candidates: Sequence[Candidate], prompts: Sequence[Prompt], *, on_cpu: bool,
               prompts_source: str = "built-in", user_load: int | None = None, budget_s: float | None = None,
               runner_of: Callable[[Candidate], str | None] | None = None,
               locate: Callable[[ModelRef], Path | None] | None = None) -> TrialPlan:
    """The plan for these candidates, in their order (give the most promising first).

    `user_load` is the running requests to decide for (the workload's concurrency by default). `runner_of` names the
    runner a candidate would be served on (v1, v2, cpu), where known: the arm is timed on it, and it says whether k can
    be varied inside one start. `locate` finds a model's folder on this machine; an id without one is left to the
    engine to resolve.
    """
    find = locate or _folder
    base = engine_arguments(deployment.engine, _place(deployment.target, find), deployment.target.revision, on_cpu)
    env = engine_environment(deployment, on_cpu)
    seats = int(base["max_num_seqs"])
    load = max(1, min(seats, user_load or round(deployment.workload.concurrency or 4)))
    loads = tuple(sorted({min(seats, n) for n in deployment.trial.loads} | {load})) if deployment.trial.loads \
        else default_loads(load, seats)
    chosen = choose_prompts(prompts, deployment.workload.tasks, count=max(12 if on_cpu else 48, load + load // 2))
    outputs = BlockPlan(OUTPUT_BLOCK, k=0, running=_output_load(load, len(chosen), seats),
                        places=tuple(range(min(len(chosen), max(8 if on_cpu else 32, load)))),
                        max_tokens=deployment.trial.max_tokens)
    context = _long_context(deployment, base.get("max_model_len"))
    baseline = ArmPlan("0 none", NO_SPECULATION, base, 0, False, _baseline_blocks(outputs, loads, load, context))
    arms = []
    for number, stated in enumerate(candidates, 1):
        candidate = _located(stated, find)
        honours = method(candidate.method).dynamic_schedule
        runner = (runner_of(stated) if runner_of is not None else None) or ("cpu" if on_cpu else "v2")
        dynamic = bool(honours) and runner.replace("cpu", "v1") in honours
        top = max(candidate.k)
        arms.append(ArmPlan(
            f"{number} {candidate.label}", stated,
            {**base, "speculative_config": speculative_config(candidate, top, seats if dynamic else None)},
            top, dynamic, _candidate_blocks(outputs, candidate.k, dynamic, loads, load, every_k=not on_cpu),
            env={} if on_cpu else {"VLLM_USE_V2_MODEL_RUNNER": "1" if runner == "v2" else "0"}))
    models = [deployment.target, *(c.draft for c in candidates if c.draft is not None)]
    target = find(deployment.target)
    return TrialPlan(
        target=deployment.target.id, base_args=base, env=env, baseline=baseline, arms=tuple(arms),
        prompts=tuple(chosen), prompts_source=prompts_source, loads=loads, user_load=load,
        max_tokens=deployment.trial.max_tokens,
        sampling=deployment.workload.sampling, budget_s=budget_s or deployment.trial.budget_s,
        worthwhile_gain=deployment.objective.worthwhile_gain, seed=deployment.trial.seed,
        repair=deployment.trial.repair_known_faults, on_cpu=on_cpu, weight_bytes=_weight_bytes(target),
        fingerprints={ref.id: _fingerprint(find(ref)) for ref in models})


# --- engine ----------------------------------------------------------------------------------------------------------
def engine_arguments(engine: Engine, model: str, revision: str | None, on_cpu: bool) -> dict[str, Any]:
    """The deployment's serve arguments as the `LLM` class takes them, without what only a server has."""
    stated = engine.model_dump(include={
        "tensor_parallel_size", "pipeline_parallel_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
        "dtype", "quantization", "kv_cache_dtype", "enforce_eager", "trust_remote_code"}, exclude_none=True)
    if not on_cpu:
        stated["gpu_memory_utilization"] = engine.gpu_memory_utilization
    extra = {key.lstrip("-").replace("-", "_"): value for key, value in engine.extra_args.items()}
    for name in _SERVER_ONLY | {"speculative_config", "model", "config"}:
        extra.pop(name, None)
    args = {"model": model, **stated, **extra}
    if revision:
        args["revision"] = revision
    # The lookup that varies k has one entry a seat, and the schedule must reach the last one: state it.
    args.setdefault("max_num_seqs", 128 if on_cpu else 256)
    return args


def engine_environment(deployment: Deployment, on_cpu: bool) -> dict[str, str]:
    env = dict(deployment.engine.env)
    if deployment.engine.runner != "auto":
        env.setdefault("VLLM_USE_V2_MODEL_RUNNER", "1" if deployment.engine.runner == "v2" else "0")
    if on_cpu:
        env.setdefault("VLLM_CPU_KVCACHE_SPACE", f"{max(1, round(deployment.hardware.memory_gib or 2))}")
    return env


# --- blocks ----------------------------------------------------------------------------------------------------------
def default_loads(load: int, seats: int) -> tuple[int, ...]:
    """One request, the user's load, and one between them, or beyond where there is no room between."""
    if load <= 2:
        return tuple(sorted({1, load, min(seats, 4)}))
    return tuple(sorted({1, load, round(math.sqrt(load))}))


def choose_prompts(prompts: Sequence[Prompt], tasks: Mapping[Task, float], count: int) -> list[Prompt]:
    """Up to `count` prompts in the workload's shares, tasks interleaved so that any beginning holds the mix.

    Sets under other task names than the workload's (a user's own file, a family without a set) keep their own order.
    """
    by_task: dict[Task, list[Prompt]] = {}
    for prompt in prompts:
        by_task.setdefault(prompt.task, []).append(prompt)
    shares = {task: tasks.get(task, 0.0) for task in by_task}
    if not sum(shares.values()):
        return list(prompts[:count])
    taken = dict.fromkeys(by_task, 0)
    chosen: list[Prompt] = []
    while len(chosen) < count:
        open_tasks = [t for t in by_task if shares[t] > 0 and taken[t] < len(by_task[t])]
        if not open_tasks:
            break
        behind = min(open_tasks, key=lambda t: (taken[t] + 1) / shares[t])
        chosen.append(by_task[behind][taken[behind]])
        taken[behind] += 1
    return chosen


def _output_load(load: int, prompts: int, seats: int) -> int:
    # Acceptance does not depend on the load: answering several at once is cheaper than one after the other.
    return max(1, min(seats, max(load, 8), max(prompts, load)))


def _baseline_blocks(outputs: BlockPlan, loads: Sequence[int], load: int, context: int) -> tuple[BlockPlan, ...]:
    blocks = [outputs]
    for running in _by_use(loads, load):
        if running != outputs.running:
            blocks.append(BlockPlan(f"load {running}", 0, running, tuple(range(running)), 16))
    blocks.append(BlockPlan(f"context {context} load {load}", 0, load, tuple(range(load)), 8, context_tokens=context))
    return tuple(blocks)


def _candidate_blocks(outputs: BlockPlan, ks: Sequence[int], dynamic: bool, loads: Sequence[int], load: int, *,
                      every_k: bool) -> tuple[BlockPlan, ...]:
    top = max(ks)
    blocks = [BlockPlan(outputs.key, top, outputs.running, outputs.places, outputs.max_tokens)]
    # The largest k at every load first: the step is close to linear in k, but nothing tells how it bends with the load.
    cells = [(top, running) for running in _by_use(loads, load)]
    if dynamic:
        # Two k and k=0 tell the line at one load; those between check it where it matters.
        least = min(ks)
        between = [k for k in sorted(ks, reverse=True) if least < k < top]
        middle = sorted(ks)[len(ks) // 2]
        cells += [(least, load), (0, load)]
        cells += [(k, load) for k in between if every_k or k == middle]
        cells += [(k, running) for running in _by_use(loads, load) if running != load for k in (least, 0)]
    for k, running in dict.fromkeys(cells):
        if (k, running) != (top, outputs.running):
            blocks.append(BlockPlan(f"k {k} load {running}", k, running, tuple(range(running)), 8 + round(4 * k)))
    return tuple(blocks)


def _by_use(loads: Sequence[int], load: int) -> list[int]:
    """The user's load first, then from far to near: the ends fix a line, the middle only checks it."""
    return sorted(loads, key=lambda n: (n != load, -abs(n - load)))


def _long_context(deployment: Deployment, max_model_len: int | None) -> int:
    lengths = deployment.workload.prompt_tokens
    wanted = max(LONG_CONTEXT_TOKENS, round(lengths.mean) if lengths is not None else 0)
    return wanted if max_model_len is None else max(16, min(wanted, max_model_len - 64))


# --- models ----------------------------------------------------------------------------------------------------------
def _folder(ref: ModelRef) -> Path | None:
    path = Path(ref.id).expanduser()
    return path if (path / "config.json").is_file() else None


def _place(ref: ModelRef, find: Callable[[ModelRef], Path | None]) -> str:
    found = find(ref)
    return str(found) if found is not None else ref.id


def _located(candidate: Candidate, find: Callable[[ModelRef], Path | None]) -> Candidate:
    if candidate.draft is None:
        return candidate
    return candidate.model_copy(update={"draft": candidate.draft.model_copy(
        update={"id": _place(candidate.draft, find)})})


def _weight_bytes(folder: Path | None) -> int | None:
    sizes = [f.stat().st_size for f in folder.glob("*.safetensors")] if folder is not None else []
    return sum(sizes) or None


def _fingerprint(folder: Path | None) -> str:
    if folder is None:
        return "not a folder"
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(f"{file.name} {file.stat().st_size}".encode())
    return digest.hexdigest()
