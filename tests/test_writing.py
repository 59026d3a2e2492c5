# SPDX-License-Identifier: Apache-2.0
"""Atomic writes of files, by every function that writes one."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.synthetic import random_trace

from syclsched.atomic_write import write_atomically
from syclsched.cli.output_files import write_text
from syclsched.errors import StorageError
from syclsched.tracing import draw_gantt, save_perfetto


@contextmanager
def no_room(nbytes: int = 100) -> Iterator[None]:
    """Limit the size of files, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_folders_are_made_and_files_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.bin"
    with pytest.raises(FileNotFoundError):
        write_atomically(path, b"one")
    write_atomically(path, b"one", folders=True, lasting=True)
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["b.bin"]
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert path.stat().st_mode == plain.stat().st_mode


def test_the_target_of_a_link_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"one")
    link.symlink_to(target)
    write_atomically(link, b"two")
    assert link.is_symlink()
    assert target.read_bytes() == b"two"


def test_a_failed_write_leaves_only_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "b.bin"
    write_atomically(path, b"one")
    with no_room(), pytest.raises(OSError, match="too large"):
        write_atomically(path, bytes(1000))
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["b.bin"]


def test_an_interrupt_after_the_renaming_is_raised_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def interrupted(old: str, new: str) -> None:
        replace(old, new)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "file", b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("run.png", lambda path: draw_gantt(random_trace(2), path)),
        ("run.json", lambda path: save_perfetto(random_trace(2), path)),
        ("run.json.gz", lambda path: save_perfetto(random_trace(2), path)),
        ("plan.json", lambda path: write_text(path, 1000 * "x")),
    ],
)
def test_a_full_disk_leaves_no_empty_files(tmp_path: Path, name: str, write: Callable[[Path], None]) -> None:
    with no_room(), pytest.raises(StorageError, match=r"cannot .*: File too large"):
        write(tmp_path / name)
    assert os.listdir(tmp_path) == []
