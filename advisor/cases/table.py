"""Cases as columns: what the step-time and acceptance models compute with, all rows at once."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from advisor.cases.case import Case
from advisor.cases.facts import CardFacts, DraftFacts, TargetFacts, card_facts, draft_facts, target_facts
from advisor.cases.remarks import remarks
from advisor.cases.texts import dataset_of
from profiles.methods import method
from profiles.workload import Task

# Lengths where the row does not say: prompts of the usual sets, and answers as instruct models write them with 1,024 to
# 2,048 tokens allowed (the sets' own reference answers are a third of that and price prompts too high).
_LENGTHS: dict[Task | None, tuple[float, float]] = {
    Task.CODE: (200.0, 1200.0),
    Task.JSON_SQL: (400.0, 450.0),
    Task.MATH: (120.0, 1200.0),
    Task.CHAT: (150.0, 1200.0),
    Task.SUMMARIZATION: (850.0, 450.0),
    Task.TRANSLATION: (100.0, 360.0),
    Task.CREATIVE: (80.0, 1800.0),
    Task.RAG_LONG_CONTEXT: (2500.0, 600.0),
    Task.AGENT: (5000.0, 250.0),
    Task.REASONING: (200.0, 3000.0),
    Task.MIXED: (300.0, 1500.0),
    None: (512.0, 900.0),
}
_ASSUMED_K = {"ngram": 4, "ngram_gpu": 4, "suffix": 16, "dflash": 15, "dspark": 5, "mtp": 2, "medusa": 3}
_ALONE, _TOGETHER = 0.85, 0.7
"""Of the memory that weights take where nobody says how many devices serve them: one card is filled as far as it goes,
several are taken with room for KV."""
_LIMIT = 256.0
"""vLLM's usual max_num_seqs."""
_AT_A_LIMIT = 64.0
"""Sets that speculation is measured on have some eighty prompts a task (Spec-Bench, MT-bench), and answers of many
lengths: the last ones run alone."""

Facts = tuple[CardFacts, TargetFacts, DraftFacts]

