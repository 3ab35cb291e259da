"""`vllm.yaml` for the stated release, as `vllm serve --config` takes it, and the environment that cannot live in it.

Pure: local model folders are expected to be absolute already (the command line makes them so), so that the file boots
from wherever it is started. Rules cited as "vLLM 0.32" were read in that release's `config/vllm.py`,
`config/speculative.py`, `engine/arg_utils.py` and `utils/argparse_utils.py`.
"""

from __future__ import annotations

import itertools
import json
import math
import shlex
from collections.abc import Sequence
from typing import Any

from advisor.cost.step import runner_for
from advisor.emit.heading import ENVIRONMENT, decision_lines, speculates, written_for
from advisor.emit.options import FIELD_OPTIONS, misplaced_option, normalise
from advisor.emit.yaml_text import Entry, OneLine, write
from advisor.record import Decision, EmittedConfig, Memory
from advisor.release_rules import picked_runner, refused_schedule
from advisor.situation import Runner, Situation
from profiles.catalog.releases import Limits, Release, version_tuple
from profiles.deployment import Candidate
from profiles.errors import InputError
from profiles.methods import Method, method

SCHEDULE_KEY = "num_speculative_tokens_per_batch_size"
RUNNER_VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
CPU_KV_VARIABLE = "VLLM_CPU_KVCACHE_SPACE"
NESTED_SINCE = (0, 18, 0)
"""Older releases get nested values as a JSON string, which every release reads; the mapping form is newer."""
ONLY_ON = frozenset(
    {"headless", "grpc", "disable-log-stats", "aggregate-engine-logging", "data-parallel-multi-port-external-lb"}
)
"""Switches of `vllm serve` without a negative form (0.32)."""
LONG_WINDOW = 262_144
"""Few models take longer requests: a KV cache of so many tokens holds one of any other."""
GRAPH_OPTION_SINCE = (0, 12, 0)
"""Releases before it spell the CUDA-graph ceiling otherwise: there none is written."""


def emit(
    decision: Decision, situation: Situation, memory: Memory | None, reasons: Sequence[str],
    cautions: Sequence[str] = (),
) -> EmittedConfig:
    """The serve config of `decision`: with speculation, or (off, abstained) the deployment without it, which says so.

    `reasons` and `cautions` become comments. InputError where the deployment's own arguments cannot go into the file.
    """
    return _Config(decision, situation, memory, reasons, cautions).emitted()


