# SPDX-License-Identifier: Apache-2.0
"""The last closed connection to an SQLite file, kept open for the next one to the same file.

Opening and closing a file takes longer than all that a run reads and writes there.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Device and number of a file: those of a file that takes its place differ.
_File = tuple[int, int]


@dataclass(slots=True)
class HeldConnection:
    """An open connection, with what was read through it."""

    connection: sqlite3.Connection
    path: Path
    file: _File
    read: dict[Hashable, Any] = field(default_factory=dict)
    version: int = 0  # of the file's content, when the connection was left; others' changes change it


#: The connection, or none. Threads share it without a lock: appending and taking are atomic.
_idle: list[HeldConnection] = []
#: Connections of the parent process, which a forked process must neither use nor close.
_not_ours: list[HeldConnection] = []


def hold(connection: sqlite3.Connection, path: Path) -> HeldConnection:
    """Return a new connection as one that can be left to others."""
    return HeldConnection(connection, path, _file_of(path))


def take_idle(path: Path) -> HeldConnection | None:
    """Return the idle connection to a file; None if there is none. What others have changed is no longer read."""
    try:
        held = _idle.pop()
    except IndexError:
        return None
    with suppress(OSError, sqlite3.Error):
        if held.path == path and held.file == _file_of(path):
            if held.version != _version_of(held.connection):
                held.read.clear()
            return held
    held.connection.close()
    return None


def leave_idle(held: HeldConnection) -> None:
    """Leave a connection to the next store of its file; close it if another one is idle already."""
    with suppress(sqlite3.Error):
        if not _idle and not held.connection.in_transaction:
            held.version = _version_of(held.connection)
            _idle.append(held)
            return
    held.connection.close()


def close_idle() -> None:
    """Close the idle connection, which moves what was written from its log into the file."""
    while _idle:
        _idle.pop().connection.close()


def _file_of(path: Path) -> _File:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


def _forget() -> None:
    _not_ours.extend(_idle)
    _idle.clear()


os.register_at_fork(after_in_child=_forget)
atexit.register(close_idle)
