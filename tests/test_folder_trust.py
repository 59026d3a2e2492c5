# SPDX-License-Identifier: Apache-2.0
"""Trust in folders: those that other users can write to are refused, with the reason."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from syclsched import folder_trust
from syclsched.folder_trust import TRUSTED_VARIABLE, make_private_folder, may_load_from, why_untrusted

#: A user and a group that do not exist here.
STRANGER = 54_321


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "cache" / "code"
    make_private_folder(made)
    return made


@pytest.fixture
def owned(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Path, int]]:
    """Make paths seem to belong to the given user and group, which otherwise needs root."""
    owner: dict[Path, int] = {}

    def told(ask: Any) -> Any:
        def status(path: Path, **how: Any) -> Any:
            found = ask(path, **how)
            who = owner.get(path)
            if who is None:
                return found
            return SimpleNamespace(st_mode=found.st_mode, st_uid=who, st_gid=who)

        return status

    monkeypatch.setattr(Path, "lstat", told(Path.lstat))
    monkeypatch.setattr(Path, "stat", told(Path.stat))
    yield owner


def test_a_new_folder_is_for_the_user_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        make_private_folder(folder / "deeper" / "still")
    finally:
        os.umask(before)
    for each in (folder, folder / "deeper", folder / "deeper" / "still"):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    assert why_untrusted(folder / "deeper" / "still") is None
    make_private_folder(folder)  # the second call has no effect


@pytest.mark.parametrize(("mode", "whom"), [(0o777, "everyone"), (0o1777, "everyone"), (0o702, "everyone")])
def test_a_folder_that_others_can_write_to(folder: Path, mode: int, whom: str) -> None:
    folder.chmod(mode)
    assert why_untrusted(folder) == f"{folder} can be written to by {whom} (mode {mode:04o})"


def test_a_writable_parent_folder_is_untrusted_unless_sticky(folder: Path) -> None:
    folder.parent.chmod(0o777)
    assert why_untrusted(folder) == f"{folder.parent} can be written to by everyone (mode 0777)"
    folder.parent.chmod(0o1777)
    assert why_untrusted(folder) is None


def test_folder_writable_by_own_group_is_trusted(folder: Path, owned: dict[Path, int]) -> None:
    folder.chmod(0o770)
    gid = folder.stat().st_gid
    if folder_trust._is_own_group(gid):
        assert why_untrusted(folder) is None
    owned[folder] = STRANGER
    assert "belongs to another user" in str(why_untrusted(folder))


def test_a_foreign_group(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_trust, "_is_own_group", lambda group: False)
    folder.chmod(0o770)
    assert why_untrusted(folder) == f"{folder} can be written to by its group (mode 0770)"


def test_another_users_folder(folder: Path, owned: dict[Path, int]) -> None:
    owned[folder.parent] = STRANGER
    assert why_untrusted(folder) == f"{folder.parent} belongs to another user (user id {STRANGER})"


def test_a_link_is_followed_and_its_own_place_matters(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert why_untrusted(link) is None
    folder.chmod(0o777)
    assert "everyone" in str(why_untrusted(link))
    folder.chmod(0o700)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "link").symlink_to(folder)
    assert str(tmp_path / "open") in str(why_untrusted(tmp_path / "open" / "link"))


def test_missing_folders_are_trusted(tmp_path: Path) -> None:
    assert why_untrusted(tmp_path / "none" / "here") is None


def test_beside_the_source_the_sources_owner_is_trusted(folder: Path, tmp_path: Path, owned: dict[Path, int]) -> None:
    source = tmp_path / "source"
    source.mkdir(mode=0o755)
    cache = source / "__pycache__"
    cache.mkdir(mode=0o755)
    owned[source] = owned[cache] = STRANGER
    assert why_untrusted(cache, source) is None
    assert why_untrusted(cache) is not None
    owned[cache] = STRANGER + 1
    assert "does not own the source code" in str(why_untrusted(cache, source))
    owned.clear()
    cache.chmod(0o777)
    assert "its source code not" in str(why_untrusted(cache, source))
    source.chmod(0o777)  # a user who can write here can change the source as well
    assert why_untrusted(cache, source) is None


def test_the_user_can_trust_a_folder_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.chmod(0o777)
    monkeypatch.setenv(TRUSTED_VARIABLE, os.pathsep.join(["/elsewhere", str(folder.parent)]))
    assert why_untrusted(folder) is None
    assert why_untrusted(folder.parent.with_name("cache2")) is None  # it does not exist
    monkeypatch.setenv(TRUSTED_VARIABLE, str(folder / "deeper"))
    assert why_untrusted(folder) is not None


def test_refusal_is_logged_once_with_a_hint(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.chmod(0o777)
    with caplog.at_level(logging.WARNING, "syclsched"):
        assert not may_load_from(folder)
        assert not may_load_from(folder)
    (record,) = caplog.records
    assert str(folder) in record.getMessage()
    assert "chmod go-w" in record.getMessage() and TRUSTED_VARIABLE in record.getMessage()
