"""The engine that a config would start: sizes and switches, stated or as its release takes them, in one reading."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from advisor.checks import traits
from profiles.catalog.options import size_of
from profiles.catalog.releases import Limits
from profiles.yaml_lines import KeyPath

if TYPE_CHECKING:
    from advisor.checks.subject import Subject

Runner = Literal["v0", "v1", "v2", "cpu"]


class Deployed:
    """One server as its release would run it."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._config = subject.config

    # --- reading ------------------------------------------------------------------------------------------------
    def whole(self, option: str, default: int | None = None) -> int | None:
        """A whole number; `default` where it is left out or no number. `8k` and `8K` are read as vLLM reads them."""
        value = self._config.get(option)
        if isinstance(value, str):
            value = size_of(value)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def switch(self, option: str) -> bool | None:
        """true, false, or None where nobody says; `no-OPTION` is read too."""
        for name, sense in ((option, True), (f"no-{option}", False)):
            value = self._config.get(name)
            if isinstance(value, str) and value.lower() in ("true", "false"):
                value = value.lower() == "true"
            if isinstance(value, bool):
                return value is sense
            if name in self._config.values and value is None and name != option:
                return sense
        return None

    def nested(self, option: str, key: str) -> Any:
        """A key inside a JSON-valued option."""
        value = self._config.get(option)
        return value.get(key) if isinstance(value, Mapping) else None

    # --- parallelism --------------------------------------------------------------------------------------------
    @property
    def tensor_parallel(self) -> int:
        return self.whole("tensor-parallel-size", 1) or 1

    @property
    def pipeline_parallel(self) -> int:
        return self.whole("pipeline-parallel-size", 1) or 1

    @property
    def data_parallel(self) -> int:
        return self.whole("data-parallel-size", 1) or 1

    # --- sizes --------------------------------------------------------------------------------------------------
    @cached_property
    def defaults(self) -> Limits:
        """What the release takes where nobody states sizes."""
        gpu = self._subject.gpu
        return self._subject.release.default_limits(
            gpu.memory_gib if gpu is not None else None, self._subject.gpu_name, cpu=self._subject.platform == "cpu",
            workers=self.tensor_parallel * self.pipeline_parallel,
        )

    @property
    def stated_seqs(self) -> int | None:
        return self.whole("max-num-seqs")

    @property
    def max_num_seqs(self) -> int:
        """Most requests in a step; capped by the token budget, as vLLM does with its default."""
        return self.stated_seqs or min(self.defaults.max_num_seqs, self.max_num_batched_tokens)

    @property
    def stated_tokens(self) -> int | None:
        return self.whole("max-num-batched-tokens")

    @property
    def max_num_batched_tokens(self) -> int:
        return self.stated_tokens or self.defaults.max_num_batched_tokens

    @property
    def overrides(self) -> Mapping[str, Any]:
        """hf-overrides and the options that stretch a window."""
        found: dict[str, Any] = {}
        value = self._config.get("hf-overrides")
        if isinstance(value, Mapping):
            found.update(value)
        rope = self._config.get("rope-scaling")
        if isinstance(rope, Mapping):
            found["rope_scaling"] = rope
        return found

    @property
    def stated_window(self) -> int | None:
        """max-model-len as stated; None where it is left out or left to the engine (`auto`, -1)."""
        found = self.whole("max-model-len")
        return found if found is not None and found > 0 else None

    @property
    def window(self) -> int | None:
        """Longest prompt and output together; None where neither config nor model says."""
        return self.stated_window or traits.window(self._subject.target, self.overrides)

    # --- switches -----------------------------------------------------------------------------------------------
    @property
    def eager(self) -> bool:
        return self.switch("enforce-eager") is True

    @property
    def graph_mode(self) -> str | None:
        """cudagraph_mode as stated, in capitals."""
        mode = self.nested("compilation-config", "cudagraph_mode")
        return str(mode).upper() if mode is not None else None

    @property
    def prefix_caching(self) -> bool | None:
        """As stated; None where it is left to the release."""
        return self.switch("enable-prefix-caching")

    @property
    def async_scheduling(self) -> bool | None:
        return self.switch("async-scheduling")

    @property
    def grammar_option(self) -> KeyPath | None:
        """The option that sets structured output up; None where the config has none."""
        for option in ("structured-outputs-config", "guided-decoding-backend", "guided-decoding-disable-fallback"):
            if self._config.get(option) is not None:
                return (option,)
        return None

    @property
    def capture_sizes(self) -> tuple[KeyPath, tuple[int, ...]] | None:
        """Graph sizes in tokens as stated, and where."""
        for path, value in (
            (("cudagraph-capture-sizes",), self._config.get("cudagraph-capture-sizes")),
            (("compilation-config", "cudagraph_capture_sizes"),
             self.nested("compilation-config", "cudagraph_capture_sizes")),
            (("cuda-graph-sizes",), self._config.get("cuda-graph-sizes")),
        ):
            items = [value] if isinstance(value, int) else value
            if isinstance(items, list) and items and all(isinstance(item, int) for item in items):
                return path, tuple(sorted(items))
        return None

    @property
    def capture_limit(self) -> tuple[KeyPath, int] | None:
        """The largest graph in tokens as stated, and where."""
        for path, value in (
            (("max-cudagraph-capture-size",), self._config.get("max-cudagraph-capture-size")),
            (("compilation-config", "max_cudagraph_capture_size"),
             self.nested("compilation-config", "max_cudagraph_capture_size")),
        ):
            if isinstance(value, int) and not isinstance(value, bool):
                return path, value
        return None

    # --- engine and runner --------------------------------------------------------------------------------------
    @property
    def forced_runner(self) -> Literal["v1", "v2"] | None:
        """VLLM_USE_V2_MODEL_RUNNER, where it is set."""
        forced: dict[str, Literal["v1", "v2"]] = {"0": "v1", "1": "v2"}
        return forced.get(str(self._subject.env.get("VLLM_USE_V2_MODEL_RUNNER", "")).strip())

    @property
    def forced_engine(self) -> Literal["v0", "v1"] | None:
        """VLLM_USE_V1, where it is set."""
        forced: dict[str, Literal["v0", "v1"]] = {"0": "v0", "1": "v1"}
        return forced.get(str(self._subject.env.get("VLLM_USE_V1", "")).strip())

    def without_v2(self) -> str | None:
        """What of this speculation the V2 runner of the release lacks; None where it has it all."""
        subject = self._subject
        speculation, release = subject.speculation, subject.release
        if speculation is None or speculation.method is None:
            return None
        if speculation.method not in release.v2_methods:
            return f"the method {speculation.method}"
        if speculation.settings.get("parallel_drafting") is True and speculation.method not in ("dflash", "dspark"):
            return "parallel drafting"
        if speculation.settings.get("use_heterogeneous_vocab") is True:
            return "drafts of another vocabulary (use_heterogeneous_vocab)"
        if speculation.schedule_stated and not release.has("v2_schedule_accepted"):
            return "a schedule of k by batch size"
        if speculation.method == "eagle3" and self.pipeline_parallel > 1 and not release.has("v2_eagle3_pipeline"):
            return "EAGLE-3 with pipeline stages"
        return None

    @cached_property
    def runner(self) -> Runner:
        """Engine and runner that the server ends up with."""
        subject = self._subject
        speculation, release = subject.speculation, subject.release
        if release.has("v0_engine"):
            if self.forced_engine is not None:
                return self.forced_engine
            method = speculation.method if speculation is not None else None
            on_v1 = release.has("v1_by_default") and (speculation is None or method in release.v1_methods)
            return "v1" if on_v1 else "v0"
        if subject.platform == "cpu":
            return "cpu"
        if self.forced_runner is not None:
            return self.forced_runner
        if speculation is not None and speculation.method == "dspark":
            return "v2"
        return "v2" if self._picks_v2 and self.without_v2() is None else "v1"

    @cached_property
    def plain_runner(self) -> Runner:
        """Runner of the same server without speculation, where who made the config does not say it: the one its release
        picks. A variable that forces another one is taken to stand there for the speculation's sake, as it does beside
        the configs that an advice writes."""
        subject = self._subject
        if subject.plain_runner is not None:
            return subject.plain_runner
        if subject.speculation is None or self.runner in ("v0", "cpu"):
            return self.runner
        return "v2" if self._picks_v2 else "v1"

    @property
    def _picks_v2(self) -> bool:
        """Whether the release takes the V2 runner for this target by itself."""
        target = self._subject.target
        return self._subject.release.picks_v2(
            traits.architectures(target), moe=traits.experts(target) > 0, hybrid=traits.is_hybrid(target),
            quantized=traits.is_quantized(target),
        )
