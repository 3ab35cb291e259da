"""Fields of a case line that no prediction reads, and the field that was probably meant.

A load or a release under another tool's name makes another case of the line without a word: so its answer says what
was not read, and which field says that here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from advisor.cases.case import FIELDS

_SAID = 8
"""Fields named in a sentence; a row of another shape has dozens."""
_LONGEST = 60
_MOST_NAMES = 100
"""Names whose near ones are looked for in a run: a file of ever new names must not take all its time for that."""

_MEANT: Mapping[str, tuple[str, ...]] = {
    "engine_version": ("version", "release", "vllm_version", "vllm_release", "sglang_version", "framework_version"),
    "qps": ("request_rate", "rate", "rps", "arrival_rate", "arrival_rate_rps", "requests_per_second"),
    "concurrency": ("max_concurrency", "concurrent_requests", "running", "running_requests", "load", "users",
                    "num_requests_running", "parallel"),
    "batch_size": ("bs", "batch"),
    "k": ("num_speculative_tokens", "spec_tokens", "num_draft_tokens", "speculative_num_steps", "gamma"),
    "target": ("model", "model_id", "base_model", "verifier", "target_model"),
    "draft": ("draft_model", "speculative_model", "drafter", "speculator"),
    "method": ("speculative_method", "spec_method", "speculative_algorithm"),
    "gpu": ("device", "card", "accelerator", "hardware", "gpu_name"),
    "n_gpus": ("gpus", "num_gpus", "gpu_count", "devices"),
    "tensor_parallel": ("tp", "tp_size", "tensor_parallel_size"),
    "prompt_len": ("isl", "input_len", "input_tokens", "prompt_tokens", "random_input_len"),
    "output_len": ("osl", "max_tokens", "output_tokens", "completion_tokens", "random_output_len"),
    "mean_acceptance_length": ("al", "tau", "acceptance_length", "accept_length", "acceptance_rate"),
    "per_position_acceptance": ("per_position", "per_position_acceptance_rates", "acceptance_rates"),
    "target_params_b": ("params_b", "model_size_b"),
    "active_params_b": ("active_b",),
    "task": ("dataset", "dataset_name", "workload"),
    "temperature": ("temp",),
    "quantization": ("quant",),
    "dtype": ("precision",),
}
"""By field, what other tools and tables call it."""
_FIELD_OF = {name: field for field, names in _MEANT.items() for name in names}


class Unread:
    """The names met in a run that nothing reads, at most a hundred of them, each with the field that is near it."""

    def __init__(self) -> None:
        self.names: dict[str, str | None] = {}

    def note(self, row: Mapping[str, object]) -> str | None:
        """What the answer of a line says of its unread fields; None where all are read.

        A field is offered only where the line leaves it open: what is stated is not a slip of the pen.
        """
        if row.keys() <= FIELDS:
            return None
        found = [(str(name)[:_LONGEST], self._meant(str(name)[:_LONGEST])) for name in row if name not in FIELDS]
        return _sentence((name, field if field is not None and row.get(field) is None else None)
                         for name, field in found)

    def summary(self) -> str | None:
        """The same of the whole run; None where every field was read."""
        return _sentence(sorted(self.names.items())) if self.names else None

    def _meant(self, name: str) -> str | None:
        if name in self.names:
            return self.names[name]
        if len(self.names) >= _MOST_NAMES:
            return None
        self.names[name] = field_meant(name)
        return self.names[name]


def field_meant(name: str) -> str | None:
    """The field that a name other than a field's probably means: a slip of the pen, or what others call it."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if plain in FIELDS:
        return plain
    near = difflib.get_close_matches(plain, FIELDS, n=1, cutoff=0.7)
    return _FIELD_OF.get(plain) or (near[0] if near else None)


def _sentence(names: Iterable[tuple[str, str | None]]) -> str:
    pairs = list(names)
    said = [f"{name!r}" + (f" (did you mean {field}?)" if field else "") for name, field in pairs[:_SAID]]
    more = f" and {len(pairs) - _SAID} more" if len(pairs) > _SAID else ""
    return f"fields that no prediction reads: {', '.join(said)}{more}"
