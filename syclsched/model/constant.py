# SPDX-License-Identifier: Apache-2.0
"""Constants: read-only values shared by tasks, such as the weights of a model.

A constant is not an array of a graph: it causes no dependencies and no run copies it. Each memory space that needs it
receives it once, in the layout its implementations want, and keeps it as long as it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final
from weakref import WeakValueDictionary, ref

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.model.access import RowRange

Array = np.ndarray[Any, np.dtype[Any]]

_KINDS = frozenset("biufc")
_numbers = count()
_PIECE_BYTES: Final = 1 << 18
_ALL_BITS: Final = (1 << 64) - 1


class Constant:
    """A read-only value for tasks; made by `constant`.

    Constants compare by identity: tasks share a value by sharing one object.

    Parameters
    ----------
    data : numpy.ndarray
        C-contiguous, of native byte order; must not be modified any more.
    name : str, optional
        Name in errors and reports.
    read : callable, optional
        Returns a copy of the value in new memory. Given if ``data`` is a view of a mapped file, which is then never
        handed out.

    Attributes
    ----------
    shape : tuple of int
        Shape in elements.
    dtype : str
        NumPy dtype name.
    nbytes : int
        Size in bytes.
    name : str or None
        Name in errors and reports.
    number : int
        Identifier, unique in this process.

    Examples
    --------
    >>> import numpy as np
    >>> import syclsched
    >>> weights = syclsched.constant(np.eye(3), name="weights")
    >>> weights.shape, weights.dtype, weights.nbytes
    ((3, 3), 'float64', 72)
    """

    __slots__ = (
        "__weakref__", "_array", "_digest", "_lent", "_read", "_views", "_whole", "dtype", "name", "nbytes", "number",
        "shape",
    )  # fmt: skip

    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    name: str | None
    number: int
    _array: Array | None
    _read: Callable[[], Array] | None
    _lent: ref[Array] | None
    _digest: str | None
    #: Parts of it and the value under other shapes, with their names; and the constant of which it is such a view.
    _views: WeakValueDictionary[tuple[Callable[[Array], Array], str | None], Constant]
    _whole: Constant | None

    def __init__(self, data: Array, name: str | None = None, read: Callable[[], Array] | None = None) -> None:
        view = data.view()
        view.flags.writeable = False
        put = super().__setattr__
        put("_array", view)
        put("_read", read)
        put("_lent", None)
        put("shape", tuple(view.shape))
        put("dtype", view.dtype.name)
        put("nbytes", int(view.nbytes))
        put("name", name)
        put("number", next(_numbers))
        put("_digest", None)
        put("_views", WeakValueDictionary())
        put("_whole", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a constant's {name} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a constant's {name} cannot be taken away")

    @property
    def data(self) -> Array:
        """The value, as a read-only array; read again if it was evicted, and then kept only while referenced.

        Raises
        ------
        StorageError
            If it must be read from a file that has changed.
        """
        while True:
            array, read = self._array, self._read  # in this order: see `evict` and `restore`
            if read is None:
                if array is None:  # another thread has just restored the value
                    continue
                return array
            lent = None if self._lent is None else self._lent()
            if lent is None:
                lent = read()
                lent.flags.writeable = False
                super().__setattr__("_lent", ref(lent))
            return lent

    @property
    def host_bytes(self) -> int:
        """Bytes of host memory that the value takes at the moment; 0 if it is in a file or evicted."""
        if self._read is None or (self._lent is not None and self._lent() is not None):
            return self.nbytes
        return 0

    @property
    def is_host_resident(self) -> bool:
        """Whether the value stays in host memory for the life of the constant."""
        return self._read is None

    @property
    def has_digest(self) -> bool:
        """Whether the digest has been computed."""
        return self._digest is not None

    def evict(self, read: Callable[[], Array]) -> None:
        """Drop the value from host memory, and that of its parts.

        Parameters
        ----------
        read : callable
            Returns the bit-identical value again when it is needed.
        """
        put = super().__setattr__
        put("_read", read)
        put("_array", None)
        for (view, _), part in list(self._views.items()):
            part.evict(partial(_viewed, self, view))

    def restore(self, value: Array) -> None:
        """Keep the value in host memory again."""
        view = value.view()
        view.flags.writeable = False
        put = super().__setattr__
        put("_array", view)
        put("_read", None)

    def is_of(self, array: Array) -> bool:
        """Return whether an array is the same memory (or part of a mapped file) that the constant was made of."""
        mine = self._array
        return (
            mine is not None
            and mine.ctypes.data == array.ctypes.data
            and mine.shape == array.shape
            and mine.dtype == array.dtype
        )

    @property
    def digest(self) -> str:
        """Hash of shape, dtype and value: 16 hexadecimal digits, computed on first use, which differ between processes.

        Not part of a graph's fingerprint, since plans do not depend on values.
        """
        if self._digest is None:
            super().__setattr__("_digest", digest_of(self.data))
            assert self._digest is not None
        return self._digest

    def part(self, rows: RowRange) -> Constant:
        """Return a range of rows as a separate constant, without a copy; always the same object for one range.

        Parameters
        ----------
        rows : (int, int)
            First row along axis 0, and one past the last.
        """
        start, stop = rows
        if (start, stop) == (0, *self.shape[:1]):
            return self
        name = None if self.name is None else f"{self.name}[{start}:{stop}]"
        return self._view(_Rows(start, stop), name)

    def reshaped(self, shape: tuple[int, ...], name: str | None = None) -> Constant:
        """Return the value under another shape as a separate constant, without a copy; always the same object."""
        return self._view(_Reshaped(shape), name)

    def _view(self, view: Callable[[Array], Array], name: str | None) -> Constant:
        found = self._views.get((view, name))
        if found is None:
            made = self._of(view, name)
            object.__setattr__(made, "_whole", self)  # a view is found for as long as it is used
            found = self._views.setdefault((view, name), made)
        return found

    def _of(self, view: Callable[[Array], Array], name: str | None) -> Constant:
        array, read = self._array, self._read
        if array is not None:
            return Constant(view(array), name, None if read is None else partial(_viewed, self, view))
        placeholder = np.broadcast_to(np.zeros((), self.dtype), self.shape)  # has the shape, but takes no memory
        made = Constant(view(placeholder), name)
        made.evict(partial(_viewed, self, view))
        return made

    def __repr__(self) -> str:
        name = "" if self.name is None else f" {self.name!r}"
        return f"<Constant{name}: {self.dtype} {self.shape}, {self.nbytes:,} bytes>"


def digest_of(array: Array) -> str:
    """Return the `Constant.digest` of a C-contiguous array."""
    seen = array.reshape(-1).view(np.uint8).data
    # Python's own hash takes a quarter of the time of hashlib's fastest one, copies into a cache included.
    pieces = (hash(bytes(seen[start : start + _PIECE_BYTES])) for start in range(0, len(seen), _PIECE_BYTES))
    return f"{hash((array.shape, array.dtype.name, *pieces)) & _ALL_BITS:016x}"


@dataclass(frozen=True, slots=True)
class _Rows:
    """A range of rows of a value."""

    start: int
    stop: int

    def __call__(self, whole: Array) -> Array:
        return whole[self.start : self.stop]


@dataclass(frozen=True, slots=True)
class _Reshaped:
    """A value under another shape."""

    shape: tuple[int, ...]

    def __call__(self, whole: Array) -> Array:
        return whole.reshape(self.shape)


def _viewed(whole: Constant, view: Callable[[Array], Array]) -> Array:
    return view(whole.data)


def constant(value: Any, dtype: Any = None, *, name: str | None = None) -> Constant:
    """Make a constant, which can be passed to tasks in place of an array that they only read.

    Every call makes a new constant. Pass the same object to all tasks that use the same value, so that each device
    holds it once.

    Parameters
    ----------
    value : array-like
        Numbers of any shape. A C-contiguous, read-only NumPy array is used without a copy and must not be modified by
        other references; anything else is copied.
    dtype : dtype-like, optional
        Element type to convert to; by default the value's own.
    name : str, optional
        Name in errors and reports.

    Returns
    -------
    Constant
        Argument for ``graph.kernel(operation, w=...)``.

    Raises
    ------
    ArgumentError
        If the value is not numeric.

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
