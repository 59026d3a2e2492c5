# SPDX-License-Identifier: Apache-2.0
"""Analysis of a recorded run as a JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syclsched.cli.documents import (
    DeviceEntry,
    FamilyEntry,
    IdleEntry,
    ImprovementEntry,
    LaneEntry,
    LinkEntry,
    PathEntry,
    PathFamilyEntry,
    TraceDocument,
    entry_of,
)

if TYPE_CHECKING:
    from syclsched.tracing.analysis.critical_path import CriticalPath
    from syclsched.tracing.run_report import RunReport


def trace_document(report: RunReport, story: str | None) -> TraceDocument:
    """Return the report of a run, and the history of a task if one was asked for, as a document."""
    return entry_of(  # type: ignore[no-any-return]  # it is of the class that is passed
        TraceDocument,
        report,
        graph=report.name,
        lower_bound_s=report.lower_bound_s or None,
        families=[entry_of(FamilyEntry, row, time_s=row.seconds) for row in report.families],
        devices=[_with_idle(DeviceEntry, row) for row in report.devices],
        lanes=[_with_idle(LaneEntry, row) for row in report.lanes],
        links=[entry_of(LinkEntry, row, bytes=row.nbytes, time_s=row.seconds) for row in report.links],
        critical_path=_path(report.path),
        story=story,
    )


def _with_idle(kind: type[Any], row: Any) -> Any:
    return entry_of(kind, row, idle=entry_of(IdleEntry, row.idle))


def _path(path: CriticalPath) -> PathEntry:
    return PathEntry(
        len(path.steps), path.computing_s, path.copying_s, path.submission_s, path.starting_s,
        [PathFamilyEntry(*each) for each in path.families], list(path.waits),
        [entry_of(ImprovementEntry, change) for change in path.changes],
    )  # fmt: skip
