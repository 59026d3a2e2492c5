# SPDX-License-Identifier: Apache-2.0
"""Input arrays of a run, as C reads them from NumPy's structures (``_submit_arrays.c``)."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

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
        ("index_bytes", ctypes.c_int64),
        ("least", ctypes.c_int64),
        ("extent", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("copy", ctypes.c_void_p),
        ("move", ctypes.c_void_p),
        ("moved", ctypes.c_void_p),
        ("moved_to", ctypes.c_void_p),
    ]


#: The least index and one past the last that an input may have.
IndexRange: TypeAlias = tuple[int, int]
#: Types of the indices that C checks.
INDEX_DTYPES: Final = (np.dtype("int32"), np.dtype("int64"))


class InputArrays:
    """The expected types and shapes of a run's input arrays, for C to check and read them.

    Those of `INDEX_DTYPES` may have ranges of the indices in them, which C checks, too.
    """

    def __init__(
        self,
        wanted: Sequence[tuple[np.dtype[Any], tuple[int, ...]]],
        ranges: Mapping[int, IndexRange] = MappingProxyType({}),
    ) -> None:
        self._shapes = [(ctypes.c_int64 * len(shape))(*shape) for _, shape in wanted]
        self._dtypes = [dtype for dtype, _ in wanted]
        #: One structure for each input array.
        self.structures = (_InputArrayStructure * len(wanted))(
            *[
                _InputArrayStructure(id(np.ndarray), id(dtype), len(shape), ctypes.addressof(held))
                for (dtype, shape), held in zip(wanted, self._shapes, strict=True)
            ]
        )
        for number, (least, extent) in ranges.items():
            structure = self.structures[number]
            structure.index_bytes, structure.least, structure.extent = wanted[number][0].itemsize, least, extent

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
        forms = zip(self.structures, self._shapes, self._dtypes, strict=True)
        samples = tuple(np.full(tuple(shape), given.least, dtype) for given, shape, dtype in forms)
        if not library.look(self.address, len(self), samples):
            return False
        return all(each.ctypes.data == given.data for each, given in zip(samples, self.structures, strict=True))
