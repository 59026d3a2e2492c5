# SPDX-License-Identifier: Apache-2.0
"""HTML of tables, definition lists, legends and key figures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape

from syclsched.model.text.units import plural
from syclsched.tracing.page.style import COMPUTED_COLOUR, IDLE_COLOURS
from syclsched.tracing.report_content import IDLE_REASONS, ReportTable, SummaryLine, TableRow

#: Maximum number of rows of a table; the rest is counted.
MAX_ROWS = 60

#: Colours of the parts of a row's bar.
_SHARE_COLOURS = (COMPUTED_COLOUR, *(IDLE_COLOURS[field.removesuffix("_s")] for _, field in IDLE_REASONS))


def text(value: str) -> str:
    """Return text for HTML: escaped, with control characters replaced."""
    return escape("".join(c if c.isprintable() or c == "\n" else "?" for c in value))


def section(heading: str, *parts: str, anchor: str = "") -> str:
    """Return a section with a heading; empty without content."""
    content = "\n".join(part for part in parts if part)
    name = f' id="{escape(anchor)}"' if anchor else ""
    return f"<section{name}>\n<h2>{text(heading)}</h2>\n{content}\n</section>" if content else ""


def note(value: str) -> str:
    """Return a paragraph of explanation."""
    return f'<p class="note">{text(value)}</p>' if value else ""


def table(content: ReportTable | None, *, titled: bool = False, chosen: Collection[int] = ()) -> str:
    """Return a table, with its title if that is wanted; the rows at the ``chosen`` positions are emphasised."""
    if content is None or not content.rows:
        return ""
    bars = any(row.shares for row in content.rows)
    heads = [f"<th>{text(name)}</th>" for name in content.texts]
    heads += [f'<th class="n">{text(name)}</th>' for name in content.numbers]
    heads += ["<th></th>"] if bars else []
    rows = [_row(row, len(content.texts), bars, n in chosen) for n, row in enumerate(content.rows[:MAX_ROWS])]
    rows += [_row(row, len(content.texts), bars, False) for row in content.totals[:MAX_ROWS]]
    left = len(content.rows) - MAX_ROWS
    title = f"<h3>{text(content.title)}</h3>\n" if titled and content.title else ""
    return (
        f'{title}<div class="scroll"><table>\n<tr>{"".join(heads)}</tr>\n' + "\n".join(rows) + "\n</table></div>"
        + (note(f"and {plural(left, content.noun)} more") if left > 0 else "")
    )  # fmt: skip


def _row(row: TableRow, texts: int, bars: bool, chosen: bool) -> str:
    names = [name for name, wanted in (("end", row.ends_group), ("chosen", chosen)) if wanted]
    cells = [f"<td>{text(cell)}</td>" for cell in row.cells[:texts]]
    cells += [f'<td class="n">{text(cell)}</td>' for cell in row.cells[texts:]]
    cells += [f"<td>{_shares(row.shares)}</td>"] if bars else []
    kind = f' class="{" ".join(names)}"' if names else ""
    return f"<tr{kind}>{''.join(cells)}</tr>"


def _shares(shares: Sequence[float]) -> str:
    parts = [
        f'<i style="width:{100 * share:.2f}%;background:{colour}"></i>'
        for share, colour in zip(shares, _SHARE_COLOURS, strict=False)
        if share > 0
    ]
    return f'<div class="shares">{"".join(parts)}</div>'


def share_legend() -> str:
    """Return the legend of the bars of computed and idle shares."""
    return legend(dict(zip(("computed", *(name for name, _ in IDLE_REASONS)), _SHARE_COLOURS, strict=True)))


def legend(entries: Mapping[str, str]) -> str:
    """Return a legend of labels with their colours (or CSS backgrounds)."""
    parts = [f'<span><i style="background:{colour}"></i>{text(label)}</span>' for label, colour in entries.items()]
    return f'<div class="legend">{"".join(parts)}</div>'


def definitions(lines: Iterable[SummaryLine]) -> str:
    """Return headings with their texts."""
    parts = []
    for line in lines:
        kind = ' class="bad"' if line.bad else ""
        parts.append(f"<dt>{text(line.heading)}</dt><dd{kind}>{text(line.text)}</dd>")
    return f"<dl>{''.join(parts)}</dl>" if parts else ""


def card(value: str, label: str, *, bad: bool = False) -> str:
    """Return one key figure."""
    return f'<div class="card{" bad" if bad else ""}"><b>{text(value)}</b><span>{text(label)}</span></div>'
