# SPDX-License-Identifier: Apache-2.0
"""Logical arrays and tasks: the nodes of a task graph."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from syclsched.model.access import Access, AccessMode
from syclsched.model.operation import Operation, Shape, Signature

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
    """

    name: str
    shape: Shape
    dtype: str
    temporary: bool = False

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
        One access per array, merged if the task names an array twice.
    operation : Operation or None
        What it computes; None for a barrier.
    arguments : Mapping[str, str], optional
        Array name by parameter name.
    signature : Signature or None
        Shapes, dtypes and scalars by parameter name.
    priority : int, optional
        Larger runs earlier among equals.
    """

    name: str
    kind: TaskKind
    accesses: tuple[Access, ...] = ()
    operation: Operation | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    signature: Signature | None = None
    priority: int = 0

    @property
    def family(self) -> str:
        """What kind of work it is, for reports: the operation's name, or the task kind."""
        return self.kind if self.operation is None else self.operation.name
