# SPDX-License-Identifier: Apache-2.0
"""How a task touches an array."""

from __future__ import annotations

import enum
from dataclasses import dataclass

#: Some rows of an array: the first along axis 0, and one past the last.
RowRange = tuple[int, int]


class AccessMode(str, enum.Enum):
    """How a task touches an array, as in StarPU, CUDASTF and Parla.

    ``REDUCE`` accumulates: it reads and writes like ``UPDATE`` and says that the order among
    neighbouring reductions has no meaning. They keep the order of submission all the same, so that
    results are bit-identical whatever the policy.
    """

    READ = "read"
    WRITE = "write"
    UPDATE = "update"
    REDUCE = "reduce"

    @property
    def reads(self) -> bool:
        """Whether the old value is needed."""
        return self is not AccessMode.WRITE

    @property
    def writes(self) -> bool:
        """Whether a new value is made."""
        return self is not AccessMode.READ

    def merged(self, other: AccessMode) -> AccessMode:
        """Return the mode of one task that touches the same array in both ways.

        Parameters
        ----------
        other : AccessMode
            The second way.

        Returns
        -------
        AccessMode
            The same mode if both agree, else the one that allows both.
        """
        return self if self is other else AccessMode.UPDATE


@dataclass(frozen=True, slots=True)
class Access:
    """One task's access to one array, or to some rows of one.

    Parameters
    ----------
    array : str
        Name of the logical array.
    mode : AccessMode
        How it is touched.
    rows : (int, int) or None, optional
        The rows it is about; None for the whole array.
    shape : tuple of int or None, optional
        The shape under which a task is passed the array, where that is not its own; only on the way to a task, whose
        accesses do not say so.
    """

    array: str
    mode: AccessMode
    rows: RowRange | None = None
    shape: tuple[int, ...] | None = None


def rows_name(array: str, rows: RowRange) -> str:
    """Return how some rows of an array are called everywhere: ``a[0:100]``."""
    return f"{array}[{rows[0]}:{rows[1]}]"
