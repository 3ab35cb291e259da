"""Tensor, pipeline, data and expert parallelism beside a drafter."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.checks import traits
from advisor.checks.rule import Example, Fault, Rule
from advisor.checks.speculation import SCHEDULE
from advisor.checks.subject import Subject
from advisor.release_rules import refused_split
from profiles.methods import METHODS

_PAIR = ("model: Qwen/Qwen3-32B\ntensor-parallel-size: 4\nmax-model-len: 16384\nmax-num-seqs: 32\nspeculative-config:\n"
         "  method: draft_model\n  model: Qwen/Qwen3-0.6B\n  num_speculative_tokens: 3\n")
_V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}


def _draft_split(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    stated = speculation.whole("draft_tensor_parallel_size") if speculation is not None else None
    if speculation is None or stated is None or speculation.is_lookup:
        return
    whole, where = engine.tensor_parallel, speculation.path("draft_tensor_parallel_size")
    if stated == whole > 1 and engine.runner == "v0" and not subject.release.has("v0_split_draft_may_be_stated"):
        yield Fault(where, f"draft_tensor_parallel_size is {stated}: vLLM {subject.release.version} takes 1 only "
                           "where it is "
                    "stated, although the target's tensor parallel size is what it uses where it is "
                    "not.", severity="error")
    if stated == whole or speculation.method not in METHODS:
        return
    refused = refused_split(stated, whole, METHODS[speculation.method], engine.runner) is not None
    if refused and stated != 1:
        yield Fault(where, f"draft_tensor_parallel_size is {stated}: vLLM takes 1 or the target's tensor_parallel_size "
                    f"({whole}) for the draft.", severity="error")
    elif refused:
        yield Fault(where, f"The draft runs at tensor parallel size 1 and the target at {whole} "
                           f"(tensor_parallel_size): "
                    "the V1 runner refuses a draft model that is not split like its target.", severity="error")
    elif speculation.method == "draft_model" and engine.runner == "v0":
        yield Fault(where, f"The draft runs at tensor parallel size 1 under a target at {whole}: on this release's V0 "
                    "engine runs with a draft of a smaller TP have ended in shape errors and hangs.")
    elif speculation.method in ("eagle", "eagle3", "mtp", "dflash") and engine.runner in ("v1", "v2"):
        yield Fault(where, f"draft_tensor_parallel_size is 1, and a {speculation.method} drafter is split like its "
                           "target "
                    f"({whole}) all the same: the setting is not looked at.", severity="info",
                    remedy="Leave draft_tensor_parallel_size out.")
    elif speculation.method == "draft_model":
        yield Fault(where, f"The draft runs at tensor parallel size 1 under a target at {whole}: the V2 runner neither "
                    "checks nor tests that (TP of draft and target differ).")


def _draft_heads(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    if speculation is None or speculation.method not in METHODS or not METHODS[speculation.method].needs_draft:
        return
    split = speculation.whole("draft_tensor_parallel_size") or engine.tensor_parallel
    heads = traits.attention_heads(subject.draft)
    if speculation.method in ("medusa", "mlp_speculator") or heads is None or heads % split == 0:
        return
    yield Fault(speculation.path("model"), f"The draft has {heads} attention heads, which do not divide evenly over "
                                           f"its "
                f"tensor parallel size of {split}: vLLM refuses that.")


def _target_heads(subject: Subject) -> Iterable[Fault]:
    heads, split = traits.attention_heads(subject.target), subject.engine.tensor_parallel
    if heads is not None and split > 1 and heads % split:
        yield Fault(("tensor-parallel-size",), f"The target has {heads} attention heads, which do not divide evenly "
                                               f"over "
                    f"tensor-parallel-size {split}: vLLM refuses that.")


def _too_few_gpus(subject: Subject) -> Iterable[Fault]:
    engine = subject.engine
    needed = engine.tensor_parallel * engine.pipeline_parallel * engine.data_parallel
    if subject.gpu_count is None or subject.platform == "cpu" or needed <= subject.gpu_count:
        return
    local = engine.whole("data-parallel-size-local")
    if local is not None and engine.tensor_parallel * engine.pipeline_parallel * local <= subject.gpu_count:
        return
    if needed <= subject.gpu_count * (engine.whole("nnodes", 1) or 1):
        return
    option = next((name for name in ("data-parallel-size", "pipeline-parallel-size", "tensor-parallel-size")
                   if subject.config.get(name) is not None), "tensor-parallel-size")
    yield Fault((option,), f"The parallel sizes need {needed} GPUs (tensor {engine.tensor_parallel} x pipeline "
                f"{engine.pipeline_parallel} x data {engine.data_parallel}), and {subject.gpu_count} are stated.")


def _pipeline(subject: Subject) -> Iterable[Fault]:
    speculation, release, engine = subject.speculation, subject.release, subject.engine
    if speculation is None or engine.pipeline_parallel < 2:
        return
    stages, where = engine.pipeline_parallel, ("pipeline-parallel-size",)
    method = speculation.method or "speculation"
    if engine.runner == "v0":
        yield Fault(where, f"Speculation with {stages} pipeline stages: the V0 engine does not combine pipeline "
                    "parallelism with speculative decoding.")
        return
    if speculation.is_lookup:
        if not release.has("v2_eagle3_pipeline"):
            yield Fault(where, f"{method} with {stages} pipeline stages: only the last stage knows which drafts were "
                        "accepted, so earlier stages run with wrong positions (pipeline parallelism).")
        return
    if not release.has("draft_inherits_pipeline"):
        settled = method in ("eagle", "eagle3")
        yield Fault(where, f"{method} with {stages} pipeline stages: the drafter runs on the last stage only"
                    + ("." if settled else ", and defects of pipeline parallelism with this method are open."),
                    severity="info" if settled else None)
        return
    crashes = method in ("eagle", "eagle3", "mtp", "draft_model", "medusa", "mlp_speculator")
    # dspark runs on the V2 runner only, where drafters of several stages start and deadlock.
    yield Fault(where, f"{method} with {stages} pipeline stages: in vLLM {release.version} the drafter's config "
                       f"inherits "
                "the stages, it exists on the last one only, and earlier stages crash or run with wrong positions "
                "(pipeline parallelism).", severity="error" if crashes else None)


def _pipeline_async(subject: Subject) -> Iterable[Fault]:
    engine, release = subject.engine, subject.release
    if engine.pipeline_parallel < 2 or engine.async_scheduling is not True or engine.runner != "v1":
        return
    if release.has("v1_async_pipeline_refused") and engine.forced_runner == "v1":
        yield Fault(("async-scheduling",), "Asynchronous scheduling with pipeline stages is refused on the V1 runner.")


def _pipeline_sync(subject: Subject) -> Iterable[Fault]:
    engine, release = subject.engine, subject.release
    if (subject.speculation is not None and engine.pipeline_parallel > 1 and engine.async_scheduling is False
            and release.has("async_by_default") and release.has("draft_inherits_pipeline") and engine.runner == "v2"):
        yield Fault(("async-scheduling",), "Asynchronous scheduling is off beside pipeline stages and a drafter: "
                                           "corrupt "
                    "output was reported for this combination (async, pipeline).")


def _data_parallel_schedule(subject: Subject) -> Iterable[Fault]:
    speculation = subject.speculation
    if (speculation is not None and speculation.schedule_stated and subject.engine.data_parallel > 1
            and subject.release.has("dynamic_schedule")):
        drops = subject.release.has("data_parallel_drops_schedule")
        effect = ("vLLM drops the schedule and drafts the full k at every batch size." if drops else
                  "ranks pick different k, and the engines wait for each other for ever.")
        yield Fault(speculation.path(SCHEDULE), f"A schedule of k with data-parallel-size "
                                                f"{subject.engine.data_parallel}: "
                    + effect, severity="warn" if drops else "error")


def _expert_hang(subject: Subject) -> Iterable[Fault]:
    speculation, engine = subject.speculation, subject.engine
    if (speculation is None or speculation.is_lookup or engine.data_parallel < 2
            or not subject.release.has("expert_ranks_hang") or engine.runner == "v0"):
        return
    own_layers = speculation.method == "mtp" and speculation.model is None
    if traits.experts(subject.target if own_layers else subject.draft) > 0:
        yield Fault(("data-parallel-size",), f"Data parallel ({engine.data_parallel} ranks) with a drafter that is "
                                             f"itself a "
                    "mixture of experts: a rank whose request is near max-model-len skips drafting, the others wait in "
                    "the expert exchange, and the server hangs.")


def _context_parallel(subject: Subject) -> Iterable[Fault]:
    speculation, ranks = subject.speculation, subject.engine.whole("decode-context-parallel-size")
    if speculation is None or speculation.is_lookup or ranks is None or ranks < 2 or subject.engine.runner == "v0":
        return
    yield Fault(("decode-context-parallel-size",), f"{speculation.method} with the decode context split over {ranks} "
                "GPUs: local lengths are not kept right while drafts are accepted and rejected, and engines were "
                "reported "
                "to stop in the first drafted step.", severity="info" if speculation.model is None else None)


_MTP_MOE = ("model: deepseek-ai/DeepSeek-R1\ndata-parallel-size: 2\ntensor-parallel-size: 4\nenable-expert-parallel: "
            "true\n"
            "max-num-seqs: 32\nspeculative-config:\n  method: mtp\n  num_speculative_tokens: 1\n")
_DCP = ("model: deepseek-ai/DeepSeek-R1\ntensor-parallel-size: 8\n{}max-num-seqs: 32\nspeculative-config:\n"
        "  method: eagle3\n  model: org/DeepSeek-R1-eagle3\n  num_speculative_tokens: 3\n")
_STAGES = ("model: meta-llama/Llama-3.1-70B-Instruct\ntensor-parallel-size: 2\npipeline-parallel-size: 2\n"
           "max-model-len: 8192\nspeculative-config:\n  method: eagle3\n  model: yuhuili/EAGLE3-LLaMA3.3-Instruct-70B\n"
           "  num_speculative_tokens: 3\n")
_DP = ("model: Qwen/Qwen3-8B\ndata-parallel-size: 2\nmax-model-len: 16384\nmax-num-seqs: 64\nspeculative-config:\n"
       "  method: eagle3\n  model: AngelSlim/Qwen3-8B_eagle3\n  num_speculative_tokens: 3\n")
_BANDS = "  num_speculative_tokens_per_batch_size: [[1, 16, 3], [17, 64, 1]]\n"
RULES = (
    Rule("SPD301", "Draft split differently from its target",
         "The V1 runner takes a draft model only split like its target; every runner takes 1 or the target's size "
         "only.",
         "Leave draft_tensor_parallel_size out: the target's tensor parallel size is the default.", "warn",
         "vllm/v1/spec_decode/draft_model.py of 0.15 to 0.32; vllm issues 10483, 20364, 31345 and 31886",
         Example(_PAIR + "  draft_tensor_parallel_size: 1\n", env=_V1, gpus=4),
         Example(_PAIR + "  draft_tensor_parallel_size: 4\n", env=_V1, gpus=4), _draft_split),
    Rule("SPD302", "Draft heads that do not divide", "Attention heads are dealt out evenly over the GPUs of a layer.",
         "Use a draft whose heads divide, or another tensor parallel size.", "error", "vllm/config/model.py (0.32)",
         Example(_PAIR.replace("size: 4", "size: 3"), gpus=3, env=_V1), Example(_PAIR, env=_V1, gpus=4), _draft_heads),
    Rule("SPD303", "Target heads that do not divide", "Attention heads are dealt out evenly over the GPUs of a layer.",
         "Choose a divisor of the number of heads.", "error", "vllm/config/model.py (0.32)",
         Example(_PAIR.replace("size: 4", "size: 3"), gpus=3, env=_V1), Example(_PAIR, env=_V1, gpus=4), _target_heads),
    Rule("SPD304", "Fewer GPUs than the parallel sizes need", "Each rank needs a GPU.", "Lower the sizes, or add GPUs.",
         "error", "vllm/config/parallel.py (0.32)", Example(_PAIR, env=_V1, gpus=2), Example(_PAIR, env=_V1, gpus=4),
         _too_few_gpus),
    Rule("SPD305", "Pipeline stages with speculation",
         "Acceptance is known on the last stage only; up to 0.29 the draft's config inherited the stages, and earlier "
         "stages crashed or ran with wrong positions.",
         "Use tensor parallelism instead, or EAGLE heads on 0.30 or newer.", "warn",
         "vllm issues 7456, 30436, 49355, 52069, 57755; vllm/config/speculative.py of 0.29 and 0.30",
         Example(_STAGES, "0.18.0", gpus=4), Example(_STAGES.replace("tensor-parallel-size: 2\npipeline-parallel-size: "
                                                                     "2",
                                                                      "tensor-parallel-size: 4"), "0.18.0", gpus=4),
         _pipeline),
    Rule("SPD306", "Asynchronous pipeline on the V1 runner", "The V1 runner refuses the two together.",
         "Leave the runner to the release.", "error", "vllm/config/vllm.py of 0.30 to 0.32",
         Example(_STAGES + "async-scheduling: true\n", gpus=4, env=_V1), Example(_STAGES, gpus=4), _pipeline_async,
         releases="0.30 and newer"),
    Rule("SPD307", "Pipeline stages with asynchronous scheduling off", "Corrupt output was reported for it.",
         "Leave asynchronous scheduling on, or use tensor parallelism.", "warn", "vllm issue 52071",
         Example(_STAGES.replace("3\n", "3\n", 1) + "async-scheduling: false\n", "0.26.0", gpus=4,
                 env={"VLLM_USE_V2_MODEL_RUNNER": "1"}),
         Example(_STAGES.replace("tensor-parallel-size: 2\npipeline-parallel-size: 2", "tensor-parallel-size: 4")
                 + "async-scheduling: false\n", "0.26.0", gpus=4, env={"VLLM_USE_V2_MODEL_RUNNER": "1"}),
                 _pipeline_sync,
         releases="0.14 to 0.29"),
    Rule("SPD308", "Schedule of k with data parallelism",
         "Data-parallel ranks could pick different k and deadlock, so vLLM drops the schedule (0.26 and newer).",
         "Remove the schedule, or run engines behind a router instead of data-parallel ranks.", "warn",
         "vllm/config/vllm.py of 0.26 to 0.32", Example(_DP + _BANDS, gpus=2), Example(_DP, gpus=2),
         _data_parallel_schedule, releases="0.24 and newer"),
    Rule("SPD309", "Data-parallel ranks with a drafter of experts",
         "All ranks have to meet in the expert exchange of the draft; a rank near its length limit does not come.",
         "Use tensor parallelism instead, or ngram.", "error", "vllm issue 44185 (open)",
         Example(_MTP_MOE, "0.21.0", "H200", 8),
         Example(_MTP_MOE.replace("data-parallel-size: 2\ntensor-parallel-size: 4", "tensor-parallel-size: 8"),
                 "0.21.0",
                 "H200", 8), _expert_hang, releases="0.10 to 0.32"),
    Rule("SPD310", "Decode context parallelism with a drafter",
         "Each rank holds part of every sequence; what a drafter needs of their lengths is being reworked.",
         "Leave decode-context-parallel-size at 1, or serve without a drafter.", "warn",
         "vllm issues 40791 and 50391 (open)", Example(_DCP.format("decode-context-parallel-size: "
                                                                   "2\n"), gpu="H200", gpus=8),
         Example(_DCP.format(""), gpu="H200", gpus=8), _context_parallel, releases="0.10.2 and newer"),
)
