"""The speculation a config asks for, whatever its release calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.checks import traits
from profiles.yaml_lines import KeyPath

if TYPE_CHECKING:
    from advisor.checks.subject import KnownModel, Subject

SEPARATE_OPTIONS: Mapping[str, str] = {
    "speculative-model": "model",
    "num-speculative-tokens": "num_speculative_tokens",
    "speculative-draft-tensor-parallel-size": "draft_tensor_parallel_size",
    "speculative-max-model-len": "max_model_len",
    "speculative-disable-by-batch-size": "disable_by_batch_size",
    "speculative-model-quantization": "quantization",
    "speculative-disable-mqa-scorer": "disable_mqa_scorer",
    "ngram-prompt-lookup-max": "prompt_lookup_max",
    "ngram-prompt-lookup-min": "prompt_lookup_min",
    "spec-decoding-acceptance-method": "acceptance_method",
    "typical-acceptance-sampler-posterior-threshold": "posterior_threshold",
    "typical-acceptance-sampler-posterior-alpha": "posterior_alpha",
    "disable-logprobs-during-spec-decoding": "disable_logprobs",
}
"""Options before 0.8, and the key of speculative-config that replaced each."""
SHORT_CUTS: Mapping[str, str] = {
    "spec-method": "method", "spec-model": "model", "spec-tokens": "num_speculative_tokens",
}
"""Options that set one key of speculative-config."""
SCHEDULE = "num_speculative_tokens_per_batch_size"
OTHER_METHODS = frozenset({"custom_class", "extract_hidden_states"})
"""Methods that `profiles.methods` does not describe: nothing here prices them."""
_FIXED = frozenset({"eagle", "eagle3", "dflash", "dspark"})
"""Methods that vLLM does not doubt by the draft's name."""
_LOOKUP = frozenset({"ngram", "ngram_gpu", "suffix"})
_LONGEST_NUMBER = 20


@dataclass(frozen=True)
class Speculation:
    """One reading of `speculative-config`, of the separate options before 0.8, and of the `spec-*` short cuts."""

    method: str | None
    """Name as vLLM ends up with it; None where it cannot be told (an unknown name)."""
    stated_method: str | None
    """As written; None where it is left to the engine."""
    k: int | None  # None too where what is stated is no number above 0
    """num_speculative_tokens; None where it is left out or no whole number."""
    model: str | None
    """Draft or head, as written."""
    settings: Mapping[str, Any]
    """Keys of speculative-config (underscores); options of releases before 0.8 under the keys that replaced them."""
    paths: Mapping[str, KeyPath]
    """Key of `settings` to its key path in the config; the empty key is the speculation itself."""

    def path(self, key: str = "") -> KeyPath:
        """Where a key of `settings` stands, or where the speculation itself does."""
        return self.paths.get(key) or self.paths.get("", ("speculative-config",))

    def whole(self, key: str) -> int | None:
        """A whole number of the settings."""
        value = self.settings.get(key)
        if isinstance(value, str) and value.strip().isdigit():
            value = int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def schedule_stated(self) -> bool:
        return self.settings.get(SCHEDULE) is not None

    @property
    def schedule(self) -> list[tuple[int, int, int]] | None:
        """The schedule where it is a list of three whole numbers each, in order; None otherwise."""
        bands = self.settings.get(SCHEDULE)
        if not isinstance(bands, list) or not bands:
            return None
        if not all(isinstance(band, list) and len(band) == 3 and all(type(n) is int for n in band) for band in bands):
            return None
        return sorted((band[0], band[1], band[2]) for band in bands)

    @property
    def is_lookup(self) -> bool:
        """Text is copied; no draft is computed."""
        return self.method in _LOOKUP


def read_speculation(subject: Subject) -> Speculation | None:
    """The speculation of a config, or None where it asks for none."""
    settings, paths = _settings(subject)
    if settings is None:
        return None
    stated = settings.get("method")
    stated = stated.strip() if isinstance(stated, str) and stated.strip() else None
    model = settings.get("model")
    model = model if isinstance(model, str) and model else None
    k = settings.get("num_speculative_tokens")
    if isinstance(k, str):
        k = int(k) if k.strip().isdecimal() and len(k) < _LONGEST_NUMBER else None
    elif isinstance(k, float):
        k = int(k) if k.is_integer() else None
    return Speculation(
        method=_method(stated, model, subject),
        stated_method=stated,
        k=k if isinstance(k, int) and not isinstance(k, bool) and k > 0 else None,
        model=model,
        settings=settings,
        paths=paths,
    )


def draft_reference(subject: Subject) -> str | None:
    """The model that has to be looked at as a draft or head; None where there is none."""
    settings, _ = _settings(subject)
    model = (settings or {}).get("model")
    if not isinstance(model, str) or model.strip("[]") in _LOOKUP or _is_class_path(model):
        return None
    return model


def _settings(subject: Subject) -> tuple[dict[str, Any] | None, dict[str, KeyPath]]:
    config = subject.config
    settings: dict[str, Any] = {}
    paths: dict[str, KeyPath] = {}
    nested = config.get("speculative-config")
    if isinstance(nested, Mapping) and nested:
        settings.update(nested)
        paths = {"": ("speculative-config",), **{key: ("speculative-config", key) for key in nested}}
    for options in (SHORT_CUTS, SEPARATE_OPTIONS):
        for option, key in options.items():
            value = config.get(option)
            if value is not None and key not in settings:
                settings[key] = value
                paths[key] = (option,)
                paths.setdefault("", (option,))
    asks = settings.keys() & {"method", "model", "num_speculative_tokens"}
    return (settings if asks else None), paths


def _is_class_path(model: str) -> bool:
    parts = model.split(".")
    return "/" not in model and len(parts) >= 2 and all(part.isidentifier() for part in parts)


def _method(stated: str | None, model: str | None, subject: Subject) -> str | None:
    release = subject.release
    if stated is not None:
        name = stated.strip("[]") if stated == "[ngram]" else stated
        name = release.method_spellings.get(name, name)
        if name not in _known():
            return None
    elif model is None:
        # k alone: the layers inside the target's own checkpoint.
        return "mtp"
    elif model.strip("[]") in _LOOKUP:
        return model.strip("[]")
    elif _is_class_path(model):
        return "custom_class"
    else:
        name = "draft_model"
    if name != "draft_model" or model is None:
        return name
    return _detected(subject.draft, model, release.has("v1_speculates")) or name


def _known() -> frozenset[str]:
    from profiles.methods import METHODS

    return frozenset(METHODS) - {"none"} | OTHER_METHODS | {"dflash2"}


def _detected(draft: KnownModel | None, model: str, by_name: bool) -> str | None:
    """The method vLLM makes of a draft model that is a head, by its name or model_type."""
    kind = traits.model_type(draft) if draft is not None else ""
    outer = draft.config.get("model_type") if draft is not None else None
    for found in (outer, kind):
        if found in ("medusa", "mlp_speculator"):
            return str(found)
        if found == "eagle":
            return "eagle"
        if isinstance(found, str) and found.endswith("_mtp"):
            return "mtp"
    if not by_name:
        return None
    lowered = model.lower()
    for mark, method in (("eagle-", "eagle"), ("eagle3", "eagle3"), ("dflash", "dflash"), ("dspark", "dspark")):
        if mark in lowered:
            return method
    return None
