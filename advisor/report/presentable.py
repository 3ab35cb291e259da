"""What of a record is worth showing: figures that are about nothing that can run are left out of a report.

The record keeps them, and the JSON form prints the whole record.
"""

from __future__ import annotations

from advisor.record import Record
from advisor.report.curves import curves, without_figures


def presentable(record: Record) -> Record:
    """The record without the acceptance of candidates that cannot be served, and without any candidate where the target
    itself does not fit: what helps then is said in the reasons."""
    if record.memory.target_fits is False:
        bare = record.provenance.model_copy(update={"drafts": ()})
        named = {proposal.label for proposal in record.proposals}
        assumed = tuple(text for text in record.assumptions if not any(label in text for label in named))
        return record.model_copy(update={
            "candidates": (), "per_position": {}, "proposals": (), "draft_map": None, "provenance": bare,
            "assumptions": assumed})
    left_out = {curve.label for curve in curves(record) if without_figures(curve)}
    kept = {label: shares for label, shares in record.per_position.items() if label not in left_out}
    return record.model_copy(update={"per_position": kept})
