# SPDX-License-Identifier: Apache-2.0
"""Where the data of a run lies, as flat arrays for compiled code: a directory, copies, and tasks held back for them.

What `syclsched.execution.live.coherence` is for the engine in Python. In one space there is nothing to follow: such a
run has no touches here. What is done with this is in `fetches`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from syclsched.scheduling.dynamic.state import Known
from syclsched.scheduling.tables import NOTHING, Floats, Ints

#: Places of `Places.counters`: the first thing that is a copy, how many copies there are, how many tasks are held, and
#: the host's space.
FIRST_COPY, COPIES, HELD, HOST_SPACE = range(4)
#: Columns of `Places.touches`, `pieces`, `copies`, `lanes`, and what `links` has.
PIECE, READS, WRITES, SPACE = range(4)
ARRAY, ORIGIN, NBYTES = range(3)
COPY_PIECE, COPY_FROM, COPY_TO, COPY_FOR = range(4)
CONTEXT, HELD_ON, LAST, BEFORE, COPY_BEFORE = range(5)
LATENCY_S, S_PER_BYTE, DIRECT_S = range(3)
#: What `Places.directory` has of a piece in a space, before the readers.
VALID, WRITER_LANE, WRITER_PLACE, READERS = range(4)


class Places(NamedTuple):
    """A run's data: N touches by T tasks of K pieces in M spaces, and C copies; of P processors, L lanes, D devices.

    Few arrays, as compiled functions are compiled for longer the more they are given.
    """

    touch_start: Ints  # where the touches of each task begin
    touches: Ints  # what is touched, whether it is read, whether it is written, and where, once the task was submitted
    #: The array that each is a part of, all parts of which a task touches in one space; where its current value was
    #: made; and its bytes.
    pieces: Ints
    reaches: Ints  # whether a device addresses a space; then its home
    #: What a copy takes from one space to another, and to this: seconds, seconds for each byte; and those of a small
    #: one that needs no other space, infinity where there is none.
    links: Floats
    copy_lane: Ints  # the lane of a copy for the sake of a task on a processor
    #: Whether a space holds the current value of a piece, or will; lane and place of what wrote it there last; and by
    #: lane the place of the last that has read it since. `NOTHING` for none.
    directory: Ints
    there_s: Floats  # since, or from, when it is there
    copies: Ints  # what each copy brings, from where to where, and for which task
    copy_s: Floats  # when it was believed to be under way
    #: Tasks that were given to a lane, and wait for what their lane cannot wait for; the first ``counters[HELD]``.
    held: Ints
    #: The context: lanes of different ones cannot wait for each other; `NOTHING` for the host's. Then how many tasks
    #: are held that were given to it, and the last it was given; the others are to work in.
    lanes: Ints
    counters: Ints  # see `FIRST_COPY`


@dataclass(frozen=True, slots=True)
class Spread:
    """A run's data over several spaces, before the run."""

    #: For each task the pieces it touches, whether it reads them, whether it writes them.
    touches: Sequence[Sequence[tuple[int, bool, bool]]]
    #: Of each piece.
    array_of: Sequence[int]
    nbytes: Sequence[int]
    given_in: Sequence[int]  # the space of each piece from the start; `NOTHING` for none
    host_space: int  # which that is
    #: Seconds of a small copy that needs no other space; infinity where there is none.
    direct_s: Sequence[Sequence[float]]
    copy_lane: Sequence[Sequence[Sequence[int]]]  # as in `Places`

    @property
    def most_copies(self) -> int:
        """How many copies there can be: one for each reading, two where some need another space on their way."""
        hops = 1 if np.isfinite(np.array(self.direct_s)).all() else 2
        return hops * sum(reads for listed in self.touches for _, reads, _ in listed)


def new_places(known: Known, spread: Spread | None, *, lanes: int, first_copy: int, contexts: Sequence[int]) -> Places:
    """Return where data is before a run."""
    tasks, devices, processors = len(known.seconds), len(known.reaches), len(known.device_of)
    spaces = len(known.latency_s) if spread is not None else 1
    listed = [] if spread is None else [touch for each in spread.touches for touch in each]
    counts = [0] * tasks if spread is None else [len(each) for each in spread.touches]
    count, copies = (0, 0) if spread is None else (len(spread.nbytes), spread.most_copies)
    touches = np.zeros((len(listed), 4), np.int64)
    pieces = np.zeros((count, 3), np.int64)
    reaches = np.ones((devices, spaces + 1), np.int64)
    reaches[:, spaces] = 0
    links = np.zeros((spaces, spaces, 3))
    copy_lane = np.zeros((spaces, spaces, processors), np.int64)
    directory = np.full((count, spaces, READERS + lanes), NOTHING)
    directory[:, :, VALID] = 0
    of_lanes = np.full((lanes, 5), NOTHING)
    of_lanes[:, CONTEXT], of_lanes[:, HELD_ON] = contexts, 0
    if spread is not None:
        touches[:, :SPACE] = np.array(listed, np.int64).reshape(-1, 3)
        pieces[:, ARRAY], pieces[:, ORIGIN], pieces[:, NBYTES] = spread.array_of, spread.host_space, spread.nbytes
        for device, reached in enumerate(known.reaches):
            reaches[device] = 0
            reaches[device, list(reached)] = 1
            reaches[device, spaces] = reached[0]
        links[:, :, LATENCY_S], links[:, :, S_PER_BYTE] = known.latency_s, known.s_per_byte
        links[:, :, DIRECT_S] = spread.direct_s
        copy_lane[:] = spread.copy_lane
        for piece, space in enumerate(spread.given_in):
            if space != NOTHING:
                directory[piece, space, VALID], pieces[piece, ORIGIN] = 1, space
    return Places(
        touch_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        touches=touches,
        pieces=pieces,
        reaches=reaches,
        links=links,
        copy_lane=copy_lane,
        directory=directory,
        there_s=np.zeros((count, spaces)),
        copies=np.zeros((copies, 4), np.int64),
        copy_s=np.zeros((copies, 2)),
        held=np.zeros(tasks, np.int64),
        lanes=of_lanes,
        counters=np.array([first_copy, 0, 0, 0 if spread is None else spread.host_space]),
    )
