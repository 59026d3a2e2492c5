# SPDX-License-Identifier: Apache-2.0
"""Idle reasons, the critical path and what would have shortened a run, on the terminal; rich is imported when used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syclsched.model.units import format_ratio, format_seconds, plural
from syclsched.tracing.idle import Idle
from syclsched.tracing.report import Report

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Heading and field of each reason.
REASONS = (
    ("no task", "no_task_s"),
    ("copies", "copy_s"),
    ("other lanes", "lanes_s"),
    ("host", "submission_s"),
    ("memory", "memory_s"),
    ("starting", "starting_s"),
)

#: Rows and families shown.
_MOST_ROWS, _MOST_FAMILIES = 24, 4

#: A lane that the host held up for less of the makespan is not named.
_HELD_UP = 0.05


def idle_table(report: Report) -> RenderableType | None:
    """Return a table of why lanes did not compute, in shares of the makespan; None if nothing ran.

    A device of several lanes has a row of its own below theirs: the mean over its lanes.
    """
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
    for heading in ("computed", *(name for name, _ in REASONS)):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in report.lanes[:_MOST_ROWS]:
        cells = [format_ratio(row.utilisation), *(_share(row.idle, name, report.makespan_s) for _, name in REASONS)]
        table.add_row(Text(row.lane, "bold"), *cells)
    for device in report.devices[:_MOST_ROWS]:
        if device.lanes > 1:
            whole_s = device.lanes * report.makespan_s
            cells = [format_ratio(device.utilisation), *(_share(device.idle, name, whole_s) for _, name in REASONS)]
            table.add_row(Text(f"{device.device}, {device.lanes} lanes", "bold"), *cells)
    if len(report.lanes) > _MOST_ROWS:
        table.caption = f"and {plural(len(report.lanes) - _MOST_ROWS, 'lane')} more"
    return table


def path_lines(report: Report) -> list[tuple[str, str]]:
    """Return what is to be said of the critical path: a heading, and a text, which may have several lines."""
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
        for name, count, seconds in path.families[:_MOST_FAMILIES]
    ]
    found = [("Critical path", f"{plural(len(path.steps), 'step')}: {', '.join(parts)}\n{'; '.join(families)}")]
    held = [
        f"host submission held lane {row.lane} up for {format_ratio(row.idle.submission_s / whole_s)}"
        for row in report.lanes
        if row.idle.submission_s >= _HELD_UP * whole_s
    ]
    waits = [*path.waits, *held]
    if waits:
        found.append(("Waits", "\n".join(waits)))
    if path.changes:
        said = [
            f"{change.what}: {format_seconds(change.saves_s)} less ({format_ratio(change.saves_s / whole_s)})"
            for change in path.changes
        ]
        found.append(("Shorter with", "\n".join(said)))
    return found


def _share(idle: Idle, name: str, whole_s: float) -> str:
    seconds = getattr(idle, name)
    return format_ratio(seconds / whole_s) if seconds > 0 else "-"
