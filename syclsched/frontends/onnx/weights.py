# SPDX-License-Identifier: Apache-2.0
"""Constants for task graphs: one object for equal weights, so that devices hold those of one model once.

A model is imported again for every set of input shapes, and its graphs must not each bring weights of their own.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from syclsched.frontends.onnx.stored import place_of
from syclsched.model.constant import Constant

#: By the identity of the array, which a constant keeps alive.
_BY_ARRAY: Final[WeakValueDictionary[int, Constant]] = WeakValueDictionary()
#: By where it is mapped, which a constant keeps so.
_BY_PLACE: Final[WeakValueDictionary[tuple[Any, ...], Constant]] = WeakValueDictionary()
#: By what is in it, for those that are computed anew whenever a model is imported.
_BY_VALUE: Final[WeakValueDictionary[str, Constant]] = WeakValueDictionary()


def shared_constant(array: np.ndarray[Any, Any], name: str | None = None) -> Constant:
    """Return a constant of an array's value; the same object for the same array, or one of equal value."""
    place = place_of(array) if array.flags.c_contiguous else None
    if place is not None:
        file, offset = place
        key = (array.ctypes.data, array.shape, array.dtype)
        found = _BY_PLACE.get(key)
        if found is None:
            found = _BY_PLACE[key] = Constant(array, name, partial(file.load, offset, array.dtype, array.shape))
        return found
    found = _BY_ARRAY.get(id(array))
    if found is not None and found.is_of(array):
        return found
    whole = array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape)
    # In bytes of the caller's, numbers may lie where kernels cannot read them.
    made = Constant(whole, name, None if whole.flags.aligned else partial(np.array, whole, order="C"))
    # Small ones, too: a weight is packed together with its bias, and packed again if only that is another object.
    if not _was_read(whole):
        equal = _BY_VALUE.setdefault(made.digest, made)
        if equal is not made:
            return equal
    _BY_ARRAY[id(array)] = made
    return made


def _was_read(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array is a view of what was read: then it is the same one whenever the model is imported."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return not isinstance(base, np.ndarray)
