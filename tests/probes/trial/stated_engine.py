"""An engine that runs nothing: it answers at once and moves a stated clock by what the work would have taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import pytest

from profiles.evidence import ArmStatus


@dataclass
class StatedMachine:
    """The clock all share, and what starts and steps take. `fails`: methods whose engine does not start."""

    start_s: float = 10.0
    step_s: float = 0.1
    fails: frozenset[str] = frozenset()
    ends_with_prompts: frozenset[str] = frozenset()
    """Methods whose blocks the budget ends when no more than their prompts were read."""
    accepted: float = 0.6
    """Share of drafts accepted at each position, of those accepted before."""
    slow: Callable[[float], float] = field(default=lambda _: 1.0)
    """What steps take at a time, in units of what they usually take."""
    now_s: float = 1000.0
    log: list[str] = field(default_factory=list)
    """Starts by method, and blocks."""

    def monotonic(self) -> float:
        return self.now_s

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put the engine and the clock in the place of the real ones."""
        machine = self

        class Engine(StatedEngine):
            def __init__(self, engine_args: dict[str, Any], **_: Any) -> None:
                super().__init__(machine, engine_args)

        monkeypatch.setattr("probes.trial.arm.EngineProcess", Engine)
        monkeypatch.setattr("probes.trial.arm.time", self)
        monkeypatch.setattr("probes.trial.session.time", self)
        monkeypatch.setattr("probes.trial.runner.room_for_both", lambda _: True)


class StatedEngine:
    """What the trial uses of an EngineProcess."""

    def __init__(self, machine: StatedMachine, engine_args: dict[str, Any]) -> None:
        self.machine = machine
        self.accounted = False
        self.began_s = machine.now_s
        self.info: dict[str, Any] = {}
        self.start_s = machine.start_s
        self.env: dict[str, str] = {}
        self.engine_args = engine_args
        self.start_timeout_s = 0.0

    @property
    def config(self) -> dict[str, Any]:
        return self.engine_args.get("speculative_config") or {}

    @property
    def method(self) -> str:
        return str(self.config.get("method", "none"))

    @property
    def lived_s(self) -> float:
        return self.machine.now_s - self.began_s

    def start(self, waiting: Callable[[float], None] | None = None) -> dict[str, Any]:
        from probes.trial.engine_errors import EngineFailure

        self.began_s = self.machine.now_s
        self.machine.log.append(f"start {self.method}")
        self.machine.now_s += self.machine.start_s
        if self.method in self.machine.fails:
            raise EngineFailure(ArmStatus.REFUSED, "stated to fail")
        schedule = "num_speculative_tokens_per_batch_size" in self.config
        self.info = {"hooks": {"steps": True}, "max_model_len": 768, "device": "cpu", "threads": 1,
                     "vllm_version": "0.32.0", "runner": "cpu", "kv_cache_tokens": 9999, "model_memory_bytes": None,
                     "k_control": "schedule_lookup" if schedule else "fixed"}
        return self.info

    def spawn(self) -> None:
        pass

    @property
    def alive(self) -> bool:
        return True

    def close(self) -> None:
        pass

    def call(self, cmd: str, *, beat: Callable[[int, int], None] | None = None,
             turn: Callable[[dict[str, Any]], float | None] | None = None, **fields: Any) -> Any:
        if cmd == "tokenize":
            return {"ids": [[1] * 20 for _ in fields["prompts"]], "notes": []}
        block = self._block(**fields)
        event = next(block)
        while event["event"] == "turn":
            if beat is not None:
                beat(0, event["tokens"])
            event = block.send(turn(event) if turn is not None else None)
        if event["data"]["complete"] and beat is not None:
            self.machine.log.append(f"block {self.method}")
        return event["data"]

    def begin_block(self, **fields: Any) -> dict[str, Any]:
        self.begun = self._block(**fields)
        return next(self.begun)

    def go(self) -> dict[str, Any]:
        return self.begun.send(None)

    def interrupt(self) -> None:
        self.begun.close()

    def _block(self, *, prompts: list[list[int]], running: int, k: int | None, max_tokens: int,
               deadline_s: float | None = None, **_: Any) -> Generator[dict[str, Any], float | None, None]:
        """Turns, then the result; every prompt decodes in equal steps, `running` at a time."""
        machine = self.machine
        if self.method in machine.ends_with_prompts and max_tokens > 4:
            yield {"event": "result", "data": {
                "complete": False, "wall_s": 1.0, "output_tokens": len(prompts),
                "steps": [[1e3, running, running, 20 * running, 20 * running, 0, running, 20.0, None, None]],
                "counters": {"generation_tokens": len(prompts), "spec_decode_num_drafts": 0},
                "requests": [{"place": place, "prompt_tokens": 20, "ids": [5], "steps": 0, "drafted": [],
                              "accepted": []} for place in range(len(prompts))]}}
            return
        k = int(self.config.get("num_speculative_tokens", 0)) if k is None else k
        reached = [machine.accepted ** (i + 1) for i in range(k)]
        steps = math.ceil(max_tokens / (1 + sum(reached)))
        begin_s, own_s, rows = machine.now_s, 0.0, []
        for _ in range(math.ceil(len(prompts) / running) * steps):
            tokens = round(len(rows) * running * max_tokens / steps)
            beside_ms = yield {"event": "turn", "own_s": own_s, "tokens": tokens, "row": rows[-1] if rows else None}
            if deadline_s is not None and machine.now_s - begin_s > deadline_s:
                break
            step_s = machine.step_s * (1 + 0.1 * k) * machine.slow(machine.now_s)
            machine.now_s += step_s
            own_s += step_s
            rows.append([step_s * 1e3, running, 0, 0, running * (k + 1), 0, running, 40.0, None, beside_ms])
        yield {"event": "result", "data": {
            "complete": len(rows) == math.ceil(len(prompts) / running) * steps, "wall_s": own_s,
            "output_tokens": len(prompts) * max_tokens, "steps": rows,
            "counters": {"generation_tokens": 1, "spec_decode_num_drafts": steps * len(prompts) if k else None},
            "requests": [{"place": place, "prompt_tokens": 20, "ids": [5] * max_tokens, "steps": steps,
                          "drafted": [steps] * k, "accepted": [round(steps * share) for share in reached]}
                         for place in range(len(prompts))],
        }}
