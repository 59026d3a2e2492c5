# SPDX-License-Identifier: Apache-2.0
"""The data of the search as a few arrays of records, static and changing parts of a task side by side.

Compiled functions are handed arrays by value, seven words each, so a few arrays of records are called with much faster
than many arrays of numbers, and what is needed of a task lies in one or two cache lines.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from syclsched.scheduling.tables import Floats, Ints

Records = npt.NDArray[np.void]
Words = npt.NDArray[np.uint64]

#: A task. ``pred``, ``succ`` and ``wait`` are where its rows in ``arcs`` begin (they end where the next task's begin);
#: ``wait`` are predecessors of which it reads nothing. ``flow``, ``feed`` and ``make`` are the same for those arrays.
#: ``updates`` says whether it overwrites items in place, ``tail_s`` is the least time from its start to the end.
#: What follows changes: its place in the order, its processor, its neighbours there, whether its times are to be worked
#: out again (2: and it has changed its processor), its times, and the longest way from its start to the end as tasks
#: are placed.
NODE = np.dtype(
    [
        *((name, np.int64) for name in ("pred", "succ", "wait", "flow", "feed", "make", "updates")),
        ("tail_s", np.float64),
        *((name, np.int64) for name in ("position", "processor", "before", "after", "dirty")),
        ("start_s", np.float64),
        ("finish_s", np.float64),
        ("out_s", np.float64),
    ]
)
#: A processor: its device, and the ends of its chain of tasks; -1 for none.
LANE = np.dtype([("device", np.int64), ("first", np.int64), ("last", np.int64)])
#: An item a task reads and the task that makes it; or an item it makes and a task that reads it.
FLOW = np.dtype([("task", np.int64), ("item", np.int64), ("nbytes", np.float64)])
#: An item a task makes, the item it replaces in place (-1: none) and the size of that.
MAKE = np.dtype([("item", np.int64), ("replaces", np.int64), ("nbytes", np.float64)])
#: A task on a device: its time, and the earliest start by its release and by items that are there from the start.
COST = np.dtype([("seconds", np.float64), ("fixed_s", np.float64)])
#: One way to bring an item to a device, into ``space``; a latency of infinity for none.
LINE = np.dtype([("latency_s", np.float64), ("s_per_byte", np.float64), ("space", np.int64)])
#: A wanted item and who makes it (-1: there from the start).
WANT = np.dtype([("task", np.int64), ("item", np.int64)])
#: A move to take back, or old times of a task.
MOVED = np.dtype([("task", np.int64), ("position", np.int64), ("processor", np.int64)])
TIMED = np.dtype([("task", np.int64), ("start_s", np.float64), ("finish_s", np.float64)])

#: Indices into ``counts``: noted moves, times and origins, dirty tasks, a place that none of them is before, the last
#: place that the noted moves touch, and where that begins: at the end if tasks overwrite items, as then any task may
#: bring its item elsewhere.
MOVES, TIMES, ORIGINS, DIRTY, LOWEST, HIGHEST, TOUCHED = 0, 1, 2, 3, 4, 5, 6

#: How many tasks one move of the search may move at most.
MOST_MOVED = 64


class Search(NamedTuple):
    """All that the search works on; ``T`` tasks, ``P`` processors, ``D`` devices, ``S`` spaces, ``I`` items."""

    nodes: Records  # the tasks, and one that ends their rows
    lanes: Records  # the processors
    order: Ints  # tasks by position: a topological order. The tasks of a processor run in it.
    arcs: Ints  # predecessors, successors and mere waits of all tasks
    flows: Records  # what tasks read
    feeds: Records  # the same, in rows of the makers
    makes: Records  # what tasks make
    costs: Records  # times
    lines: Records  # ways from a space to a device
    homes: Ints  # the home space of each device
    wants: Records  # wanted results
    want_s: Floats  # the time each takes from each space to where it is wanted
    origin: Ints  # the space in which each item lies after it is made
    counts: Ints  # see the indices above
    moved: Records  # moves that can be taken back
    timed: Records  # old times of tasks that have new ones
    placed: Ints  # items that lie elsewhere now, and where they lay
    words: Words  # the state of the random numbers
    path: Ints  # A critical path
