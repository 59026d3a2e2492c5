# SPDX-License-Identifier: Apache-2.0
"""Sections of rows that describe an object: printed as text, and shown as HTML tables by notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

#: Sections with more rows are folded in HTML.
_MAX_UNFOLDED: Final = 24

#: Colours are those of the page, so that tables are readable in light and dark themes.
_STYLE: Final = """
.syclsched { font-size: 13px; line-height: 1.4; max-width: 1100px; }
.syclsched table { border-collapse: collapse; margin: 2px 0 10px; border: none; color: inherit; }
.syclsched tr, .syclsched tbody tr:nth-child(odd), .syclsched tbody tr:nth-child(even) { background: transparent; }
.syclsched th, .syclsched td { text-align: left; vertical-align: top; padding: 1px 14px 1px 0; border: none;
  border-bottom: 1px solid rgba(128, 128, 128, 0.3); max-width: 640px; overflow-wrap: break-word;
  white-space: pre-line; }
.syclsched th { font-weight: 600; opacity: 0.75; white-space: nowrap; }
.syclsched .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.syclsched summary { font-weight: 600; cursor: pointer; margin-top: 6px; }
.syclsched .title { font-weight: 700; font-size: 15px; margin: 4px 0; }
.syclsched img { max-width: 100%; background: white; }
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its cells, and the format string of its line of text."""

    form: str
    cells: tuple[str, ...]

    @property
    def text(self) -> str:
        """The line of text."""
        return self.form.format(*self.cells).rstrip()


@dataclass(frozen=True, slots=True)
class Section:
    """Rows under a title. In HTML a row of one cell takes the width of the table."""

    title: str
    rows: Sequence[Row]
    headings: tuple[str, ...] = ()  # of the columns
    numbers: frozenset[int] = frozenset()  # columns that are aligned to the right in HTML
    form: str = ""  # format string of the headings as text; without it they are shown in HTML only

    @property
    def text(self) -> list[str]:
        """The lines of text, without the title."""
        heads = [Row(self.form, self.headings)] if self.form and self.rows else []
        return [row.text for row in (*heads, *self.rows)]


def facts(title: str, pairs: Iterable[tuple[str, str]]) -> Section:
    """Return a section of labels with their values."""
    return Section(title, [Row("  {:<12} {}", pair) for pair in pairs])


def table(
    title: str, headings: tuple[str, ...], rows: Sequence[tuple[str, ...]], numbers: Iterable[int] = ()
) -> Section:
    """Return a section of columns as wide as their contents; ``numbers`` are those aligned to the right."""
    right = frozenset(numbers)
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    form = "  " + "  ".join(f"{{:{'>' if n in right else '<'}{width}}}" for n, width in enumerate(widths))
    return Section(title, [Row(form, row) for row in rows], headings, right, form)


def sections_text(sections: Iterable[Section]) -> str:
    """Return sections as text."""
    return "\n".join(line for section in sections for line in (section.title, *section.text))


def sections_html(sections: Sequence[Section], picture: bytes | None = None) -> str:
    """Return sections as HTML, the first with its title as that of the whole, and a picture (PNG) below it."""
    parts = [f"<style>{_STYLE}</style>"]
    for position, section in enumerate(sections):
        table = _table(section)
        if position == 0:
            parts.append(f'<div class="title">{escape(section.title)}</div>\n{table}')
            if picture is not None:
                parts.append(_image(picture))
        elif table:
            unfolded = " open" if len(section.rows) <= _MAX_UNFOLDED else ""
            parts.append(f"<details{unfolded}><summary>{escape(section.title)}</summary>\n{table}</details>")
    return '<div class="syclsched">\n' + "\n".join(parts) + "\n</div>"


def _image(picture: bytes) -> str:
    import base64  # only for HTML

    return f'<img alt="chart" src="data:image/png;base64,{base64.b64encode(picture).decode()}">'


def _table(section: Section) -> str:
    if not section.rows:
        return ""
    width = max(len(row.cells) for row in section.rows)
    lines = []
    if section.headings:
        cells = (_cell("th", heading, n in section.numbers) for n, heading in enumerate(section.headings))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    for row in section.rows:
        if len(row.cells) == 1 and width > 1:
            lines.append(f'<tr><td colspan="{width}">{escape(row.cells[0].strip())}</td></tr>')
        else:
            cells = (_cell("td", cell, n in section.numbers) for n, cell in enumerate(row.cells))
            lines.append(f"<tr>{''.join(cells)}</tr>")
    return "<table>\n" + "\n".join(lines) + "\n</table>"


def _cell(tag: str, text: str, number: bool) -> str:
    kind = ' class="n"' if number else ""
    return f"<{tag}{kind}>{escape(text.strip())}</{tag}>"
