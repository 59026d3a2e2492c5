# SPDX-License-Identifier: Apache-2.0
"""Health check of stored measurements: profiles and the task history."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from syclsched.errors import FormatError, StorageError
from syclsched.oneapi.diagnosis.finding import Finding
from syclsched.profiling.storage.files import parse_device_profile, parse_pair_profile, read_file
from syclsched.profiling.storage.profile_store import data_folder

_WRONG = "SELECT count(*) FROM samples WHERE typeof(seconds) NOT IN ('real', 'integer') OR NOT seconds >= 0"


def check_stored(folder: Path | None = None) -> tuple[Finding, ...]:
    """Check the files of measurements, read-only."""
    folder = data_folder() if folder is None else folder
    return (*_profiles(folder), *_history(folder / "history.sqlite3"))


def _profiles(folder: Path) -> Iterator[Finding]:
    good = 0
    for kind, parse in (("profiles", parse_device_profile), ("pairs", parse_pair_profile)):
        for path in sorted((folder / kind).glob("*.json")):
            try:
                parse(read_file(path), where=str(path))
                good += 1
            except FormatError as error:
                meaning = "the next plan sets it aside, and `python -m syclsched profile` measures again"
                yield _unusable(path, error.what, meaning)
            except StorageError as error:
                yield _unusable(
                    path, error.what, "devices cannot be discovered as long as it is there", is_blocking=True
                )
    if good:
        yield Finding("measurements", "ok", f"{folder}: {good} profile(s)")


def _history(path: Path) -> Iterator[Finding]:
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            ((verdict, *_), *_) = connection.execute("PRAGMA quick_check(1)").fetchall()
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)
            ((count,),) = connection.execute("SELECT count(*) FROM samples").fetchall()
            ((wrong,),) = connection.execute(_WRONG).fetchall()
        if wrong:
            raise sqlite3.DatabaseError(f"{wrong} of its durations are no numbers of seconds")
    except sqlite3.Error as error:
        yield _unusable(path, str(error), "the next plan sets it aside, and times are measured again")
    else:
        yield Finding("measurements", "ok", f"{path}: {count} measured time(s) of tasks")


def _unusable(path: Path, what: str, meaning: str, *, is_blocking: bool = False) -> Finding:
    mend = f"rm {shlex.quote(str(path))}"
    return Finding("measurements", "missing", f"{path} cannot be read: {what}", meaning, mend, is_blocking)
