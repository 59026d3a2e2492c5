# SPDX-License-Identifier: Apache-2.0
"""Steps: instructions in the making, in the plan's global order, before they are numbered and wait."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from syclsched.model.access import AccessMode
from syclsched.model.plan import InstructionKind, LaneKind

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: An array's copy in one memory space: (array, space).
Buffer = tuple[str, str]


class LaneKey(NamedTuple):
    """Which lane: device, kind and number."""

    device: str
    kind: LaneKind
    number: int = 0

    @property
    def name(self) -> str:
        """The lane's name in a plan: ``cpu:0``, ``cpu:copy``."""
        return f"{self.device}:{'copy' if self.kind == 'copy' else self.number}"


class Step(NamedTuple):
    """One instruction before it has a number and waits.

    Parameters
    ----------
    kind, task, implementation, duration_s, nbytes, again
        As in `Instruction`.
    lane : int
        Index of its lane in `Draft.lanes`.
    modes : bytes
        For each use, how it touches what it touches: index into `MODES`.
    blocks : tuple of int
        For each use, the block of memory it touches: index into `Draft.blocks`.
    """

    kind: InstructionKind
    lane: int
    task: str | None
    modes: bytes = b""
    blocks: tuple[int, ...] = ()
    implementation: str | None = None
    duration_s: float = 0.0
    nbytes: int = 0
    again: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """Steps in global order, and the memory they touch.

    Parameters
    ----------
    steps : tuple of Step
        In global order.
    lanes : tuple of LaneKey
        By lane index.
    blocks : tuple of (str, str)
        Buffer by block index. A block is one stay of an array in a space, from its allocation until it is freed; a
        buffer that was evicted and comes back is another block of the same array and space. Segments of an array have
        blocks of their own.
    memory : tuple of (str, str)
        Buffer by memory index: that of a block, or for the blocks of an array's segments that of the whole.
    memory_of : ndarray of int64
        The memory of each block.
    foreign : frozenset of int
        Memory that is the user's own: neither allocated nor freed.
    kept : frozenset of int
        Memory that is not freed: it holds values someone may ask for.
    """

    steps: tuple[Step, ...]
    lanes: tuple[LaneKey, ...]
    blocks: tuple[Buffer, ...]
    memory: tuple[Buffer, ...]
    memory_of: Ints
    foreign: frozenset[int]
    kept: frozenset[int]


@contextmanager
def paused_collection() -> Iterator[None]:
    """Hold cyclic garbage collection back: a plan is many small objects without cycles, all of which stay.

    What was made meanwhile counts as old afterwards, so that it is not looked through at once.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_freeze_count() == 0:  # else someone has frozen objects, which are to stay so
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def ragged_starts(rows: Sequence[Sized]) -> Ints:
    """Return where each of several rows begins if they stand one after another, and where the last ends."""
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=starts[1:])
    return starts


def ragged(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return rows of different lengths as two arrays.

    Parameters
    ----------
    rows : sequence of sequence of int
        The rows.

    Returns
    -------
    starts : ndarray of int64, shape (len(rows) + 1,)
        Row ``i`` is ``values[starts[i]:starts[i + 1]]``.
    values : ndarray of int64
        All rows, one after another.
    """
    starts = ragged_starts(rows)
    return starts, np.fromiter(chain.from_iterable(rows), np.int64, int(starts[-1]))


def gather_ragged(starts: Ints, values: NDArray[Any], order: Ints) -> tuple[Ints, NDArray[Any]]:
    """Return ragged rows in another order.

    Parameters
    ----------
    starts, values : ndarray
        As `ragged` returns them.
    order : ndarray of int64
        Which of the rows, in which order.

    Returns
    -------
    starts, values : ndarray
        Of the rows in that order.
    """
    ordered, places = gather_places(starts, order)
    return ordered, values[places]


def gather_places(starts: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Return where ragged rows in another order begin, and where each of their values was before."""
    length = np.diff(starts)[order]
    ordered = np.zeros(len(order) + 1, np.int64)
    np.cumsum(length, out=ordered[1:])
    return ordered, np.arange(ordered[-1]) + np.repeat(starts[order] - ordered[:-1], length)


#: Whether an access reads or writes, by identity of its mode: enum members are slow to hash.
READING: Final[dict[int, bool]] = {id(m): m.reads for m in AccessMode}
WRITING: Final[dict[int, bool]] = {id(m): m.writes for m in AccessMode}

#: The modes in the order of their codes, and the codes by identity.
MODES: Final = tuple(AccessMode)
MODE_CODE: Final[dict[int, int]] = {id(mode): code for code, mode in enumerate(MODES)}
