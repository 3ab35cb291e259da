"""Drift: what differs between a deployment and the record of the advice that was approved for it.

The advice rests on a release, a GPU, models and serve options. What changed among them is said, with whether the advice
still holds; options it does not rest on (port, names, logging) are mentioned once, as info.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from advisor.checks.finding import Finding
from advisor.checks.notice import Notice
from advisor.checks.serve_config import ServeConfig, from_yaml
from advisor.checks.subject import KnownModel, Subject
from advisor.checks.values import said
from advisor.emit.options import FIELD_OPTIONS, carries_secret, is_secret
from advisor.emit.serving import ADDED
from profiles.catalog.gpus import find_gpu
from profiles.catalog.models import normal_id
from profiles.catalog.releases import release, version_tuple
from profiles.catalog.shapes import ModelShape
from profiles.errors import InputError
from profiles.schema import counted, shown

if TYPE_CHECKING:
    from advisor.record import Record

FAMILY = "drift"
AGAIN = "run `specadvise advise` for what runs now, and approve its record."
FRESH = f"R{AGAIN[1:]}"

RELEASE = Notice("SPD911", "Another release than the advice was for", "warn", FAMILY,
                 "Step times, defaults and what a runner supports differ from release to release, so the measured or "
                 "modelled break-even is another one.", FRESH)
GPU = Notice("SPD912", "Another GPU, or another number of them", "warn", FAMILY,
             "Spare compute, bandwidth and memory decide how much a step of drafted tokens costs: the advice holds for "
             "its own machine only.", FRESH)
TARGET = Notice("SPD913", "The target has changed", "warn", FAMILY,
                "Acceptance was judged for the target of the record: other weights accept other drafts.", FRESH)
DRAFT = Notice("SPD914", "The draft has changed", "warn", FAMILY,
               "Acceptance and draft time were judged for the draft of the record.", FRESH)
SPECULATION = Notice("SPD915", "Speculation differs from what was decided", "warn", FAMILY,
                     "The record prices one method, draft and k; this config asks for another.",
                     f"Take over the record's `speculative-config`, or {AGAIN}")
OPTION = Notice("SPD916", "A serve option that the advice rests on differs", "warn", FAMILY,
                "Parallel sizes, limits and memory options change what fits and what a step costs.",
                f"Set it back, or {AGAIN}")
OTHER = Notice("SPD917", "Serve options differ that the advice does not rest on", "info", FAMILY,
               "They do not change the decision; they are named so that nothing differs unseen.",
               "Nothing, if they were meant; a new record takes them in.")
ENVIRONMENT = Notice("SPD918", "The engine's environment differs", "warn", FAMILY,
                     "VLLM_* variables choose the runner and kernels that the record was made with.",
                     f"Set them as the record has them, or {AGAIN}")
LOAD = Notice("SPD919", "The expected load has passed the advice's crossover", "warn", FAMILY,
              "From the crossover on, no k of the chosen candidate gains.",
              f"Turn speculation off above that load (a schedule), or {AGAIN}")
NOTICES = (RELEASE, GPU, TARGET, DRAFT, SPECULATION, OPTION, OTHER, ENVIRONMENT, LOAD)

_RESTS_ON = frozenset(FIELD_OPTIONS.values()) | {
    "async-scheduling", "block-size", "compilation-config", "cpu-offload-gb", "cuda-graph-sizes",
    "cudagraph-capture-sizes", "decode-context-parallel-size", "enable-chunked-prefill", "enable-expert-parallel",
    "enable-lora", "enable-prefix-caching", "kv-cache-memory-bytes", "kv-transfer-config", "max-cudagraph-capture-size",
    "max-loras", "max-lora-rank", "max-num-scheduled-tokens", "num-gpu-blocks-override", "attention-backend",
    "attention-config", "hf-overrides", "load-format",
}
_MODEL_OPTIONS = frozenset({"model", "revision", "speculative-config", "tokenizer"})
_ENVIRONMENT_PREFIX = "VLLM_"
_PLACES = ("VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT", "VLLM_ASSETS_CACHE", "VLLM_LOGGING_", "VLLM_HOST_IP", "VLLM_PORT")
"""Variables that say where a server keeps files, logs and listens: they choose neither runner nor kernels."""


def drift(subject: Subject, approved: Record) -> tuple[Finding, ...]:
    """What changed since the record, as findings. Empty where nothing did."""
    then = from_yaml(approved.emitted.vllm_yaml, "the record's vllm.yaml")
    return (
        *_release(subject, approved),
        *_gpu(subject, approved),
        *_target(subject, approved),
        *_draft(subject, approved),
        *_speculation(subject.config, then, approved),
        *_options(subject.config, then, _taken_by_itself(approved)),
        *_environment(subject, approved),
        *_load(subject, approved),
    )


def _release(subject: Subject, approved: Record) -> Iterator[Finding]:
    then, now = approved.provenance.vllm_version, subject.release.version
    if then == now:
        return
    try:
        same_minor = version_tuple(then)[:2] == version_tuple(now)[:2]
    except ValueError:
        same_minor = False
    if same_minor:
        yield RELEASE.finding(f"the record was made for vLLM {then}, this is {now}: a fix release of the same one, "
                              "so the advice still holds", severity="info")
    else:
        yield RELEASE.finding(f"the record was made for vLLM {then}, this is {now}: the advice no longer holds")


def _gpu(subject: Subject, approved: Record) -> Iterator[Finding]:
    then, count = approved.provenance.gpu, approved.provenance.gpu_count
    now = subject.gpu.name if subject.gpu is not None else subject.gpu_name
    if now and not _same_gpu(then, now) and not (count == 0 and subject.platform == "cpu"):
        yield GPU.finding(f"the record was made for {count} x {then}, this is {now}: the advice no longer holds")
    elif subject.gpu_count is not None and subject.gpu_count != count:
        yield GPU.finding(f"the record was made for {count} x {then}, here are {subject.gpu_count}: the advice no "
                          "longer holds")


def _same_gpu(then: str, now: str) -> bool:
    """Drivers, catalog and people write one card's name in different ways."""
    if then.lower() == now.lower():
        return True
    try:
        return find_gpu(then).name == find_gpu(now).name
    except InputError:
        return False