COLUMNS = (
    "bandwidth", "tflops16", "tflops8", "tflops4", "link", "nvlink", "consumer", "amd", "older",
    "memory", "graph_tokens",
    "tp", "active", "routed", "expert_share", "read_always", "params", "layers", "hidden", "vocabulary", "bits",
    "weight_only", "compute_bits", "kv_bytes", "kv_heads", "window_kv_bytes", "window", "state", "hybrid", "moe",
    "draft_read", "draft_bits", "draft_layers", "draft_kv",
    "k", "running", "qps", "prompt", "output", "temperature", "metric_tpot", "metric_latency",
    "sglang", "other_engine", "era", "eager", "tree",
    "lookup", "drafter_model", "per_token", "parallel", "suffix", "always_drafts", "acceptance", "acceptance_sd",
    "assumed", "unsure", "draft_unsure",
    "draft_eager", "cached", "budget",
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Columns over rows: `of[name]` is a float array; labels are per row."""

    of: dict[str, Any]
    cases: tuple[Case, ...]
    labels: tuple[Labels, ...]
    notes: tuple[tuple[str, ...], ...] = ()
    """What an answer has to say of a row: oddities and assumptions. Empty, or one entry a row."""

    def __len__(self) -> int:
        return len(self.cases)


@dataclass(frozen=True)
class Labels:
    """What the acceptance model and the residuals are grouped by."""

    method: str
    family: str
    dataset: str
    target: str
    draft: str


@lru_cache(maxsize=4096)
def era_of(engine: str, version: str | None) -> float:
    """Position of an engine's release between its early speculation (0) and today's overlapped one (1)."""
    if not version:
        return 0.8 if engine == "sglang" else 0.35
    text = version.lower()
    if "v0" in text.split(",")[0].split() or (re.match(r"v?0\.[0-7]\.", text) and engine == "vllm"):
        return 0.0
    found = re.search(r"0\.(\d+)(?:\.(\d+))?", text)
    if engine == "sglang":
        release = int(found.group(1)) + 0.1 * int(found.group(2) or 0) if found else 5.0
        return min(1.0, max(0.0, release - 4.2))
    if engine == "vllm" and re.match(r"v?[1-9]\d?\.\d", text):
        return 1.0
    if found:
        return min(1.0, 0.25 + 0.75 * (int(found.group(1)) - 8) / 16.0)
    year = re.search(r"20(2\d)", text)
    if year:
        return {"24": 0.1, "25": 0.35}.get(year.group(1), 0.9)
    return 0.9 if re.search(r"main|nightly|[0-9a-f]{7}", text) else 0.35


@lru_cache(maxsize=16384)
def label_of(name: str | None) -> str:
    """A model's name in one spelling, without organisation and storage format."""
    if not name:
        return ""
    bare = re.sub(r"\(.*?\)", " ", name).strip().rsplit("/", 1)[-1].lower()
    bare = re.sub(r"[-_ ](?:awq|gptq|int4|fp8|nvfp4|mxfp4|mxfp8|autoround|w4a16|bf16|it|instruct|chat|hf)\b", "", bare)
    return re.sub(r"[^a-z0-9.]+", "-", bare).strip("-")


def _eager(case: Case) -> float:
    return 1.0 if any("eager" in (text or "").lower() for text in (case.engine_version, case.dtype)) else 0.0


def _row(case: Case, known: Facts | None = None) -> tuple[list[float], Labels, tuple[str, ...]]:
    card, target, draft = known or _named(case)
    described = method(case.method)
    devices = float(case.tensor_parallel or case.n_gpus or 0)
    devices = devices or _needed_devices(target.params * target.bits / 8, card.memory_gib)
    prompt_default, output_default = _LENGTHS[case.family if case.family in _LENGTHS else None]
    if case.load_kind == "qps":
        # Requests at a rate come from serving benchmarks, which ask for the sets' own answers' lengths.
        output_default /= 3.0
    length = case.acceptance_length
    k = case.k if case.k is not None else max(_ASSUMED_K.get(case.method, 3), math.ceil((length or 1.0) - 1.0))
    running = _running(case)
    qps = case.load_value if case.load_kind == "qps" and case.load_value else 0.0
    assumed = (
        0.3 * (case.prompt_len is None)
        + 0.3 * (case.output_len is None)
        + 0.3 * (case.tensor_parallel is None and case.n_gpus is None)
    )
    said = remarks(case, card, target, draft, devices)
    metric = (case.metric or "").lower()
    numbers = [
        card.bandwidth_gbs, card.tflops16, card.tflops8, card.tflops4, card.link_gbs, float(card.nvlink),
        float(card.consumer), float(card.amd),
        float(not card.assumed and card.tflops8 <= card.tflops16),
        card.memory_gib, 1024.0 if card.bandwidth_gbs > 6000 and not card.amd else 512.0,
        devices, target.active_params, target.routed_params, target.expert_share, target.read_always,
        target.params, target.layers, target.hidden, target.vocabulary, target.bits,
        float(target.weight_only), float(target.compute_bits), target.kv_bytes, target.kv_heads,
        target.window_kv_bytes, target.window, target.state_bytes, float(target.hybrid),
        float(target.routed_params > 0),
        draft.read_params, draft.bits, draft.layers, draft.kv_bytes,
        float(k), float(running or 1.0), float(qps), float(case.prompt_len if case.prompt_len is not None else
                                                          prompt_default),
        float(case.output_len or output_default),
        float(case.temperature) if case.temperature is not None else float("nan"),
        float("tpot" in metric or "itl" in metric), float("latency" in metric and "tpot" not in metric),
        float(case.engine == "sglang"), float(case.engine not in ("vllm", "sglang")),
        era_of(case.engine, case.engine_version), _eager(case), float(case.tree),
        float(described.drafter == "lookup"), float(described.drafter == "model"),
        float(described.passes == "per_token"), float(described.passes == "single"),
        float(described.k_cap is not None), float(described.always_drafts),
        float(length) if length is not None else float("nan"), case.acceptance_log_sd,
        assumed, said.variance, said.draft_log_sd,
        # What only a deployment says: a drafter launched without graphs, prompts found in the cache, the token budget.
        0.0, 0.0, 0.0,
    ]  # fmt: skip
    family = case.family.value if case.family is not None else ""
    return numbers, Labels(
        case.method, family, dataset_of(case.task), label_of(case.target), label_of(case.draft)
    ), said.notes


def _named(case: Case) -> Facts:
    target = target_facts(case.target, case.target_params_b, case.active_params_b, case.quantization, case.dtype,
                          case.drafts_itself)
    return card_facts(case.gpu), target, draft_facts(case.method, case.draft, case.draft_params_b, target)


def _running(case: Case) -> float | None:
    """Requests that run at once; None where no such load is stated.

    A concurrency of an engine's default limit, of requests nobody gave lengths of, is that limit and no load: how many
    ran was up to the text's prompts.
    """
    if case.load_kind not in ("batch_size", "concurrency") or not case.load_value:
        return None
    limit = case.load_kind == "concurrency" and case.load_value >= _LIMIT and case.output_len is None
    # Agents fan out: their requests are more than a set has prompts, and fill what the KV cache holds.
    limit = limit and case.family is not Task.AGENT
    return _AT_A_LIMIT if limit else case.load_value


def _needed_devices(weight_bytes: float, memory_gib: float) -> float:
    """Devices a model is usually served on where nobody says: one that holds its weights, else a power of two that does
    with room."""
    memory, devices = memory_gib * 2.0**30, 1.0
    if weight_bytes <= _ALONE * memory:
        return devices
    while devices < 8 and weight_bytes > _TOGETHER * memory * devices:
        devices *= 2
    return devices


def table_of(cases: Sequence[Case], known: Sequence[Facts] | None = None) -> tuple[Table, dict[int, str]]:
    """Columns of the cases that can be priced, and, by position, why the others cannot.

    The table's rows are the priceable cases in order; `cases` of the table says which. known: the card, target and
    draft of each case, where the caller has them; else they are looked up by the names.
    """
    import numpy as np

    from profiles.errors import InputError

    rows: list[list[float]] = []
    labels: list[Labels] = []
    notes: list[tuple[str, ...]] = []
    kept: list[Case] = []
    refused: dict[int, str] = {}
    for number, case in enumerate(cases):
        try:
            numbers, label, said = _row(case, known[number] if known is not None else None)
        except InputError as error:
            refused[number] = str(error)
            continue
        rows.append(numbers)
        labels.append(label)
        notes.append(said)
        kept.append(case)
    matrix = np.array(rows, dtype=float).reshape(len(rows), len(COLUMNS))
    columns = {name: matrix[:, i] for i, name in enumerate(COLUMNS)}
    return Table(columns, tuple(kept), tuple(labels), tuple(notes)), refused


def rows_of(table: Table, index: Any) -> Table:
    """The table's rows at `index`, in that order."""
    return Table(
        {name: column[index] for name, column in table.of.items()},
        tuple(table.cases[i] for i in index),
        tuple(table.labels[i] for i in index),
        tuple(table.notes[i] for i in index) if table.notes else (),
    )
