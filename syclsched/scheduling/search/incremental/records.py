# SPDX-License-Identifier: Apache-2.0
"""IncrementalState data as a few arrays of records, with static and changing fields of a task side by side.

Compiled functions receive arrays by value, seven words each: calls with a few arrays of records are much faster than
with many arrays of numbers. All fields of a task lie in one or two cache lines.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from syclsched.scheduling.search.random_numbers import Words
from syclsched.scheduling.tables import Floats, Ints

Records = npt.NDArray[np.void]

#: A task. ``pred``, ``succ`` and ``wait`` are the starts of its rows in ``arcs`` (a row ends where the next task's
#: begins); ``wait`` are predecessors from which it reads nothing. ``flow``, ``feed`` and ``make`` are the same for
#: those arrays. ``updates``: whether it overwrites items in place; ``tail_s``: least time from its start to the end.
#: The other fields change: its position in the order, its processor, its neighbours there, whether its times must be
#: recomputed (2: its processor has changed as well), its times, and the longest path from its start to the end as
#: tasks are placed.
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
#: A processor: its device, and the first and last task of its chain; -1 for none.
LANE = np.dtype([("device", np.int64), ("first", np.int64), ("last", np.int64)])
#: An item that a task reads, with its producer; or an item that a task makes, with a reader.
FLOW = np.dtype([("task", np.int64), ("item", np.int64), ("nbytes", np.float64)])
#: An item that a task makes, the item it replaces in place (-1: none) and the size of that.
MAKE = np.dtype([("item", np.int64), ("replaces", np.int64), ("nbytes", np.float64)])
#: A task on a device: its time, and its earliest start by its release and by the arrival of inputs.
COST = np.dtype([("seconds", np.float64), ("fixed_s", np.float64)])
#: A route of an item to a device, into ``space``; infinite latency for none.
LINE = np.dtype([("latency_s", np.float64), ("s_per_byte", np.float64), ("space", np.int64)])
#: A wanted item and its producer (-1 for an input).
WANT = np.dtype([("task", np.int64), ("item", np.int64)])
#: A logged move, or logged old times of a task.
MOVED = np.dtype([("task", np.int64), ("position", np.int64), ("processor", np.int64)])
TIMED = np.dtype([("task", np.int64), ("start_s", np.float64), ("finish_s", np.float64)])

#: Indices into ``counts``: numbers of logged moves, times and origins, number of dirty tasks, lower bound of their
#: positions, last position that the logged moves touch, and its initial value: the end if tasks overwrite items, as
#: then any task may move its item; number of tasks on the critical path.
MOVES, TIMES, ORIGINS, DIRTY, LOWEST, HIGHEST, TOUCHED, LENGTH = 0, 1, 2, 3, 4, 5, 6, 7

#: Maximum number of tasks that one move of the search moves.
MOST_MOVED = 64


class IncrementalState(NamedTuple):
    """Order and placement of the tasks, and their times in the contention-free model."""

    nodes: Records  # the tasks, and a sentinel that ends their rows
    lanes: Records  # the processors
    order: Ints  # tasks by position: a topological order; tasks of a processor run in it
    arcs: Ints  # predecessors, successors, and predecessors without reads, of all tasks
    flows: Records  # items that tasks read
    feeds: Records  # the same, in rows of the producers
    makes: Records  # items that tasks make
    costs: Records  # time of each task on each device
    lines: Records  # routes from a space to a device
    homes: Ints  # the home space of each device
    wants: Records  # wanted results
    want_s: Floats  # seconds of a copy of each from each space to where it is wanted
    origin: Ints  # the space in which each item lies after it is made
    counts: Ints  # see the indices above
    moved: Records  # log of moves
    timed: Records  # log of old times
    placed: Ints  # log of items with changed origin, and their old origin
    words: Words  # state of the random number generator
    path: Ints  # a critical path
