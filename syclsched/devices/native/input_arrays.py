# SPDX-License-Identifier: Apache-2.0
"""Input arrays of a run, as C reads them from NumPy's structures (``_submit_arrays.c``)."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from syclsched.devices.native.submission_library import SubmissionLibrary

#: Bytes of an object, and the least of an array, in the CPython layout that the C code assumes.
_OBJECT, _ARRAY = 16, 80


class _InputArrayStructure(ctypes.Structure):
    """``struct given`` of ``_submit.h``: the expected form of one input array, and where C found its data."""

    _fields_ = [
        ("type", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("dimensions", ctypes.c_int64),
        ("shape", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("copy", ctypes.c_void_p),
        ("move", ctypes.c_void_p),
        ("moved", ctypes.c_void_p),
        ("moved_to", ctypes.c_void_p),
    ]


class InputArrays:
    """The expected types and shapes of a run's input arrays, for C to check and read them."""

    def __init__(self, wanted: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> None:
        self._shapes = [(ctypes.c_int64 * len(shape))(*shape) for _, shape in wanted]
        self._dtypes = [dtype for dtype, _ in wanted]
        #: One structure for each input array.
        self.structures = (_InputArrayStructure * len(wanted))(
            *[
                _InputArrayStructure(id(np.ndarray), id(dtype), len(shape), ctypes.addressof(held))
                for (dtype, shape), held in zip(wanted, self._shapes, strict=True)
            ]
        )

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._dtypes)

    @property
    def address(self) -> int:
        """Address of the first structure."""
        return ctypes.addressof(self.structures)

    def layout_matches(self, library: SubmissionLibrary) -> bool:
        """Return whether C reads the same data addresses as NumPy reports, tried on newly made arrays."""
        sizes_are_right = object.__basicsize__ == _OBJECT and np.ndarray.__basicsize__ >= _ARRAY
        if sys.implementation.name != "cpython" or not sizes_are_right:
            return False
        samples = tuple(np.empty(tuple(shape), dtype) for shape, dtype in zip(self._shapes, self._dtypes, strict=True))
        if not library.look(self.address, len(self), samples):
            return False
        return all(each.ctypes.data == given.data for each, given in zip(samples, self.structures, strict=True))
