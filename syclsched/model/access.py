# SPDX-License-Identifier: Apache-2.0
"""Access modes of tasks: read, write, update and reduce, of a whole array or of some of its rows."""

from __future__ import annotations

import enum
from dataclasses import dataclass

#: A range of rows along axis 0: first row, and one past the last.
RowRange = tuple[int, int]


class AccessMode(str, enum.Enum):
    """Access mode of a task's array argument, as in StarPU, CUDASTF and Parla.

    ``REDUCE`` accumulates: it reads and writes like ``UPDATE`` and states that the order of consecutive reductions is
    irrelevant. They are still executed in the order of submission, so that results are bit-identical under every
    policy.
    """

    READ = "read"
    WRITE = "write"
    UPDATE = "update"
    REDUCE = "reduce"

    @property
    def reads(self) -> bool:
        """Whether the access needs the old value."""
        return self is not AccessMode.WRITE

    @property
    def writes(self) -> bool:
        """Whether the access produces a new value."""
        return self is not AccessMode.READ

    def merged(self, other: AccessMode) -> AccessMode:
        """Return the mode of one task that accesses an array with both modes.

        Parameters
        ----------
        other : AccessMode
            The second mode.

        Returns
        -------
        AccessMode
            The common mode if both are equal, else ``UPDATE``.
        """
        return self if self is other else AccessMode.UPDATE


@dataclass(frozen=True, slots=True)
class Access:
    """One task's access to one array, or to some of its rows.

    Parameters
    ----------
    array : str
        Name of the logical array.
    mode : AccessMode
        Access mode.
    rows : (int, int) or None, optional
        First row and one past the last; None for the whole array.
    shape : tuple of int or None, optional
        Shape under which the array is passed to a task, if not its own. Only set in arguments of `TaskGraph.kernel` and
        `TaskGraph.host`, never in `Task.accesses`.
    """

    array: str
    mode: AccessMode
    rows: RowRange | None = None
    shape: tuple[int, ...] | None = None


def row_range_name(array: str, rows: RowRange) -> str:
    """Return the name of a range of rows of an array: ``a[0:100]``."""
    return f"{array}[{rows[0]}:{rows[1]}]"
