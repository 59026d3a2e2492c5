# SPDX-License-Identifier: Apache-2.0
"""Transitive reduction of a plan's waits with respect to its in-order lanes."""

from __future__ import annotations

import numpy as np

from syclsched.compiled import compiled
from syclsched.planning.draft import Flags, Ints


@compiled
def reduce_waits(lanes: Ints, starts: Ints, before: Ints, holds_lane: Flags, lane_count: int) -> tuple[Ints, Ints]:
    """Return the waits that remain when every dependency implied by lane order or other dependencies is dropped.

    Lanes are in-order chains, so a vector clock gives the steps finished before a step starts: per lane, the last
    position known to be done (Mattern 1989). Predecessors are visited from the latest to the earliest; one that the
    clock already covers is implied. This is the transitive reduction with respect to the chains, in O(E x lanes).
    """
    count = len(lanes)
    # Clocks are kept only for steps that another lane may wait for.
    row = np.full(count, -1, np.int64)
    rows = 0
    for step in range(count):
        for k in range(starts[step], starts[step + 1]):
            if lanes[before[k]] != lanes[step] and row[before[k]] < 0:
                row[before[k]] = rows
                rows += 1
    done = np.empty((rows, lane_count), np.int64)
    lane_clock = np.full((lane_count, lane_count), -1, np.int64)
    clock = np.empty(lane_count, np.int64)
    wait_starts = np.zeros(count + 1, np.int64)
    waits = np.empty(len(before), np.int64)
    filled = 0
    for step in range(count):
        lane = lanes[step]
        clock[:] = lane_clock[lane]
        mine = np.sort(before[starts[step] : starts[step + 1]])
        first = filled
        for k in range(len(mine) - 1, -1, -1):
            if clock[lanes[mine[k]]] >= mine[k]:
                continue
            waits[filled] = mine[k]
            filled += 1
            for other in range(lane_count):
                clock[other] = max(clock[other], done[row[mine[k]], other])
        waits[first:filled] = waits[first:filled][::-1].copy()
        wait_starts[step + 1] = filled
        if holds_lane[step]:
            clock[lane] = step
            lane_clock[lane] = clock
        else:
            lane_clock[lane, lane] = step
        if row[step] >= 0:
            done[row[step]] = clock
            done[row[step], lane] = step
    return wait_starts, waits[:filled].copy()
