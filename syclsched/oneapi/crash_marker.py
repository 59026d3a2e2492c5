# SPDX-License-Identifier: Apache-2.0
"""Marker files that show that a device's check, or the loading of a driver, has killed an earlier process.

A marker exists while the code that may crash runs; a marker whose process has ended tells the next process to run that
code in a subprocess.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from syclsched.atomic_write import write_atomically
from syclsched.folder_trust import make_private_folder


@contextlib.contextmanager
def mark(path: Path) -> Iterator[None]:
    """Keep a marker file while the body runs; it is left only if the process dies.

    If the cache folder cannot be written, there is no marker and the body runs all the same.
    """
    with contextlib.suppress(OSError):
        make_private_folder(path.parent)
        write_atomically(path, f"{os.getpid()} {_started(os.getpid())}".encode())
    try:
        yield
    finally:
        remove(path)


def remove(path: Path) -> None:
    """Delete a marker file, if it exists and can be deleted."""
    with contextlib.suppress(OSError):
        path.unlink()


def is_orphaned(path: Path) -> bool:
    """Return whether there is a marker of a process that has ended."""
    try:
        pid, started = path.read_text(encoding="ascii").split()
        return _started(int(pid)) != started
    except (OSError, ValueError):
        return False


def _started(pid: int) -> str | None:
    """Return the start time of a process in clock ticks since boot: process ids are reused."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may itself have spaces and parentheses.
    return status.rpartition(")")[2].split()[19]
