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

    Parameters
    ----------
    seconds : ndarray of float64, shape (T, D)
        Time of each task on each device; infinity where it cannot run.
    release_s : ndarray of float64, shape (T,)
        No task starts before this time.
    priority, submission : ndarray of int64, shape (T,)
        Larger priority runs earlier among equals, then smaller position of submission.
    device_start : ndarray of int64, shape (D + 1,)
        The processors of device ``d`` are ``device_start[d]`` to ``device_start[d + 1] - 1``.
    processor_device : ndarray of int64, shape (P,)
        The device of each processor.
    pred_start, succ_start : ndarray of int64, shape (T + 1,)
        Rows of the arcs below.
    pred_task, succ_task : ndarray of int64, shape (E,)
        The task at the other end, rising within a row; one arc for each pair of tasks.
    pred_bytes, succ_bytes : ndarray of float64, shape (E,)
        What flows along the arc, in bytes; 0 for pure order.
    pred_copies, succ_copies : ndarray of int64, shape (E,)
        How many arrays of at least a byte flow along the arc: each would be a copy of its own.
    item_bytes : ndarray of float64, shape (I,)
        Size of each item.
    item_producer : ndarray of int64, shape (I,)
        The task that makes it; `NOTHING` if it is there from the start.
    item_space : ndarray of int64, shape (I,)
        Where an item that is there from the start lies; `NOTHING` for one that is made.
    read_start : ndarray of int64, shape (T + 1,)
        Rows of ``read_item``.
    read_item : ndarray of int64
        The items each task needs.
    make_start : ndarray of int64, shape (T + 1,)
        Rows of the two below.
    make_item, make_replaces : ndarray of int64
        The items each task makes, and the item that is overwritten in place by it (so that the new one lies where the
        old one was read), `NOTHING` if the array is written afresh, in the home space of the device.
    reach_start : ndarray of int64, shape (D + 1,)
        Rows of ``reach_space``.
    reach_space : ndarray of int64
        The spaces each device can address, its home first.
    latency_s, s_per_byte : ndarray of float64, shape (S, S)
        What a copy takes from one space (first index) to another. A latency of infinity says that there is no way.
        Nothing to copy (0 bytes, or within one space) takes no time.
    channel : ndarray of int64, shape (S, S, 2)
        The channels that a copy occupies while it lasts, `NOTHING` for none: copies on one channel go one after
        another (one-port). All `NOTHING` is the contention-free model of the literature.
    want_item, want_space : ndarray of int64, shape (W,)
        Results and the spaces they are wanted in at the end; their copies count towards the makespan.
    capacity_bytes : ndarray of float64, shape (S,)
        Of each space; infinity if not limited.
    busy_w, idle_w : ndarray of float64, shape (D,)
        Power of each device while it computes and while it does not; NaN if not known.
    """

    seconds: Floats
    release_s: Floats
    priority: Ints
    submission: Ints
    device_start: Ints
    processor_device: Ints
    pred_start: Ints
    pred_task: Ints
    pred_bytes: Floats
    pred_copies: Ints
    succ_start: Ints
    succ_task: Ints
    succ_bytes: Floats
    succ_copies: Ints
    item_bytes: Floats
    item_producer: Ints
    item_space: Ints
    read_start: Ints
    read_item: Ints
    make_start: Ints
    make_item: Ints
    make_replaces: Ints
    reach_start: Ints
    reach_space: Ints
    latency_s: Floats
    s_per_byte: Floats
    channel: Ints
    want_item: Ints
    want_space: Ints
    capacity_bytes: Floats
    busy_w: Floats
    idle_w: Floats


_DTYPES = [np.float64 if hint == Floats else np.int64 for hint in get_type_hints(Tables).values()]


def frozen(tables: Tables) -> Tables:
    """Return the same tables with the dtypes, contiguity and read-only flags that compiled code relies on.

    Parameters
    ----------
    tables : Tables
        With anything that NumPy can make arrays of.

    Returns
    -------
    Tables
        Arrays that have the right form already are used as they are, and made read-only.
    """
    made = []
    for value, dtype in zip(tables, _DTYPES, strict=True):
        array = np.ascontiguousarray(value, dtype=dtype)
        array.flags.writeable = False
        made.append(array)
    return Tables._make(made)
