# SPDX-License-Identifier: Apache-2.0
"""Logical arrays and tasks: the nodes of a task graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.model.access import Access, AccessMode, RowRange, rows_name
from syclsched.model.constant import Constant
from syclsched.model.operation import Operation, Shape, Signature
from syclsched.model.usm import UsmKind

TaskKind = Literal["kernel", "copy", "host", "barrier"]


@dataclass(frozen=True, slots=True)
class LogicalArray:
    """An array of the graph, wherever its copies may lie.

    Parameters
    ----------
    name : str
        Unique within the graph.
    shape : tuple of int
        Shape in elements.
    dtype : str
        NumPy dtype name.
    temporary : bool, optional
        True if no one asks for its value after the run, so that its memory can be given back early.
    usm : str or None, optional
        The kind of USM memory it is to lie in; None if plans choose.
    """

    name: str
    shape: Shape
    dtype: str
    temporary: bool = False
    usm: UsmKind | None = None

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def read(self) -> Access:
        """Return a read access."""
        return Access(self.name, AccessMode.READ)

    def write(self) -> Access:
        """Return a write access: the old value is not needed."""
        return Access(self.name, AccessMode.WRITE)

    def update(self) -> Access:
        """Return an update (read and write) access."""
        return Access(self.name, AccessMode.UPDATE)

    def reduce(self) -> Access:
        """Return an accumulating access."""
        return Access(self.name, AccessMode.REDUCE)

    def __getitem__(self, rows: slice) -> ArrayRows:
        """Return some rows, to be passed to a task instead of the whole: ``a[0:100]``.

        Parameters
        ----------
        rows : slice
            Along axis 0, with step 1. Negative numbers count from the end, as in NumPy; but a range that goes beyond
            the array is refused when the task is added, and not cut short.

        Raises
        ------
        ArgumentError
            If it is not a range of rows.
        """
        return ArrayRows(self, *_ends(rows, self.shape, self.name))

    def reshaped(self, shape: int | Iterable[int]) -> ReshapedArray:
        """Return the same elements under another shape, to be passed to a task: ``a.reshaped((8, -1))``.

        No copy is made, and tasks depend on each other as if they had been passed the array itself.

        Parameters
        ----------
        shape : int or iterable of int
            Extents with the same product; one of them may be -1, which is then worked out.

        Raises
        ------
        ArgumentError
            If there are not so many elements.
        """
        return ReshapedArray(self, _fitting(shape, self.shape, self.name))

    #: Else Python would take the indexing for iteration.
    __iter__ = None


@dataclass(frozen=True, slots=True)
class ArrayRows:
    """Some rows of an array of the graph, as a task is given them: an array of their own, without a copy.

    Tasks that touch disjoint rows of one array do not depend on each other.

    Parameters
    ----------
    array : LogicalArray
        The whole.
    start, stop : int
        First row and one past the last.
    """

    array: LogicalArray
    start: int
    stop: int

    @property
    def name(self) -> str:
        """``a[0:100]``."""
        return rows_name(self.array.name, self.rows)

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

    def read(self) -> Access:
        """Return a read access."""
        return Access(self.array.name, AccessMode.READ, self.rows)

    def write(self) -> Access:
        """Return a write access: the old value of these rows is not needed."""
        return Access(self.array.name, AccessMode.WRITE, self.rows)

    def update(self) -> Access:
        """Return an update (read and write) access."""
        return Access(self.array.name, AccessMode.UPDATE, self.rows)

    def reduce(self) -> Access:
        """Return an accumulating access."""
        return Access(self.array.name, AccessMode.REDUCE, self.rows)

    def __getitem__(self, rows: slice) -> ArrayRows:
        """Return some of these rows, counted from the first of them; see `LogicalArray`.

        Parameters
        ----------
        rows : slice
            Along axis 0, with step 1. Negative numbers count from the end of these rows.

        Raises
        ------
        ArgumentError
            If it is not a range of rows, or goes beyond these.
        """
        start, stop = _ends(rows, self.shape, self.name)
        extent = self.shape[0]
        if not 0 <= start <= extent or not 0 <= stop <= extent:
            raise ArgumentError(
                f"rows {start}:{stop} are beyond {self.name}, which has {extent} rows",
                where=f"array {self.array.name!r}",
                hint="Ranges are not cut short as in NumPy: give one within these rows, or take it from the array",
            )
        return ArrayRows(self.array, self.start + start, self.start + stop)

    def reshaped(self, shape: int | Iterable[int]) -> ReshapedArray:
        """Refuse: only whole arrays can be passed under another shape."""
        raise ArgumentError(
            f"rows of an array cannot be passed under another shape, such as {shape!r}",
            where=f"array {self.array.name!r}",
            hint="Pass the whole array reshaped, or let the task take the rows as they are",
        )

    #: Else Python would take the indexing for iteration.
    __iter__ = None


@dataclass(frozen=True, slots=True)
class ReshapedArray:
    """A whole array of the graph under another shape, as a task is given it: the same elements, without a copy.

    Parameters
    ----------
    array : LogicalArray
        Whose elements they are.
    shape : tuple of int
        The shape under which the task sees them.
    """

    array: LogicalArray
    shape: Shape

    @property
    def name(self) -> str:
        """The array's."""
        return self.array.name

    @property
    def dtype(self) -> str:
        """NumPy dtype name."""
        return self.array.dtype

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.array.nbytes

    def read(self) -> Access:
        """Return a read access."""
        return Access(self.array.name, AccessMode.READ, shape=self.shape)

    def write(self) -> Access:
        """Return a write access: the old value is not needed."""
        return Access(self.array.name, AccessMode.WRITE, shape=self.shape)

    def update(self) -> Access:
        """Return an update (read and write) access."""
        return Access(self.array.name, AccessMode.UPDATE, shape=self.shape)

    def reduce(self) -> Access:
        """Return an accumulating access."""
        return Access(self.array.name, AccessMode.REDUCE, shape=self.shape)

    def reshaped(self, shape: int | Iterable[int]) -> ReshapedArray:
        """Return the same elements under yet another shape; see `LogicalArray.reshaped`."""
        return self.array.reshaped(shape)

    def __getitem__(self, rows: slice) -> ArrayRows:
        """Refuse: rows are taken of an array as it is."""
        raise ArgumentError(
            "rows of a reshaped array cannot be passed to a task",
            where=f"array {self.array.name!r}",
            hint="Take rows of the array itself",
        )

    #: Else Python would take the indexing for iteration.
    __iter__ = None


