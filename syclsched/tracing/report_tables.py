# SPDX-License-Identifier: Apache-2.0
"""Terminal tables of a report; rich is imported when they are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syclsched.model.text.units import plural
from syclsched.tracing.report_content import (
    ReportTable,
    SummaryLine,
    TableRow,
    device_table,
    family_table,
    idle_table,
    link_table,
    summary_lines,
)
from syclsched.tracing.run_report import RunReport

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: Maximum number of rows per table; a caption counts the rest.
MAX_ROWS = 24

#: Terminal width in columns from which utilisation bars are drawn, and their width.
_MIN_BAR_WIDTH = 110
_BAR_WIDTH = 20


def render_report(report: RunReport, console: Console) -> None:
    """Print a report: task families, device utilisation, idle reasons, copies, and a summary."""
    wide = console.width >= _MIN_BAR_WIDTH
    tables = ((family_table, False), (device_table, wide), (idle_table, False), (link_table, False))
    for make, bars in tables:
        table = make(report)
        if table is not None:
            console.print(_fit_to_width(_table(table, bars), console))
    console.print(_summary(summary_lines(report)))


def _fit_to_width(block: RenderableType, console: Console) -> RenderableType:
    """Return a table, without padding if the terminal would otherwise cut numbers off."""
    from rich.measure import Measurement
    from rich.table import Table

    if isinstance(block, Table) and block.box is not None:
        wanted = Measurement.get(console, console.options.update(max_width=10 * console.width), block).maximum
        if wanted > console.width:
            block.padding = (0, 0, 0, 0)
    return block


def _table(content: ReportTable, bars: bool) -> RenderableType:
    from rich import box
    from rich.table import Table

    table = Table(
        title=content.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for name in content.texts:
        table.add_column(name, overflow="fold", no_wrap=not content.names_wrap)
    for name in content.numbers:
        table.add_column(name, justify="right", no_wrap=True)
    if bars:
        table.add_column("", width=_BAR_WIDTH)
    for row in (*content.rows[:MAX_ROWS], *content.totals[:MAX_ROWS]):
        table.add_row(*_cells(row, bars), end_section=row.ends_group)
    if len(content.rows) > MAX_ROWS:
        table.caption = f"and {plural(len(content.rows) - MAX_ROWS, content.noun)} more"
    return table


def _cells(row: TableRow, bars: bool) -> list[RenderableType]:
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    first, *others = row.cells
    cells: list[RenderableType] = [Text(first, "bold"), *map(Text, others)]
    return [*cells, ProgressBar(1.0, row.shares[0], width=_BAR_WIDTH)] if bars else cells


def _summary(lines: list[SummaryLine]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column()
    for line in lines:
        grid.add_row(line.heading, Text(line.text, "red" if line.bad else ""))
    return grid
