"""Synthetic records to deploy: real advice for invented deployments, with the decision put in by hand."""

from __future__ import annotations

from typing import Any

from advisor.advice import advise
from advisor.emit.vllm_config import emit
from advisor.promise import decided_candidate
from advisor.record import Decision, Record
from tests.advisor.emit.situations import decision, memory, situation

NOW = "2026-11-30T00:00:00Z"
DRAFT_MODEL = {"candidates": [{"method": "draft_model", "draft": "org/draft", "k": [1, 2, 3]}]}
NGRAM = {"candidates": [{"method": "ngram", "k": [1, 2, 3]}]}
REASONS = ("The text is predictable.", "It fits.")


def record(decided: Decision | None = None, version: str = "0.32.0", gpu: str | None = "H100", runner: Any = None,
           **deployment: Any) -> Record:
    """A record of `situation(version, runner, gpu, **deployment)` that decided as stated: on by default."""
    stated = situation(version, runner, gpu, **(deployment or DRAFT_MODEL))
    advised = advise(stated, NOW)
    chosen = (decided or decision()).model_copy(update={"reasons": REASONS})
    made = advised.model_copy(update={"decision": chosen, "memory": memory(),
                                      "emitted": emit(chosen, stated, memory(), REASONS)})
    assert not chosen.enable or decided_candidate(made).method == chosen.method
    return made


def abstained() -> Record:
    return record(decision(enable=None))


def on_cpu(**deployment: Any) -> Record:
    return record(version="0.32.0", gpu=None, runner="cpu",
                  **{"hardware": {"gpu": "cpu", "memory_gib": 8}, **DRAFT_MODEL, **deployment})


def many() -> dict[str, Record]:
    """One of each kind that a form must cope with."""
    return {
        "draft model": record(),
        "abstained": abstained(),
        "off": record(decision(enable=False)),
        "lookup": record(decision("ngram", None, 3), **NGRAM),
        "split over four": record(engine={"tensor_parallel_size": 4, "max_model_len": 8192}, **DRAFT_MODEL),
        "folders": record(decision(draft="/models/$draft"), target="/models/my target",
                          candidates=[{"method": "draft_model", "draft": "/models/$draft", "k": [1, 2, 3]}]),
        "amd": record(gpu="MI300X", **DRAFT_MODEL),
        "cpu": on_cpu(),
        "options": record(engine={"extra_args": {
            "served-model-name": ["mine", "other"], "port": 9000, "host": "127.0.0.1", "enable-prefix-caching": False,
            "override-generation-config": {"temperature": 0.0}, "ssl-certfile": "/tls/cert"},
            "env": {"VLLM_LOGGING_LEVEL": "$(HOME) %h $HOME"}}, **DRAFT_MODEL),
        "old": record(decision("draft_model"), version="0.9.2", **DRAFT_MODEL),
    }
