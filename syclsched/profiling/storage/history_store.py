# SPDX-License-Identifier: Apache-2.0
"""Persistent history of measured task durations, in an SQLite file."""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import astuple
from functools import cache, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from syclsched.backoff import backoff
from syclsched.costs.history import HistoryKey, Sample, Source
from syclsched.errors import FormatError, MeasurementError, StorageError
from syclsched.model.profile import Quantity
from syclsched.profiling.busy import is_quiet
from syclsched.profiling.estimation import at_recent_speed, estimate, recent_slowdown
from syclsched.profiling.storage.idle_connection import HeldConnection, hold, leave_idle, take_idle
from syclsched.profiling.storage.profile_store import data_folder
from syclsched.profiling.storage.set_aside import set_aside

#: Samples kept per key: the newest, trusted ones before others; older ones may reflect another state of the machine.
KEPT_SAMPLES = 64

#: Most characters kept of a reason why an implementation was refused: a compiler's log can be pages long.
_LONGEST_REASON = 2_000
#: Version of the file's layout; version 1 had no circumstances of samples.
_VERSION = 2

#: Age up to which runs tell a device's speed today.
_TODAY_S = 1800.0

#: Age up to which read data is used by the next store of the file in this process, and that of slowdowns.
_RECALLED_S = 10.0

#: Most damaged files that are set aside in turn, when other processes damage the file again.
_MOST_REPLACED = 3

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
    seconds REAL NOT NULL,
    when_s REAL NOT NULL DEFAULT 0,
    load REAL,
    source TEXT NOT NULL DEFAULT 'calibration',
    quiet INTEGER NOT NULL DEFAULT 1
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
#: Columns that files of earlier versions lack. Their samples were taken under unknown load: they are not trusted.
_ADDED = (
    "ALTER TABLE samples ADD COLUMN when_s REAL NOT NULL DEFAULT 0",
    "ALTER TABLE samples ADD COLUMN load REAL",
    "ALTER TABLE samples ADD COLUMN source TEXT NOT NULL DEFAULT 'calibration'",
    "ALTER TABLE samples ADD COLUMN quiet INTEGER NOT NULL DEFAULT 1",
    "UPDATE samples SET quiet = 0",
)
_KEY_COLUMNS = "device_key, operation, implementation, revision, signature"
_SAMPLE_COLUMNS = "seconds, when_s, load, source, quiet"
_KEY = "device_key = ? AND operation = ? AND implementation = ? AND revision = ? AND signature = ?"


_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def _without_damage(
    method: Callable[Concatenate[HistoryStore, _Given], _Result],
) -> Callable[Concatenate[HistoryStore, _Given], _Result]:
    """Call a method again with a new file if that of the user's data folder turns out to be damaged."""

    @wraps(method)
    def called(self: HistoryStore, /, *args: _Given.args, **options: _Given.kwargs) -> _Result:
        with self._lock:
            try:
                return method(self, *args, **options)
            except FormatError as error:
                if self._is_named or self._held is None or not _is_damage(error):
                    raise
                self._replace(error)
            return method(self, *args, **options)

    return called


