"""How probe results read in a terminal: aligned, without colour where NO_COLOR or a pipe asks for none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from advisor.cli.output import rich_console
from profiles.printable import plain

if TYPE_CHECKING:
    from rich.console import Console

    from advisor.cli.headroom import Headroom
    from profiles.evidence import GpuDevice, GpuEvidence, ServerEvidence, SpeculationCounters
    from profiles.schema import Quantity
    from profiles.workload import Lengths

Rows = list[tuple[str, str]]
UNKNOWN = "N/A"


def show_table(title: str, rows: Rows, notes: Sequence[str]) -> None:
    """A title, named rows and notes on stdout."""
    from rich.table import Table
    from rich.text import Text

    console = rich_console()
    console.print(Text(plain(title), style="bold"))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        # Text, not str: names from outside may hold [brackets] that rich would read as markup.
        table.add_row(Text(f"  {name}", style="cyan"), Text(plain(value)))
    console.print(table)
    show_notes(console, notes)


def show_notes(console: Console, notes: Iterable[str]) -> None:
    """A line each, wrapped beside its name."""
    from rich.table import Table
    from rich.text import Text

    for note in notes:
        row = Table.grid(padding=(0, 1))
        row.add_row(Text("  note:", style="yellow"), Text(plain(note)))
        console.print(row)


def number(value: float) -> str:
    """Three significant digits, whole numbers above 1000 with thousands apart."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def gib(value: int | float | None) -> str:
    return UNKNOWN if value is None else f"{value / 2**30:.2f} GiB"


def with_range(quantity: Quantity | None, scale: float = 1.0, unit: str = "") -> str:
    """A quantity times `scale`, and its interval where it has one."""
    if quantity is None:
        return UNKNOWN
    text = f"{number(quantity.value * scale)}{unit}"
    if quantity.low is not None and quantity.high is not None and quantity.low < quantity.high:
        text += f"  ({number(quantity.low * scale)} to {number(quantity.high * scale)}{unit})"
    return text


def lengths(found: Lengths | None) -> str:
    """Mean and percentiles of token counts."""
    if found is None:
        return UNKNOWN
    marks = (("p50", found.p50), ("p90", found.p90), ("p95", found.p95), ("p99", found.p99))
    return f"mean {number(found.mean)}" + "".join(f", {name} {number(v)}" for name, v in marks if v is not None)


def show_server(evidence: ServerEvidence) -> None:
    """One server on stdout."""
    version = f" {evidence.engine_version}" if evidence.engine_version else ""
    rows: Rows = [
        ("models", ", ".join(evidence.models) or UNKNOWN),
        ("engines", str(evidence.engines)),
        ("window", f"{evidence.window_s:.3g} s" if evidence.window_s > 0 else "unknown"),
        ("running", with_range(evidence.running)),
        ("waiting", with_range(evidence.waiting)),
        ("KV cache used", with_range(evidence.kv_cache_usage, 100, " %")),
        ("requests", with_range(evidence.request_rate_rps, unit="/s") + (
            f", {evidence.requests_in_window:.0f} finished" if evidence.requests_in_window is not None else "")),
        ("generated", with_range(evidence.generation_tokens_per_s, unit=" tokens/s")),
        ("prompts", with_range(evidence.prompt_tokens_per_s, unit=" tokens/s")),
        ("prompt tokens", lengths(evidence.prompt_tokens)),
        ("output tokens", lengths(evidence.output_tokens)),
        ("time to first token", with_range(evidence.ttft_ms, unit=" ms")),
        ("time per output token", with_range(evidence.tpot_ms, unit=" ms")),
        ("preemptions", UNKNOWN if evidence.preemptions is None else number(evidence.preemptions)),
        ("prefix cache hits", UNKNOWN if evidence.prefix_cache_hit_rate is None
         else f"{evidence.prefix_cache_hit_rate:.1%}"),
        *_speculation(evidence.speculation),
    ]
    show_table(f"{evidence.engine}{version} at {evidence.url}", rows,
               [*(f"{item.severity.upper()} {item.message}" for item in evidence.implausible), *evidence.notes])


