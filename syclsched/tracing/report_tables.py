# SPDX-License-Identifier: Apache-2.0
"""Terminal tables of a report; rich is imported when they are drawn."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from syclsched.model.text.units import format_bytes, format_gap, format_ratio, format_seconds, plural
from syclsched.tracing.analysis.idle import IdleTime
from syclsched.tracing.run_report import FamilyRow, Report

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

#: Maximum number of rows per table; a caption counts the rest.
MAX_ROWS = 24

#: Maximum number of families of the critical path shown.
_MAX_FAMILIES = 4

#: Lanes that waited for submission for less than this share of the makespan are not listed.
_SUBMISSION_SHARE = 0.05

#: Idle reasons: heading and field of `IdleTime`.
IDLE_REASONS = (
    ("no task", "no_task_s"),
    ("copies", "copy_s"),
    ("other lanes", "lanes_s"),
    ("host", "submission_s"),
    ("memory", "memory_s"),
    ("starting", "starting_s"),
)

#: Terminal width in columns from which utilisation bars are drawn.
_MIN_BAR_WIDTH = 110


def render_report(report: Report, console: Console) -> None:
    """Print a report: task families, device utilisation, idle reasons, copies, and a summary."""
    for block in (
        _family_table(report),
        _device_table(report, console.width >= _MIN_BAR_WIDTH),
        _idle_table(report),
        _link_table(report),
        _summary(report),
    ):
        if block is not None:
            console.print(_fit_to_width(block, console))


def _fit_to_width(block: RenderableType, console: Console) -> RenderableType:
    """Return a table, without padding if the terminal would otherwise cut numbers off."""
    from rich.measure import Measurement
    from rich.table import Table

    if isinstance(block, Table) and block.box is not None:
        wanted = Measurement.get(console, console.options.update(max_width=10 * console.width), block).maximum
        if wanted > console.width:
            block.padding = (0, 0, 0, 0)
    return block


def _family_table(report: Report) -> RenderableType:
    table = _table("Where every kind of task ran", ("task", "device", "by"), _times(report, "tasks"))
    by_family = sorted(report.families, key=lambda r: (r.family, -r.seconds))
    groups = [(name, list(rows)) for name, rows in groupby(by_family, key=lambda r: r.family)]
    groups.sort(key=lambda pair: -sum(r.seconds for r in pair[1]))
    separate = any(len(rows) > 1 for _, rows in groups)  # separate families by lines only if one has several rows
    shown = 0
    for name, rows in groups:
        for position, row in enumerate(rows):
            if shown == MAX_ROWS:
                _count_rest(table, len(report.families), "row")
                return table
            first, last = position == 0, position == len(rows) - 1
            table.add_row(*_family_cells(row, name if first else "", report.simulated), end_section=separate and last)
            shown += 1
    return table


def _family_cells(row: FamilyRow, name: str, simulated: bool) -> list[RenderableType]:
    from rich.text import Text

    cells: list[RenderableType] = [Text(name, "bold"), Text(row.device), Text(row.implementation or "-")]
    cells += [f"{row.tasks:,}", format_seconds(row.predicted_s)]
    if not simulated:
        cells += [format_seconds(row.seconds), _ratio(row.predicted_s, row.seconds)]
    return cells


def _device_table(report: Report, wide: bool) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    table = _table(
        "How busy every device was", ("device",), ("lanes", "tasks", "busy", "idle", "copying", "hidden", "used")
    )
    if wide:
        table.add_column("", width=20)
    if not report.simulated:
        table.add_column("predicted", justify="right")
    for row in report.devices[:MAX_ROWS]:
        cells: list[RenderableType] = [Text(row.device, "bold"), f"{row.lanes}", f"{row.tasks:,}"]
        cells += [format_seconds(row.busy_s), format_seconds(row.idle_s), format_seconds(row.copying_s)]
        cells.append("-" if row.overlap is None else format_ratio(row.overlap))
        cells.append(format_ratio(row.utilisation))
        if wide:
            cells.append(ProgressBar(1.0, min(1.0, row.utilisation), width=20))
        table.add_row(*cells, *([] if report.simulated else [format_ratio(row.predicted_utilisation)]))
    _count_rest(table, len(report.devices), "device")
    return table


def _idle_table(report: Report) -> RenderableType | None:
    """Return a table of idle reasons per lane, and per device of several lanes, in shares of the makespan."""
    from rich.text import Text

    if not report.lanes or report.makespan_s <= 0:
        return None
    headings = ("computed", *(name for name, _ in IDLE_REASONS))
    table = _table("Why lanes did not compute (of the makespan)", ("lane",), headings)
    table.columns[0].no_wrap = True
    for row in report.lanes[:MAX_ROWS]:
        table.add_row(Text(row.lane, "bold"), *_idle_cells(row.utilisation, row.idle, report.makespan_s))
    for device in report.devices[:MAX_ROWS]:
        if device.lanes > 1:
            cells = _idle_cells(device.utilisation, device.idle, device.lanes * report.makespan_s)
            table.add_row(Text(f"{device.device}, {device.lanes} lanes", "bold"), *cells)
    _count_rest(table, len(report.lanes), "lane")
    return table


def _idle_cells(utilisation: float, idle: IdleTime, whole_s: float) -> list[str]:
    shares = [getattr(idle, name) / whole_s for _, name in IDLE_REASONS]
    return [format_ratio(utilisation), *(format_ratio(share) if share > 0 else "-" for share in shares)]


def _link_table(report: Report) -> RenderableType | None:
    from rich.text import Text

    if not report.links:
        return None
    table = _table("What moved", ("link",), ("copies", "bytes", *_times(report), "bandwidth"))
    for row in report.links[:MAX_ROWS]:
        cells: list[RenderableType] = [Text(row.link, "bold"), f"{row.copies:,}", format_bytes(row.nbytes)]
        cells.append(format_seconds(row.predicted_s))
        if not report.simulated:
            cells += [format_seconds(row.seconds), _ratio(row.predicted_s, row.seconds)]
        table.add_row(*cells, f"{format_bytes(row.bandwidth_bytes_per_s)}/s")
    _count_rest(table, len(report.links), "link")
    return table


def _critical_path_lines(report: Report) -> list[tuple[str, str]]:
    """Return headings and texts on the critical path, waits and improvements; a text may have several lines."""
    path, whole_s = report.path, report.makespan_s
    if not path.steps or whole_s <= 0:
        return []
    parts = [
        f"{format_ratio(seconds / whole_s)} {what}"
        for what, seconds in (
            ("computing", path.computing_s),
            ("copies", path.copying_s),
            ("host submission", path.submission_s),
            ("starting", path.starting_s),
        )
        if seconds >= 0.005 * whole_s
    ]
    families = [
        f"{name} {format_seconds(seconds)} in {plural(count, 'step')}"
        for name, count, seconds in path.families[:_MAX_FAMILIES]
    ]
    found = [("Critical path", f"{plural(len(path.steps), 'step')}: {', '.join(parts)}\n{'; '.join(families)}")]
    submission_waits = [
        f"host submission held lane {row.lane} up for {format_ratio(row.idle.submission_s / whole_s)}"
        for row in report.lanes
        if row.idle.submission_s >= _SUBMISSION_SHARE * whole_s
    ]
    waits = [*path.waits, *submission_waits]
    if waits:
        found.append(("Waits", "\n".join(waits)))
    if path.changes:
        texts = [
            f"{change.what}: {format_seconds(change.saved_s)} less ({format_ratio(change.saved_s / whole_s)})"
            for change in path.changes
        ]
        found.append(("Shorter with", "\n".join(texts)))
    return found


def _summary(report: Report) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column()
    predicted = format_seconds(report.predicted_makespan_s)
    if not report.complete:
        source = "by simulation" if report.simulated else "measured"
        stopped = f"incomplete: stopped at {format_seconds(report.makespan_s)} {source}, {predicted} predicted"
        grid.add_row("Run", Text(stopped, "red"))
    elif report.simulated:
        grid.add_row("Makespan", f"{format_seconds(report.makespan_s)} by simulation")
    else:
        error = f"{100 * report.makespan_error:+.1f} %" if report.makespan_s > 0 else "nothing was measured"
        grid.add_row("Makespan", f"{format_seconds(report.makespan_s)} measured, {predicted} predicted ({error})")
    if report.gap is not None:
        grid.add_row("Gap", f"predicted {format_gap(report.gap, report.lower_bound_s)}")
    grid.add_row("Policy", Text(report.policy))
    copies = sum(row.copies for row in report.links)
    moved = f"{format_bytes(report.copied_bytes)} in {plural(copies, 'copy', 'copies')}"
    grid.add_row("Moved", moved if copies else "nothing between memory spaces")
    edges = "" if report.dependencies is None else f"{plural(report.dependencies, 'dependency', 'dependencies')} -> "
    grid.add_row(
        "Waiting",
        f"{edges}{plural(report.waits, 'wait')} between lanes on {plural(report.events, 'event')}, "
        f"{plural(report.barriers, 'barrier')}, {plural(report.host_waits, 'host wait')}; "
        f"{plural(report.submissions, 'submission')}",
    )
    peaks = [_peak(report, space) for space, nbytes in sorted(report.peak_bytes.items()) if nbytes]
    for heading, text in _critical_path_lines(report):
        grid.add_row(heading, Text(text))
    if peaks:
        grid.add_row("Peak memory", Text("; ".join(peaks)))
    constants = [f"{space} {format_bytes(n)}" for space, n in sorted(report.constant_bytes.items()) if n]
    if constants:
        grid.add_row("Constants", Text("; ".join(constants)))
    if not report.complete:
        copies_undone = f"; {plural(report.incomplete_copies, 'copy', 'copies')}" if report.incomplete_copies else ""
        grid.add_row(
            "Not done", Text(f"{report.failed:,} failed, {report.cancelled:,} cancelled{copies_undone}", "red")
        )
    return grid


def _peak(report: Report, space: str) -> str:
    """Return the text on peak memory of a space: used by arrays, planned, and held beyond that."""
    nbytes, held = report.peak_bytes[space], report.held_bytes.get(space, 0)
    text = f"{space} {format_bytes(nbytes)}"
    if report.simulated or space not in report.planned_peak_bytes:
        return text
    text += f", {format_bytes(report.planned_peak_bytes[space])} planned"
    return f"{text}, {format_bytes(held - nbytes)} more held" if held > nbytes else text


def _times(report: Report, *first: str) -> tuple[str, ...]:
    return (*first, "predicted") if report.simulated else (*first, "predicted", "measured", "ratio")


def _ratio(predicted_s: float, measured_s: float) -> str:
    return f"{predicted_s / measured_s:.2f}" if measured_s > 0 else "-"


def _table(title: str, texts: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in texts:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _count_rest(table: Table, rows: int, noun: str) -> None:
    if rows > MAX_ROWS:
        table.caption = f"and {plural(rows - MAX_ROWS, noun)} more"