def _target(subject: Subject, approved: Record) -> Iterator[Finding]:
    config = subject.config
    for change in _model_changes(approved.provenance.target, subject.target, config.get("revision")):
        yield TARGET.finding(change, where="model", line=config.line(("model",)))


def _draft(subject: Subject, approved: Record) -> Iterator[Finding]:
    """The draft that was decided for; where another one is named, that is a difference of the speculation."""
    decided = approved.decision.draft
    if decided is None or subject.draft is None:
        return
    then = next((shape for shape in approved.provenance.drafts if shape.id == decided), None)
    if then is None or not _same_name(then.id, subject.draft.reference):
        return
    settings = subject.config.get("speculative-config")
    revision = settings.get("revision") if isinstance(settings, Mapping) else None
    path = ("speculative-config", "model")
    for change in _model_changes(then, subject.draft, revision):
        yield DRAFT.finding(change, where=".".join(path), line=subject.config.line(path))


def _model_changes(then: ModelShape, now: KnownModel | None, revision: object) -> Iterator[str]:
    if now is None:
        return
    if not _same_name(then.id, now.reference):
        yield f"the record is about {then.id}, this is {now.reference}: the advice no longer holds"
        return
    shape = now.shape
    if shape is not None and then.config_hash and shape.config_hash and then.config_hash != shape.config_hash:
        yield (f"config.json of {now.reference} is not the one the record was made with (sha256 "
               f"{then.config_hash[:12]}, now {shape.config_hash[:12]}): the advice no longer holds")
        return
    stated = revision if isinstance(revision, str) else shape.revision if shape is not None else None
    if then.revision and stated and then.revision != stated:
        yield (f"{now.reference} is at revision {stated[:40]}, the record was made at {then.revision[:40]}: other "
               "weights may accept other drafts, so measure again")
    if shape is None:
        return
    if then.weight_bytes and shape.weight_bytes and then.weight_bytes != shape.weight_bytes:
        yield (f"the weights of {now.reference} take {shape.weight_bytes:,} bytes, in the record "
               f"{then.weight_bytes:,}: the advice no longer holds")
    before, after = then.tokenizer, shape.tokenizer
    if before and after and before.vocab_hash and after.vocab_hash and before.vocab_hash != after.vocab_hash:
        yield f"the tokenizer of {now.reference} has another vocabulary than the record's: the advice no longer holds"


