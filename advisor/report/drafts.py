"""What a report says of drafts beyond the candidates: the catalog's proposals, and what draft would pay here."""

from __future__ import annotations

from advisor.record import DraftMap, DraftMapRow, Record
from advisor.report.tables import Table
from advisor.report.wording import count, plain, requests
from profiles.methods import METHODS


def row_name(row: DraftMapRow) -> str:
    """`draft model of 0.3 B`, or the head's method for the one-layer row."""
    if METHODS[row.method].drafter == "model":
        return f"draft model of {row.params / 1e9:g} B"
    return f"one-layer head ({row.method})"


def draft_map_table(record: Record) -> Table | None:
    """Speed-up and best k by draft (rows) and acceptance length (columns); None where the record has no map."""
    found = record.draft_map
    if found is None or not found.rows:
        return None
    columns = ("draft", "pays from", *(f"{length:g}" for length in found.acceptance_lengths))
    rows = []
    for row in found.rows:
        cells = [
            "–" if speed is None else f"{speed:.2f} k{k}" for speed, k in zip(row.speedup, row.k, strict=True)
        ]
        rows.append((row_name(row), pays_from(row), *cells))
    return Table(columns, tuple(rows), frozenset(range(1, len(columns))))


def pays_from(row: DraftMapRow) -> str:
    """The acceptance length a draft must reach, in a word or two."""
    if not row.fits:
        return "does not fit"
    return "never" if row.break_even_acceptance_length is None else f"{row.break_even_acceptance_length:.2f}"


def draft_map_sentence(found: DraftMap) -> str:
    """What the map's numbers are, and its answer in words."""
    paying = [row for row in found.rows if row.break_even_acceptance_length is not None]
    easiest = min(paying, key=lambda row: row.break_even_acceptance_length or 0.0, default=None)
    answer = (
        "no draft of these sizes would pay, whatever it gets right"
        if easiest is None
        else f"a {row_name(easiest)} has to reach {easiest.break_even_acceptance_length:.2f}"
    )
    largest = max(paying, key=lambda row: row.params, default=None)
    if largest is not None and largest is not easiest:
        answer += f", a {row_name(largest)} {largest.break_even_acceptance_length:.2f}"
    return (
        f"At {requests(found.running)} {answer} tokens per step to break even. "
        f"Acceptance lengths are those at k={found.reference_k}; every cell has the k that is best there. "
        "Medians, modelled."
        if easiest is not None
        else f"At {requests(found.running)} {answer}. Medians, modelled."
    )


def proposal_table(record: Record) -> Table | None:
    """Every proposal with its reason; None where the deployment named its candidates itself."""
    if not record.proposals:
        return None
    rows = tuple(
        (plain(p.label), "yes" if p.taken else "no", plain(p.reason))
        for p in sorted(record.proposals, key=lambda p: not p.taken)
    )
    return Table(("found in the catalog", "candidate", "why"), rows)


def proposal_sentence(record: Record) -> str:
    """How many became candidates."""
    taken = sum(p.taken for p in record.proposals)
    found = count(len(record.proposals))
    return f"No candidates were stated: of {found} found for this target {count(taken)} were priced."
