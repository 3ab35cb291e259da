"""`python -m profiles.catalog.compile`: rebuild the compiled JSON from the YAML sources in `data/`.

Run it after every edit of a source; a test fails while the two differ.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from profiles.catalog.compile_models import compile_models
from profiles.catalog.compiled import COMPILED, DATA
from profiles.catalog.gpus import Gpu


def read_source(name: str, data: Path = DATA) -> Any:
    """One YAML source, by the C loader where PyYAML was built with it (it is safe too, and five times faster)."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with (data / f"{name}.yaml").open(encoding="utf-8") as stream:
        return yaml.load(stream, Loader=loader)  # noqa: S506 - a safe loader either way


def compile_gpus() -> list[dict[str, Any]]:
    """`gpus.yaml` as the fields of `Gpu`; every entry is validated."""
    compiled = []
    for entry in read_source("gpus")["gpus"]:
        memory, links = entry["memory"], entry["links"]
        fabric = [
            value for key, value in links.items() if key.endswith("_gbs") and key != "pcie_gbs" and value is not None
        ]
        card = Gpu(
            name=entry["name"],
            aliases=entry["aliases"],
            vendor=entry["vendor"],
            architecture=entry["architecture"],
            compute_capability=entry["compute_capability"],
            memory_gib=round(memory["nvml_mib"] / 1024, 2) if memory["nvml_mib"] else memory["gb"],
            memory_from="nvml" if memory["nvml_mib"] else "box",
            memory_bandwidth_gbs=memory["bandwidth_gbs"],
            unified_memory=memory["unified"],
            dense_tflops=entry["dense_tflops"],
            fp16_accumulate_tflops=entry.get("fp16_accumulate_tflops"),
            nvlink_gbs=links["nvlink_gbs"],
            link=links["type"],
            link_gbs=max(fabric, default=None),
            pcie=links["pcie"],
            pcie_gbs=links["pcie_gbs"],
            tdp_w=entry["tdp_w"],
            measured=entry.get("measured"),
            common=entry.get("common", False),
            sources=entry["sources"],
            check=entry["check"],
            unsure_groups=entry.get("unsure_groups", ()),
            notes=(entry["notes"],) if entry.get("notes") else (),
        )
        compiled.append(card.model_dump(mode="json", exclude_defaults=True))
    return compiled


def each_document() -> Iterator[tuple[str, Any]]:
    """Every compiled document with its name. Models last: their shapes read the compiled MTP facts."""
    yield "gpus", compile_gpus()
    for name in ("options", "releases", "mtp"):
        yield name, read_source(name)
    yield "models", compile_models(read_source("models")["models"], read_source("heads")["heads"])


def compile_all() -> dict[str, Any]:
    """Every compiled document by its name."""
    return dict(each_document())


def as_text(document: Any) -> str:
    """Compact, and one entry a line so that a change shows as a small difference."""
    if isinstance(document, list):
        return "[\n" + ",\n".join(as_text(entry) for entry in document) + "\n]"
    if isinstance(document, dict) and (
        any(isinstance(value, list) and len(value) > 20 for value in document.values())
        or (len(document) > 20 and all(isinstance(value, (list, dict)) for value in document.values()))
    ):
        return "{\n" + ",\n".join(f"{json.dumps(key)}:{as_text(value)}" for key, value in document.items()) + "\n}"
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def main() -> None:
    COMPILED.mkdir(exist_ok=True)
    for name, document in each_document():
        path = COMPILED / f"{name}.json"
        beside = path.with_suffix(".new")
        beside.write_text(as_text(document) + "\n", encoding="utf-8")
        os.replace(beside, path)
        sys.stderr.write(f"wrote {path.relative_to(DATA.parent)}\n")


if __name__ == "__main__":
    main()
