# SPDX-License-Identifier: Apache-2.0
"""Logical arrays and tasks: the nodes of a task graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.model.access import Access, AccessMode, RowRange, row_range_name
from syclsched.model.constant import Constant
from syclsched.model.operation import Operation, Shape, Signature
from syclsched.model.text.units import listed
from syclsched.model.usm import UsmKind

#: Accesses that the short form of a task names.
_MOST_SHOWN = 6

TaskKind = Literal["kernel", "copy", "host", "barrier"]


class _Accessible:
    """Base of an array, some of its rows, and another shape of it: makes the accesses of each mode."""

    __slots__ = ()

    _access: Callable[[AccessMode], Access]  # a method of each of them

    def read(self) -> Access:
        """Return a read access."""
        return self._access(AccessMode.READ)

    def write(self) -> Access:
        """Return a write access: the old value is not needed."""
        return self._access(AccessMode.WRITE)

    def update(self) -> Access:
        """Return an update (read and write) access."""
        return self._access(AccessMode.UPDATE)

    def reduce(self) -> Access:
        """Return an accumulating access."""
        return self._access(AccessMode.REDUCE)

    #: Prevents iteration by indexing.
    __iter__ = None


@lru_cache(maxsize=1024)
def _nbytes(shape: Shape, dtype: str) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


@dataclass(frozen=True, slots=True)
class LogicalArray(_Accessible):
    """An array of the graph, independent of the memory spaces that hold copies of it.

    Parameters
    ----------
    name : str
        Unique within the graph.
    shape : tuple of int
        Shape in elements.
    dtype : str
        NumPy dtype name.
    temporary : bool, optional
        True if its value is not needed after the run, so that its memory can be freed early.
    usm : str or None, optional
        Requested kind of USM memory; None if plans choose.
    donated : bool, optional
        True if tasks may overwrite the input's own memory; see `TaskGraph.array`.
    """

    name: str
    shape: Shape
    dtype: str
    temporary: bool = False
    usm: UsmKind | None = None
    donated: bool = False

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return _nbytes(self.shape, self.dtype)

    def _access(self, mode: AccessMode) -> Access:
        return Access(self.name, mode)

    def __getitem__(self, rows: slice) -> ArrayRows:
        """Return a range of rows, to be passed to a task in place of the array: ``a[0:100]``.

        Parameters
        ----------
        rows : slice
            Range along axis 0, with step 1. Negative numbers count from the end, as in NumPy. Unlike in NumPy, a range
            that exceeds the array is not clipped but refused when the task is added.

        Raises
        ------
        ArgumentError
            If it is not a range of rows.
        """
        return ArrayRows(self, *_slice_bounds(rows, self.shape, self.name))

    def reshaped(self, shape: int | Iterable[int]) -> ReshapedArray:
        """Return the same elements under another shape, to be passed to a task: ``a.reshaped((8, -1))``.

        No copy is made. Dependencies are the same as if the array itself were passed.

        Parameters
        ----------
        shape : int or iterable of int
            Extents with the same product; one of them may be -1 and is then inferred.

        Raises
        ------
        ArgumentError
            If the number of elements differs.
        """
        return ReshapedArray(self, _inferred_shape(shape, self.shape, self.name))


@dataclass(frozen=True, slots=True)
class ArrayRows(_Accessible):
    """A range of rows of an array of the graph, passed to a task as a separate array, without a copy.

    Tasks that access disjoint rows of one array do not depend on each other.

    Parameters
    ----------
    array : LogicalArray
        The whole array.
    start, stop : int
        First row and one past the last.
    """

    array: LogicalArray
    start: int
    stop: int

    @property
    def name(self) -> str:
        """Name of the range, such as ``a[0:100]``."""
        return row_range_name(self.array.name, self.rows)

    @property
    def rows(self) -> RowRange:
        """First row and one past the last."""
        return self.start, self.stop

    @property
    def shape(self) -> Shape:
        """Shape in elements."""
        return (self.stop - self.start, *self.array.shape[1:])

    @property
    def dtype(self) -> str:
        """NumPy dtype name."""
        return self.array.dtype

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def _access(self, mode: AccessMode) -> Access:
        return Access(self.array.name, mode, self.rows)

    def __getitem__(self, rows: slice) -> ArrayRows:
        """Return a sub-range of these rows, relative to the first of them; see `LogicalArray`.

        Parameters
        ----------
        rows : slice
            Range along axis 0, with step 1. Negative numbers count from the end of these rows.

        Raises
        ------
        ArgumentError
            If it is not a range of rows, or exceeds these rows.
        """
        start, stop = _slice_bounds(rows, self.shape, self.name)
        extent = self.shape[0]
        if not 0 <= start <= extent or not 0 <= stop <= extent:
            raise ArgumentError(
                f"rows {start}:{stop} are beyond {self.name}, which has {extent} rows",
                where=f"array {self.array.name!r}",
                hint="Ranges are not cut short as in NumPy: give one within these rows, or take it from the array",
            )
        return ArrayRows(self.array, self.start + start, self.start + stop)

    def reshaped(self, shape: int | Iterable[int]) -> ReshapedArray:
        """Raise `ArgumentError`: only whole arrays can be reshaped."""
        raise ArgumentError(
            f"rows of an array cannot be passed under another shape, such as {shape!r}",
            where=f"array {self.array.name!r}",
            hint="Pass the whole array reshaped, or let the task take the rows as they are",
        )


@dataclass(frozen=True, slots=True)
class ReshapedArray(_Accessible):
    """A whole array of the graph, passed to a task under another shape, without a copy.

    Parameters
    ----------
    array : LogicalArray
        The array.
    shape : tuple of int
        The shape seen by the task.
    """

    array: LogicalArray
    shape: Shape

    @property
    def name(self) -> str:
        """Name of the array."""
        return self.array.name

    @property
    def dtype(self) -> str:
        """NumPy dtype name."""
        return self.array.dtype

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.array.nbytes

    def _access(self, mode: AccessMode) -> Access:
        return Access(self.array.name, mode, shape=self.shape)

    def reshaped(self, shape: int | Iterable[int]) -> ReshapedArray:
        """Return the array under another shape; see `LogicalArray.reshaped`."""
        return self.array.reshaped(shape)

    def __getitem__(self, rows: slice) -> ArrayRows:
        """Raise `ArgumentError`: rows can only be taken of the array itself."""
        raise ArgumentError(
            "rows of a reshaped array cannot be passed to a task",
            where=f"array {self.array.name!r}",
            hint="Take rows of the array itself",
        )


def _inferred_shape(shape: int | Iterable[int], own: Shape, name: str) -> Shape:
    """Validate a new shape of an array and infer an extent of -1."""
    try:
        wanted = [operator.index(n) for n in (shape if isinstance(shape, Iterable) else (shape,))]
    except TypeError as error:
        raise ArgumentError(f"{shape!r} is not a shape", where=f"array {name!r}") from error
    count, known = math.prod(own), math.prod(n for n in wanted if n != -1)
    if wanted.count(-1) == 1 and known > 0 and count % known == 0:
        wanted[wanted.index(-1)] = count // known
    if min(wanted, default=0) < 0 or math.prod(wanted) != count:
        raise ArgumentError(
            f"{count} elements of shape {own} cannot be seen as {tuple(wanted)}", where=f"array {name!r}"
        )
    return tuple(wanted)


def _slice_bounds(rows: slice, shape: Shape, name: str) -> RowRange:
    """Return start and stop of a slice; their bounds are checked when the rows are passed to a task."""
    if not isinstance(rows, slice) or rows.step not in (None, 1) or not shape:
        hint = "Only rows that follow each other can be taken, along axis 0: a[0:100], or a[7:8] for one"
        raise ArgumentError(f"{rows!r} is not a range of rows of shape {shape}", where=f"array {name!r}", hint=hint)
    try:
        ends = [None if end is None else operator.index(end) for end in (rows.start, rows.stop)]
    except TypeError as error:
        raise ArgumentError(f"{rows!r} is not a range of whole numbers", where=f"array {name!r}") from error
    start, stop = (default if end is None else end for end, default in zip(ends, (0, shape[0]), strict=True))
    return start + shape[0] * (start < 0), stop + shape[0] * (stop < 0)


@dataclass(frozen=True, slots=True)
class JoinedArray:
    """An array whose rows are stored in other arrays.

    Parameters
    ----------
    whole : LogicalArray
        Name, shape and dtype of the joined array.
    parts : tuple of str
        Names of the arrays that store its rows, in order.
    """

    whole: LogicalArray
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """One node of a task graph.

    Parameters
    ----------
    name : str
        Unique within the graph.
    kind : str
        ``kernel``, ``copy``, ``host`` or ``barrier``.
    accesses : tuple of Access
        One access per array, or per range of its rows; one if the same is passed twice.
    operation : Operation or None
        Its operation; None for a barrier.
    arguments : Mapping[str, str], optional
        Array name by parameter name.
    rows : Mapping[str, (int, int)], optional
        Row range by parameter name, for arguments that are not whole arrays.
    signature : Signature or None
        Shapes, dtypes and scalars by parameter name.
    priority : int, optional
        Tie-breaker: higher priorities run first.
    deadline_s : float or None, optional
        Maximum execution time in seconds; the task fails if it takes longer. Not part of a graph's fingerprint, since
        plans do not depend on it.
    retries : int, optional
        How often it is repeated if it fails; arrays that it updates in place are restored before each retry.
    constants : Mapping[str, Constant], optional
        Constant by parameter name, for arguments that are not arrays of the graph.
    reshaped : frozenset of str, optional
        The parameters whose array is passed under another shape, which is that of the signature.
    """

    name: str
    kind: TaskKind
    accesses: tuple[Access, ...] = ()
    operation: Operation | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    signature: Signature | None = None
    priority: int = 0
    rows: Mapping[str, RowRange] = field(default_factory=dict)
    deadline_s: float | None = None
    retries: int = 0
    constants: Mapping[str, Constant] = field(default_factory=dict)
    reshaped: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        accesses = listed([f"{access.mode.value} {access.array}" for access in self.accesses], _MOST_SHOWN)
        return f"<Task {self.name!r} ({self.family}): {accesses or 'no arrays'}>"

    @property
    def family(self) -> str:
        """Kind of work, for reports: the operation's name, or the task kind."""
        return self.kind if self.operation is None else self.operation.name
