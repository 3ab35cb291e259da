"""What cannot run: a candidate beside this target, and an engine with these arguments on this hardware.

Only what vLLM refuses, or what is known to be of no use on this target, is said here; what merely costs too much is
for the prices to show. The rules are those of vLLM's own checks (`vllm/config/speculative.py`, `vllm/config/model.py`,
`vllm/config/parallel.py`, 0.32), asked before an engine is started.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from advisor.cost.step import runner_for
from advisor.release_rules import mtp_depth_fits, refused_split, refused_window
from advisor.shape_relations import other_tokens, same_build, tokenizer_of
from advisor.situation import Runner, Situation
from profiles.catalog.gpus import Gpu
from profiles.catalog.models import DraftHead, catalog_ids, find_head, find_model, heads_for, normal_id
from profiles.catalog.mtp import shape_refuses_mtp
from profiles.catalog.releases import Release
from profiles.catalog.shapes import ModelShape
from profiles.deployment import Candidate, Deployment, Engine
from profiles.evidence import Evidence
from profiles.methods import Method, method

DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
"""What `--dtype` accepts."""

_MOST_HEAD_LAYERS = 12
"""The deepest published head has 8 layers; the shallowest published model worth drafting for has more than 12."""
_LONGER_THAN_TRAINED = frozenset({"hf_overrides", "rope_scaling", "rope_theta", "rope_parameters"})
_HEAD_NAMES = ("eagle", "medusa", "dflash", "dspark", "speculator")


# --- a candidate ---------------------------------------------------------------------------------------------------
def unusable(
    candidate: Candidate, target: ModelShape, draft: ModelShape | None, engine: Engine, release: Release, runner: Runner
) -> str | None:
    """Why this candidate cannot run beside this target, in one sentence without a full stop; None where it can.

    `draft` is the shape of the candidate's draft or head (None where it has none or its shape is unknown); `runner` is
    the one this candidate would be served on.
    """
    described = method(candidate.method)
    if described.drafter == "none":
        return None
    return (
        _not_in_release(described, release, runner)
        or _draft_split(candidate, described, engine, runner)
        or _ngram_settings(candidate)
        or (_mtp_layers(candidate, target, release) if described.drafter == "native" else None)
        or (_draft_model(candidate, target, draft, release, runner) if described.drafter == "model" else None)
        or (_head(candidate, target, draft) if described.drafter == "head" else None)
    )


def incompatible(situation: Situation) -> dict[str, str]:
    """The candidates of a situation that cannot run, by label, and why. Models that a trial ran together are not
    doubted."""
    trial = situation.trial
    ran: set[str] = set()
    if trial is not None and _same_name(trial.target, situation.target.id):
        ran = {arm.candidate.label for arm in trial.arms if arm.steps}
    engine, release = situation.deployment.engine, situation.release
    found: dict[str, str] = {}
    for candidate in situation.candidates:
        draft = situation.drafts.get(candidate.draft.id) if candidate.draft is not None else None
        runner = runner_for(candidate, situation)
        if candidate.label in ran:
            # These two models ran together; another release, runner or split may still refuse them.
            described = method(candidate.method)
            why = _not_in_release(described, release, runner) or _draft_split(candidate, described, engine, runner)
        else:
            why = unusable(candidate, situation.target, draft, engine, release, runner)
        if why is not None:
            found[candidate.label] = why
    # Imported late: the rules are many, and whoever asks for a single candidate's `unusable` needs none of them.
    from advisor.startable import refused_configs

    return found | refused_configs(situation, (c for c in situation.candidates if c.label not in found))


def doubts(
    situation: Situation, refused: Mapping[str, str], counted: Collection[str] = (), gaining: Collection[str] = ()
) -> tuple[str, ...]:
    """What runs, but hardly as its user meant it: a draft as large as the target, a head of a sister checkpoint.

    `refused` are the candidates that cannot run, by label: nothing is said of them. A doubt gives way to what is known:
    `counted` are those whose acceptance was measured or counted over recorded outputs, `gaining` those of which a gain
    was measured.
    """
    said = []
    for candidate in situation.candidates:
        if candidate.label in refused:
            continue
        draft = situation.drafts.get(candidate.draft.id) if candidate.draft is not None else None
        kind = method(candidate.method).drafter
        as_large = draft is not None and draft.active_params >= situation.target.active_params
        if kind == "model" and as_large and candidate.label not in gaining:
            said.append(f"{candidate.label}: the draft is as large as the target or larger, so no draft can save time")
        if candidate.settings.get("use_heterogeneous_vocab") and candidate.label not in counted:
            said.append(
                f"{candidate.label}: tokens that only one of the two vocabularies has are never drafted, and what that "
                "costs in acceptance is not known before a trial"
            )
        head = find_head(candidate.draft.id) if candidate.draft is not None and kind == "head" else None
        if head is not None and not _trained_for(head.id, situation.target) and candidate.label not in counted:
            said.append(f"{candidate.label}: {_of_a_sister(head, situation.target)}")
    return tuple(said)


def unconfirmed(situation: Situation, candidate: Candidate) -> str | None:
    """Why it is not certain that a candidate's head belongs to this target, in a sentence without a full stop; None
    where it is, where nothing is known of the head, and where a trial ran the two together."""
    head = find_head(candidate.draft.id) if candidate.draft is not None else None
    if head is None or method(candidate.method).drafter != "head":
        return None
    target, trial = situation.target, situation.trial
    if trial is not None and _same_name(trial.target, target.id) and any(
            arm.steps for arm in trial.arms if arm.candidate.label == candidate.label):
        return None
    if not _trained_for(head.id, target):
        return _of_a_sister(head, target)
    if head.check != "ok":
        return (f"the catalog's entry of {head.id} is not confirmed by its own files: start it beside {target.id} "
                "once before relying on it")
    return None


def _of_a_sister(head: DraftHead, target: ModelShape) -> str:
    return (f"the head was trained for {head.targets[0]}; how far {target.id} accepts its drafts is not known before a "
            "trial")


def with_runnable_k(candidate: Candidate, target: ModelShape) -> Candidate:
    """The candidate without the k that the target's MTP layers cannot give; as it is where none would be left."""
    layers = target.mtp_layers
    if method(candidate.method).drafter != "native" or candidate.draft is not None or layers == 0:
        return candidate
    ks = tuple(k for k in candidate.k if mtp_depth_fits(k, layers))
    return candidate.model_copy(update={"k": ks}) if ks and ks != candidate.k else candidate


