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

    Parameters
    ----------
    touch_start : ndarray of int64, shape (T + 1,)
        Where the touches of each task begin.
    touches : ndarray of int64, shape (N, 4)
        What is touched, whether it is read, whether it is written, and where, once the task was submitted.
    pieces : ndarray of int64, shape (K, 3)
        The array that each is a part of, all parts of which a task touches in one space; where its current value was
        made; and its bytes.
    reaches : ndarray of int64, shape (D, M + 1)
        Whether a device addresses a space; then its home.
    links : ndarray of float64, shape (M, M, 3)
        What a copy takes from one space to another, and to this: seconds, seconds for each byte; and those of a small
        one that needs no other space, infinity where there is none.
    copy_lane : ndarray of int64, shape (M, M, P)
        The lane of a copy for the sake of a task on a processor.
    directory : ndarray of int64, shape (K, M, 3 + L)
        Whether a space holds the current value of a piece, or will; lane and place of what wrote it there last; and by
        lane the place of the last that has read it since. `NOTHING` for none.
    there_s : ndarray of float64, shape (K, M)
        Since, or from, when it is there.
    copies : ndarray of int64, shape (C, 4)
        What each copy brings, from where to where, and for which task.
    copy_s : ndarray of float64, shape (C, 2)
        When it was believed to be under way.
    held : ndarray of int64, shape (T,)
        Tasks that were given to a lane, and wait for what their lane cannot wait for; the first ``counters[HELD]``.
    lanes : ndarray of int64, shape (L, 5)
        The context: lanes of different ones cannot wait for each other; `NOTHING` for the host's. Then how many tasks
        are held that were given to it, and the last it was given; the others are to work in.
    counters : ndarray of int64, shape (4,)
        See `FIRST_COPY`.
    """

    touch_start: Ints
    touches: Ints
    pieces: Ints
    reaches: Ints
    links: Floats
    copy_lane: Ints
    directory: Ints
    there_s: Floats
    copies: Ints
    copy_s: Floats
    held: Ints
    lanes: Ints
    counters: Ints


@dataclass(frozen=True, slots=True)
class Spread:
    """A run's data over several spaces, before the run.

    Parameters
    ----------
    touches : sequence of sequence of (int, bool, bool)
        For each task the pieces it touches, whether it reads them, whether it writes them.
    array_of, nbytes : sequence of int
        Of each piece.
    given_in : sequence of int
        The space of each piece from the start; `NOTHING` for none.
    host_space : int
        Which that is.
    direct_s : sequence of sequence of float
        Seconds of a small copy that needs no other space; infinity where there is none.
    copy_lane : sequence of sequence of sequence of int
        As in `Places`.
    """

    touches: Sequence[Sequence[tuple[int, bool, bool]]]
    array_of: Sequence[int]
    nbytes: Sequence[int]
    given_in: Sequence[int]
    host_space: int
    direct_s: Sequence[Sequence[float]]
    copy_lane: Sequence[Sequence[Sequence[int]]]

    @property
    def most_copies(self) -> int:
        """How many copies there can be: one for each reading, two where some need another space on their way."""
        hops = 1 if np.isfinite(np.array(self.direct_s)).all() else 2
        return hops * sum(reads for listed in self.touches for _, reads, _ in listed)


def new_places(known: Known, spread: Spread | None, *, lanes: int, first_copy: int, contexts: Sequence[int]) -> Places:
    """Return where data is before a run.

    Parameters
    ----------
    known : Known
        By the policy.
    spread : Spread or None
        None if all lies in one space: nothing is followed then.
    lanes, first_copy : int
        How many lanes there are, and the first thing that is a copy.
    contexts : sequence of int
        Of each lane.
    """
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
