"""An example of a rule, as the subject that the rule looks at: no file, no network."""

from __future__ import annotations

from advisor.checks.known_model import facts_of
from advisor.checks.platforms import platform_of
from advisor.checks.rule import Example
from advisor.checks.serve_config import from_yaml
from advisor.checks.speculation import draft_reference
from advisor.checks.subject import ExpectedWorkload, KnownModel, Subject
from profiles.catalog.gpus import find_gpu
from profiles.catalog.releases import release
from profiles.catalog.shapes import TokenizerFingerprint


def subject_of(example: Example) -> Subject:
    """The example's config with its models and machine."""
    config = from_yaml(example.config, "vllm.yaml", example.env)
    platform = platform_of(example.gpu)
    subject = Subject(
        config=config,
        release=release(example.vllm_version),
        gpu=find_gpu(example.gpu) if platform in ("cuda", "rocm", "xpu") else None,
        gpu_name=example.gpu,
        gpu_count=example.gpus,
        platform=platform,
        env=example.env,
        workload=ExpectedWorkload.model_validate(example.workload) if example.workload else None,
    )
    target = config.get("model")
    draft = draft_reference(subject)
    return Subject(**{
        **{name: getattr(subject, name) for name in ("config", "release", "gpu", "gpu_name", "gpu_count", "platform",
                                                     "env", "workload")},
        "target": _model(example, target) if isinstance(target, str) else None,
        "draft": _model(example, draft) if draft is not None else None,
    })


def _model(example: Example, reference: str) -> KnownModel:
    files = example.models.get(reference, {})
    facts = facts_of(reference, files)
    vocabulary = files.get("vocabulary")
    if vocabulary is None or facts.shape is None:
        return facts
    shape = facts.shape.model_copy(update={"tokenizer": TokenizerFingerprint.model_validate(vocabulary)})
    return facts_of(reference, files, shape)