def _not_in_release(described: Method, release: Release, runner: Runner) -> str | None:
    if described.name not in release.methods:
        return f"vLLM {release.version} has no method {described.name}"
    if runner != "cpu":
        return None
    if not release.has("cpu_speculation"):
        return f"the CPU engine of vLLM {release.version} does not speculate"
    return None if described.runs_on_cpu else f"vLLM's CPU engine does not run the method {described.name}"


def _draft_split(candidate: Candidate, described: Method, engine: Engine, runner: Runner) -> str | None:
    split = candidate.tensor_parallel_size
    return None if split is None else refused_split(split, engine.tensor_parallel_size, described, runner)


def _ngram_settings(candidate: Candidate) -> str | None:
    found = refused_window(*(candidate.settings.get(f"prompt_lookup_{end}") for end in ("min", "max")))
    return None if found is None else found[1]


def _mtp_layers(candidate: Candidate, target: ModelShape, release: Release) -> str | None:
    if candidate.draft is not None:
        # Layers published beside the checkpoint: then they are not looked for in it.
        return None
    refusal = shape_refuses_mtp(target, release)
    if refusal is not None:
        return refusal
    layers = target.mtp_layers
    if layers == 0:
        return f"{target.id} has no multi-token-prediction layers in its checkpoint"
    if not any(mtp_depth_fits(k, layers) for k in candidate.k):
        return f"k has to be at most {layers}, or a multiple of it: {target.id} has {layers} MTP layers"
    return None


def _draft_model(
    candidate: Candidate, target: ModelShape, draft: ModelShape | None, release: Release, runner: Runner
) -> str | None:
    if candidate.draft is None or draft is None:
        return None
    head = find_head(candidate.draft.id)
    if head is not None:
        return f"{candidate.draft.id} is a {head.method} head, not a model that can draft alone"
    if _names_a_head(draft):
        return f"{candidate.draft.id} is a head ({draft.architectures[0]}), not a model that can draft alone"
    if candidate.settings.get("use_heterogeneous_vocab"):
        # Drafts over the tokens both have: then neither size nor meaning of the others matters.
        if not release.has("heterogeneous_vocab"):
            return f"vLLM {release.version} has no use_heterogeneous_vocab"
        return "use_heterogeneous_vocab needs the V1 runner" if runner == "v2" else None
    if draft.vocab_size != target.vocab_size:
        return (
            f"the vocabulary of {candidate.draft.id} has {draft.vocab_size} tokens and that of {target.id} "
            f"{target.vocab_size}: vLLM refuses a draft model whose size differs"
        )
    return other_tokens(candidate.draft.id, tokenizer_of(draft), target.id, tokenizer_of(target))


