# SPDX-License-Identifier: Apache-2.0
"""Persistent history of measured task durations, in an SQLite file."""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple
from pathlib import Path

from syclsched.costs.history import HistoryKey
from syclsched.errors import FormatError, MeasurementError, StorageError
from syclsched.model.profile import Quantity
from syclsched.profiling.statistics import summarise
from syclsched.profiling.storage.profile_store import data_folder

#: Newest samples kept per key; older ones may reflect another state of the machine.
KEPT_SAMPLES = 64

#: Most characters kept of a reason why an implementation was refused: a compiler's log can be pages long.
_LONGEST_REASON = 2_000

#: Time-out for the file lock while another process writes.
LOCK_TIMEOUT_S = 10.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS samples (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    device_key TEXT NOT NULL,
    operation TEXT NOT NULL,
    implementation TEXT NOT NULL,
    revision TEXT NOT NULL,
    signature TEXT NOT NULL,
    seconds REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS by_key ON samples (device_key, operation, implementation, revision, signature);
CREATE TABLE IF NOT EXISTS refusals (
    device_key TEXT NOT NULL,
    operation TEXT NOT NULL,
    implementation TEXT NOT NULL,
    revision TEXT NOT NULL,
    signature TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (device_key, operation, implementation, revision, signature)
);
"""
_KEY = "device_key = ? AND operation = ? AND implementation = ? AND revision = ? AND signature = ?"


class HistoryStore:
    """A `syclsched.costs.History` on disk; several processes and threads may use one file.

    Where the file cannot be written (read-only folder, full disk), stored samples are read, new ones are kept in memory
    only, and `note` says so.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = data_folder() / "history.sqlite3" if path is None else Path(path)
        self.note: str | None = None
        self._lock = threading.RLock()
        self._cache: dict[HistoryKey, Quantity | None] = {}
        self._connection = self._open()

    def lookup(self, key: HistoryKey) -> Quantity | None:
        """Return the seconds measured for a key, or None if there are none."""
        with self._lock:
            if key not in self._cache:
                self._cache[key] = self._read(key)
            return self._cache[key]

    def refresh(self) -> None:
        """Clear the lookup cache, to see samples of other processes."""
        with self._lock:
            self._cache.clear()

    def record(self, key: HistoryKey, seconds: Iterable[float]) -> None:
        """Add samples."""
        samples = [float(s) for s in seconds]
        if any(not math.isfinite(s) or s < 0 for s in samples):
            raise MeasurementError("a sample is negative or not finite", where=f"operation {key.operation!r}")
        columns = astuple(key)
        with self._lock, self._guarded(), self._connection:
            self._connection.executemany(
                "INSERT INTO samples (device_key, operation, implementation, revision, signature, seconds) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [(*columns, s) for s in samples],
            )
            self._connection.execute(
                f"DELETE FROM samples WHERE {_KEY} AND id NOT IN "
                f"(SELECT id FROM samples WHERE {_KEY} ORDER BY id DESC LIMIT {KEPT_SAMPLES})",
                (*columns, *columns),
            )
            self._connection.execute(f"DELETE FROM refusals WHERE {_KEY}", columns)
            self._cache.pop(key, None)

    def refuse(self, key: HistoryKey, reason: str) -> None:
        """Note that a device or library refuses an implementation; it holds until the implementation is timed."""
        with self._lock, self._guarded(), self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO refusals (device_key, operation, implementation, revision, signature, reason) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (*astuple(key), reason[:_LONGEST_REASON]),
            )

    def refusals(self) -> dict[HistoryKey, str]:
        """Return the implementations that devices or libraries refuse, with the reasons."""
        with self._lock, self._guarded():
            rows = self._connection.execute(
                "SELECT device_key, operation, implementation, revision, signature, reason FROM refusals"
            ).fetchall()
        return {HistoryKey(*map(str, columns)): str(reason) for *columns, reason in rows}

    def samples(self) -> list[tuple[HistoryKey, tuple[float, ...]]]:
        """Return all samples by key, the oldest first."""
        with self._lock, self._guarded():
            rows = self._connection.execute(
                "SELECT device_key, operation, implementation, revision, signature, seconds FROM samples ORDER BY id"
            ).fetchall()
        found: dict[HistoryKey, list[float]] = {}
        for *columns, seconds in rows:
            found.setdefault(HistoryKey(*columns), []).append(float(seconds))
        return [(key, tuple(values)) for key, values in found.items()]

    def merge(self, key: HistoryKey, seconds: Iterable[float]) -> int:
        """Add the samples of a key that are not stored yet; return their number."""
        with self._lock, self._guarded():
            rows = self._connection.execute(f"SELECT seconds FROM samples WHERE {_KEY}", astuple(key)).fetchall()
        stored = {float(row[0]) for row in rows}
        new = [each for each in dict.fromkeys(map(float, seconds)) if each not in stored]
        if new:
            self.record(key, new)
        return len(new)

    def forget(self, device_key: str) -> None:
        """Remove everything about a device."""
        with self._lock, self._guarded(), self._connection:
            self._connection.execute("DELETE FROM samples WHERE device_key = ?", (device_key,))
            self._connection.execute("DELETE FROM refusals WHERE device_key = ?", (device_key,))
            self._cache.clear()

    def __len__(self) -> int:
        with self._lock, self._guarded():
            row = self._connection.execute(
                "SELECT COUNT(*) FROM (SELECT DISTINCT device_key, operation, implementation, revision, signature "
                "FROM samples)"
            ).fetchone()
        return int(row[0])

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> HistoryStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- internals --------------------------------------------------------------------------------

    def _read(self, key: HistoryKey) -> Quantity | None:
        with self._guarded():
            rows = self._connection.execute(f"SELECT seconds FROM samples WHERE {_KEY}", astuple(key)).fetchall()
        try:
            return summarise([float(row[0]) for row in rows], source="history") if rows else None
        except (MeasurementError, TypeError, ValueError) as error:
            raise FormatError(
                f"a duration of {key.operation!r} is not a number of seconds", where=str(self.path), hint=_REMOVE
            ) from error

    def _open(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = _connect(str(self.path))
        except (OSError, sqlite3.OperationalError) as error:
            return self._open_in_memory(error)
        try:
            with self._guarded():
                connection.execute("PRAGMA journal_mode=WAL")
                connection.executescript(_SCHEMA)
                # Only a write shows whether the file is writable.
                connection.execute("PRAGMA user_version=1")
        except (StorageError, FormatError) as error:
            connection.close()
            if isinstance(error, FormatError) or _is_locked(error.__cause__):
                raise
            return self._open_in_memory(error)
        return connection

    def _open_in_memory(self, reason: Exception) -> sqlite3.Connection:
        self.note = f"{self.path} cannot be written ({reason}): new measurements are kept in memory only"
        connection = _connect(":memory:")
        if self.path.is_file():
            try:
                stored = sqlite3.connect(f"{self.path.as_uri()}?mode=ro&immutable=1", uri=True)
                try:
                    stored.backup(connection)
                finally:
                    stored.close()
            except sqlite3.Error as error:
                self.note += f"; its contents cannot be read either ({error})"
        connection.executescript(_SCHEMA)
        return connection

    def _guarded(self) -> AbstractContextManager[None]:
        return _guarded(self.path)


_REMOVE = "Remove the file: measurements are made again when they are needed"


@contextmanager
def _guarded(path: Path) -> Iterator[None]:
    """Convert SQLite errors into `SyclschedError`s."""
    try:
        yield
    except sqlite3.Error as error:
        if isinstance(error, sqlite3.OperationalError) and "no such column" not in str(error):
            raise StorageError(
                f"cannot be used: {error}", where=str(path), hint="Another process may be holding it; try again"
            ) from error
        raise FormatError(f"not a history of measurements: {error}", where=str(path), hint=_REMOVE) from error


def _connect(name: str) -> sqlite3.Connection:
    return sqlite3.connect(name, timeout=LOCK_TIMEOUT_S, check_same_thread=False)


def _is_locked(error: BaseException | None) -> bool:
    return error is not None and "locked" in str(error)
