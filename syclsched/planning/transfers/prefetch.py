# SPDX-License-Identifier: Apache-2.0
"""Prefetch: copies are issued as early as data, links and memory allow, not right before they are needed.

Copy lanes are in-order queues: a copy that waits for its data delays all copies after it. So each copy lane takes,
among the copies whose data is ready, the one that is needed first (earliest due date first, Jackson 1955), and never
idles while there is one. Steps of compute lanes keep their order.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from syclsched.compiled import compiled
from syclsched.model.platform import HOST, Platform
from syclsched.planning.draft import Flags, Floats, Ints, PlanDraft
from syclsched.planning.instruction_rows import Touches, without_memory
from syclsched.planning.memory.footprint import Footprint
from syclsched.planning.synchronisation.hazards import hazards
from syclsched.scheduling.core.integer_heap import pop, push

#: How many steps copies may run ahead of the tasks if memory is short, tried in this order.
WINDOWS: Final = (256, 32, 4)

#: Least share of the time that prefetching must save, as the simpler order needs fewer waits; and the share with which
#: copies are early unless that takes longer. In the simpler order a copy may also have to wait for the memory of the
#: tasks before it, which the comparison does not know.
WORTH: Final = 0.005
UNLESS_LONGER: Final = -1e-9


def issue_early(
    draft: PlanDraft,
    touched: Touches,
    after: Mapping[int, Sequence[int]],
    footprint: Footprint,
    platform: Platform,
    worth: float = WORTH,
) -> Ints | None:
    """Return an order of steps in which copies on copy lanes come as early as possible; None to keep the order.

    It must save a share ``worth`` of the time.

    No step is added: where memory has no space for prefetched data, the copy comes later; no array is evicted for it.
    """
    on_copy_lane = np.array([lane.kind == "copy" for lane in draft.lanes], np.bool_)
    if not on_copy_lane.any() or (early := on_copy_lane[draft.steps.lane]).sum() < 2:
        return None
    starts, before = hazards(without_memory(touched), draft, after, by_buffer=True)
    lane, duration = draft.steps.lane, draft.steps.duration_s
    lanes, count = len(draft.lanes), len(draft.steps)
    in_order_s = start_times(lane, np.zeros(count, np.bool_), starts, before, duration, lanes, count)
    spaces = [space.name for space in platform.spaces]
    brings = early & (draft.steps.way % len(spaces) != spaces.index(HOST))
    for window in (count, *WINDOWS):
        start_s = start_times(lane, early, starts, before, duration, lanes, window)
        if (start_s + duration).max() > (1.0 - worth) * (in_order_s + duration).max():
            break
        order = sequence(start_s, duration, early, brings, lane, starts, before)
        if footprint.fits(order):
            return order
    return None


@compiled
def start_times(
    lane: Ints, early: Flags, starts: Ints, before: Ints, duration: Floats, lane_count: int, window: int
) -> Floats:
    """Return the start of each step if copies go by due date and all other steps in order."""
    count = len(lane)
    waiting = starts[1:] - starts[:-1]
    previous = np.full(lane_count, -1, np.int64)
    next_on_lane = np.full(count, -1, np.int64)
    heap_starts = np.zeros(lane_count + 1, np.int64)
    after_starts = np.zeros(count + 1, np.int64)
    for step in range(count):
        if early[step]:
            heap_starts[lane[step] + 1] += 1
        else:
            if previous[lane[step]] >= 0:
                next_on_lane[previous[lane[step]]] = step
                waiting[step] += 1
            previous[lane[step]] = step
        for k in range(starts[step], starts[step + 1]):
            after_starts[before[k] + 1] += 1
    heap_starts, after_starts = np.cumsum(heap_starts), np.cumsum(after_starts)
    after = np.empty(len(before), np.int64)
    filled = after_starts[:-1].copy()
    for step in range(count):
        for k in range(starts[step], starts[step + 1]):
            after[filled[before[k]]] = step
            filled[before[k]] += 1
    heaps = np.empty(heap_starts[-1], np.int64)
    size = np.zeros(lane_count, np.int64)
    busy = np.zeros(lane_count, np.bool_)
    start_s = np.full(count, np.inf)
    todo = [0 for _ in range(0)]  # ready steps
    for step in range(count):
        if waiting[step] == 0:
            todo.append(step)  # noqa: PERF401 - compiled
    events = [(0.0, -1) for _ in range(0)]
    now, front = 0.0, 0
    while True:
        while len(todo):
            step = todo.pop()
            if early[step]:
                heap = heaps[heap_starts[lane[step]] : heap_starts[lane[step] + 1]]
                size[lane[step]] = push(heap, size[lane[step]], step)
            else:
                start_s[step] = now
                heapq.heappush(events, (now + duration[step], step))
        while front < count and (early[front] or start_s[front] < np.inf):
            front += 1
        for n in range(lane_count):
            if size[n] and not busy[n] and heaps[heap_starts[n]] - front <= window:
                step = heaps[heap_starts[n]]
                size[n] = pop(heaps[heap_starts[n] : heap_starts[n + 1]], size[n])
                busy[n] = True
                start_s[step] = now
                heapq.heappush(events, (now + duration[step], step))
        if not len(events):
            return start_s
        now, step = heapq.heappop(events)
        if early[step]:
            busy[lane[step]] = False
        elif next_on_lane[step] >= 0:
            waiting[next_on_lane[step]] -= 1
            if waiting[next_on_lane[step]] == 0:
                todo.append(next_on_lane[step])
        for k in range(after_starts[step], after_starts[step + 1]):
            waiting[after[k]] -= 1
            if waiting[after[k]] == 0:
                todo.append(after[k])


@compiled
def sequence(
    start_s: Floats, duration: Floats, early: Flags, brings: Flags, lane: Ints, starts: Ints, before: Ints
) -> Ints:
    """Return the steps in an order that keeps memory that is in use at the same time apart.

    A step's memory counts as free after it in the order. Data copied while a kernel runs must not reuse the memory of
    that kernel's inputs, or the copy would wait for the kernel. So such a copy is placed before the kernel.
    """
    order = np.argsort(start_s, kind="mergesort")  # stable
    place = np.empty(len(order))
    place[order] = np.arange(len(order))
    last = np.full(lane.max() + 1, -1.0)
    running = [0 for _ in range(0)]
    at = 0
    while at < len(order):
        end = at  # steps with the same start time run concurrently
        while end < len(order) and start_s[order[end]] == start_s[order[at]]:
            if not early[order[end]]:
                running.append(order[end])
            end += 1
        now = start_s[order[at]]
        running = [step for step in running if start_s[step] + duration[step] > now]
        for step in order[at:end]:
            if brings[step] and len(running):
                least = last[lane[step]]
                for k in range(starts[step], starts[step + 1]):
                    least = max(least, place[before[k]])
                place[step] = max(least, min(place[step], place[running[0]] - 0.5))
            last[lane[step]] = max(last[lane[step]], place[step])
        at = end
    return order[np.argsort(place[order], kind="mergesort")]