def options(decision: Decision, situation: Situation, memory: Memory | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Options and environment of the same config, not yet written: for whoever wants to judge it."""
    config = _Config(decision, situation, memory)
    return {entry.key: entry.value for entry in config.entries()}, config.env


class _Config:
    """One file in the making: values, comments, environment and notes gather here."""

    def __init__(
        self, decision: Decision, situation: Situation, memory: Memory | None, reasons: Sequence[str] = (),
        cautions: Sequence[str] = (),
    ) -> None:
        self.decision = decision
        self.situation = situation
        self.engine = situation.deployment.engine
        self.release: Release = situation.release
        self.memory = memory
        self.reasons = reasons
        self.cautions = cautions
        self.on = speculates(decision)
        self.method: Method = method(decision.method or "none") if self.on else method("none")
        self.cpu = situation.runner == "cpu"
        candidate = self._candidate() if self.on else None
        # The runner the candidate was priced on: where a method lacks the default one, or drafts without graphs there.
        self.runner: Runner = runner_for(candidate, situation) if candidate is not None else situation.runner
        self.env: dict[str, str] = dict(self.engine.env)
        self.notes: list[str] = []
        self.extra = self._extra_args()

    def emitted(self) -> EmittedConfig:
        entries = self.entries()
        return EmittedConfig(vllm_yaml=write(self._header(), entries), env=self.env, notes=tuple(self.notes))

    def entries(self) -> list[Entry]:
        """The options in the order they are written. Fills the environment and the notes."""
        speculation = self._speculation() if self.on else None
        entries = [*self._model(), *self._serve_args(), *self._budget()]
        entries += [Entry(key, self._nested(value)) for key, value in self.extra.items()]
        entries += self._graphs()
        if speculation is not None:
            entries.append(speculation)
        self._environment()
        return entries

    # --- the deployment ---------------------------------------------------------------------------------------
    def _model(self) -> list[Entry]:
        target = self.situation.deployment.target
        entries = [Entry("model", target.id, ("The target.",))]
        if target.revision is not None:
            entries.append(Entry("revision", target.revision))
        return entries

    def _serve_args(self) -> list[Entry]:
        entries = []
        for name, option in FIELD_OPTIONS.items():
            if name == "max_model_len" and self.engine.max_model_len is None:
                entries += self._window()
                continue
            if name == "max_num_batched_tokens":
                continue
            value = getattr(self.engine, name)
            stated = name in self.engine.model_fields_set
            default = type(self.engine).model_fields[name].default
            # The share of memory is written even when unstated: advice on memory holds for this value only, and
            # the engine's own default differs from release to release. The CPU engine sizes its KV space otherwise.
            if name == "gpu_memory_utilization" and (stated or not self.cpu):
                entries.append(Entry(option, value, self._memory_comment()))
            elif value is not None and value != default:
                entries.append(Entry(option, value))
        return entries

    def _window(self) -> list[Entry]:
        """max-model-len where nobody states one and the model's own would keep the engine from starting."""
        memory = self.memory
        if memory is None:
            return []
        if memory.window is None:
            return self._window_nobody_knows(memory)
        written = memory.write_max_model_len_with if self.on else memory.write_max_model_len_without
        if written is None:
            return []
        beside = " beside the draft" if self.on and memory.draft_weights_gib and not memory.kv_stated_by else ""
        surely = "" if memory.kv_stated_by else "surely "
        said = (
            f"The model takes requests of {memory.window:,} tokens, and the KV cache{beside} does not {surely}hold one "
            f"that long: without this line the server would not start. Requests longer than {written:,} tokens (prompt "
            "and answer) are refused."
        )
        return [Entry("max-model-len", written, (said,))]

    def _window_nobody_knows(self, memory: Memory) -> list[Entry]:
        """`auto`, where the engine can fit the window by itself and a usual one may not fit."""
        tokens = memory.kv_tokens_with if self.on else memory.kv_tokens_without
        if self.cpu or tokens is None or tokens >= LONG_WINDOW or not self.release.has("auto_window"):
            return []
        said = (
            f"How long a request {self.situation.target.id} takes is not known here, and the KV cache holds about "
            f"{tokens:,} tokens: the engine takes the model's own length, or as much of it as fits."
        )
        return [Entry("max-model-len", "auto", (said,))]

    def _memory_comment(self) -> tuple[str, ...]:
        memory = self.memory
        if memory is None or memory.kv_tokens_without is None:
            return ()
        text = f"KV cache room: about {memory.kv_tokens_without:,} tokens without speculation"
        if self.on and memory.kv_tokens_with is not None:
            text += f", {memory.kv_tokens_with:,} with it"
        return (f"{text} ({memory.source.value}).",)

    def _budget(self) -> list[Entry]:
        """max-num-batched-tokens, raised where LoRA with speculation is refused under it."""
        tokens, seqs = self.engine.max_num_batched_tokens, self.engine.max_num_seqs
        if self.on and self.extra.get("enable-lora") is True and seqs is not None:
            needed = seqs * (self._k_max() + 1)
            if needed > (tokens or self._limits().max_num_batched_tokens):
                self.notes.append(
                    f"max-num-batched-tokens is {needed}: with LoRA this engine refuses to speculate under "
                    f"max-num-seqs x (k + 1) tokens"
                )
                return [
                    Entry(
                        "max-num-batched-tokens",
                        needed,
                        (f"LoRA with speculation needs max-num-seqs x (k + 1) = {needed} tokens a step.",),
                    )
                ]
        return [] if tokens is None else [Entry("max-num-batched-tokens", tokens)]

    def _limits(self) -> Limits:
        """What the server takes for sizes nobody states; the smaller figures where the card is unknown."""
        gpu, workers = self.situation.gpu, self.engine.tensor_parallel_size * self.engine.pipeline_parallel_size
        return self.release.default_limits(
            gpu.memory_gib if gpu else None, gpu.name if gpu else "", cpu=self.cpu, workers=workers
        )

    def _extra_args(self) -> dict[str, Any]:
        """The user's further options, one spelling each, without those that this decision makes the engine refuse."""
        options: dict[str, Any] = {}
        for name, value in self.engine.extra_args.items():
            problem = misplaced_option(name)
            if problem is not None:
                raise InputError(f"engine.extra_args.{name}: {problem}")
            option = normalise(name)
            if option in options:
                raise InputError(f"engine.extra_args: {option} stands twice, in two spellings: keep one")
            if value is None:
                # The engine would read the word "None" as a value.
                self.notes.append(f"{option} is left out: it has no value in the deployment")
                continue
            self._put(options, option, value)
        if not self.on and "per-request-spec-decode-metrics" in options:
            del options["per-request-spec-decode-metrics"]
            self.notes.append("per-request-spec-decode-metrics is left out: the engine refuses it without speculation")
        if self.on and not self.method.async_scheduling and options.get("async-scheduling") is True:
            del options["async-scheduling"]
            self.notes.append(f"async-scheduling is left out: the engine refuses it with {self.method.name}")
        return options

    def _put(self, options: dict[str, Any], option: str, value: Any) -> None:
        """`value` as the config file must hold it.

        `key: false` is dropped without a word by `vllm serve` (0.32: the negative form is looked up in the wrong
        parser), so the negative option is written instead. Behind a dot every value must be text.
        """
        if "." in option:
            options[option] = value if isinstance(value, str) else json.dumps(value)
        elif value is not False:
            options[option] = value
        elif option in ONLY_ON or option.startswith("no-"):
            self.notes.append(f"{option} is left out: off is what the engine does without it")
        else:
            options[f"no-{option}"] = True

    def _nested(self, value: Any) -> Any:
        if isinstance(value, dict) and version_tuple(self.release.rules) < NESTED_SINCE:
            return json.dumps(value)
        return value

    # --- speculation ------------------------------------------------------------------------------------------
    def _candidate(self) -> Candidate | None:
        """The candidate the decision names: its draft's revision and split are not in the decision."""
        same = [c for c in self.situation.candidates if c.method == self.method.name]
        named = [c for c in same if (c.draft.id if c.draft else None) == self.decision.draft]
        return next((c for c in named if c.settings == self.decision.settings), named[0] if named else None)

    def _k_max(self) -> int:
        # Without the schedule its largest k would hold at every load, and another was decided for this one.
        written = self.decision.schedule if self._schedule_refused() is None else None
        bands = [k for _, _, k in written or ()]
        return max([self.decision.k or 0, *bands])

    def _speculation(self) -> Entry:
        keys, candidate, comments = self._key_allowed, self._candidate(), [self._speculation_comment()]
        if "speculative-config" not in self.release.serve_options:
            raise InputError(
                f"vLLM {self.release.version} has no speculative-config: expected 0.8 or newer; state a newer "
                "engine.vllm_version"
            )
        if self.method.name not in self.release.methods:
            raise InputError(
                f"vLLM {self.release.version} does not accept the method {self.method.name}: expected one of "
                f"{', '.join(sorted(self.release.methods))}; choose another candidate or release"
            )
        config: dict[str, Any] = {"method": self.method.name}
        if self.decision.draft is not None:
            config["model"] = self.decision.draft
            if candidate is not None and candidate.draft is not None and candidate.draft.revision is not None:
                keys(config, "revision", candidate.draft.revision)
        config["num_speculative_tokens"] = self._k_max()
        split = candidate.tensor_parallel_size if candidate is not None else None
        if split is not None and self.decision.draft is not None:
            self._draft_split(config, split)
        for name, value in sorted(self.decision.settings.items()):
            keys(config, name, value)
        if self.decision.schedule:
            if self._schedule_refused() is None:
                config[SCHEDULE_KEY] = [OneLine(band) for band in _checked(self.decision.schedule)]
                comments.append("Schedule: [from, to, k] by requests running in the step; k = 0 drafts nothing.")
            else:
                self.notes.append(
                    f"no schedule is written, k = {self.decision.k} holds at every load: {self._schedule_refused()}"
                )
        return Entry("speculative-config", self._nested(config), tuple(comments))

    def _key_allowed(self, config: dict[str, Any], key: str, value: Any) -> None:
        if key in self.release.speculative_keys:
            config[key] = value
        else:
            self.notes.append(f"{key} is left out: vLLM {self.release.version} does not know it")

    def _draft_split(self, config: dict[str, Any], split: int) -> None:
        tp = self.engine.tensor_parallel_size
        v1_draft_model = self.method.drafter == "model" and self.runner in ("v1", "cpu")
        if split == tp:
            return
        if split != 1 or v1_draft_model:
            # Only 1 and the target's own split are accepted; the V1 runner wants a draft model's equal to the target's.
            self.notes.append(f"the draft is split over {tp} GPUs like the target: {split} is refused here")
            return
        self._key_allowed(config, "draft_tensor_parallel_size", split)

    def _schedule_refused(self) -> str | None:
        runner: Runner = "cpu" if self.cpu else self.runner
        return refused_schedule(self.method, self.release, runner, self.engine.data_parallel_size)

    def _speculation_comment(self) -> str:
        decision = self.decision
        text = f"{self.method.title[0].upper()}{self.method.title[1:]}, k = {decision.k}"
        if decision.schedule and self._schedule_refused() is None:
            text += f" at {decision.running} running (num_speculative_tokens is the largest k of the schedule)"
        if decision.break_even_acceptance_length is not None:
            text += (
                f"; it pays above {decision.break_even_acceptance_length:.2f} tokens a step at "
                f"{decision.running} running"
            )
        if decision.crossover_load is not None:
            text += f", and no longer from {decision.crossover_load} running on"
        return text + "."

    def _graphs(self) -> list[Entry]:
        """A higher graph ceiling where the usual load's decode batch, in tokens, passes the default one."""
        given = {"max-cudagraph-capture-size", "cudagraph-capture-sizes", "compilation-config", "cuda-graph-sizes"}
        heads = {key.partition(".")[0] for key in self.extra}
        if (
            not self.on
            or self.cpu
            or self.engine.enforce_eager
            or heads & given
            or version_tuple(self.release.rules) < GRAPH_OPTION_SINCE
        ):
            return []
        load = max(float(self.decision.running), self.situation.deployment.workload.concurrency_p95 or 0.0)
        k = next(
            (b[2] for b in self.decision.schedule or () if b[0] <= self.decision.running <= b[1]), self.decision.k or 0
        )
        limits, gpu = self._limits(), self.situation.gpu
        seqs = self.engine.max_num_seqs or limits.max_num_seqs
        budget = self.engine.max_num_batched_tokens or limits.max_num_batched_tokens
        ceiling = self.release.capture_ceiling(seqs, k, gpu.compute_capability if gpu is not None else None)
        wanted = min(math.ceil(load), seqs) * (k + 1)
        if wanted <= ceiling or k == 0:
            return []
        # On the 16-token grid, or the engine cuts it down; a multiple of k + 1, or the widest batch is dropped.
        step = math.lcm(16, k + 1)
        size = min(math.ceil(wanted / step) * step, budget // step * step)
        if size <= ceiling:
            return []
        return [
            Entry(
                "max-cudagraph-capture-size",
                size,
                (
                    f"A decode step of N requests is N x (k + 1) tokens: the default graphs end at {ceiling} tokens, "
                    f"{ceiling // (k + 1)} requests at k = {k}; wider steps would run without graphs.",
                ),
            )
        ]

    # --- what cannot live in the file ---------------------------------------------------------------------------
    def _environment(self) -> None:
        runner, chosen = self.runner, self.engine.runner
        if runner != "cpu" and (chosen != "auto" or runner != picked_runner(self.release, self.situation.target)):
            if chosen not in ("auto", runner):
                self.notes.append(
                    f"the {runner.upper()} runner is used: {chosen.upper()} does not support {self.method.name}, "
                    "and forcing it would be refused"
                )
            self.env[RUNNER_VARIABLE] = "1" if runner == "v2" else "0"
        space = self.situation.deployment.hardware.memory_gib
        if self.cpu and space is not None and CPU_KV_VARIABLE not in self.env:
            self.env[CPU_KV_VARIABLE] = str(max(1, int(space)))

    def _header(self) -> list[str]:
        known = (
            "" if self.release.known else " (newer than this tool knows: the rules of the newest known one were used)"
        )
        variables = (f"{name}={shlex.quote(value)}" for name, value in self.env.items())
        lines = [f"{written_for(self.release)}{known}.",
                 " ".join(("Start it with:", *variables, "vllm serve --config vllm.yaml"))]
        if self.cpu:
            # Its command asks for the version of a package called vllm and stops without one (0.32).
            lines.append("With the package vllm-cpu: python -m vllm.entrypoints.openai.api_server --config vllm.yaml")
        lines.append("")
        lines += decision_lines(self.decision, self.reasons, self.cautions)
        if self.env:
            lines += [
                "",
                ENVIRONMENT,
                *(f"- {k}={v}" for k, v in self.env.items()),
            ]
        if self.notes:
            lines += ["", "Notes:", *(f"- {note}" for note in self.notes)]
        return lines


def _checked(schedule: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The schedule in order. The engine checks it only at start-up, so a wrong one must not leave this function."""
    bands = sorted(schedule)
    if bands[0][0] != 1 or any(start > end or k < 0 for start, end, k in bands):
        raise ValueError(f"schedule {bands} must start at 1, with start <= end and k >= 0 in each band")
    if any(after[0] <= before[1] for before, after in itertools.pairwise(bands)):
        raise ValueError(f"schedule {bands} has bands that overlap")
    return bands
