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
    """An open connection, with the data read through it."""

    connection: sqlite3.Connection
    path: Path
    file: _File
    version: int  # of the file's content when `known` was begun; changes by other connections change it
    known: dict[Hashable, Any] = field(default_factory=dict)  # read from the file
    process: int = field(default_factory=os.getpid)

    def forget_changed(self) -> bool:
        """Drop read data if other connections have changed the file since; return whether they have."""
        version = _version_of(self.connection)
        if version == self.version:
            return False
        self.version = version
        self.known.clear()
        return True


#: The connection, or none. Threads share it without a lock: appending and taking are atomic.
_idle: list[HeldConnection] = []
#: Connections that were in use when this process was forked: it must neither use nor close them.
_not_ours: list[HeldConnection] = []


def hold(connection: sqlite3.Connection, path: Path) -> HeldConnection:
    """Return a new connection as one that can be left to others."""
    return HeldConnection(connection, path, _file_of(path), _version_of(connection))


def take_idle(path: Path) -> HeldConnection | None:
    """Return the idle connection to a file; None if there is none. Data that others have changed is dropped."""
    try:
        held = _idle.pop()
    except IndexError:
        return None
    with suppress(OSError, sqlite3.Error):
        if held.path == path and held.file == _file_of(path):
            held.forget_changed()
            return held
    held.connection.close()
    return None


def leave_idle(held: HeldConnection) -> None:
    """Leave a connection to the next store of its file; close it if another one is idle already."""
    if held.process != os.getpid():
        _not_ours.append(held)
    elif _idle or held.connection.in_transaction:
        held.connection.close()
    else:
        _idle.append(held)


def close_idle() -> None:
    """Close the idle connection, which moves its writes from the log into the file."""
    while _idle:
        _idle.pop().connection.close()


def _file_of(path: Path) -> _File:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


# A forked process would inherit the file's locks as taken, though the system has given it none.
os.register_at_fork(before=close_idle)
atexit.register(close_idle)
