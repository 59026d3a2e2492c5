# SPDX-License-Identifier: Apache-2.0
"""Constants: values that tasks read and nothing ever writes, such as the weights of a model.

A constant is no array of a graph: it causes no dependencies and is copied in no run. Each memory space that needs it
gets it once, in the form its implementations want, and keeps it for as long as something uses it.
"""

from __future__ import annotations

import hashlib
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.model.access import RowRange

_KINDS = frozenset("biufc")
_numbers = count()


class Constant:
    """A value that tasks read and nothing writes; made by `constant`.

    It is equal to itself only: what two tasks share is one object.

    Parameters
    ----------
    data : numpy.ndarray
        C-contiguous, of native byte order, and not written to by anybody from now on.
    name : str, optional
        What it is called in errors and reports.

    Attributes
    ----------
    data : numpy.ndarray
        Its value, read-only.
    shape : tuple of int
        Its extents.
    dtype : str
        NumPy dtype name.
    nbytes : int
        Size in bytes.
    name : str or None
        What it is called.
    number : int
        Nobody else's in this process.
    """

    __slots__ = ("__weakref__", "_digest", "_parts", "data", "dtype", "name", "nbytes", "number", "shape")

    data: np.ndarray[Any, np.dtype[Any]]
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    name: str | None
    number: int
    _digest: str | None
    _parts: WeakValueDictionary[RowRange, Constant]

    def __init__(self, data: np.ndarray[Any, Any], name: str | None = None) -> None:
        view = data.view()
        view.flags.writeable = False
        put = super().__setattr__
        put("data", view)
        put("shape", tuple(view.shape))
        put("dtype", view.dtype.name)
        put("nbytes", int(view.nbytes))
        put("name", name)
        put("number", next(_numbers))
        put("_digest", None)
        put("_parts", WeakValueDictionary())

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a constant's {name} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a constant's {name} cannot be taken away")

    @property
    def digest(self) -> str:
        """A hash of shape, dtype and value: 32 hexadecimal digits, worked out when it is first asked for.

        No part of a graph's fingerprint: plans do not depend on values.
        """
        if self._digest is None:
            seen = hashlib.blake2b(f"{self.shape} {self.dtype} ".encode(), digest_size=16)
            seen.update(self.data.reshape(-1).view(np.uint8).data)
            super().__setattr__("_digest", seen.hexdigest())
            return seen.hexdigest()
        return self._digest

    def part(self, rows: RowRange) -> Constant:
        """Return some rows as a constant of their own, without a copy; the same object for the same rows.

        Parameters
        ----------
        rows : (int, int)
            The first along axis 0 and one past the last.
        """
        start, stop = rows
        if (start, stop) == (0, *self.shape[:1]):
            return self
        found = self._parts.get((start, stop))
        if found is None:
            name = None if self.name is None else f"{self.name}[{start}:{stop}]"
            found = self._parts.setdefault((start, stop), Constant(self.data[start:stop], name))
        return found

    def __repr__(self) -> str:
        name = "" if self.name is None else f" {self.name!r}"
        return f"<Constant{name}: {self.dtype} {self.shape}, {self.nbytes:,} bytes>"


def constant(value: Any, dtype: Any = None, *, name: str | None = None) -> Constant:
    """Return a value as a constant that tasks can be given in the place of an array they read.

    Every call makes a constant of its own: give the same object to all tasks that use the same value, so that devices
    hold it once.

    Parameters
    ----------
    value : array-like
        Numbers of any shape. A C-contiguous NumPy array that cannot be written to is taken as it is, and must not
        change by other ways; anything else is copied.
    dtype : dtype-like, optional
        What it is converted to; by default its own.
    name : str, optional
        What it is called in errors and reports.

    Returns
    -------
    Constant
        For ``graph.kernel(operation, w=...)``.

    Raises
    ------
    ArgumentError
        If it is not made of numbers.

    Examples
    --------
    >>> import syclsched
    >>> weights = syclsched.constant([[1.0, 2.0], [3.0, 4.0]], "float32", name="weights")
    >>> weights
    <Constant 'weights': float32 (2, 2), 16 bytes>
    """
    where = "constant" if name is None else f"constant {name!r}"
    if isinstance(value, Constant):
        value = value.data
    try:
        found = np.asarray(value, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"it cannot be made an array: {error}", where=where) from error
    if found.dtype.kind not in _KINDS:
        raise ArgumentError(
            f"dtype {found.dtype} cannot lie in device memory", where=where, hint="Give numbers or truth values"
        )
    native = found.dtype.newbyteorder("=")
    as_it_is = found.dtype == native and found.flags.c_contiguous and not found.flags.writeable and found is value
    return Constant(found if as_it_is else np.array(found, dtype=native, order="C"), name)
