"""Reads what a config names (models, machine, release) and makes the subject that rules look at. Never asks the hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.checks.known_model import facts_of
from advisor.checks.platforms import platform_of
from advisor.checks.serve_config import ServeConfig, from_yaml
from advisor.checks.speculation import draft_reference
from advisor.checks.subject import ExpectedWorkload, KnownModel, Subject
from profiles.catalog.gpus import Gpu, find_gpu
from profiles.catalog.releases import Release, release
from profiles.errors import InputError, ModelNotFound
from profiles.model_ref import ModelRef
from profiles.schema import shown

if TYPE_CHECKING:
    from advisor.record import Record


@dataclass
class SubjectBuilder:
    """One for a whole call: a model that many configs name is read once."""

    release: Release
    """The one stated; where none is, the one for configs that name none themselves."""
    release_from: str = ""
    """Who stated it, as `CheckResult.version_from` has it."""
    by_header: bool = False
    """Nobody states a release: the one that a config's own header names is then taken."""
    gpu_name: str = ""
    gpu_count: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    workload: ExpectedWorkload | None = None
    record: Record | None = None
    unstated_env: Mapping[str, str] = field(default_factory=dict)
    """Environment of a config file that nobody states otherwise: a config file cannot state it, a manifest would."""
    _models: dict[tuple[str, str | None, str], KnownModel] = field(default_factory=dict)
    _gpu: tuple[Gpu | None] | None = None

    def build(self, config: ServeConfig, base: Path) -> Subject:
        """The subject of one config; model folders are relative to `base`.

        Raises:
            InputError: a model file is there and damaged; a model that is not here is no error.
        """
        facts, _ = self.release_of(config)
        subject = Subject(
            config=config,
            release=facts,
            gpu=self._find_gpu(),
            gpu_name=self.gpu_name,
            gpu_count=self.gpu_count,
            platform=platform_of(self.gpu_name),
            env={**(self.unstated_env if config.from_file else {}), **config.written_env, **config.env, **self.env},
            workload=self.workload,
            record=self.record,
            **self._as_advised(config),
        )
        draft = draft_reference(subject)
        target = config.get("model", config.get("model-tag"))
        nested = config.get("speculative-config")
        revision = nested.get("revision") if isinstance(nested, Mapping) else None
        return replace(
            subject,
            target=self._read(target, config.get("revision"), base) if isinstance(target, str) else None,
            draft=self._read(draft, revision, base) if draft is not None else None,
        )

    def release_of(self, config: ServeConfig) -> tuple[Release, str]:
        """The release that a config is judged for, and who stated it."""
        if self.by_header and config.written_for:
            return release(config.written_for), "as the file's own header says"
        return self.release, self.release_from

    def _as_advised(self, config: ServeConfig) -> dict[str, Any]:
        """What only the record knows of the machine, where the config is the very one it advises: figures of memory are
        then the advice's own."""
        if self.record is None:
            return {}
        from advisor.checks.emitted import known_of_record, plain_runner

        known, gpu = known_of_record(self.record), self._find_gpu()
        here = gpu.name if gpu is not None else "cpu" if platform_of(self.gpu_name) == "cpu" else ""
        advised = from_yaml(self.record.emitted.vllm_yaml, "the record's vllm.yaml")
        if here != known.gpu_name or config.values != advised.values:
            return {}
        return {"plain_runner": plain_runner(known), "hardware": known.deployment.hardware, "evidence": known.evidence,
                "measured": known.measured}

    def _find_gpu(self) -> Gpu | None:
        """None where nobody names one, for `cpu`, and for accelerators that only a plugin runs on."""
        if self._gpu is None:
            platform = platform_of(self.gpu_name)
            known = self.gpu_name.strip() and platform in ("cuda", "rocm", "xpu", "unknown")
            try:
                self._gpu = (find_gpu(self.gpu_name) if known else None,)
            except InputError:
                if platform == "unknown":
                    raise
                # Intel and AMD cards that are not in the catalog: rules that need figures say nothing.
                self._gpu = (None,)
        return self._gpu[0]

    def _read(self, reference: str, revision: object, base: Path) -> KnownModel:
        named = revision if isinstance(revision, str) else None
        key = (reference, named, str(base))
        if key not in self._models:
            self._models[key] = _facts(reference, named, base)
        return self._models[key]


def _facts(reference: str, revision: str | None, base: Path) -> KnownModel:
    from probes.model import local_files, resolve_model

    try:
        ref = ModelRef(id=reference, revision=revision)
    except ValueError:
        return KnownModel(reference, problem=f"{reference!r} is no model")
    files = local_files(ref, base)
    try:
        return facts_of(reference, files, resolve_model(ref, base, offline=True))
    except ModelNotFound:
        return facts_of(reference, files, None, f"the model {shown(reference)} is not at hand")
    except InputError:
        if not files:
            raise
        # A config that leaves out what counting needs still says what most rules ask for.
        return facts_of(reference, files)