def _same_name(then: str, now: str) -> bool:
    """A folder may lie elsewhere on another machine: its own name counts, and what config.json says."""
    if normal_id(then) == normal_id(now):
        return True
    paths = [name for name in (then, now) if name.startswith(("/", ".", "~")) or name.count("/") > 1]
    last = [posixpath.basename(name.rstrip("/")) for name in (then, now)]
    return bool(paths) and last[0] == last[1]


def _speculation(now: ServeConfig, then: ServeConfig, approved: Record) -> Iterator[Finding]:
    decided, asked = _settings(then), _settings(now)
    if not decided and not asked:
        return
    line = now.line(("speculative-config",))
    if not decided:
        yield SPECULATION.finding("the record advises no speculation, this config speculates: nobody decided that",
                                  where="speculative-config", line=line)
    elif not asked:
        most = decided.get(_K)
        text = f"the record advises {decided.get('method')} with k = {most}"
        if _above_decided(approved, most):
            text = (f"the record advises {decided.get('method')} with k = {approved.decision.k} at the load decided "
                    f"for ({_K} is {most}, the largest k of its schedule)")
        yield SPECULATION.finding(f"{text}, this config does not speculate")
    else:
        for key, was, value in _differences(decided, asked):
            text = f"{key} is {value}, the record decided for {was}"
            if key == _K and _above_decided(approved, decided.get(_K)):
                text = (f"{key} is {value}, the record's vllm.yaml has {was}, the largest k of its schedule (k = "
                        f"{approved.decision.k} at the load decided for)")
            yield SPECULATION.finding(text, where=f"speculative-config.{key}",
                                      line=now.line(("speculative-config", key)))


_K = "num_speculative_tokens"


def _above_decided(approved: Record, most: object) -> bool:
    """Whether the engine is started with a schedule's largest k, and that is not the k decided for."""
    return bool(approved.decision.schedule) and most != approved.decision.k


def _settings(config: ServeConfig) -> dict[str, Any]:
    """speculative-config without what names a place rather than a thing."""
    found = config.get("speculative-config")
    if isinstance(found, Mapping):
        settings = dict(found)
        if isinstance(settings.get("model"), str):
            settings["model"] = _short(settings["model"])
        settings.pop("revision", None)
        return settings
    # Releases before 0.8 have options of their own.
    return {key: value for key, value in config.values.items() if key.startswith(("speculative-", "num-speculative-"))
            and key != "speculative-config"}


def _short(name: str) -> str:
    return posixpath.basename(name.rstrip("/")) if name.startswith(("/", ".", "~")) or name.count("/") > 1 else name


_BY_ITSELF: Mapping[str, Any] = MappingProxyType({
    "tensor-parallel-size": 1, "pipeline-parallel-size": 1, "data-parallel-size": 1, "dtype": "auto",
    "kv-cache-dtype": "auto", "enforce-eager": False, "trust-remote-code": False,
})
"""What every engine takes for an option that nobody states."""


