# SPDX-License-Identifier: Apache-2.0
"""Files get into the cache whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from syclsched.oneapi import cache


def test_the_folder_follows_the_users_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_root() == tmp_path / "syclsched"


def test_writing_makes_the_folder_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.bin"
    cache.write_atomically(path, b"one")
    cache.write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["b.bin"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b.bin"
    cache.write_atomically(path, b"one")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        cache.write_atomically(path, b"two")
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["b.bin"]