def _names_a_head(shape: ModelShape) -> bool:
    names = " ".join(shape.architectures).lower()
    return any(word in names for word in _HEAD_NAMES)


def _trained_for(head_id: str, target: ModelShape) -> bool:
    return any(head.id == head_id for head in heads_for(target.id))


def _head(candidate: Candidate, target: ModelShape, draft: ModelShape | None) -> str | None:
    if candidate.draft is None:
        return None
    name, wanted = candidate.draft.id, candidate.method
    head = find_head(name)
    if head is not None:
        if head.method != wanted:
            return f"{name} is a {head.method} head, not one for {wanted}"
        if _trained_for(head.id, target):
            return None
        trained = [shape for shape in map(find_model, head.targets) if shape is not None]
        if trained and not any(same_build(shape, target) for shape in trained):
            return f"{name} was trained for {head.targets[0]}, and {target.id} is built differently"
    elif _is_ordinary_model(name, draft):
        return f"{name} is an ordinary model, not a head for {wanted}"
    if draft is None or not draft.hidden_size:
        return None
    if draft.hidden_size != target.hidden_size:
        return (
            f"{name} works on hidden states {draft.hidden_size} wide, and those of {target.id} are "
            f"{target.hidden_size} wide"
        )
    return None


def _is_ordinary_model(name: str, shape: ModelShape | None) -> bool:
    """A catalogued model, or one as deep as no head is. The class alone tells nothing: the first EAGLE heads call
    themselves plain one-layer Llamas."""
    if normal_id(name) in {normal_id(model_id) for model_id in catalog_ids()}:
        return True
    return shape is not None and shape.num_layers >= _MOST_HEAD_LAYERS and not _names_a_head(shape)


# --- an engine -----------------------------------------------------------------------------------------------------
def refused_engine(
    deployment: Deployment, target: ModelShape, gpu_count: int, release: Release, *, on_cpu: bool = False
) -> str | None:
    """Why no engine starts with these arguments, or none could serve this workload, in one sentence; None where one
    can. `gpu_count` is what the engine may use; it is not read on the CPU engine."""
    return (
        _parallel(deployment.engine, target, None if on_cpu else gpu_count)
        or _lengths(deployment, target)
        or _options(deployment.engine, release)
    )


def engine_warnings(deployment: Deployment, target: ModelShape) -> tuple[str, ...]:
    """Arguments that an engine takes, but only because something beside them says so."""
    length, trained = deployment.engine.max_model_len, target.max_position_embeddings
    if length is not None and trained is not None and length > trained and _longer_allowed(deployment.engine):
        return (f"max_model_len is {length}, and {target.id} was trained for {trained} tokens: it rests on your "
            "override",)
    return ()


def _parallel(engine: Engine, target: ModelShape, gpu_count: int | None) -> str | None:
    tensor, pipeline, data = engine.tensor_parallel_size, engine.pipeline_parallel_size, engine.data_parallel_size
    if target.num_attention_heads and target.num_attention_heads % tensor:
        return (
            f"engine.tensor_parallel_size is {tensor}: {target.id} has {target.num_attention_heads} attention heads, "
            "and vLLM splits them evenly only; choose a divisor of that"
        )
    if target.num_layers and pipeline > target.num_layers:
        return (
            f"engine.pipeline_parallel_size is {pipeline}: {target.id} has only {target.num_layers} layers to spread; "
            "lower it"
        )
    needed = tensor * pipeline * data
    if gpu_count is not None and needed > gpu_count:
        return (
            f"hardware.count is {gpu_count}: the parallel sizes need {needed} GPUs (tensor {tensor} x pipeline "
            f"{pipeline} x data {data}); raise it, lower them, or name `cpu` for the CPU engine"
        )
    return None


