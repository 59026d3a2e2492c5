# SPDX-License-Identifier: Apache-2.0
"""A scheduling problem as flat arrays: what compiled code reads.

Lists of lists are in compressed sparse rows: the entries of row ``i`` of ``x`` are ``x[x_start[i]:x_start[i + 1]]``.
All indices are ``int64``, all quantities ``float64``, all arrays C-contiguous and read-only, so that every compiled
function sees one type and is compiled once.
"""

from __future__ import annotations

from typing import NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Index of nothing: no producer, no space, no channel, not replaced.
NOTHING = -1


class Tables(NamedTuple):
    """The numbers of a problem; see `syclsched.scheduling.problem.Problem` for what they mean.

    Tasks are numbered in a topological order. ``T`` tasks, ``D`` devices, ``P`` processors (lanes of devices), ``S``
    memory spaces, ``E`` arcs, ``I`` items (values of arrays).
    """

    seconds: Floats  # time of each task on each device; infinity where it cannot run
    release_s: Floats  # no task starts before this time
    #: Larger priority runs earlier among equals, then smaller position of submission.
    priority: Ints
    submission: Ints
    device_start: Ints  # the processors of device ``d`` are ``device_start[d]`` to ``device_start[d + 1] - 1``
    processor_device: Ints  # the device of each processor
    #: Rows of the arcs below.
    pred_start: Ints
    #: The task at the other end, rising within a row; one arc for each pair of tasks.
    pred_task: Ints
    #: What flows along the arc, in bytes; 0 for pure order.
    pred_bytes: Floats
    #: How many arrays of at least a byte flow along the arc: each would be a copy of its own.
    pred_copies: Ints
    succ_start: Ints
    succ_task: Ints
    succ_bytes: Floats
    succ_copies: Ints
    item_bytes: Floats  # size of each item
    item_producer: Ints  # the task that makes it; `NOTHING` if it is there from the start
    item_space: Ints  # where an item that is there from the start lies; `NOTHING` for one that is made
    read_start: Ints  # rows of ``read_item``
    read_item: Ints  # the items each task needs
    make_start: Ints  # rows of the two below
    #: The items each task makes, and the item that is overwritten in place by it (so that the new one lies where the
    #: old one was read), `NOTHING` if the array is written afresh, in the home space of the device.
    make_item: Ints
    make_replaces: Ints
    reach_start: Ints  # rows of ``reach_space``
    reach_space: Ints  # the spaces each device can address, its home first
    #: What a copy takes from one space (first index) to another. A latency of infinity says that there is no way.
    #: Nothing to copy (0 bytes, or within one space) takes no time.
    latency_s: Floats
    s_per_byte: Floats
    #: The channels that a copy occupies while it lasts, `NOTHING` for none: copies on one channel go one after another
    #: (one-port). All `NOTHING` is the contention-free model of the literature.
    channel: Ints
    #: Results and the spaces they are wanted in at the end; their copies count towards the makespan.
    want_item: Ints
    want_space: Ints
    capacity_bytes: Floats  # of each space; infinity if not limited
    #: Power of each device while it computes and while it does not; NaN if not known.
    busy_w: Floats
    idle_w: Floats


_DTYPES = [np.float64 if hint == Floats else np.int64 for hint in get_type_hints(Tables).values()]


def frozen(tables: Tables) -> Tables:
    """Return the same tables with the dtypes, contiguity and read-only flags that compiled code relies on."""
    made = []
    for value, dtype in zip(tables, _DTYPES, strict=True):
        array = np.ascontiguousarray(value, dtype=dtype)
        array.flags.writeable = False
        made.append(array)
    return Tables._make(made)
