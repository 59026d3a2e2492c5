# SPDX-License-Identifier: Apache-2.0
"""Notice that a device's check has killed a process, so that it does not kill the next one as well.

Wrong code may crash instead of giving wrong values, and takes its process along. A mark is left while a check runs; a
mark whose process is gone tells the next process to let another one run the check.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ..writing import write_whole


@contextlib.contextmanager
def mark(path: Path) -> Iterator[None]:
    """Keep a mark while the body runs; it stays behind only if the process dies.

    In a cache that cannot be written there is no mark, and the body runs all the same.
    """
    with contextlib.suppress(OSError):
        write_whole(path, f"{os.getpid()} {_started(os.getpid())}".encode(), folders=True)
    try:
        yield
    finally:
        remove(path)


def remove(path: Path) -> None:
    """Take a mark away, if there is one and it can be."""
    with contextlib.suppress(OSError):
        path.unlink()


def left_behind(path: Path) -> bool:
    """Tell whether there is a mark of a process that is no more."""
    try:
        pid, started = path.read_text(encoding="ascii").split()
        return _started(int(pid)) != started
    except (OSError, ValueError):
        return False


def _started(pid: int) -> str | None:
    """Return when a process was started, in clock ticks since the system was: numbers of processes come again."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may itself have spaces and parentheses.
    return status.rpartition(")")[2].split()[19]
