# SPDX-License-Identifier: Apache-2.0
"""The emulator's folder: complete or absent, also with concurrent processes and disk errors."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from syclsched.oneapi import emulator

VERSION = "2024.2.1"


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """A folder like the wheel's, with small files; returns the CPU runtime's library."""
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "libintelocl.so").write_bytes(b"library" * 1000)
    (folder / "cl.cfg").write_text("CL_CONFIG_USE_VECTORIZER = True\nCL_CONFIG_DEVICES = cpu\n")
    for name in ("clbltfnz0.rtl", "cllibrary.rtl", "__ocl_svml_z0.so", "libcommon_clang.so"):
        (folder / name).write_bytes(name.encode())
    return folder / "libintelocl.so"


def prepare(runtime: Path, root: Path, **environ: str) -> emulator.Emulator:
    return emulator.prepare(str(runtime), VERSION, environ, root)


def test_the_folder_has_the_library_copy_and_configuration(runtime: Path, tmp_path: Path) -> None:
    made = prepare(runtime, tmp_path / "cache")
    assert made.note is None and made.library is not None
    folder = Path(made.library).parent
    assert Path(made.library).name == "libintelocl_emu.so"
    # The loader recognises a library by its inode: it must be a copy.
    assert not Path(made.library).samefile(runtime)
    assert Path(made.library).read_bytes() == runtime.read_bytes()
    assert (folder / "clbltfnz0.rtl").is_symlink() and (folder / "libcommon_clang.so").exists()
    for name in ("cl.cfg", "cl.fpga_emu.cfg"):
        lines = (folder / name).read_text().splitlines()
        assert "CL_CONFIG_USE_VECTORIZER = True" in lines
        assert [line for line in lines if line.startswith("CL_CONFIG_DEVICES")] == ["CL_CONFIG_DEVICES = fpga-emu"]


def test_an_existing_folder_is_reused(runtime: Path, tmp_path: Path) -> None:
    first = prepare(runtime, tmp_path / "cache")
    before = os.stat(str(first.library))
    assert prepare(runtime, tmp_path / "cache") == first
    assert os.stat(str(first.library)).st_ino == before.st_ino
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_changed_runtime_replaces_the_folder(runtime: Path, tmp_path: Path) -> None:
    first = prepare(runtime, tmp_path / "cache")
    runtime.write_bytes(b"another library")
    second = prepare(runtime, tmp_path / "cache")
    assert second.library != first.library
    assert [str(path) for path in (tmp_path / "cache").iterdir()] == [str(Path(str(second.library)).parent)]


def test_another_environments_emulator_stays(runtime: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(runtime.parent, other)
    first = prepare(runtime, tmp_path / "cache")
    second = prepare(other / "libintelocl.so", tmp_path / "cache")
    assert Path(str(first.library)).exists() and Path(str(second.library)).exists()
    shutil.rmtree(other)
    emulator.remove_stale(tmp_path / "cache")
    assert Path(str(first.library)).exists() and not Path(str(second.library)).exists()


@pytest.mark.parametrize("damage", ["library", "record", "configuration"])
def test_a_damaged_folder_is_recreated(runtime: Path, tmp_path: Path, damage: str) -> None:
    folder = Path(str(prepare(runtime, tmp_path / "cache").library)).parent
    if damage == "library":
        (folder / "libintelocl_emu.so").write_bytes(b"half")
    elif damage == "record":
        (folder / "source.json").write_text("{")
    else:
        (folder / "cl.cfg").unlink()
    again = prepare(runtime, tmp_path / "cache")
    assert again.library is not None
    assert Path(again.library).read_bytes() == runtime.read_bytes()
    assert json.loads((folder / "source.json").read_text())["source"]["version"] == VERSION
    assert (folder / "cl.cfg").is_file()


def test_many_at_once_agree(runtime: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: prepare(runtime, tmp_path / "cache"), range(16)))
    assert {each.note for each in made} == {None}
    assert len({each.library for each in made}) == 1
    assert Path(str(made[0].library)).read_bytes() == runtime.read_bytes()
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.name.startswith(".")] == []


def test_builds_left_by_killed_processes_go_in_time(runtime: Path, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    old, young = root / ".building-old", root / ".building-young"
    old.mkdir(parents=True)
    young.mkdir()
    os.utime(old, (1, 1))
    prepare(runtime, root)
    assert not old.exists() and young.exists()


def test_a_full_disk_leaves_a_note_and_no_rubbish(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    made = prepare(runtime, tmp_path / "cache")
    assert made.library is None
    assert "No space left on device" in str(made.note)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_is_no_folder_leaves_a_note(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = prepare(runtime, tmp_path / "file" / "cache")
    assert made.library is None and "could not be made" in str(made.note)


@pytest.mark.parametrize("value", ["0", "no", "OFF", " false "])
def test_the_emulator_can_be_switched_off(runtime: Path, tmp_path: Path, value: str) -> None:
    made = prepare(runtime, tmp_path / "cache", SYCLSCHED_FPGA_EMULATOR=value)
    assert made.library is None and "switched off" in str(made.note)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("version", ["2025.0.0", "2026.1.2", None, "unknown"])
def test_other_generations_cannot_become_one(runtime: Path, tmp_path: Path, version: str | None) -> None:
    made = emulator.prepare(str(runtime), version, {}, tmp_path / "cache")
    assert made.library is None and str(version or "unknown") in str(made.note)


def test_a_runtime_that_brings_its_own_is_used_as_it_is(runtime: Path, tmp_path: Path) -> None:
    own = runtime.with_name("libintelocl_emu.so")
    own.write_bytes(b"")
    assert emulator.prepare(str(runtime), None, {}, tmp_path / "cache").library == str(own)


def test_no_runtime_no_emulator(tmp_path: Path) -> None:
    assert emulator.prepare(None, VERSION, {}, tmp_path).library is None


def test_folders_writable_by_others_are_not_used(runtime: Path, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    assert prepare(runtime, root).library is not None
    root.chmod(0o777)
    made = prepare(runtime, root)
    assert made.library is None
    assert f"{root} can be written to by everyone" in str(made.note) and "chmod" in str(made.note)
    root.chmod(0o700)
    folder = Path(str(prepare(runtime, root).library)).parent
    folder.chmod(0o777)
    assert prepare(runtime, root).note is None
    assert folder.stat().st_mode & 0o777 == 0o700  # made again


def test_a_library_with_other_content_is_not_loaded(runtime: Path, tmp_path: Path) -> None:
    library = Path(str(prepare(runtime, tmp_path / "cache").library))
    status = library.stat()
    library.write_bytes(runtime.read_bytes()[::-1])
    os.utime(library, ns=(status.st_atime_ns, status.st_mtime_ns))  # as before, and of the same size
    assert prepare(runtime, tmp_path / "cache").library == str(library)
    assert library.read_bytes() == runtime.read_bytes()


def test_the_library_is_read_again_only_if_it_may_have_changed(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Path(str(prepare(runtime, tmp_path / "cache").library))
    read: list[Path] = []
    digest = emulator._digest
    monkeypatch.setattr(emulator, "_digest", lambda file: (read.append(file), digest(file))[1])
    before = library.stat().st_ino
    for expected in (0, 1, 1):
        assert prepare(runtime, tmp_path / "cache").library == str(library)
        assert len(read) == expected
        if not read:
            library.chmod(0o700)
    assert library.stat().st_ino == before
