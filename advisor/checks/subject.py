"""All that a rule may look at, in one immutable value: the config, the release, the machine, the models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from advisor.checks.measured import NOTHING_MEASURED, Measured
from advisor.checks.serve_config import ServeConfig
from profiles.catalog.gpus import Gpu
from profiles.catalog.releases import Release
from profiles.catalog.shapes import ModelShape
from profiles.schema import Amount, RequestLimit, Schema, TokenLimit

if TYPE_CHECKING:
    from advisor.checks.deployed import Deployed
    from advisor.checks.speculation import Speculation
    from advisor.record import Record
    from profiles.deployment import Hardware
    from profiles.evidence import Evidence

Platform = Literal["cuda", "rocm", "xpu", "npu", "tpu", "cpu", "unknown"]


class ExpectedWorkload(Schema):
    """What the user says about traffic; everything is optional."""

    concurrency: RequestLimit | None = None
    """Requests running at once."""
    prompt_len: TokenLimit | None = None
    """Usual prompt, tokens."""
    output_len: TokenLimit | None = None
    """Usual output, tokens."""
    temperature: Amount | None = None
    """Usual sampling temperature."""
    task: str | None = None
    """Task family."""
    logprobs: int | None = None
    """Log-probabilities that requests ask for."""


@dataclass(frozen=True)
class KnownModel:
    """What is known of one model without its weights."""

    reference: str
    """As the config names it."""
    shape: ModelShape | None = None
    """None where it could not be resolved."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """config.json; empty where only the catalog knows the model."""
    generation: Mapping[str, Any] = field(default_factory=dict)
    """generation_config.json; empty where there is none or it is not at hand."""
    special_ids: Mapping[str, Any] = field(default_factory=dict)
    """bos/eos/pad/unk ids, as far as the files say."""
    problem: str | None = None
    """Why the shape is missing, in one sentence."""


@dataclass(frozen=True)
class Subject:
    """Input of every rule. Nothing here needs I/O: who builds it has read the files."""

    config: ServeConfig
    release: Release
    gpu: Gpu | None
    """None on the CPU engine, or where the GPU is not in the catalog."""
    gpu_name: str
    """As stated; empty where nobody stated it."""
    gpu_count: int | None
    """As stated; None where nobody stated it."""
    platform: Platform = "cuda"
    target: KnownModel | None = None
    draft: KnownModel | None = None
    """Draft model or head that the config names."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The server's environment: the config's own and the stated one."""
    workload: ExpectedWorkload | None = None
    record: Record | None = None
    """What was approved, where it is given."""
    hardware: Hardware | None = None
    """What the deployment states of the machine, where this config was emitted for one."""
    plain_runner: Literal["v1", "v2"] | None = None
    """GPU runner of the same deployment without speculation, as the advice says; None asks `Deployed.plain_runner`."""
    evidence: tuple[Evidence, ...] = ()
    """What was measured of that machine and its engine."""
    measured: Measured = NOTHING_MEASURED
    """What was measured of the very speculation, as the record has it."""

    @cached_property
    def speculation(self) -> Speculation | None:
        """The speculation the config asks for, read in the way of its release; None where it asks for none."""
        from advisor.checks.speculation import read_speculation

        return read_speculation(self)

    @cached_property
    def engine(self) -> Deployed:
        """Sizes, switches and runner of the server, stated or as its release takes them."""
        from advisor.checks.deployed import Deployed

        return Deployed(self)
