# SPDX-License-Identifier: Apache-2.0
"""Reader of the user's NumPy files; pickled objects are refused."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from syclsched.errors import FormatError, StorageError
from syclsched.workloads.base import Array

#: Exceptions of NumPy and zipfile for malformed files.
_MALFORMED = (
    ValueError,
    EOFError,
    KeyError,
    TypeError,
    MemoryError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    # NumPy tokenises an unusual header and parses it as Python 2 literals.
    tokenize.TokenError,
    SyntaxError,
)


def read_npy(path: str | Path) -> Array:
    """Read a ``.npy`` file of real floating-point numbers."""
    where = str(path)
    with _file_errors(where):
        if not _has_magic(path, b"\x93NUMPY"):
            raise FormatError("this is not a .npy file", where=where, hint="Write it with numpy.save")
        mapped = _mapped(path)
    return _real_numbers(mapped, where)


def read_npz(path: str | Path) -> dict[str, Array]:
    """Read a ``.npz`` file of real floating-point arrays."""
    where = str(path)
    with _file_errors(where):
        if not _has_magic(path, b"PK"):
            raise FormatError("this is not a .npz file", where=where, hint="Write it with numpy.savez")
        loaded = _members(path)
    for key, value in loaded.items():
        if not isinstance(value, np.ndarray):
            raise FormatError("this member is not an array", where=f"{where}, {key}", hint="Write it with numpy.savez")
    return {key: _real_numbers(value, f"{where}, {key}") for key, value in loaded.items()}


def read_arrays(path: str | Path) -> dict[str | None, Array]:
    """Read a ``.npy`` or ``.npz`` file of numbers or booleans of any dtype, or of text."""
    where = str(path)
    with _file_errors(where):
        if _has_magic(path, b"\x93NUMPY"):
            loaded: dict[str | None, Any] = {None: _mapped(path)}
        elif _has_magic(path, b"PK"):
            loaded = dict(_members(path).items())
        else:
            hint = "Write it with numpy.save or numpy.savez"
            raise FormatError("this is neither a .npy nor a .npz file", where=where, hint=hint)
    for key, value in loaded.items():
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufU":
            place = where if key is None else f"{where}, {key}"
            raise FormatError("this is no array of numbers or text", where=place, hint="Convert it with astype")
    return {key: np.array(value, dtype=value.dtype.newbyteorder("="), order="C") for key, value in loaded.items()}


@contextmanager
def _file_errors(where: str) -> Iterator[None]:
    """Convert errors of unreadable and damaged files."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot read the file: {error.strerror or error}", where=where) from error
    except _MALFORMED as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormatError(f"the file is damaged or holds something else than numbers: {said}", where=where) from error


def _mapped(path: str | Path) -> Any:
    # Mapped, so that a header with a size beyond the file's is detected before memory is allocated.
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _members(path: str | Path) -> dict[str, Any]:
    # Opened here, because numpy.load does not close a damaged archive.
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def _real_numbers(array: Array, where: str) -> Array:
    """Return a contiguous native float32 or float64 array; raise `FormatError` for other or non-finite numbers."""
    if array.dtype.name not in ("float32", "float64"):
        raise FormatError(
            f"expected float32 or float64 numbers, found {array.dtype.name}", where=where, hint="Convert it with astype"
        )
    numbers: Array = np.array(array, dtype=np.dtype(array.dtype.name), order="C", subok=False)
    finite = np.isfinite(numbers)
    if not finite.all():
        place = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise FormatError(f"element {list(place)} is {numbers[place]}, not a finite number", where=where)
    return numbers


def _has_magic(path: str | Path, magic: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read(len(magic)) == magic