def _lengths(deployment: Deployment, target: ModelShape) -> str | None:
    engine, workload = deployment.engine, deployment.workload
    trained, length = target.max_position_embeddings, engine.max_model_len
    if length is not None and trained is not None and length > trained and not _longer_allowed(engine):
        return (
            f"engine.max_model_len is {length}: {target.id} takes {trained} tokens, and vLLM refuses more; lower it, "
            "or state the rope scaling that stretches it under engine.extra_args (hf-overrides)"
        )
    window = length if length is not None else trained if not _longer_allowed(engine) else None
    if window is None:
        return None
    limit = f"engine.max_model_len is {window}" if length is not None else f"{target.id} takes {window} tokens"
    prompt = workload.prompt_tokens.mean if workload.prompt_tokens is not None else 0.0
    output = workload.output_tokens.mean if workload.output_tokens is not None else 0.0
    if prompt + output > window:
        return (
            f"{limit}: the stated workload has prompts of {prompt:.0f} and outputs of {output:.0f} tokens on average, "
            f"{prompt + output:.0f} together; state lengths that fit, or a longer window"
        )
    return None


def _options(engine: Engine, release: Release) -> str | None:
    tokens, requests = engine.max_num_batched_tokens, engine.max_num_seqs
    if tokens is not None and tokens < 2:
        return f"engine.max_num_batched_tokens is {tokens}: verifying a draft takes at least 2 in a step; raise it"
    if tokens is not None and requests is not None and tokens < requests:
        return (
            f"engine.max_num_batched_tokens is {tokens}, below engine.max_num_seqs, {requests}: vLLM "
            f"{release.version} refuses that; raise the first or lower the second"
        )
    if engine.dtype not in DTYPES:
        return f"engine.dtype is {engine.dtype!r}: expected one of {', '.join(DTYPES)}"
    if not engine.kv_cache_dtype.strip():
        return "engine.kv_cache_dtype is empty: expected auto, fp8 or another name vLLM takes"
    runner = engine.env.get("VLLM_USE_V2_MODEL_RUNNER")
    if runner is not None and runner not in ("0", "1"):
        return f"engine.env.VLLM_USE_V2_MODEL_RUNNER is {runner!r}: expected 0 or 1"
    return None


def _longer_allowed(engine: Engine) -> bool:
    """Whether something stated beside max_model_len stretches the window: rope scaling, or vLLM's own override."""
    names = {name.lstrip("-").replace("-", "_").split(".")[0] for name in engine.extra_args}
    return bool(names & _LONGER_THAN_TRAINED) or engine.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0") == "1"


# --- an accelerator ------------------------------------------------------------------------------------------------
def refused_accelerator(gpu: Gpu) -> str | None:
    """Why no config is written for an accelerator: vLLM runs on it through a plugin with rules of its own."""
    if gpu.vendor == "google" or gpu.name.startswith("Gaudi"):
        return (
            f"gpu is {gpu.name!r}: vLLM runs there through a plugin whose methods and options are not known here; "
            "expected an NVIDIA, AMD or Intel GPU, or `cpu`"
        )
    return None


def accelerator_note(gpu: Gpu) -> str | None:
    """What is less sure on a GPU of another maker than the one vLLM's speculation was read for."""
    if gpu.vendor == "nvidia":
        return None
    return (
        f"{gpu.name}: options, methods and overheads are those of vLLM's CUDA build; on this card start the written "
        "config once before relying on it"
    )


# --- evidence ------------------------------------------------------------------------------------------------------
def foreign_evidence(target: str, evidence: tuple[Evidence, ...]) -> tuple[str, ...]:
    """Evidence that names models of which none is the target: a warning, since a server may serve it by an alias."""
    said = []
    for item in evidence:
        named = {
            "server": item.server.models if item.server is not None else (),
            "requests": item.requests.models if item.requests is not None else (),
            "trial": (item.trial.target,) if item.trial is not None else (),
            "replay": (item.replay.target,) if item.replay is not None and item.replay.target else (),
            "scoring": (item.scoring.target,) if item.scoring is not None and item.scoring.target else (),
        }
        for kind, models in named.items():
            if models and not any(_same_name(model, target) for model in models):
                verb = {"requests": "name", "server": "serves"}.get(kind, "was of")
                said.append(
                    f"the {kind} evidence may be of another model: the {kind} {verb} {', '.join(models[:3])}, and the "
                    f"target is {target}"
                )
    return tuple(dict.fromkeys(said))


def _same_name(one: Any, other: str) -> bool:
    first, second = normal_id(str(one)), normal_id(other)
    return first == second or first.rsplit("/", 1)[-1] == second.rsplit("/", 1)[-1]
