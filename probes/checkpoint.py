"""What is stored in a checkpoint, read from safetensors headers only: parameters and bytes by dtype, never a weight."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from profiles.errors import InputError

DTYPE_BYTES = {
    "F64": 8.0, "I64": 8.0, "U64": 8.0, "F32": 4.0, "I32": 4.0, "U32": 4.0, "F16": 2.0, "BF16": 2.0, "I16": 2.0,
    "U16": 2.0,
    "F8_E4M3": 1.0, "F8_E5M2": 1.0, "F8_E8M0": 1.0, "I8": 1.0, "U8": 1.0, "BOOL": 1.0, "F4": 0.5, "F6_E2M3": 0.75,
    "F6_E3M2": 0.75,
}  # fmt: skip
"""Bytes of one element by safetensors dtype name."""

TORCH_NAMES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}

# Stored by some checkpoints, loaded by no engine: attention masks and rotary tables.
_BUFFERS = re.compile(r"(?:^|\.)(?:rotary_emb\.inv_freq|(?:attn|attention)\.(?:masked_)?bias)$")
_MTP = ("mtp.", "model.mtp.", "model.mtp_")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_FLOATS = frozenset(dtype for dtype in DTYPE_BYTES if dtype[0] in "FB" and dtype != "BOOL")


@dataclass(frozen=True)
class Tensor:
    """One entry of a safetensors header."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def stored_bytes(self) -> float:
        return self.elements * DTYPE_BYTES.get(self.dtype, 2.0)


@dataclass(frozen=True)
class Weights:
    """Totals of a checkpoint, MTP layers apart. Masks are left out, and an output head that the tied table replaces."""

    params: int
    """Elements of floating-point tensors; packed integers hold several weights each and are not counted."""
    stored_bytes: int
    mtp_params: int
    bytes_by_dtype: Mapping[str, int] = field(default_factory=dict)
    packed: bool = False
    """Holds integer tensors with packed weights: `params` is then not the number of weights."""
    has_output_head: bool = False
    has_embedding: bool = False
    dtype: str | None = None
    """Torch name of the float type that most bytes are stored in."""


def read_tensors(folder: Path) -> list[Tensor]:
    """Every tensor of the folder's safetensors files; empty where there is none.

    Raises:
        InputError: a file is truncated or no safetensors file.
    """
    from safetensors import SafetensorError, safe_open  # a compiled module, needed only where there are weights

    tensors: list[Tensor] = []
    for path in _files(folder):
        try:
            with safe_open(str(path), framework="np") as stream:
                for name in stream.keys():  # noqa: SIM118 - no mapping, it only has keys()
                    view = stream.get_slice(name)
                    tensors.append(Tensor(name, str(view.get_dtype()), tuple(view.get_shape())))
        except (SafetensorError, OSError, ValueError) as error:
            raise InputError(
                f"{path} cannot be read as safetensors ({error}): expected a whole weights file; fetch it again, or "
                "give a folder with config.json alone"
            ) from error
    return tensors


def _files(folder: Path) -> list[Path]:
    """The weight files; adapters and copies in another layout (consolidated) are not the model's own."""
    found = sorted(folder.glob("*.safetensors"))
    own = [path for path in found if not path.name.startswith(("consolidated", "adapter"))]
    return own or [path for path in found if not path.name.startswith("adapter")]


def has_weights(folder: Path) -> bool:
    """Whether an engine could load the folder."""
    return any(any(folder.glob(pattern)) for pattern in ("*.safetensors", "pytorch_model*.bin", "*.pt"))


def count_weights(tensors: Iterable[Tensor], *, num_layers: int, tied: bool) -> Weights | None:
    """Totals of the tensors; None where there are none.

    Args:
        num_layers: decoder layers of the config; higher ones are MTP layers.
        tied: the embedding table is the output head, so a stored head is not loaded.
    """
    params = mtp = 0
    stored = 0.0
    by_dtype: Counter[str] = Counter()
    packed = head = embedding = False
    for tensor in tensors:
        if _BUFFERS.search(tensor.name):
            continue
        is_head = tensor.name.endswith(("lm_head.weight", "embed_out.weight")) or tensor.name == "output.weight"
        head = head or is_head
        embedding = embedding or tensor.name.endswith(("embed_tokens.weight", "wte.weight", "embed_in.weight"))
        if is_head and tied:
            continue
        layer = _LAYER.search(tensor.name)
        floating = tensor.dtype in _FLOATS
        elements = tensor.elements if floating and not tensor.name.endswith(("_scale", "_scale_inv", "_scale_2")) else 0
        if tensor.name.startswith(_MTP) or (layer is not None and int(layer[1]) >= num_layers):
            mtp += elements
            continue
        packed = packed or (not floating and tensor.dtype not in ("BOOL", "I64"))
        params += elements
        stored += tensor.stored_bytes
        by_dtype[tensor.dtype] += round(tensor.stored_bytes)
    if not by_dtype:
        return None
    floats = [(size, dtype) for dtype, size in by_dtype.items() if dtype in TORCH_NAMES]
    return Weights(
        params=params, stored_bytes=round(stored), mtp_params=mtp, bytes_by_dtype=dict(by_dtype), packed=packed,
        has_output_head=head, has_embedding=embedding, dtype=TORCH_NAMES[max(floats)[1]] if floats else None,
    )  # fmt: skip
