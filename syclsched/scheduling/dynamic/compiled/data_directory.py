# SPDX-License-Identifier: Apache-2.0
"""Directory of a run's data as flat arrays for compiled code: valid copies, transfers, and held tasks.

The counterpart of `syclsched.execution.dynamic.data.coherence`, which serves the engine in Python. A run in a single
space needs no tracking and has no accesses here. `compiled_transfers` holds the code that uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from syclsched.scheduling.dynamic.policy_state import StaticInfo
from syclsched.scheduling.tables import NOTHING, Floats, Ints

#: Indices into `DataDirectory.counters`: the number of the first copy command, the number of copies, the number of held
#: tasks, and the host's space.
FIRST_COPY, COPIES, HELD, HOST_SPACE = range(4)
#: Columns of `DataDirectory.touches`, `pieces`, `copies`, `lanes` and `links`.
PIECE, READS, WRITES, SPACE = range(4)
ARRAY, ORIGIN, NBYTES = range(3)
COPY_PIECE, COPY_FROM, COPY_TO, COPY_FOR = range(4)
CONTEXT, HELD_ON, LAST, BEFORE, COPY_BEFORE = range(5)
LATENCY_S, S_PER_BYTE, DIRECT_S = range(3)
#: Columns of `DataDirectory.directory`, for a piece in a space; the columns from `READERS` on are by lane.
VALID, WRITER_LANE, WRITER_PLACE, READERS = range(4)


class DataDirectory(NamedTuple):
    """Data of a run: N accesses by T tasks to K pieces in M spaces, and C copies; P processors, L lanes, D devices.

    Few arrays, because the compile time of functions grows with the number of arguments.
    """

    touch_start: Ints  # start of each task's accesses
    touches: Ints  # piece, whether it is read, whether it is written, and its space (once the task is submitted)
    #: The array that each piece belongs to (a task accesses all its pieces in one space), the space in which its
    #: current value was made, and its bytes.
    pieces: Ints
    reaches: Ints  # whether a device addresses a space; in the last column the device's home
    #: Latency and seconds per byte of a copy from one space to another, and the seconds of a small copy that needs no
    #: other space; infinity without a direct route.
    links: Floats
    copy_lane: Ints  # the lane of a copy that is made for a task on a processor
    #: Whether a space holds the current value of a piece, or will; lane and sequence number of its last writer there;
    #: by lane, the sequence number of the last reader since. `NOTHING` for none.
    directory: Ints
    available_s: Floats  # arrival of each piece in each space
    copies: Ints  # piece, source, destination and task of each copy
    copy_s: Floats  # estimated start and end of each copy
    #: Tasks given to a lane that depend on commands for which the lane cannot wait; ``counters[HELD]`` of them.
    held: Ints
    #: Context of each lane (lanes of different contexts cannot wait for each other; `NOTHING` for the host's), number
    #: of held tasks, last task given to it; the other columns are scratch.
    lanes: Ints
    counters: Ints  # see `FIRST_COPY`


@dataclass(frozen=True, slots=True)
class DataDistribution:
    """Distribution of a run's data over several spaces, before the run."""

    #: For each task its accesses: piece, whether it is read, whether it is written.
    touches: Sequence[Sequence[tuple[int, bool, bool]]]
    #: The array and the bytes of each piece.
    array_of: Sequence[int]
    nbytes: Sequence[int]
    given_in: Sequence[int]  # the space of each input piece; `NOTHING` for others
    host_space: int  # index of the host's space
    #: Seconds of a small copy that needs no other space; infinity without a direct route.
    direct_s: Sequence[Sequence[float]]
    copy_lane: Sequence[Sequence[Sequence[int]]]  # as in `DataDirectory`

    @property
    def most_copies(self) -> int:
        """Maximum number of copies: one for each read, two where some copies are staged in another space."""
        hops = 1 if np.isfinite(np.array(self.direct_s)).all() else 2
        return hops * sum(reads for listed in self.touches for _, reads, _ in listed)


def new_data_directory(
    known: StaticInfo, spread: DataDistribution | None, *, lanes: int, first_copy: int, contexts: Sequence[int]
) -> DataDirectory:
    """Return the data directory before a run."""
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
    return DataDirectory(
        touch_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        touches=touches,
        pieces=pieces,
        reaches=reaches,
        links=links,
        copy_lane=copy_lane,
        directory=directory,
        available_s=np.zeros((count, spaces)),
        copies=np.zeros((copies, 4), np.int64),
        copy_s=np.zeros((copies, 2)),
        held=np.zeros(tasks, np.int64),
        lanes=of_lanes,
        counters=np.array([first_copy, 0, 0, 0 if spread is None else spread.host_space]),
    )
