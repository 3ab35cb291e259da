"""How acceptance over recorded outputs reads in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from advisor.cli.output import rich_console
from advisor.cli.probe_text import show_notes
from profiles.printable import plain

if TYPE_CHECKING:
    from profiles.recorded import AcceptanceCurve, RecordedAcceptance

_ROWS = 10
_KS_SHOWN = (1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 64)


def show_recorded(found: RecordedAcceptance) -> None:
    """The best settings first, then all of them by acceptance, on stdout."""
    from rich.table import Table
    from rich.text import Text

    console = rich_console()
    said = "recomputed drafts" if found.tier == "replay" else "one pass of each draft"
    console.print(Text(f"Acceptance over {found.requests} recorded requests ({said}; nothing generated)", style="bold"))
    for name, lengths in (("prompt", found.prompt_tokens), ("output", found.output_tokens)):
        if lengths is not None:
            console.print(Text(f"  {name} tokens: mean {lengths.mean:.0f}, p50 {lengths.p50:.0f}, "
                               f"p95 {lengths.p95:.0f}, longest {lengths.max:.0f}"))
    for reason, count in found.skipped.items():
        console.print(Text(plain(f"  left out: {count}, {reason} ({', '.join(found.skipped_lines.get(reason, ()))})")))
    most = max((point.k for curve in found.curves for point in curve.by_k), default=0)
    ks = [k for k in _KS_SHOWN if k < most] + [most] if most else []
    table = Table(box=None, padding=(0, 2), pad_edge=False, title_justify="left",
                  title="Tokens per step, steps without a draft counted, at k")
    table.add_column("  method and setting")
    table.add_column("steps with a draft", justify="right")
    for k in ks:
        table.add_column(f"k={k}", justify="right")
    table.add_column(f"80 % at k={most}", justify="right")
    ordered = sorted(found.curves, key=lambda c: -c.by_k[-1].acceptance_length.value if c.by_k else 0.0)
    for curve in ordered[:_ROWS]:
        last = curve.by_k[-1]
        length = last.acceptance_length
        table.add_row(Text(plain(f"  {name_of(curve)}")), f"{last.matched_share.value:.0%}",
                      *(f"{curve.by_k[k - 1].acceptance_length.value:.2f}" for k in ks),
                      f"{length.low:.2f}-{length.high:.2f}")
    console.print(table)
    if len(ordered) > _ROWS:
        console.print(Text(f"  and {len(ordered) - _ROWS} settings with less (all of them with --format json)"))
    for best in found.best:
        if best.task is not None and best.k == most:
            console.print(Text(plain(
                f"  best for {best.task.value}: {setting(best.method, best.draft, best.settings)}, "
                f"{best.acceptance_length.value:.2f} tokens per step at k={best.k}")))
    show_notes(console, found.notes)


def name_of(curve: AcceptanceCurve) -> str:
    return setting(curve.method, curve.draft, curve.settings)


def setting(method: str, draft: str | None, settings: Mapping[str, bool | int | float]) -> str:
    """`ngram min=2 max=4`, `draft_model SmolLM2-135M`: what differs, in a line."""
    parts = [method, *([draft.rstrip("/").split("/")[-1]] if draft else [])]
    shown = {"prompt_lookup_min": "min", "prompt_lookup_max": "max", "suffix_decoding_max_spec_factor": "factor",
             "suffix_decoding_min_token_prob": "prob"}
    return " ".join([*parts, *(f"{short}={settings[key]:g}" for key, short in shown.items() if key in settings)])
