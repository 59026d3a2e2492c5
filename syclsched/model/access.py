# SPDX-License-Identifier: Apache-2.0
"""Access modes of tasks: read, write, update and reduce, of a whole array or of some of its rows."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

#: A range of rows along axis 0: first row, and one past the last.
RowRange = tuple[int, int]


class AccessMode(str, enum.Enum):
    """Access mode of a task's array argument, as in StarPU, CUDASTF and Parla.

    ``REDUCE`` accumulates: it reads and writes like ``UPDATE`` and states that the order of consecutive reductions is
    irrelevant. They are still executed in the order of submission, so that results are bit-identical under every
    policy.

    Examples
    --------
    >>> import syclsched
    >>> syclsched.AccessMode("update").reads, syclsched.AccessMode.WRITE.reads
    (True, False)
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


#: The modes in the order of their codes, and the codes by identity: enum members are slow to hash.
MODES: Final = tuple(AccessMode)
MODE_CODE: Final[dict[int, int]] = {id(mode): code for code, mode in enumerate(MODES)}


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


def merge_range_names(names: Iterable[str]) -> list[str]:
    """Return names of arrays and ranges of rows, with ranges that follow each other merged: ``a[0:1], a[1:5], b``."""
    found: list[str] = []
    before: tuple[str, int, int] | None = None
    for name in names:
        parts = _RANGE_NAME.fullmatch(name)
        mine = None if parts is None else (parts[1], int(parts[2]), int(parts[3]))
        if mine is not None and before is not None and before[::2] == mine[:2]:
            mine = (mine[0], before[1], mine[2])
            found.pop()
        found.append(name if mine is None else row_range_name(mine[0], mine[1:]))
        before = mine
    return found


_RANGE_NAME = re.compile(r"(.+)\[(\d+):(\d+)\]", re.DOTALL)