class HistoryStore:
    """A `syclsched.costs.History` on disk; several processes and threads may use one file.

    Where the file cannot be written (read-only folder, full disk), stored samples are read, new ones are kept in memory
    only, and `note` says so. A damaged file is an error; that in the user's data folder, which is used when no path is
    given, is set aside with a warning.
    """

    def __init__(self, path: Path | str | None = None, clock: Callable[[], float] = time.time) -> None:
        self.path = history_path() if path is None else Path(path)
        self._is_named = path is not None
        self._clock = clock
        self.note: str | None = None
        self._lock = threading.RLock()
        self._cache: dict[HistoryKey, Quantity | None] = {}
        #: By device: when its recent slowdown was read, and that.
        self._paces: dict[str, tuple[float, float | None]] = {}
        self._since_s = clock()  # since when the cache is filled
        self._held: HeldConnection | None = take_idle(self.path)
        self._connection = self._open() if self._held is None else self._held.connection
        if self._held is not None:
            self._recall(self._held)

    @_without_damage
    def lookup(self, key: HistoryKey) -> Quantity | None:
        """Return the seconds measured for a key, or None if there are none."""
        with self._lock:
            if key not in self._cache:
                self._cache[key] = self._read(key)
            return self._cache[key]

    @_without_damage
    def refresh(self) -> None:
        """Clear the lookup cache if other stores have changed the file, to see their samples."""
        with self._lock, self._guarded():
            if self._held is None or self._held.forget_changed():
                self._cache.clear()
                self._paces.clear()
                self._since_s = self._clock()

    def record(
        self, key: HistoryKey, seconds: Iterable[float], *, load: float | None = None, source: Source = "calibration"
    ) -> None:
        """Add samples taken now, under a load (see `Sample`)."""
        now_s = self._clock()
        self.add([(key, Sample(float(s), now_s, load, source, is_quiet(load))) for s in seconds])

    def add(self, samples: Iterable[tuple[HistoryKey, Sample]]) -> None:
        """Add samples of any keys, together or not at all."""
        rows: dict[HistoryKey, list[Sample]] = {}
        for key, sample in samples:
            if not math.isfinite(sample.seconds) or sample.seconds < 0:
                raise MeasurementError("a sample is negative or not finite", where=f"operation {key.operation!r}")
            rows.setdefault(key, []).append(sample)
        try:
            self._insert(rows)
        except StorageError as error:
            if self._held is None or _is_locked(error.__cause__):
                raise
            # The file could be written before: the disk is full, or read-only by now.
            self._held.connection.close()
            self._held, self._connection = None, self._open_in_memory(error)
            self._insert(rows)

    @_without_damage
    def _insert(self, rows: dict[HistoryKey, list[Sample]]) -> None:
        with self._lock, self._guarded(), self._connection:
            for key, added in rows.items():
                columns = astuple(key)
                self._connection.executemany(
                    f"INSERT INTO samples ({_KEY_COLUMNS}, {_SAMPLE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    [(*columns, s.seconds, s.when_s, s.load, s.source, int(s.quiet)) for s in added],
                )
                self._connection.execute(
                    f"DELETE FROM samples WHERE {_KEY} AND id NOT IN "
                    f"(SELECT id FROM samples WHERE {_KEY} ORDER BY quiet DESC, id DESC LIMIT {KEPT_SAMPLES})",
                    (*columns, *columns),
                )
                self._connection.execute(f"DELETE FROM refusals WHERE {_KEY}", columns)
                self._cache.pop(key, None)
                if any(sample.source != "run" for sample in added):
                    self._paces.pop(key.device_key, None)  # one run more changes it little

    @_without_damage
    def refuse(self, key: HistoryKey, reason: str) -> None:
        """Note that a device or library refuses an implementation; it holds until the implementation is timed."""
        with self._lock, self._guarded(), self._connection:
            self._connection.execute(
                f"INSERT OR REPLACE INTO refusals ({_KEY_COLUMNS}, reason) VALUES (?, ?, ?, ?, ?, ?)",
                (*astuple(key), reason[:_LONGEST_REASON]),
            )

    @_without_damage
    def refusals(self) -> dict[HistoryKey, str]:
        """Return the implementations that devices or libraries refuse, with the reasons."""
        with self._lock, self._guarded():
            rows = self._connection.execute(f"SELECT {_KEY_COLUMNS}, reason FROM refusals").fetchall()
        return {HistoryKey(*map(str, columns)): str(reason) for *columns, reason in rows}

    @_without_damage
    def stored(self, key: HistoryKey) -> tuple[Sample, ...]:
        """Return the samples of a key, the oldest first."""
        with self._lock, self._guarded():
            rows = self._connection.execute(
                f"SELECT {_SAMPLE_COLUMNS} FROM samples WHERE {_KEY} ORDER BY id", astuple(key)
            ).fetchall()
        return tuple(self._sample(key, *row) for row in rows)

    @_without_damage
    def entries(self) -> list[tuple[HistoryKey, tuple[Sample, ...]]]:
        """Return all samples by key, the oldest first."""
        with self._lock, self._guarded():
            rows = self._connection.execute(
                f"SELECT {_KEY_COLUMNS}, {_SAMPLE_COLUMNS} FROM samples ORDER BY id"
            ).fetchall()
        found: dict[HistoryKey, list[Sample]] = {}
        for row in rows:
            key = HistoryKey(*row[:5])
            found.setdefault(key, []).append(self._sample(key, *row[5:]))
        return [(key, tuple(values)) for key, values in found.items()]

    def samples(self) -> list[tuple[HistoryKey, tuple[float, ...]]]:
        """Return the seconds of all samples by key, the oldest first."""
        return [(key, tuple(sample.seconds for sample in values)) for key, values in self.entries()]

    def merge(self, key: HistoryKey, samples: Iterable[Sample | float]) -> int:
        """Add the samples of a key that are not stored yet; return their number.

        Samples given as seconds alone were taken under unknown load: they are not trusted.
        """
        stored = {sample.seconds for sample in self.stored(key)}
        given = [each if isinstance(each, Sample) else Sample(float(each), quiet=False) for each in samples]
        new = {each.seconds: each for each in given if each.seconds not in stored}
        self.add((key, each) for each in new.values())
        return len(new)

    @_without_damage
    def distrust(self, key: HistoryKey) -> None:
        """Trust the samples of a key no longer, nor those of its alternatives: runs contradict them.

        Alternatives are the other implementations for the same device, operation and sizes: they were timed under the
        same circumstances, and plans compare them.
        """
        with self._lock, self._guarded(), self._connection:
            self._connection.execute(
                "UPDATE samples SET quiet = 0 WHERE device_key = ? AND operation = ? AND signature = ? "
                "AND source = 'calibration'",
                (key.device_key, key.operation, key.signature),
            )
            self._cache.clear()

    def forget(self, device_key: str) -> None:
        """Remove everything about a device."""
        self._delete("device_key = ?", device_key)

    def forget_matching(self, name: str | None) -> int:
        """Remove the samples of an operation or of devices with this text in their key, or all; return how many."""
        if name is None:
            return self._delete("1")
        return self._delete("operation = ? OR instr(device_key, ?)", name, name)

    @_without_damage
    def _delete(self, condition: str, *values: str) -> int:
        with self._lock, self._guarded(), self._connection:
            removed = self._connection.execute(f"DELETE FROM samples WHERE {condition}", values).rowcount
            self._connection.execute(f"DELETE FROM refusals WHERE {condition}", values)
            self._cache.clear()
            self._paces.clear()
        return int(removed)

    @_without_damage
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
            held, self._held = self._held, None
            if held is None:
                self._connection.close()
                return
            self._connection = _closed_connection()
            held.known.update(cache=self._cache, paces=self._paces, clock=self._clock, since_s=self._since_s)
            leave_idle(held)

    def __enter__(self) -> HistoryStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- internals --------------------------------------------------------------------------------

    def _recall(self, held: HeldConnection) -> None:
        """Use data read earlier through a connection, unless it is old: estimates follow a device's present speed."""
        known = held.known
        if known.get("clock") is self._clock and 0.0 <= self._clock() - known["since_s"] <= _RECALLED_S:
            self._cache, self._paces, self._since_s = known["cache"], known["paces"], known["since_s"]

    def _pace(self, device_key: str, since_s: float) -> float | None:
        """Return how much longer than usual a device's tasks took in the last runs; None if not noticeably."""
        now_s = self._clock()
        read_s, found = self._paces.get(device_key, (-math.inf, None))
        if not 0.0 <= now_s - read_s <= _RECALLED_S:
            with self._guarded():
                rows = self._connection.execute(
                    f"SELECT DISTINCT {_KEY_COLUMNS} FROM samples WHERE device_key = ? AND source = 'run' "
                    "AND quiet = 1 AND when_s >= ?",
                    (device_key, since_s),
                ).fetchall()
            found = recent_slowdown((self.stored(HistoryKey(*row)) for row in rows), since_s)
            self._paces[device_key] = now_s, found
        return found

    def _read(self, key: HistoryKey) -> Quantity | None:
        try:
            samples = self.stored(key)
            if not samples:
                return None
            since_s = self._clock() - _TODAY_S
            return at_recent_speed(estimate(samples), samples, self._pace(key.device_key, since_s), since_s)
        except MeasurementError as error:
            raise self._no_duration(key) from error

    def _sample(
        self, key: HistoryKey, seconds: float, when_s: float, load: float | None, source: Source, quiet: int
    ) -> Sample:
        try:
            return Sample(float(seconds), float(when_s), None if load is None else float(load), source, bool(quiet))
        except (TypeError, ValueError) as error:
            raise self._no_duration(key) from error

    def _no_duration(self, key: HistoryKey) -> FormatError:
        return FormatError(
            f"a duration of {key.operation!r} is not a number of seconds", where=str(self.path), hint=_REMOVE
        )

    def _open(self) -> sqlite3.Connection:
        """Open the file; that of the user's data folder is set aside if it is damaged."""
        for _ in range(_MOST_REPLACED):
            file = _identity(self.path)
            try:
                return self._open_file()
            except FormatError as error:
                if self._is_named or not _is_damage(error):
                    raise
                if not self._set_aside(file, error):
                    return self._open_in_memory(error)
        return self._open_file()

    def _replace(self, error: FormatError) -> None:
        """Set the open file aside and open a new one."""
        held, self._held = self._held, None
        self._connection.close()
        self._cache, self._paces = {}, {}
        try:
            is_free = held is None or self._set_aside(held.file, error)
        finally:
            self._connection = self._open_in_memory(error)  # if the warning is an error, the store can still be closed
        if is_free:
            self._connection.close()
            self.note = None
            self._connection = self._open()

    def _set_aside(self, file: tuple[int, int] | None, error: FormatError) -> bool:
        """Set a damaged file aside, unless another one has taken its place; return whether the path can be used."""
        if _identity(self.path) != file:
            return True
        return set_aside(self.path, error, "Times of tasks are measured again", companions=("-wal", "-shm"))

    def _open_file(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = _connect(str(self.path))
        except (OSError, sqlite3.OperationalError) as error:
            return self._open_in_memory(error)
        try:
            with self._guarded():
                _log_ahead(connection)
                connection.executescript(_SCHEMA)
                _add_columns(connection)
                # Only a write shows whether the file is writable.
                connection.execute(f"PRAGMA user_version={_VERSION}")
                with suppress(OSError):
                    self._held = hold(connection, self.path)
        except (StorageError, FormatError) as error:
            connection.close()
            if isinstance(error, FormatError) or _is_locked(error.__cause__):
                raise
            return self._open_in_memory(error)
        return connection

    def _open_in_memory(self, reason: Exception) -> sqlite3.Connection:
        self.note = f"{self.path} cannot be written ({reason}): new measurements are kept in memory only"
        if self.path.is_file() and not isinstance(reason, FormatError):
            try:
                return self._copied_to_memory()
            except sqlite3.Error as error:
                self.note += f"; its contents cannot be read either ({error})"
        connection = _connect(":memory:")
        connection.executescript(_SCHEMA)
        return connection

    def _copied_to_memory(self) -> sqlite3.Connection:
        connection = _connect(":memory:")
        with closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro&immutable=1", uri=True)) as stored:
            stored.backup(connection)
        connection.executescript(_SCHEMA)
        _add_columns(connection)
        connection.execute(f"PRAGMA user_version={_VERSION}")
        return connection

    def _guarded(self) -> AbstractContextManager[None]:
        return _guarded(self.path)


def history_path() -> Path:
    """Return the history of the user's data folder; it may not exist yet."""
    return data_folder() / "history.sqlite3"


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and number of a file; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _add_columns(connection: sqlite3.Connection) -> None:
    """Add the columns that a file of an earlier version lacks; several processes may try at once."""
    if _has_all_columns(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        if not _has_all_columns(connection):
            for statement in _ADDED:
                connection.execute(statement)


def _has_all_columns(connection: sqlite3.Connection) -> bool:
    return "quiet" in {row[1] for row in connection.execute("PRAGMA table_info(samples)")}


def _is_damage(error: FormatError) -> bool:
    """Return whether an error shows a damaged file, not wrong use of it."""
    return not isinstance(error.__cause__, (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError))


#: Parts of messages of errors that are those of a damaged file, not of a busy one or a full disk.
_DAMAGE = (
    "no such column",
    "no such table",
    "Could not decode",
    "malformed",
    "has no column",
    "unsupported file format",
)
_REMOVE = "Remove the file: measurements are made again when they are needed"


@contextmanager
def _guarded(path: Path) -> Iterator[None]:
    """Convert SQLite errors into `SyclschedError`s."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if isinstance(error, sqlite3.OperationalError) and not any(each in str(error) for each in _DAMAGE):
            raise StorageError(
                f"cannot be used: {error}", where=str(path), hint="Another process may be holding it; try again"
            ) from error
        raise FormatError(f"not a history of measurements: {error}", where=str(path), hint=_REMOVE) from error


@cache
def _closed_connection() -> sqlite3.Connection:
    """Return the connection of stores that are closed."""
    connection = _connect(":memory:")
    connection.close()
    return connection


def _connect(name: str) -> sqlite3.Connection:
    return sqlite3.connect(name, timeout=LOCK_TIMEOUT_S, check_same_thread=False)


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Set the write-ahead log; SQLite does not wait for others that open the file at the same time."""
    started_s = time.monotonic()
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            waited_s = time.monotonic() - started_s
            if not _is_locked(error) or waited_s > LOCK_TIMEOUT_S:
                raise
            time.sleep(backoff(waited_s, 1e-3, 0.1))
        else:
            return


def _is_locked(error: BaseException | None) -> bool:
    return error is not None and "locked" in str(error)