def _taken_by_itself(approved: Record) -> Mapping[str, Any]:
    """What the engine of the record takes for options that nobody states: sizes by its release, GPU and target too."""
    said, engine = approved.provenance, approved.deployment.engine
    facts, target = release(said.vllm_version), said.target
    try:
        gpu = find_gpu(said.gpu)
    except InputError:
        gpu = None
    limits = facts.default_limits(
        gpu.memory_gib if gpu is not None and not gpu.unified_memory else None, gpu.name if gpu is not None else "",
        cpu=said.gpu == "cpu", workers=engine.tensor_parallel_size * engine.pipeline_parallel_size)
    sizes = {"max-num-seqs": limits.max_num_seqs, "max-num-batched-tokens": limits.max_num_batched_tokens,
             "gpu-memory-utilization": facts.default_gpu_memory_utilization}
    if target.max_position_embeddings is not None:
        sizes["max-model-len"] = target.max_position_embeddings
    linear = any(group.kind == "linear" for group in target.attention)
    return {**_BY_ITSELF, **sizes, "enable-prefix-caching": not linear}


def _as_run(config: ServeConfig, itself: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that say what the engine does anyway, and each way to turn one off alike."""
    found = {}
    for option, value in config.values.items():
        name, given = (option[3:], False) if option.startswith("no-") and value is True else (option, value)
        if name not in itself or _plain(given) != _plain(itself[name]):
            found[name] = given
    return found


def _options(now: ServeConfig, then: ServeConfig, itself: Mapping[str, Any]) -> Iterator[Finding]:
    others = []
    for option, was, value in _differences(_as_run(then, itself), _as_run(now, itself)):
        if option in _MODEL_OPTIONS or option.startswith(("speculative-", "num-speculative-")):
            continue
        if option in _RESTS_ON:
            yield OPTION.finding(f"{option} is {value}, in the record {was}: the advice no longer holds",
                                 where=option, line=now.line((option,)) or now.line((f"no-{option}",)))
        elif not is_secret(option) and not (option in ADDED and option not in then.values):
            # What an emitted manifest adds by itself is no difference that somebody made.
            others.append(option)
    if others:
        yield OTHER.finding(f"these options differ from the record, which does not change the advice: "
                            f"{', '.join(others[:12])}{', ...' if len(others) > 12 else ''}")


def _environment(subject: Subject, approved: Record) -> Iterator[Finding]:
    then = {key: value for key, value in approved.emitted.env.items() if key.startswith(_ENVIRONMENT_PREFIX)}
    now = {key: value for key, value in subject.env.items() if key.startswith(_ENVIRONMENT_PREFIX)}
    for key, was, value in _differences(then, now):
        if not is_secret(key) and not key.startswith(_PLACES):
            yield ENVIRONMENT.finding(f"{key} is {value}, in the record {was}")


def _load(subject: Subject, approved: Record) -> Iterator[Finding]:
    expected = subject.workload.concurrency if subject.workload is not None else None
    crossover = approved.decision.crossover_load
    if expected is None or crossover is None or not approved.decision.enable or expected < crossover:
        return
    yield LOAD.finding(f"{counted(expected, 'running request')} expected; the record was decided for "
                       f"{approved.decision.running}, and its candidate no longer gains from {crossover} on")


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    """(key, what it was, what it is) of what differs; a switch that is off and one left out are told apart."""
    for key in sorted({*then, *now}):
        was, value = then.get(key), now.get(key)
        if _plain(was) != _plain(value):
            yield key, _said(key, key in then, was), _said(key, key in now, value)


def _plain(value: Any) -> Any:
    """Lists and tuples alike, 1 and 1.0 alike, but not 1 and true."""
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), repr(_plain(inner))) for key, inner in value.items()))
    return (type(value) is bool, value)


def _said(key: str, stated: bool, value: Any) -> str:
    if not stated or value is None:
        return "left out"
    return said(value, key) if carries_secret(key, value) or not isinstance(value, Mapping) else shown(value)
