# SPDX-License-Identifier: Apache-2.0
"""Scheduling problem as flat arrays for compiled code.

Lists of lists are compressed sparse rows: the entries of row ``i`` of ``x`` are ``x[x_start[i]:x_start[i + 1]]``.
All indices are ``int64``, all quantities ``float64``, all arrays C-contiguous and read-only, so that every compiled
function sees one type and is compiled once.
"""

from __future__ import annotations

from typing import NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Null index: no producer, no space, no channel, no replaced item.
NOTHING = -1


class Tables(NamedTuple):
    """Numbers of a problem; `syclsched.scheduling.problem.Problem` explains their meaning.

    Tasks are numbered in a topological order. ``T`` tasks, ``D`` devices, ``P`` processors (lanes of devices), ``S``
    memory spaces, ``E`` arcs, ``I`` items (values of arrays).
    """

    seconds: Floats  # time of each kind of task on each device; infinity where it cannot run
    kind: Ints  # of each task: its row of ``seconds``; tasks of one kind take equally long everywhere
    release_s: Floats  # no task starts before this time
    #: Of equal tasks, the larger priority runs first, then the earlier submission.
    priority: Ints
    submission: Ints
    device_start: Ints  # the processors of device ``d`` are ``device_start[d]`` to ``device_start[d + 1] - 1``
    processor_device: Ints  # the device of each processor
    machine_start: Ints  # the devices of machine ``m`` are ``machine_start[m]`` to ``machine_start[m + 1] - 1``
    space_machine: Ints  # the machine of each space; `NOTHING` for that of the process that connects to several
    #: Rows of the arcs below.
    pred_start: Ints
    #: The task at the other end of the arc, rising within a row; one arc for each pair of tasks.
    pred_task: Ints
    #: Bytes that flow along the arc; 0 for pure ordering.
    pred_bytes: Floats
    #: Number of arrays of at least a byte that flow along the arc: each needs its own copy.
    pred_copies: Ints
    succ_start: Ints
    succ_task: Ints
    succ_bytes: Floats
    succ_copies: Ints
    item_bytes: Floats  # size of each item
    item_producer: Ints  # the task that makes it; `NOTHING` for an input
    item_space: Ints  # the space of an input; `NOTHING` for a made item
    read_start: Ints  # rows of ``read_item``
    read_item: Ints  # the items each task needs
    make_start: Ints  # rows of the two below
    #: The items that each task makes, and the item that each overwrites in place (the new item then lies where the old
    #: one was read); `NOTHING` for a new array, which is made in the home space of the device.
    make_item: Ints
    make_replaces: Ints
    reach_start: Ints  # rows of ``reach_space``
    reach_space: Ints  # the spaces each device can address, its home first
    #: Latency and seconds per byte of a copy from one space (first index) to another. Infinite latency: no route.
    #: A copy of 0 bytes or within one space takes no time.
    latency_s: Floats
    s_per_byte: Floats
    #: The channels that a copy occupies, `NOTHING` for none. A channel carries one copy at a time (one-port). All
    #: `NOTHING` is the contention-free model of the literature.
    channel: Ints
    #: Results, and the spaces they are wanted in at the end; copies to there count towards the makespan.
    want_item: Ints
    want_space: Ints
    capacity_bytes: Floats  # of each space; infinity if unlimited
    #: Power of each device when busy and when idle; NaN if not known.
    busy_w: Floats
    idle_w: Floats

    def task_seconds(self) -> Floats:
        """Return the time of each task on each device, shape (T, D)."""
        return self.seconds[self.kind]


_DTYPES = [np.float64 if hint == Floats else np.int64 for hint in get_type_hints(Tables).values()]


def frozen(tables: Tables) -> Tables:
    """Return the same tables with the dtypes, contiguity and read-only flags that compiled code requires."""
    made = []
    for value, dtype in zip(tables, _DTYPES, strict=True):
        array = np.ascontiguousarray(value, dtype=dtype)
        array.flags.writeable = False
        made.append(array)
    return Tables._make(made)
