"""CUDA graphs: sizes are in tokens, a decode step of N requests is N x (k + 1)."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.subject import Subject
from profiles.methods import METHODS
from profiles.yaml_lines import KeyPath

_EAGLE3 = ("model: Qwen/Qwen3-8B\nmax-model-len: 16384\nmax-num-seqs: 16\nmax-num-batched-tokens: 8192\n{}"
           "speculative-config:\n  method: eagle3\n  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n")
_PAIR = ("model: Qwen/Qwen3-32B\ntensor-parallel-size: 2\nmax-model-len: 16384\nmax-num-seqs: 32\nspeculative-config:\n"
         "  method: draft_model\n  model: Qwen/Qwen3-0.6B\n  num_speculative_tokens: 3\n")
_SHARDED = ("model: deepseek-ai/DeepSeek-R1\ntensor-parallel-size: 8\nmax-num-seqs: 32\ncompilation-config:\n"
            "  pass_config: {{enable_sp: true}}\nspeculative-config:\n  method: mtp\n  num_speculative_tokens: {}\n")
_FEW = 32
"""Requests that a server without a stated limit should at least run under graphs."""


def _on_graphs(subject: Subject) -> bool:
    engine = subject.engine
    return (subject.speculation is not None and subject.speculation.k is not None and not engine.eager
            and engine.runner in ("v1", "v2") and engine.graph_mode != "NONE"
            and subject.platform in ("cuda", "rocm", "unknown"))


def _grid_end(limit: int, tokens: int) -> int:
    """Largest captured size under a stated limit: 1, 2, 4, eights to 256, then sixteens; a budget below it is added."""
    if tokens <= limit:
        return tokens
    if limit < 8:
        return max(size for size in (1, 2, 4) if size <= limit) if limit >= 1 else 0
    return limit // 8 * 8 if limit < 256 else limit // 16 * 16


def _covered(subject: Subject) -> tuple[KeyPath, int, str]:
    """Where the graphs' end is stated, the largest usable graph in tokens, and what it is called."""
    engine, release = subject.engine, subject.release
    width = (subject.speculation.k or 0) + 1 if subject.speculation is not None else 1
    sizes, limit = engine.capture_sizes, engine.capture_limit
    if sizes is not None:
        # Sizes are rounded up to multiples of k + 1, and dropped where that passes the largest one.
        largest = max(sizes[1])
        usable = [-(-size // width) * width for size in sizes[1]]
        if sizes[0] == ("cuda-graph-sizes",) and len(sizes[1]) == 1:
            return sizes[0], largest, "the largest capture size stated"
        return sizes[0], max((size for size in usable if size <= largest), default=0), "the largest usable capture size"
    if limit is not None:
        return limit[0], _grid_end(limit[1], engine.max_num_batched_tokens), "the capture limit stated"
    capability = subject.gpu.compute_capability if subject.gpu is not None else None
    ceiling = release.capture_ceiling(engine.max_num_seqs, width - 1, capability)
    return (), min(ceiling, engine.max_num_batched_tokens), "the default capture limit"


def _too_narrow(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    if speculation is None or speculation.k is None or not _on_graphs(subject):
        return
    where, end, called = _covered(subject)
    width = speculation.k + 1
    requests = end // width
    load = subject.workload.concurrency if subject.workload is not None else None
    running = min(engine.max_num_seqs, load) if load is not None else engine.stated_seqs
    if running is None:
        if requests >= _FEW:
            return
        running = engine.max_num_seqs
    if requests >= running:
        return
    size = -(-running * width // 16) * 16
    cut = ""
    if engine.capture_limit is not None and engine.capture_sizes is None and end < engine.capture_limit[1]:
        cut = f" (the stated {engine.capture_limit[1]} is off the 8/16 grid and is cut to {end})"
    yield Fault(
        where or speculation.path("num_speculative_tokens"),
        f"CUDA graphs end at {end} tokens, {called}{cut}: at k={speculation.k} that is {requests} requests, and "
        f"{running} may run. Wider decode steps run without full graphs, launching kernel by kernel.",
        remedy=f"Set max-cudagraph-capture-size to {size} (tokens), or lower max-num-seqs or k.",
    )


def _no_size_left(subject: Subject) -> Iterable[Fault]:
    speculation, sizes = subject.speculation, subject.engine.capture_sizes
    if speculation is None or speculation.k is None or sizes is None or not _on_graphs(subject):
        return
    width = speculation.k + 1
    if sizes[0] == ("cuda-graph-sizes",) or max(sizes[1]) >= width:
        return
    yield Fault(sizes[0], f"The largest capture size is {max(sizes[1])} tokens, below one request's k + 1 = {width}: "
                          f"no "
                "graph is left for decoding.")


def _sequence_parallel(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    passes = engine.nested("compilation-config", "pass_config")
    if (speculation is None or speculation.k is None or not isinstance(passes, dict) or engine.tensor_parallel < 2
            or not subject.release.has("graph_sizes_fit_sequence_parallel") or not _on_graphs(subject)):
        return
    key = next((name for name in ("enable_sequence_parallelism", "enable_sp") if passes.get(name) is True), None)
    width, split = speculation.k + 1, engine.tensor_parallel
    if key is not None and max(width, split) % min(width, split):
        yield Fault(("compilation-config", "pass_config", key), "Sequence parallelism at tensor parallel size "
                                                                f"{split} with "
                    f"k + 1 = {width}: no CUDA graph size is a multiple of both, and the server does not start.")


def _sizes_clash(subject: Subject) -> Iterable[Fault]:
    sizes, limit = subject.engine.capture_sizes, subject.engine.capture_limit
    if sizes is not None and limit is not None and max(sizes[1]) != limit[1]:
        yield Fault(limit[0], f"max_cudagraph_capture_size is {limit[1]} and the largest of cudagraph_capture_sizes is "
                    f"{max(sizes[1])}: vLLM refuses two that differ.")


def _eager_draft(subject: Subject) -> Iterable[Fault]:
    speculation, engine, release = subject.speculation, subject.engine, subject.release
    if speculation is None or speculation.method != "draft_model" or not _on_graphs(subject):
        return
    if engine.runner == "v1" and release.has("draft_model_graph_fault"):
        yield Fault(speculation.path("method"), f"The draft model's passes never replay their CUDA graphs in vLLM "
                    f"{release.version}: each of the k passes launches every kernel anew.",
                    remedy="Use vLLM 0.28 or newer for a draft model, or an EAGLE head.")
    elif engine.runner == "v2" and "v2" not in METHODS["draft_model"].draft_graphs:
        yield Fault(speculation.path("method"), "On model runner V2 a draft model runs without CUDA graphs: each of "
                                                "the k "
                    "draft passes launches every kernel anew, which can cost more than the target's step.",
                    remedy="Set VLLM_USE_V2_MODEL_RUNNER=0: the V1 runner has graphs for the draft.")


def _eager(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    if speculation is None or subject.platform == "cpu" or speculation.method not in METHODS:
        return
    of_draft = speculation.settings.get("enforce_eager") is True and engine.runner == "v1"
    if METHODS[speculation.method].passes == "per_token" and (engine.eager or of_draft):
        where = ("enforce-eager",) if engine.eager else speculation.path("enforce_eager")
        yield Fault(where, f"enforce-eager is on: each of the {speculation.k or 'k'} draft passes of a step "
                           "launches every "
                    "kernel from the host, and for a small draft that eager launch cost is most of its time.")


RULES = (
    Rule("SPD341", "CUDA graphs that end below the batch",
         "A decode step is N x (k + 1) tokens wide; beyond the largest captured size it runs without full graphs. Up "
         "to 0.12 "
         "the default limit does not count drafts; it never passes 512 tokens (1024 on data-centre Blackwell).",
         "Raise max-cudagraph-capture-size.", "warn",
         "vllm/config/vllm.py of 0.10 to 0.32 (_set_cudagraph_sizes); vllm pulls 30330 and 50488, issue 54933",
         Example(_EAGLE3.format("max-cudagraph-capture-size: 8\n")), Example(_EAGLE3.format("")), _too_narrow,
         releases="0.8 and newer"),
    Rule("SPD342", "No capture size that fits", "Sizes are rounded up to multiples of k + 1; those past the largest "
                                                "are dropped.",
         "State multiples of k + 1.", "error", "vllm/config/compilation.py (0.32)",
         Example(_EAGLE3.format("cudagraph-capture-sizes: [1, 2]\n")),
         Example(_EAGLE3.format("cudagraph-capture-sizes: [4, 8, 16, 32, 64]\n")), _no_size_left,
         releases="0.12 and newer"),
    Rule("SPD343", "Two different ends for the graphs", "The limit has to equal the largest size.",
         "Keep one of the two.",
         "error", "vllm/config/vllm.py (0.32)",
         Example(_EAGLE3.format("cudagraph-capture-sizes: [4, 8, 64]\nmax-cudagraph-capture-size: 128\n")),
         Example(_EAGLE3.format("cudagraph-capture-sizes: [4, 8, 64]\n")), _sizes_clash, releases="0.12 and newer"),
    Rule("SPD346", "Graph sizes that sequence parallelism cannot have",
         "With sequence parallelism, sizes have to be multiples of k + 1 and of the tensor parallel size, the "
         "larger of which "
         "must be a multiple of the other.", "Choose k so that k + 1 and the tensor parallel size divide one another.",
         "error", "vllm/config/compilation.py of 0.11.2 to 0.32 (adjust_cudagraph_sizes_for_spec_decode); vllm "
                  "pull 29036",
         Example(_SHARDED.format(2), gpu="H200", gpus=8), Example(_SHARDED.format(1), gpu="H200", gpus=8),
         _sequence_parallel, releases="0.11.1 and newer"),
    Rule("SPD344", "Draft model without CUDA graphs",
         "The V1 runner of 0.15 to 0.25 captures graphs for the draft and never replays them; the V2 runner has none.",
         "Use the V1 runner of 0.28 or newer.", "warn", "vllm pull 47460; vllm/v1/worker/gpu/spec_decode/standalone_ar "
                                                        "(0.32)",
         Example(_PAIR, gpus=2), Example(_PAIR, env={"VLLM_USE_V2_MODEL_RUNNER": "0"}, gpus=2), _eager_draft,
         releases="0.15 and newer"),
    Rule("SPD345", "Eager mode with a drafter of many passes", "Speculation adds k small passes a step; without "
                                                               "graphs, each "
         "costs its launches.", "Remove enforce-eager.", "warn", "vllm issue 5239",
         Example(_EAGLE3.format("enforce-eager: true\n")), Example(_EAGLE3.format("")), _eager),
)
