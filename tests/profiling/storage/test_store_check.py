# SPDX-License-Identifier: Apache-2.0
"""The doctor's check of stored measurements, which names faulty files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from syclsched.api import describe
from syclsched.errors import FormatError
from syclsched.profiling import HistoryStore, ProfileStore
from syclsched.profiling.storage.idle_connection import close_idle
from syclsched.profiling.storage.store_check import check_stored


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with a profile and a history."""
    profile = describe(["max1550"]).device("max1550").profile
    assert profile is not None
    ProfileStore(tmp_path).save(profile)
    HistoryStore(tmp_path / "history.sqlite3").close()
    close_idle()  # as at the end of the process that created it
    return tmp_path


def test_a_missing_folder_has_no_findings_and_is_not_created(tmp_path: Path) -> None:
    assert check_stored(tmp_path / "none") == ()
    assert not list(tmp_path.iterdir())


def test_readable_profiles_and_times_are_counted(folder: Path) -> None:
    profiles, history = check_stored(folder)
    assert (profiles.status, history.status) == ("ok", "ok")
    assert "1 profile(s)" in profiles.what and "0 measured time(s)" in history.what


@pytest.mark.parametrize("content", [b"", b'{"format": 1}', b"\xff\xfe"])
def test_a_damaged_profile_is_named(folder: Path, content: bytes) -> None:
    (path,) = (folder / "profiles").iterdir()
    path.write_bytes(content)
    damaged, history = check_stored(folder)
    assert (damaged.status, history.status) == ("missing", "ok")
    assert str(path) in damaged.what and damaged.mend == f"rm {path}"


def test_a_damaged_history_is_named(folder: Path) -> None:
    path = folder / "history.sqlite3"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(FormatError):
        HistoryStore(path)
    assert [f.status for f in check_stored(folder)] == ["ok", "missing"]


def test_durations_that_are_none_are_found(folder: Path) -> None:
    path = folder / "history.sqlite3"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO samples VALUES (1, 'd', 'o', 'i', 'r', 's', 'long', 0, NULL, 'run', 1)")
    _, history = check_stored(folder)
    assert history.status == "missing" and "1 of its durations" in history.what