def _fitting(shape: int | Iterable[int], own: Shape, name: str) -> Shape:
    """Return a shape of as many elements as another, with what is to be worked out of it."""
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


def _ends(rows: slice, shape: Shape, name: str) -> RowRange:
    """Return the ends of a range of rows; whether there are such rows is checked when it is passed to a task."""
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
class Joined:
    """An array whose rows are held by other arrays.

    Parameters
    ----------
    whole : LogicalArray
        Its name, shape and dtype.
    parts : tuple of str
        The arrays that hold its rows, in order.
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
        One access per array, or per range of its rows; once if it is passed twice.
    operation : Operation or None
        What it computes; None for a barrier.
    arguments : Mapping[str, str], optional
        Array name by parameter name.
    rows : Mapping[str, (int, int)], optional
        By parameter name, the rows of its array that are passed, for those that are not given the whole.
    signature : Signature or None
        Shapes, dtypes and scalars by parameter name.
    priority : int, optional
        Larger runs earlier among equals.
    deadline_s : float or None, optional
        Seconds it may run; it fails if it takes longer. No part of a graph's fingerprint: plans do not depend on it.
    retries : int, optional
        How often it is tried again if it fails by itself: what it writes in place has its old value then.
    constants : Mapping[str, Constant], optional
        By parameter name, for those that are given a constant instead of an array.
    reshaped : frozenset of str, optional
        The parameters whose array is passed under another shape than its own: that of the signature.
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

    @property
    def family(self) -> str:
        """What kind of work it is, for reports: the operation's name, or the task kind."""
        return self.kind if self.operation is None else self.operation.name
