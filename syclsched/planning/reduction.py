# SPDX-License-Identifier: Apache-2.0
"""Reduction of dependencies to the few cross-lane waits that are left."""

from __future__ import annotations

from collections.abc import Sequence


def reduce_waits(
    lanes: Sequence[int], predecessors: Sequence[Sequence[int]], holds_lane: Sequence[bool], lane_count: int
) -> list[list[int]]:
    """Drop every dependency implied by lane order or by other dependencies.

    Lanes are in-order chains, so what has finished before a step starts is a vector clock: per lane, the
    last position known to be done (Mattern 1989). Walking predecessors from the latest to the earliest,
    one that the clock already covers is implied. This is the transitive reduction with respect to the chains, in
    O(E x lanes).

    Parameters
    ----------
    lanes : sequence of int
        Lane index of each step, in global order.
    predecessors : sequence of sequence of int
        Earlier steps each depends on.
    holds_lane : sequence of bool
        False for steps whose waiting does not hold up their lane (``alloc`` and ``free``): later steps on the lane
        may not rely on what these wait for.
    lane_count : int
        Number of lanes.

    Returns
    -------
    list of list of int
        The cross-lane predecessors each step must wait for explicitly, in ascending order.
    """
    lane_clock = [[-1] * lane_count for _ in range(lane_count)]
    done_clock: list[list[int]] = []
    waits: list[list[int]] = []
    for step, lane in enumerate(lanes):
        clock = list(lane_clock[lane])
        kept: list[int] = []
        for before in sorted(predecessors[step], reverse=True):
            if clock[lanes[before]] >= before:
                continue
            kept.append(before)
            clock = [max(a, b) for a, b in zip(clock, done_clock[before], strict=True)]
        waits.append(kept[::-1])
        if holds_lane[step]:
            clock[lane] = step
            lane_clock[lane] = clock
        done_clock.append(clock)
    return waits
