# SPDX-License-Identifier: Apache-2.0
"""The cache folder and the user's settings of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from syclsched.oneapi import cache_folder


def test_the_folder_follows_the_users_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder.cache_root() == tmp_path / "syclsched"
