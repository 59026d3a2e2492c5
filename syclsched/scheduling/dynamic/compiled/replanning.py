# SPDX-License-Identifier: Apache-2.0
"""Replanning of tasks that have not started, in the middle of a run, with measured durations. Pure.

List scheduling by upward rank [1]_ of the remaining tasks, from the current state of the lanes. Without insertion,
because commands on a lane cannot be overtaken. Tasks bound to a lane have no data there yet, so copies are not planned.

References
----------
.. [1] H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-effective and low-complexity task scheduling for heterogeneous
   computing", IEEE TPDS 13(3), 2002.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.dynamic.compiled.data_directory import LATENCY_S, S_PER_BYTE
from syclsched.scheduling.dynamic.compiled.run_state import NOW, RunState
from syclsched.scheduling.dynamic.compiled.run_state_updates import rebind_queued
from syclsched.scheduling.tables import NOTHING, Floats, Ints

#: A task changes its lane only for a gain of this share of its duration: estimates are still inexact.
MIN_GAIN = 0.25


class RunSnapshot(NamedTuple):
    """Snapshot of a run, independent of the state: T tasks, P lanes, D devices."""

    seconds: Floats  # estimates, corrected by measurements
    device_of: Ints  # the device of each lane
    #: Dependencies; every task has a higher number than its predecessors.
    succ_start: Ints
    succ_task: Ints
    planned: Ints  # the lane of each task in the current plan
    lane: Ints  # the lane on which each task was started; `NOTHING` before
    succ_bytes: Floats  # bytes read across each dependency
    #: Costs of a copy from one lane (first index) to another.
    latency_s: Floats
    s_per_byte: Floats
    end_s: Floats  # estimated end of each started task
    free_s: Floats  # when each lane should have finished its submitted tasks


def snapshot_of(state: RunState, succ_bytes: Floats) -> RunSnapshot:
    """Return a snapshot of a run."""
    tasks, processors = len(state.waiting), len(state.known.device_of)
    now_s = float(state.scalars[NOW])
    factors = state.drift.of_kind[state.known.kind]
    lane = state.lane[:tasks].copy()
    ends_s = np.where(lane == NOTHING, 0.0, np.maximum(now_s, state.start_s + state.estimate_s))
    done = (state.place[:tasks] != NOTHING) & (state.place[:tasks] < state.done[np.maximum(lane, 0)])
    places, device_of = state.places, state.known.device_of
    home = places.reaches[device_of, -1]
    apart = places.reaches[device_of][:, home].T == 0  # whether data must be copied from one lane to another
    links = places.links[np.ix_(home, home)]
    return RunSnapshot(
        state.known.seconds * np.where(factors == 0.0, state.drift.of_device, factors),
        state.known.device_of,
        state.succ_start,
        state.succ_task,
        state.known.planned.copy(),
        lane,
        succ_bytes,
        np.where(apart, links[:, :, LATENCY_S], 0.0),
        np.where(apart, links[:, :, S_PER_BYTE], 0.0),
        np.where(done & (lane != NOTHING), 0.0, ends_s),
        np.maximum(now_s, state.until_s[:processors]),
    )


def plan_snapshot(frontier: RunSnapshot) -> tuple[Ints, Ints]:
    """Return the lane and the level of each task; tasks with lower levels come first on their lane."""
    seconds = frontier.seconds
    finite = np.isfinite(seconds)
    mean_s = np.where(finite, seconds, 0.0).sum(axis=1) / np.maximum(finite.sum(axis=1), 1)
    rank = np.zeros(len(seconds))
    _rank(frontier, mean_s, rank)
    order = np.lexsort((np.arange(len(seconds)), -rank)).astype(np.int64)
    lane, start_s = frontier.lane.copy(), np.zeros(len(seconds))
    ready_s = np.zeros((len(seconds), len(frontier.free_s)))
    _place(frontier, order, lane, start_s, ready_s, frontier.free_s.copy())
    level = np.empty(len(seconds), np.int64)
    level[np.lexsort((-rank, start_s))] = np.arange(len(seconds))
    return lane, level


def switch_plan(state: RunState, planned: Ints, level: Ints) -> None:
    """Switch a run to another plan: bind all queued tasks again."""
    tasks, processors = len(state.waiting), len(state.known.device_of)
    left = state.lane[:tasks] == NOTHING
    state.known.planned[left] = planned[left]
    state.known.level[left] = level[left]
    order = np.lexsort((np.arange(tasks), state.known.level, state.known.planned)).astype(np.int64)
    state.order[:] = order
    state.order_at[:] = np.searchsorted(state.known.planned[order], np.arange(processors))
    rebind_queued(state)


@lean
def _rank(frontier: RunSnapshot, mean_s: Floats, rank: Floats) -> None:
    for task in range(len(rank) - 1, -1, -1):
        longest_s = 0.0
        for n in range(frontier.succ_start[task], frontier.succ_start[task + 1]):
            longest_s = max(longest_s, rank[frontier.succ_task[n]])
        rank[task] = mean_s[task] + longest_s


@lean
def _place(frontier: RunSnapshot, order: Ints, lane: Ints, start_s: Floats, ready_s: Floats, free_s: Floats) -> None:
    """Place tasks where they end first; ``ready_s`` is the arrival, by lane, of their inputs."""
    for task in order:
        if frontier.lane[task] == NOTHING:
            # Tasks of no duration stay: else they would all go to the host's idle lane.
            stays = frontier.seconds[task, frontier.device_of[frontier.planned[task]]] == 0.0
            best, best_end = frontier.planned[task] if stays else 0, np.inf
            for p in range(0 if stays else len(free_s)):
                seconds = frontier.seconds[task, frontier.device_of[p]]
                end = max(free_s[p], ready_s[task, p]) + seconds
                if p != frontier.planned[task]:
                    end += MIN_GAIN * seconds
                if end < best_end:
                    best, best_end = p, end
            lane[task] = best
            start_s[task] = max(free_s[best], ready_s[task, best])
            end_s = start_s[task] + frontier.seconds[task, frontier.device_of[best]]
            free_s[best] = end_s
        else:
            end_s = frontier.end_s[task]
        for n in range(frontier.succ_start[task], frontier.succ_start[task + 1]):
            after = frontier.succ_task[n]
            if frontier.lane[after] == NOTHING:
                nbytes, here = frontier.succ_bytes[n], lane[task]
                for p in range(len(free_s)):
                    moved_s = 0.0
                    if nbytes > 0.0:
                        moved_s = frontier.latency_s[here, p] + nbytes * frontier.s_per_byte[here, p]
                    ready_s[after, p] = max(ready_s[after, p], end_s + moved_s)
