# SPDX-License-Identifier: Apache-2.0
"""Content of a report's tables and summary as text cells, shared by the terminal and HTML pages. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from syclsched.model.text.sections import Section, facts, table
from syclsched.model.text.units import format_bytes, format_gap, format_ratio, format_seconds, plural, short_family
from syclsched.tracing.analysis.idle import IdleTime
from syclsched.tracing.run_report import FamilyRow, RunReport

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


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table."""

    cells: tuple[str, ...]
    ends_group: bool = False  # a line is drawn below it
    shares: tuple[float, ...] = ()  # drawn as a bar of this many parts, each a share of its length


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table with columns of text, then columns of numbers."""

    title: str
    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    rows: tuple[TableRow, ...]
    noun: str  # the kind of a row, to count hidden ones
    totals: tuple[TableRow, ...] = ()  # shown after the rows, also after truncated ones
    names_wrap: bool = True  # whether text may take several lines


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """A heading with a text, which may have several lines."""

    heading: str
    text: str
    bad: bool = False  # it states a failure


def report_tables(report: RunReport) -> tuple[ReportTable, ...]:
    """Return the tables of a report: task families, devices, idle reasons and links."""
    tables = (family_table(report), device_table(report), idle_table(report), link_table(report))
    return tuple(table for table in tables if table is not None)


def report_sections(report: RunReport) -> list[Section]:
    """Return a report as sections: the summary, then the tables."""
    lines = [
        (line.heading if n == 0 else "", text)
        for line in summary_lines(report)
        for n, text in enumerate(line.text.split("\n"))
    ]
    found = [facts(f"Run of {report.name}", lines)]
    for each in report_tables(report):
        headings = (*each.texts, *each.numbers)
        rows = [row.cells for row in (*each.rows, *each.totals)]
        found.append(table(each.title, headings, rows, range(len(each.texts), len(headings))))
    return found


def family_table(report: RunReport) -> ReportTable:
    """Return the table of task families, with predicted and, unless they are the same, measured or simulated times."""
    by_family = sorted(report.families, key=lambda r: (r.family, -r.seconds))
    groups = [(name, list(rows)) for name, rows in groupby(by_family, key=lambda r: r.family)]
    groups.sort(key=lambda pair: -sum(r.seconds for r in pair[1]))
    separate = any(len(rows) > 1 for _, rows in groups)  # separate families by lines only if one has several rows
    found = []
    for name, rows in groups:
        for position, row in enumerate(rows):
            cells = _family_cells(row, short_family(name) if position == 0 else "", report.deviates)
            found.append(TableRow(cells, separate and position == len(rows) - 1))
    return ReportTable(
        "Where every kind of task ran", ("task", "device", "by"), _times(report, "tasks"), tuple(found), "row"
    )


def _family_cells(row: FamilyRow, name: str, deviates: bool) -> tuple[str, ...]:
    cells = (name, row.device, row.implementation or "-", f"{row.tasks:,}", format_seconds(row.predicted_s))
    return (*cells, format_seconds(row.seconds), _ratio(row.predicted_s, row.seconds)) if deviates else cells


def device_table(report: RunReport) -> ReportTable:
    """Return the table of devices; each row has the used share as its bar."""
    headings = ("lanes", "tasks", "busy", "idle", "copying", "hidden", "used")
    rows = []
    for row in report.devices:
        cells: tuple[str, ...] = (
            row.device,
            f"{row.lanes}",
            f"{row.tasks:,}",
            *map(format_seconds, (row.busy_s, row.idle_s)),
        )
        cells += (format_seconds(row.copying_s), "-" if row.overlap is None else format_ratio(row.overlap))
        cells += (format_ratio(row.utilisation),)
        if report.deviates:
            cells += (format_ratio(row.predicted_utilisation),)
        rows.append(TableRow(cells, shares=(min(1.0, row.utilisation),)))
    numbers = (*headings, "predicted") if report.deviates else headings
    return ReportTable("How busy every device was", ("device",), numbers, tuple(rows), "device")


def idle_table(report: RunReport) -> ReportTable | None:
    """Return a table of idle reasons per lane, and per device of several lanes, in shares of the makespan.

    The bar of each row has the computed share and those of the idle reasons.
    """
    if not report.lanes or report.makespan_s <= 0:
        return None
    lanes = [_idle_row(row.lane, row.utilisation, row.idle, report.makespan_s) for row in report.lanes]
    devices = [
        _idle_row(f"{row.device}, {row.lanes} lanes", row.utilisation, row.idle, row.lanes * report.makespan_s)
        for row in report.devices
        if row.lanes > 1
    ]
    headings = ("computed", *(name for name, _ in IDLE_REASONS))
    title = "Why lanes did not compute (of the makespan)"
    return ReportTable(title, ("lane",), headings, tuple(lanes), "lane", tuple(devices), names_wrap=False)


def _idle_row(name: str, utilisation: float, idle: IdleTime, whole_s: float) -> TableRow:
    shares = [getattr(idle, field) / whole_s for _, field in IDLE_REASONS]
    cells = (name, format_ratio(utilisation), *(format_ratio(share) if share > 0 else "-" for share in shares))
    return TableRow(cells, shares=(utilisation, *shares))


def link_table(report: RunReport) -> ReportTable | None:
    """Return the table of copies by link; None if nothing was copied."""
    if not report.links:
        return None
    rows = []
    for row in report.links:
        cells: tuple[str, ...] = (
            row.link,
            f"{row.copies:,}",
            format_bytes(row.nbytes),
            format_seconds(row.predicted_s),
        )
        if report.deviates:
            cells += (format_seconds(row.seconds), _ratio(row.predicted_s, row.seconds))
        rows.append(TableRow((*cells, f"{format_bytes(row.bandwidth_bytes_per_s)}/s")))
    return ReportTable("What moved", ("link",), ("copies", "bytes", *_times(report), "bandwidth"), tuple(rows), "link")


def critical_path_lines(report: RunReport) -> list[SummaryLine]:
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
        f"{short_family(name)} {format_seconds(seconds)} in {plural(count, 'step')}"
        for name, count, seconds in path.families[:_MAX_FAMILIES]
    ]
    found = [
        SummaryLine("Critical path", f"{plural(len(path.steps), 'step')}: {', '.join(parts)}\n{'; '.join(families)}")
    ]
    submission_waits = [
        f"host submission held lane {row.lane} up for {format_ratio(row.idle.submission_s / whole_s)}"
        for row in report.lanes
        if row.idle.submission_s >= _SUBMISSION_SHARE * whole_s
    ]
    waits = [*path.waits, *submission_waits]
    if waits:
        found.append(SummaryLine("Waits", "\n".join(waits)))
    if path.changes:
        texts = [
            f"{change.what}: {format_seconds(change.saved_s)} less ({format_ratio(change.saved_s / whole_s)})"
            for change in path.changes
        ]
        found.append(SummaryLine("Shorter with", "\n".join(texts)))
    return found


def summary_lines(report: RunReport) -> list[SummaryLine]:
    """Return headings and texts on the whole run: makespan, policy, copies, waits, critical path, and memory."""
    found = [_makespan_line(report)]
    if report.gap is not None:
        found.append(SummaryLine("Gap", f"predicted {format_gap(report.gap, report.lower_bound_s)}"))
    found.append(SummaryLine("Policy", report.policy))
    copies = sum(row.copies for row in report.links)
    moved = f"{format_bytes(report.copied_bytes)} in {plural(copies, 'copy', 'copies')}"
    found.append(SummaryLine("Moved", moved if copies else "nothing between memory spaces"))
    edges = "" if report.dependencies is None else f"{plural(report.dependencies, 'dependency', 'dependencies')} -> "
    found.append(
        SummaryLine(
            "Waiting",
            f"{edges}{plural(report.waits, 'wait')} between lanes on {plural(report.events, 'event')}, "
            f"{plural(report.barriers, 'barrier')}, {plural(report.host_waits, 'host wait')}; "
            f"{plural(report.submissions, 'submission')}",
        )
    )
    found += critical_path_lines(report)
    peaks = [_peak(report, space) for space, nbytes in sorted(report.peak_bytes.items()) if nbytes]
    if peaks:
        found.append(SummaryLine("Peak memory", "; ".join(peaks)))
    constants = [f"{space} {format_bytes(n)}" for space, n in sorted(report.constant_bytes.items()) if n]
    if constants:
        found.append(SummaryLine("Constants", "; ".join(constants)))
    if not report.complete:
        copies_undone = f"; {plural(report.incomplete_copies, 'copy', 'copies')}" if report.incomplete_copies else ""
        undone = f"{report.failed:,} failed, {report.cancelled:,} cancelled{copies_undone}"
        found.append(SummaryLine("Not done", undone, bad=True))
    return found


def _makespan_line(report: RunReport) -> SummaryLine:
    predicted = format_seconds(report.predicted_makespan_s)
    if not report.complete:
        source = "by simulation" if report.simulated else "measured"
        stopped = f"incomplete: stopped at {format_seconds(report.makespan_s)} {source}, {predicted} predicted"
        return SummaryLine("Run", stopped, bad=True)
    if report.simulated:
        also = f", {predicted} predicted" if report.deviates else ""
        return SummaryLine("Makespan", f"{format_seconds(report.makespan_s)} by simulation{also}")
    error = f"{100 * report.makespan_error:+.1f} %" if report.makespan_s > 0 else "nothing was measured"
    return SummaryLine("Makespan", f"{format_seconds(report.makespan_s)} measured, {predicted} predicted ({error})")


def _peak(report: RunReport, space: str) -> str:
    """Return the text on peak memory of a space: used by arrays, planned, and held beyond that."""
    nbytes, held = report.peak_bytes[space], report.held_bytes.get(space, 0)
    text = f"{space} {format_bytes(nbytes)}"
    if report.simulated or space not in report.planned_peak_bytes:
        return text
    text += f", {format_bytes(report.planned_peak_bytes[space])} planned"
    return f"{text}, {format_bytes(held - nbytes)} more held" if held > nbytes else text


def _times(report: RunReport, *first: str) -> tuple[str, ...]:
    if not report.deviates:
        return (*first, "predicted")
    return (*first, "predicted", "simulated" if report.simulated else "measured", "ratio")


def _ratio(predicted_s: float, measured_s: float) -> str:
    return f"{predicted_s / measured_s:.2f}" if measured_s > 0 else "-"
