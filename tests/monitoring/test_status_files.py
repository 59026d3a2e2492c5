# SPDX-License-Identifier: Apache-2.0
"""Status files: only this user's files of living processes are read."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.monitored import status

from syclsched.errors import StorageError
from syclsched.model.text.json_serialisation import to_json
from syclsched.monitoring import read_status_files
from syclsched.monitoring.process_identity import ProcessIdentity
from syclsched.monitoring.status_files import MAX_FILE_BYTES, StatusFile


@pytest.fixture
def folder(runtime_folder: Path) -> Path:
    """The folder of status files, with that of this process."""
    StatusFile().write(status())
    return runtime_folder / "syclsched"


def test_written_status_is_read(folder: Path) -> None:
    found = read_status_files()
    assert found.processes == (status(),)
    assert found.unreadable == ()


def test_status_files_are_private(folder: Path) -> None:
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_status_file_is_removed(folder: Path) -> None:
    StatusFile().remove()
    assert not list(folder.iterdir())
    assert read_status_files().processes == ()


def test_without_a_folder_there_are_no_processes(runtime_folder: Path) -> None:
    assert read_status_files().processes == ()
    assert not list(runtime_folder.iterdir())  # reading creates none


@pytest.mark.parametrize("name", ["{}.json", ".{}.json.k2j4x"])
def test_files_of_ended_processes_are_removed(folder: Path, name: str) -> None:
    own = ProcessIdentity.own()
    dead = folder / name.format(replace(own, start_ticks=own.start_ticks - 1))
    dead.write_text(to_json(status()))
    assert read_status_files().processes == (status(),)
    assert not dead.exists()


def test_files_of_other_namespaces_are_kept(folder: Path) -> None:
    own = ProcessIdentity.own()
    other = folder / f"{replace(own, namespace=own.namespace + 1, start_ticks=1)}.json"
    other.write_text(to_json(status()))
    assert len(read_status_files().processes) == 1
    assert other.exists()


def test_files_of_other_names_are_kept(folder: Path) -> None:
    for name in ("notes.json", "1-2.json", ".hidden"):
        (folder / name).write_text("x")
    assert read_status_files().unreadable == ()
    assert len(list(folder.iterdir())) == 4


def _other_format() -> str:
    return to_json(status()).replace("syclsched-status/1", "syclsched-status/9")


UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no JSON": (lambda path: path.write_text("{"), "whole document"),
    "another document": (lambda path: path.write_text('{"pid": -1}'), "at pid"),
    "another format": (lambda path: path.write_text(_other_format()), "at format"),
    "no text": (lambda path: path.write_bytes(b"\xff\xfe\x00"), "whole document"),
    "too large": (lambda path: path.write_bytes(b" " * (MAX_FILE_BYTES + 1)), "at most"),
    "a folder": (lambda path: path.mkdir(), "directory"),
    "a pipe": (lambda path: os.mkfifo(path), "not a file"),
    "a link": (lambda path: path.symlink_to("/etc/hostname"), "symbolic links"),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_files_that_are_no_status_are_left_out_with_the_reason(folder: Path, what: str) -> None:
    make, reason = UNREADABLE[what]
    (file,) = folder.iterdir()
    file.unlink()
    make(file)
    found = read_status_files()
    assert found.processes == ()
    assert len(found.unreadable) == 1
    assert reason in found.unreadable[0]


def test_a_file_of_another_user_is_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = folder.iterdir()
    fstat = os.fstat

    def others(descriptor: int) -> object:
        found = fstat(descriptor)
        return SimpleNamespace(st_mode=found.st_mode, st_size=found.st_size, st_uid=found.st_uid + 1)

    monkeypatch.setattr(os, "fstat", others)
    found = read_status_files()
    monkeypatch.undo()
    assert found.processes == ()
    assert found.unreadable == (f"{file.name}: it belongs to another user",)


def test_a_folder_that_others_can_write_to_is_refused(folder: Path) -> None:
    folder.chmod(0o777)
    with pytest.raises(StorageError, match="can be written to by everyone") as refused:
        read_status_files()
    assert refused.value.hint is not None
    assert "XDG_RUNTIME_DIR" in refused.value.hint
    with pytest.raises(StorageError):
        StatusFile()


def test_a_file_instead_of_the_folder_is_refused(runtime_folder: Path) -> None:
    (runtime_folder / "syclsched").write_text("")
    with pytest.raises(StorageError):
        StatusFile()
    with pytest.raises(StorageError):
        read_status_files()
