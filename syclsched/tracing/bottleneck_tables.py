# SPDX-License-Identifier: Apache-2.0
"""Terminal output of idle reasons, the critical path and possible improvements; rich is imported when used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syclsched.model.text.units import format_ratio, format_seconds, plural
from syclsched.tracing.idle import IdleTime
from syclsched.tracing.run_report import Report

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Idle reasons: heading and field of `IdleTime`.
IDLE_REASONS = (
    ("no task", "no_task_s"),
    ("copies", "copy_s"),
    ("other lanes", "lanes_s"),
    ("host", "submission_s"),
    ("memory", "memory_s"),
    ("starting", "starting_s"),
)

#: Maximum number of rows and of families shown.
_MAX_ROWS, _MAX_FAMILIES = 24, 4

#: Lanes that waited for submission for less than this share of the makespan are not listed.
_SUBMISSION_SHARE = 0.05


def idle_table(report: Report) -> RenderableType | None:
    """Return a table of idle reasons per lane, and per device of several lanes, in shares of the makespan."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if not report.lanes or report.makespan_s <= 0:
        return None
    table = Table(
        title="Why lanes did not compute (of the makespan)", title_justify="left", title_style="bold",
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0),
    )  # fmt: skip
    table.add_column("lane", overflow="fold", no_wrap=True)
    for heading in ("computed", *(name for name, _ in IDLE_REASONS)):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in report.lanes[:_MAX_ROWS]:
        cells = [
            format_ratio(row.utilisation),
            *(_share(row.idle, name, report.makespan_s) for _, name in IDLE_REASONS),
        ]
        table.add_row(Text(row.lane, "bold"), *cells)
    for device in report.devices[:_MAX_ROWS]:
        if device.lanes > 1:
            whole_s = device.lanes * report.makespan_s
            cells = [
                format_ratio(device.utilisation),
                *(_share(device.idle, name, whole_s) for _, name in IDLE_REASONS),
            ]
            table.add_row(Text(f"{device.device}, {device.lanes} lanes", "bold"), *cells)
    if len(report.lanes) > _MAX_ROWS:
        table.caption = f"and {plural(len(report.lanes) - _MAX_ROWS, 'lane')} more"
    return table


def critical_path_lines(report: Report) -> list[tuple[str, str]]:
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


def _share(idle: IdleTime, name: str, whole_s: float) -> str:
    seconds = getattr(idle, name)
    return format_ratio(seconds / whole_s) if seconds > 0 else "-"
