# SPDX-License-Identifier: Apache-2.0
"""Arrays that C looks at where NumPy has them (``_submit_arrays.c``)."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

#: Sizes of objects, tuples without items, and arrays at least, in a build of Python whose structures C knows.
_OBJECT, _TUPLE, _ARRAY = 16, 24, 80


class Given(ctypes.Structure):
    """``struct given`` of ``_submit.h``."""

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


class GivenArrays:
    """What C has to know of arrays that runs are given."""

    def __init__(self, wanted: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> None:
        self._shapes = [(ctypes.c_int64 * len(shape))(*shape) for _, shape in wanted]
        self._dtypes = [dtype for dtype, _ in wanted]
        #: One for each.
        self.structures = (Given * len(wanted))(
            *[
                Given(id(np.ndarray), id(dtype), len(shape), ctypes.addressof(held))
                for (dtype, shape), held in zip(wanted, self._shapes, strict=True)
            ]
        )

    def __len__(self) -> int:
        """How many there are."""
        return len(self._dtypes)

    @property
    def address(self) -> int:
        """Where C finds the structures."""
        return ctypes.addressof(self.structures)

    def are_seen_in(self, library: Any) -> bool:
        """Return whether C sees such arrays as NumPy does, found out by some."""
        sizes = object.__basicsize__, tuple.__basicsize__
        if sys.implementation.name != "cpython" or sizes != (_OBJECT, _TUPLE) or np.ndarray.__basicsize__ < _ARRAY:
            return False
        tried = tuple(np.empty(tuple(shape), dtype) for shape, dtype in zip(self._shapes, self._dtypes, strict=True))
        if not library.look(self.address, len(self), tried):
            return False
        return all(each.ctypes.data == given.data for each, given in zip(tried, self.structures, strict=True))
