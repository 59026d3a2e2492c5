# SPDX-License-Identifier: Apache-2.0
"""Deduplicated constants for task graphs: equal weights share one object, and devices hold them once.

A model is imported once per set of input shapes; all its graphs must share the weights.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from syclsched.frontends.onnx.model_file.mapped_files import mapped_location
from syclsched.model.constant import Constant

#: By address: each import may make views of its own; the constant keeps the memory alive.
_BY_ADDRESS: Final[WeakValueDictionary[tuple[Any, ...], Constant]] = WeakValueDictionary()
#: By address in a mapped file; the constant keeps the mapping alive.
_BY_PLACE: Final[WeakValueDictionary[tuple[Any, ...], Constant]] = WeakValueDictionary()
#: By content, for arrays that are computed at each import.
_BY_VALUE: Final[WeakValueDictionary[str, Constant]] = WeakValueDictionary()


def shared_constant(array: np.ndarray[Any, Any], name: str | None = None) -> Constant:
    """Return a constant for an array; the same object for the same array or an equal value."""
    place = mapped_location(array) if array.flags.c_contiguous else None
    key = (array.ctypes.data, array.shape, array.strides, array.dtype)
    if place is not None:
        file, offset = place
        found = _BY_PLACE.get(key)
        if found is None:
            found = _BY_PLACE[key] = Constant(array, name, partial(file.load, offset, array.dtype, array.shape))
        return found
    found = _BY_ADDRESS.get(key)
    if found is not None and found.is_of(array):
        return found
    whole = array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape)
    # Numbers in the caller's bytes may not be aligned, and kernels need aligned data.
    made = Constant(whole, name, None if whole.flags.aligned else partial(np.array, whole, order="C"))
    # Small arrays, too: a weight is packed with its bias, and would be packed again for another bias object.
    if not _was_read(whole):
        equal = _BY_VALUE.setdefault(made.digest, made)
        if equal is not made:
            return equal
    _BY_ADDRESS[key] = made
    return made


def _was_read(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array is a view of data that were read, and so the same object at each import."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return not isinstance(base, np.ndarray)