def _speculation(found: SpeculationCounters | None) -> Rows:
    if found is None:
        return [("speculation", "off")]
    length = UNKNOWN if found.acceptance_length is None else f"{found.acceptance_length:.2f}"
    rows: Rows = [("speculation", "on"), ("acceptance length", length + (
        "" if found.tokens_per_step is None else f"; {found.tokens_per_step:.2f} tokens per step, all steps counted"))]
    if found.drafts:
        rows.append(("drafts", f"{number(found.drafts)}, {number(found.draft_tokens)} tokens drafted, "
                               f"{number(found.accepted_tokens)} accepted"))
    if found.per_position:
        rows.append(("accepted by position", ", ".join(f"{share:.1%}" for share in found.per_position)))
    return rows


def show_gpus(evidence: GpuEvidence, headrooms: Sequence[Headroom]) -> None:
    """All devices on stdout, then what a model would leave of each."""
    versions = (("driver", evidence.driver), ("CUDA", evidence.cuda), ("NVML", evidence.nvml))
    said = ", ".join(f"{name} {value}" for name, value in versions if value)
    for device in evidence.devices:
        show_table(f"GPU {device.index}: {device.name}" + (f"  ({said})" if said else ""), _device_rows(device),
              device.notes)
    for headroom in headrooms:
        show_table(f"Headroom on {headroom.place}: {headroom.target} {headroom.candidate}", _headroom_rows(headroom),
              headroom.notes)


def _device_rows(device: GpuDevice) -> Rows:
    others = device.processes
    held = None if others is None else [p.used_bytes for p in others if p.used_bytes is not None]
    rows: Rows = [
        ("memory", f"{gib(device.total_bytes)} total, {gib(device.used_bytes)} used, {gib(device.free_bytes)} free"
         + (", shared with the host" if device.unified_memory else "")),
        ("other processes", UNKNOWN if others is None or held is None else
         f"{len(others)}, {gib(sum(held))}" if others else "none"),
        ("utilisation", with_range(device.utilization, 100, " %")),
        ("power", ", ".join(f"{word} {UNKNOWN if watts is None else f'{watts:.0f} W'}" for word, watts in (
            ("draw", device.power_draw_w), ("cap", device.power_cap_w), ("default", device.power_default_w)))),
        ("compute capability", device.compute_capability or UNKNOWN),
        ("ECC", UNKNOWN if device.ecc is None else "on" if device.ecc else "off"),
    ]
    rows += [(one.name, f"{gib(one.total_bytes)} total, {gib(one.used_bytes)} used, {gib(one.free_bytes)} free")
             for one in device.mig]
    return rows


def _headroom_rows(headroom: Headroom) -> Rows:
    def size(value: float | None) -> str:
        return UNKNOWN if value is None else f"{value:.2f} GiB"

    def tokens(value: int | None) -> str:
        return UNKNOWN if value is None else f"{value:,} tokens of KV"

    drafted = f"draft {size(headroom.draft_weights_gib)}" if headroom.draft_weights_gib else "no draft"
    return [
        ("usable", f"{size(headroom.usable_gib)} of {size(headroom.gpu_memory_gib)}"),
        ("weights", f"target {size(headroom.target_weights_gib)}, {drafted}"),
        ("graphs and activations", size(headroom.overhead_gib)),
        ("room for KV", f"{size(headroom.kv_room_gib)}, {tokens(headroom.kv_tokens)} "
                        f"({headroom.kv_bytes_per_token:,.0f} bytes each)"),
        ("KV needed", f"{size(headroom.kv_need_gib)}, {tokens(headroom.kv_need_tokens)} "
                      f"({headroom.requests:g} x {headroom.context_tokens:g})"),
        ("headroom", f"{size(headroom.left_gib)}, {tokens(headroom.left_tokens)}"),
        ("fits", UNKNOWN if headroom.fits is None else "yes" if headroom.fits else "no"),
    ]
