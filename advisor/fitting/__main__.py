"""`make fit` (python -m advisor.fitting): fit all that prediction reads and write it, readable, where it is read.

The same rows give the same numbers to 1e-6 and the same choice of correction: nothing here draws at random.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from advisor.cases.model import Model
from advisor.fitting.correction import choose_correction
from advisor.fitting.crossval import Folds, held_out_models, unseen_blocks
from advisor.fitting.priors import PRIORS
from advisor.fitting.residual_fit import fit_residual
from advisor.fitting.train import NO_RESIDUAL, train

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "make fit"


def fitted_documents(folds: Folds | None = None) -> dict[Path, dict[str, Any]]:
    """Every data file that prediction reads, by its path."""
    folds = folds or Folds.of()
    whole = train(folds.acceptance, folds.speedups)
    held_out = held_out_models(folds)
    correction, compared = choose_correction(folds, held_out)
    start = {**NO_RESIDUAL, "correction": correction}
    blocks = [block for name, model in held_out.items() for block in unseen_blocks(folds.scored, name, model)]
    residual = fit_residual(blocks, start)
    residual = {
        "about": "What the step-time model leaves, in logarithms, fitted on publications that the model under test had "
        "not seen. compared: median and 90th percentile of the error in per cent by candidate correction.",
        **origin(folds), "compared": compared, **residual,
    }
    return {
        ROOT / "cost" / "physics.json": physics_document(whole, folds),
        ROOT / "cases" / "acceptance.json": {
            "about": "Effects on the logit of a drafted token's conditional acceptance (advisor/cases/acceptance.py).",
            **origin(folds), **whole.acceptance,
        },
        ROOT / "cases" / "residual.json": residual,
    }


def origin(folds: Folds) -> dict[str, Any]:
    """Where fitted numbers come from: rows, releases, hardware and the command."""
    rows = folds.speedups.of
    return {
        "command": COMMAND,
        "rows": len(rows),
        "publications": sorted({row.source_group for row in rows}),
        "releases": sorted({f"{row.engine} {row.engine_version}" for row in rows if row.engine_version}),
        "hardware": sorted({row.gpu for row in rows if row.gpu}),
    }


def physics_document(model: Model, folds: Folds) -> dict[str, Any]:
    """The step-time constants, each with its unit, its usual value and where that is from."""
    return {
        "about": "Constants of the step-time model (advisor/cost/physics.py), fitted to published speed-ups around "
        "their usual values; one that the rows say nothing about keeps its usual value.",
        **origin(folds),
        "constants": {
            name: {"value": model.constants[name], "log_sd": model.constant_log_sd[name], "unit": prior.unit,
                   "about": prior.about, "usual": prior.value, "usual_log_sd": prior.log_sd, "source": prior.source}
            for name, prior in PRIORS.items()
        },
    }


def rounded(value: Any) -> Any:
    """Numbers to nine significant digits: enough to reproduce, few enough to read."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return value


def write(path: Path, document: dict[str, Any]) -> None:
    """The document beside its place, then in it."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(rounded(document), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(beside, path)


def main() -> None:
    for path, document in fitted_documents().items():
        write(path, document)
        sys.stderr.write(f"wrote {path.relative_to(ROOT.parent)}\n")


if __name__ == "__main__":
    main()
