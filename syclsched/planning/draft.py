# SPDX-License-Identifier: Apache-2.0
"""Draft of a plan: its steps in global order, before they are numbered and get waits."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from syclsched.model.plan import InstructionKind, LaneKind

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]

#: Kinds of steps, in the order of their codes.
KINDS: Final[tuple[InstructionKind, ...]] = ("launch", "host", "barrier", "copy")
LAUNCH, HOST_CALL, BARRIER, COPY = range(4)


class LaneKey(NamedTuple):
    """Identity of a lane: device, kind and number."""

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
    lane: Ints  # index into `PlanDraft.lanes`
    task: Ints  # index into the graph's tasks; of a copy, the task that needs it
    duration_s: Floats  # predicted, alone on the machine
    nbytes: Ints  # size of a copy; 0 for other steps
    again: Ints  # how many times the task has run before
    #: For a copy: source space times the number of spaces, plus destination space; -1 for other steps.
    way: Ints
    #: Ragged: the blocks of memory each step touches, by index into `PlanDraft.blocks`.
    starts: Ints
    blocks: Ints
    modes: Codes  # index into `MODES`; the blocks of a copy are pairs of one it reads and one it writes

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


class BufferColumns(NamedTuple):
    """Arrays in memory spaces, by index into the graph record's arrays and the platform's spaces."""

    array: Ints
    space: Ints


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """Steps in global order, and the memory they touch."""

    steps: Steps
    lanes: tuple[LaneKey, ...]  # by lane index
    implementations: tuple[str | None, ...]  # by index of the graph's tasks
    #: By block index. A block is an array's memory in a space from allocation to free; an array that was evicted and is
    #: copied back gets a new block. Segments of an array have their own blocks.
    blocks: BufferColumns
    memory: BufferColumns  # by memory index: one per block, but one for all blocks of a whole array's segments
    memory_of: Ints  # the memory of each block
    memory_nbytes: Ints  # size of each memory
    foreign: Ints  # the user's own memory: neither allocated nor freed
    kept: Ints  # memory that is not freed, as its value may be read after the run


def ragged_starts(rows: Sequence[Sized]) -> Ints:
    """Return the start offset of each row in a flat array, and the end of the last."""
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=starts[1:])
    return starts


def ragged(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return rows of different lengths as offsets and a flat array."""
    starts = ragged_starts(rows)
    return starts, np.fromiter(chain.from_iterable(rows), np.int64, int(starts[-1]))


def gather_ragged(starts: Ints, values: NDArray[Any], order: Ints) -> tuple[Ints, NDArray[Any]]:
    """Return ragged rows in another order."""
    ordered, places = gather_places(starts, order)
    return ordered, values[places]


def gather_places(starts: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Return the offsets of ragged rows in another order, and the old index of each of their values."""
    length = np.diff(starts)[order]
    ordered = np.zeros(len(order) + 1, np.int64)
    np.cumsum(length, out=ordered[1:])
    return ordered, np.arange(ordered[-1]) + np.repeat(starts[order] - ordered[:-1], length)
