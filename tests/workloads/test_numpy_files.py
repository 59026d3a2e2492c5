# SPDX-License-Identifier: Apache-2.0
"""NumPy files of users: damaged, hostile and of other kinds, with one error that names them."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.errors import FormatError, StorageError
from syclsched.workloads.numpy_files import read_npy, read_npz


class Trap:
    """An object that creates a folder when it is unpickled."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return os.mkdir, (self.place,)


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def test_pickled_objects_are_refused_and_not_executed(tmp_path: Path) -> None:
    trap = Trap(str(tmp_path / "executed"))
    objects = np.array([trap], dtype=object)
    (tmp_path / "a.npy").write_bytes(npy(objects))
    (tmp_path / "b.npy").write_bytes(pickle.dumps(trap))
    (tmp_path / "c.npz").write_bytes(npz(W0=objects))
    for name in ("a.npy", "b.npy"):
        with pytest.raises(FormatError, match=name):
            read_npy(tmp_path / name)
    for name in ("b.npy", "c.npz"):
        with pytest.raises(FormatError, match=name):
            read_npz(tmp_path / name)
    assert not (tmp_path / "executed").exists()


def test_header_with_too_large_sizes_is_refused(tmp_path: Path) -> None:
    content = npy(np.zeros(8)).replace(b"(8,)", b"(8888888888888,)")
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(FormatError, match=r"a\.npy"):
        read_npy(tmp_path / "a.npy")


def test_archives_and_arrays_are_distinguished(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(npz(x=np.ones(2)))
    (tmp_path / "b").write_bytes(npy(np.ones(2)))
    with pytest.raises(FormatError, match=r"not a \.npy file"):
        read_npy(tmp_path / "a")
    with pytest.raises(FormatError, match=r"not a \.npz file"):
        read_npz(tmp_path / "b")


def test_a_member_that_is_no_array_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("readme", "hello")
    with pytest.raises(FormatError, match="readme: this member is not an array"):
        read_npz(tmp_path / "a.npz")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    for read in (read_npy, read_npz):
        with pytest.raises(StorageError, match="Is a directory"):
            read(tmp_path)


@pytest.mark.filterwarnings("ignore:Reading `.npy` or `.npz` file required additional header parsing:UserWarning")
@given(st.integers(0, 400), st.binary(max_size=6), st.booleans())
def test_damaged_files_end_in_one_kind_of_error(
    tmp_path_factory: pytest.TempPathFactory, place: int, junk: bytes, cut: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    for content, read in ((npy(np.ones((4, 4))), read_npy), (npz(W0=np.ones((4, 4)), b0=np.ones(4)), read_npz)):
        path.write_bytes(content[:place] + junk + (b"" if cut else content[place + len(junk) :]))
        try:
            found = read(path)
        except FormatError as error:
            assert str(path) in str(error)
        else:
            arrays = found.values() if isinstance(found, dict) else [found]
            assert all(np.isfinite(a).all() for a in arrays)
