# SPDX-License-Identifier: Apache-2.0
"""Constants for task graphs: one object for equal weights, so that devices hold those of one model once.

A model is imported again for every set of input shapes, and its graphs must not each bring weights of their own.
"""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from syclsched.model.constant import Constant

#: By the identity of the array, which a constant keeps alive.
_BY_ARRAY: Final[WeakValueDictionary[int, Constant]] = WeakValueDictionary()
#: By what is in it, for those that are computed anew whenever a model is imported.
_BY_VALUE: Final[WeakValueDictionary[str, Constant]] = WeakValueDictionary()


def shared_constant(array: np.ndarray[Any, Any], name: str | None = None) -> Constant:
    """Return a constant of an array's value; the same object for the same array, or one of equal value.

    Parameters
    ----------
    array : numpy.ndarray
        Not written to by anybody from now on.
    name : str, optional
        What a new one is called.

    Returns
    -------
    Constant
        Of the array itself where it is C-contiguous.
    """
    found = _BY_ARRAY.get(id(array))
    if found is not None and _same(found.data, array):
        return found
    whole = array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape)
    made = Constant(whole, name)
    # Small ones, too: a weight is packed together with its bias, and packed again if only that is another object.
    if not _is_in_a_file(array):
        equal = _BY_VALUE.setdefault(made.digest, made)
        if equal is not made:
            return equal
    _BY_ARRAY[id(array)] = made
    return made


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return one.ctypes.data == other.ctypes.data and one.shape == other.shape and one.dtype == other.dtype


def _is_in_a_file(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array is a view of what was read: then it is the same one whenever the model is imported."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return not isinstance(base, np.ndarray)
