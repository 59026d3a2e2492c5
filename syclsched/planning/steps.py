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
Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]

#: What steps are, in the order of their codes.
KINDS: Final[tuple[InstructionKind, ...]] = ("launch", "host", "barrier", "copy")
LAUNCH, HOST_CALL, BARRIER, COPY = range(4)


class LaneKey(NamedTuple):
    """Which lane: device, kind and number."""

    device: str
    kind: LaneKind
    number: int = 0

    @property
    def name(self) -> str:
        """The lane's name in a plan: ``cpu:0``, ``cpu:copy``."""
        return f"{self.device}:{'copy' if self.kind == 'copy' else self.number}"


@dataclass(frozen=True, slots=True)
class Steps:
    """Instructions before they have numbers and wait, in global order."""

    kind: Ints  # index into `KINDS`
    lane: Ints  # index into `Draft.lanes`
    task: Ints  # index into the graph's tasks; of a copy, the task for whose sake it is there
    duration_s: Floats  # predicted, alone on the machine
    nbytes: Ints  # what a copy moves; 0 for all others
    again: Ints  # how many times the task has been done before
    #: For a copy, the spaces it leads from and to: the first's number times how many there are, plus the second's; -1
    #: for all others.
    way: Ints
    #: Ragged: the blocks of memory each step touches, by index into `Draft.blocks`.
    starts: Ints
    blocks: Ints
    modes: Codes  # how: index into `MODES`. A copy reads every other block and writes the one after it.

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def copies(self) -> Flags:
        """Whether each step is a copy."""
        found: Flags = self.kind == COPY
        return found

    def ordered(self, order: Ints) -> Steps:
        """Return the steps in another order."""
        starts, places = gather_places(self.starts, order)
        return Steps(
            self.kind[order],
            self.lane[order],
            self.task[order],
            self.duration_s[order],
            self.nbytes[order],
            self.again[order],
            self.way[order],
            starts,
            self.blocks[places],
            self.modes[places],
        )


class Buffers(NamedTuple):
    """Copies of arrays in memory spaces, by number of both: the graph record's arrays, the platform's spaces."""

    array: Ints
    space: Ints


@dataclass(frozen=True, slots=True)
class Draft:
    """Steps in global order, and the memory they touch."""

    steps: Steps  # in global order
    lanes: tuple[LaneKey, ...]  # by lane index
    implementations: tuple[str | None, ...]  # by index of the graph's tasks
    #: By block index. A block is one stay of an array in a space, from its allocation until it is freed; a buffer that
    #: was evicted and comes back is another block of the same array and space. Segments of an array have blocks of
    #: their own.
    blocks: Buffers
    memory: Buffers  # by memory index: that of a block, or for the blocks of an array's segments that of the whole
    memory_of: Ints  # the memory of each block
    memory_nbytes: Ints  # size of each memory
    foreign: Ints  # memory that is the user's own: neither allocated nor freed
    kept: Ints  # memory that is not freed: it holds values someone may ask for


#: More objects than this are not looked through at once, and after so many of those all are.
_MANY_OBJECTS, _MOST_OLD_OBJECTS = 20_000, 1_000_000
_made_old = 0


@contextmanager
def paused_collection() -> Iterator[None]:
    """Hold cyclic garbage collection back: a plan is many small objects without cycles, all of which stay.

    Much that was made meanwhile counts as old afterwards, so that it is not looked through at once. Then the
    collector's own count of when to look through the old starts anew, and cycles made between one plan and the next
    would stay for good: so all is looked through after so many objects.
    """
    global _made_old
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            made = gc.get_count()[0]
            # Frozen objects of others are to stay so.
            if made > _MANY_OBJECTS and gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
                _made_old += made
            gc.enable()
            if _made_old > _MOST_OLD_OBJECTS:
                _made_old = 0
                gc.collect()


def ragged_starts(rows: Sequence[Sized]) -> Ints:
    """Return where each of several rows begins if they stand one after another, and where the last ends."""
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=starts[1:])
    return starts


def ragged(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return rows of different lengths as two arrays."""
    starts = ragged_starts(rows)
    return starts, np.fromiter(chain.from_iterable(rows), np.int64, int(starts[-1]))


def gather_ragged(starts: Ints, values: NDArray[Any], order: Ints) -> tuple[Ints, NDArray[Any]]:
    """Return ragged rows in another order."""
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
