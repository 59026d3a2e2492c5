# SPDX-License-Identifier: Apache-2.0
"""The accesses of all tasks of a graph as columns, from which its structure is derived without a loop over tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from syclsched.model.access import MODE_CODE, MODES, Access

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: Whether each mode needs the old value, and whether it produces a new one.
READS: Final = np.array([mode.reads for mode in MODES])
WRITES: Final = np.array([mode.writes for mode in MODES])

_ARRAY, _MODE = attrgetter("array"), attrgetter("mode")


class AccessColumns(NamedTuple):
    """Accesses, task after task; a task accesses an array, or a segment, at most once."""

    names: tuple[str, ...]  # the arrays and segments that are accessed, in order of first access by submission
    starts: Ints  # ragged: the accesses of each task
    array: Ints  # index into ``names``
    mode: NDArray[np.uint8]  # index into `MODES`

    def tasks(self) -> Ints:
        """Return the task of each access."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def ordered(self, order: Ints) -> AccessColumns:
        """Return the columns with the tasks in another order."""
        if np.array_equal(order, np.arange(len(self.starts) - 1)):
            return self
        length = np.diff(self.starts)[order]
        starts = _starts(length)
        places = np.arange(starts[-1]) + np.repeat(self.starts[order] - starts[:-1], length)
        return AccessColumns(self.names, starts, self.array[places], self.mode[places])


def access_columns(touched: Sequence[Sequence[Access]]) -> AccessColumns:
    """Return the accesses of each task as columns."""
    flat = list(chain.from_iterable(touched))
    names = list(map(_ARRAY, flat))
    number = {name: n for n, name in enumerate(dict.fromkeys(names))}
    return AccessColumns(
        tuple(number),
        _starts(np.fromiter(map(len, touched), np.int64, len(touched))),
        np.fromiter(map(number.__getitem__, names), np.int64, len(flat)),
        np.fromiter(map(MODE_CODE.__getitem__, map(id, map(_MODE, flat))), np.uint8, len(flat)),
    )


def _starts(length: Ints) -> Ints:
    """Return the start offset of each row in a flat array, and the end of the last."""
    starts = np.zeros(len(length) + 1, np.int64)
    np.cumsum(length, out=starts[1:])
    return starts
