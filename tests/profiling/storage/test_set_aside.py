# SPDX-License-Identifier: Apache-2.0
"""Damaged files of measurements in the user's data folder: renamed with a warning, and models are compiled."""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import syclsched
from syclsched.costs.history import HistoryKey
from syclsched.profiling import HistoryStore, ProfileStore
from syclsched.profiling.storage.idle_connection import close_idle

MODEL = Path(__file__).parents[3] / "examples" / "data" / "digits.onnx"
KEY = HistoryKey("device", "gemm", "dpnp", "1", "8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder, with a history."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with HistoryStore() as history:
        history.record(KEY, [1.0], load=0.0)
    close_idle()
    return tmp_path / "syclsched"


def no_database(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def changed_by_others(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE samples SET seconds = 'quick'")


@pytest.mark.parametrize("damage", [no_database, cut_short, changed_by_others])
def test_a_damaged_history_is_set_aside(folder: Path, damage: Callable[[Path], None]) -> None:
    path = folder / "history.sqlite3"
    damage(path)
    content = path.read_bytes()
    with pytest.warns(UserWarning, match=r"history\.sqlite3\.damaged") as told, HistoryStore() as history:
        assert history.lookup(KEY) is None
        history.record(KEY, [2.0], load=0.0)
        assert history.lookup(KEY) is not None
    assert len(told) == 1 and history.note is None
    kept = (folder / "history.sqlite3.damaged").read_bytes()
    assert kept[100:] == content[100:]  # SQLite counts changes in the header
    close_idle()
    with HistoryStore() as history:
        assert [samples for _, samples in history.samples()] == [(2.0,)]


def test_a_history_damaged_while_it_is_open_is_set_aside(folder: Path) -> None:
    path = folder / "history.sqlite3"
    with HistoryStore() as history:
        changed_by_others(path)
        with pytest.warns(UserWarning, match="damaged"):
            history.record(KEY, [float(second) for second in range(3)])
            history.refresh()
            assert history.lookup(KEY) is None
        history.record(KEY, [2.0])
        assert len(history) == 1


def test_every_damaged_file_is_kept(folder: Path) -> None:
    path = folder / "history.sqlite3"
    for content in (b"one" * 1000, b"two" * 1000):
        path.write_bytes(content)
        with pytest.warns(UserWarning, match="damaged"):
            HistoryStore().close()
        close_idle()
    assert (folder / "history.sqlite3.damaged").read_bytes()[:3] == b"one"
    assert (folder / "history.sqlite3.damaged-2").read_bytes()[:3] == b"two"


def test_a_file_that_cannot_be_renamed_is_warned_of_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    no_database(folder / "history.sqlite3")
    monkeypatch.setattr(os, "rename", refuse)  # root may rename anywhere
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            with HistoryStore() as history:
                history.record(KEY, [2.0])
                assert history.lookup(KEY) is not None
                assert history.note is not None and "memory only" in history.note
    assert [each.category for each in told] == [UserWarning]
    assert "remove it" in str(told[0].message)


@pytest.mark.sycl
def test_models_are_compiled_beside_damaged_files(folder: Path) -> None:
    (device,) = syclsched.discover("cpu").compute_devices
    profile = ProfileStore(folder).path(device.key)
    profile.parent.mkdir()
    profile.write_text("{")
    no_database(folder / "history.sqlite3")
    with (
        pytest.warns(UserWarning, match="damaged") as told,
        syclsched.compile(MODEL, devices="cpu", autotune=False) as compiled,
    ):
        found = compiled(np.zeros((1, 1, 8, 8), np.float32))
    assert found["probabilities"].shape == (1, 10)
    assert sorted(str(each.message).split(" was ")[0] for each in told) == sorted(
        [str(folder / "history.sqlite3"), str(profile)]
    )
    assert profile.with_name(f"{profile.name}.damaged").read_text() == "{"
