"""A table as HTML, every cell escaped; built here, because a template is slow at thousands of small cells."""

from __future__ import annotations

from markupsafe import Markup, escape

from advisor.report.tables import Table
from profiles.schema import Source, as_sentence

_SOURCES = frozenset(source.value for source in Source)


def html_table(table: Table, name: str, kind: str = "") -> Markup:
    """A named, scrollable table with row and column heads; `kind` is a class (`pairs`: no visible head)."""
    title = escape(name)
    out = [
        f'<div class="scroll" role="region" tabindex="0" aria-label="{title}">\n<table class="{kind or "grid"}">'
        f'<caption class="hidden">{title}</caption>\n<thead{_hidden(kind)}><tr>'
    ]
    # A non-breaking hyphen keeps a narrow column's head in one piece.
    heads = [escape(column.replace("speed-up", "speed\u2011up")) for column in table.columns]
    out += [f'<th scope="col"{_number(table, index)}>{head}</th>' for index, head in enumerate(heads)]
    out.append("</tr></thead>\n<tbody>\n")
    for line, row in enumerate(table.rows):
        out.append('<tr class="strong">' if line in table.strong else "<tr>")
        out.append(f'<th scope="row"{_number(table, 0)}>{escape(row[0])}</th>')
        for index, cell in enumerate(row[1:], start=1):
            text = escape(cell)
            source = cell.partition(" ")[0]
            if table.columns[index] == "source" and source in _SOURCES:
                text = Markup(f'<span class="badge badge-{source}">{text}</span>')  # noqa: S704 - escaped above
            out.append(f"<td{_number(table, index)}>{text}</td>")
        out.append("</tr>\n")
    out.append("</tbody></table></div>")
    if table.caption:
        out.append(f'<p class="lead">{escape(as_sentence(table.caption))}.</p>')
    return Markup("".join(out))  # noqa: S704 - every value in it is escaped above


def _hidden(kind: str) -> str:
    return ' class="hidden"' if kind == "pairs" else ""


def _number(table: Table, index: int) -> str:
    return ' class="num"' if index in table.right else ""
