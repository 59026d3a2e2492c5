# SPDX-License-Identifier: Apache-2.0
"""File output of the commands: atomic, with helpful errors."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from syclsched.atomic_write import write_atomically
from syclsched.errors import StorageError

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.model.plan import Plan
    from syclsched.model.trace import Trace

_HINT = "Choose a folder that is there and that you can write to"


def check_outputs(*files: Path | None, pictures: Iterable[Path | None] = ()) -> None:
    """Raise `StorageError` for output files that cannot be written, before anything is computed."""
    from syclsched.tracing.charts.output import check_chart_format

    charts = [path for path in pictures if path is not None]
    for chart in charts:
        check_chart_format(chart)
    for path in (*(file for file in files if file is not None), *charts):
        folder = path.parent
        if path.is_dir():
            problem = "it is a folder"
        elif not folder.is_dir():
            problem = f"{folder} is not a folder" if folder.exists() else f"there is no folder {folder}"
        elif not os.access(path if path.exists() and not path.is_file() else folder, os.W_OK):
            problem = os.strerror(errno.EACCES)
        else:
            continue
        raise StorageError(f"cannot be written: {problem}", where=str(path), hint=_HINT)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically; see `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise StorageError(f"cannot be written: {error.strerror}", where=str(path), hint=_HINT) from error


def read_text(path: Path) -> str:
    """Read a text file."""
    from syclsched.frontends.graph_limits import decode

    try:
        return decode(path.read_bytes(), str(path))
    except OSError as error:
        raise StorageError(f"cannot be read: {error.strerror}", where=str(path), hint="Check the name") from error


def write_pictures(
    trace: Trace,
    predicted: Trace | None,
    trace_file: Path | None,
    gantt_file: Path | None,
    console: Console,
    disturbed: str = "",
    plan: Plan | None = None,
    report_file: Path | None = None,
) -> None:
    """Write the requested Perfetto trace, Gantt chart and HTML page."""
    if trace_file is not None:
        from syclsched.tracing import save_perfetto

        save_perfetto([t for t in (predicted, trace) if t is not None], trace_file, plan)
        console.print(f"trace written to {trace_file} (open it in Perfetto)")
    if gantt_file is not None:
        from syclsched.tracing import draw_gantt

        draw_gantt(trace, gantt_file, predicted=predicted, disturbed=disturbed)
        console.print(f"chart written to {gantt_file}")
    if report_file is not None:
        from syclsched.tracing import save_report

        save_report(trace, report_file, plan, predicted=predicted, disturbed=disturbed)
        console.print(f"report written to {report_file} (open it in a browser)")
