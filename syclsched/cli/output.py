# SPDX-License-Identifier: Apache-2.0
"""Files the commands write, atomically, with errors that say what to do."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from syclsched.errors import StorageError

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.model.trace import Trace


def write_text(path: Path, text: str) -> None:
    """Write a file as a whole or not at all.

    Parameters
    ----------
    path : Path
        Where to.
    text : str
        What.

    Raises
    ------
    StorageError
        If it cannot be written.
    """
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise StorageError(
            f"cannot be written: {error.strerror}", where=str(path), hint="Choose a folder you can write to"
        ) from error


def read_text(path: Path) -> str:
    """Read a text file.

    Parameters
    ----------
    path : Path
        Which.

    Returns
    -------
    str
        Its content.

    Raises
    ------
    StorageError
        If it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StorageError(f"cannot be read: {error.strerror}", where=str(path), hint="Check the name") from error


def write_pictures(
    trace: Trace,
    predicted: Trace | None,
    trace_file: Path | None,
    gantt_file: Path | None,
    console: Console,
    disturbed: str = "",
) -> None:
    """Write the Perfetto trace and the Gantt chart that were asked for.

    Parameters
    ----------
    trace : Trace
        Measured, or simulated in a dry run.
    predicted : Trace or None
        What was predicted for it.
    trace_file, gantt_file : Path or None
        Where to; None if not asked for.
    console : rich.console.Console
        Where to say so.
    disturbed : str, optional
        What went differently than planned; for the title.
    """
    if trace_file is not None:
        from syclsched.tracing import save_perfetto

        save_perfetto([t for t in (predicted, trace) if t is not None], trace_file)
        console.print(f"trace written to {trace_file} (open it in Perfetto)", highlight=False)
    if gantt_file is not None:
        from syclsched.tracing import draw_gantt

        draw_gantt(trace, gantt_file, predicted=predicted, disturbed=disturbed)
        console.print(f"chart written to {gantt_file}", highlight=False)
