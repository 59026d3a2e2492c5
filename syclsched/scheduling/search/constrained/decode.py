# SPDX-License-Identifier: Apache-2.0
"""Decoder of the constrained evaluator: from order and placement to times, copies and memory use, task by task.

Every task starts as early as its processor, predecessors, copies and the memory for its results allow. Where a space is
limited, tasks wait for free memory; an allocation that does not fit even then is counted as excess.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import lean
from syclsched.scheduling.core.busy_time import find_busy_seconds
from syclsched.scheduling.search.constrained.memory_accounting import (
    ALLOCATED,
    AVAILABLE_S,
    EXCESS,
    INPUT_BYTES,
    LIMIT,
    allocate,
    release,
)
from syclsched.scheduling.search.constrained.state import (
    COPIES,
    ENERGY,
    HOST_SPACE,
    INTERVAL,
    LISTED,
    MAKESPAN,
    ConstrainedState,
)
from syclsched.scheduling.search.incremental.decode import read_in
from syclsched.scheduling.tables import Floats, Ints


@lean
def locate(s: ConstrainedState) -> None:
    """Find where each item lies and is read, and count its uses; a copy is a use of its source."""
    t, nodes, lanes = s.tables, s.nodes, s.lanes
    read_start, read_item = t.read_start, t.read_item
    make_start, make_item, make_replaces, nbytes = t.make_start, t.make_item, t.make_replaces, t.item_bytes
    origin, own, left, lasting, read_space = s.origin, s.own, s.left, s.lasting, s.read_space
    left[:] = 0
    for item in range(origin.size):
        own[item] = t.item_producer[item] < 0
        origin[item] = t.item_space[item]
    for task in range(s.order.size):
        processor = nodes[task].processor
        device = lanes[processor].device
        s.processor[task], s.device[task] = processor, device
        for row in range(read_start[task], read_start[task + 1]):
            item = read_item[row]
            space = read_in(s.lines, nbytes[item], origin[item], device)
            read_space[row] = space
            if nbytes[item] > 0.0:
                if left[item, space] == 0 and space != origin[item]:
                    left[item, origin[item]] += 1
                left[item, space] += 1
        for row in range(make_start[task], make_start[task + 1]):
            item, old = make_item[row], make_replaces[row]
            space = s.homes[device]
            if old >= 0:
                space = read_in(s.lines, nbytes[old], origin[old], device)
                own[item] = own[old] and space == origin[old]
            origin[item] = space
            if lasting[item]:
                left[item, space] += 1
    for k in range(t.want_item.size):
        item, space = t.want_item[k], t.want_space[k]
        if nbytes[item] > 0.0:
            if left[item, space] == 0 and space != origin[item]:
                left[item, origin[item]] += 1
            left[item, space] += 1


@lean
def _copy(
    line: tuple[int, int, int, float], memory_s: float, made_s: float, channel: Ints, port_s: Floats, load_s: Floats,
    what: Ints, when_s: Floats, counts: Ints,
) -> float:  # fmt: skip
    """Copy an item over a line (item, source, destination, seconds) as soon as memory and channels allow."""
    item, source, space, seconds = line
    begin = max(made_s, memory_s)
    if counts[LISTED]:
        first_port = load_s.size - port_s.size
        for k in range(2):
            if channel[source, space, k] >= 0:
                begin = max(begin, port_s[channel[source, space, k]])
        for k in range(2):
            if channel[source, space, k] >= 0:
                port_s[channel[source, space, k]] = begin + seconds
                load_s[first_port + channel[source, space, k]] += seconds
        row = counts[COPIES]
        what[row, 0], what[row, 1], what[row, 2] = item, source, space
        when_s[row, 0], when_s[row, 1] = begin, begin + seconds
        counts[COPIES] = row + 1
    return float(begin + seconds)


@lean
def place(s: ConstrainedState) -> None:
    """Place the tasks in order: their copies, memory and times, and the memory they release."""
    t = s.tables
    _clear(s)
    for task in s.order:
        processor = s.processor[task]
        start = max(t.release_s[task], s.free_s[processor])
        for k in range(t.pred_start[task], t.pred_start[task + 1]):
            start = max(start, s.finish_s[t.pred_task[k]])
        start = _bring_inputs(s, task, start)
        start = _allocate_results(s, task, start)
        seconds = t.seconds[t.kind[task], s.device[task]]
        finish = start + seconds
        s.start_s[task], s.finish_s[task], s.free_s[processor] = start, finish, finish
        s.load_s[processor] += seconds
        _release_inputs(s, task, start, finish)
        _deliver_results(s, task, finish)
    _copy_wanted(s)


@lean
def _clear(s: ConstrainedState) -> None:
    """Clear the times, the copies and the memory of an earlier placement."""
    s.free_s[:], s.load_s[:], s.port_s[:], s.made_s[:], s.size[:] = 0.0, 0.0, 0.0, 0.0, 0
    s.arrival_s[:] = np.inf
    s.copying[COPIES] = 0
    memory = s.memory
    for space in range(memory.shape[0]):
        memory[space, ALLOCATED], memory[space, AVAILABLE_S] = memory[space, INPUT_BYTES], 0.0
        memory[space, EXCESS] = max(0.0, memory[space, INPUT_BYTES] - memory[space, LIMIT])


@lean
def _fetch(s: ConstrainedState, item: int, space: int, made_s: float) -> float:
    """Allocate memory for an item in a space and copy it there from its origin; return its arrival."""
    t = s.tables
    source, nbytes = s.origin[item], t.item_bytes[item]
    copy_s = t.latency_s[source, space] + nbytes * t.s_per_byte[source, space]
    memory_s = allocate(s.memory, s.heap, s.size, space, nbytes)
    line = (item, source, space, copy_s)
    return _copy(line, memory_s, made_s, t.channel, s.port_s, s.load_s, s.copy_what, s.copy_when_s, s.copying)


@lean
def _bring_inputs(s: ConstrainedState, task: int, start: float) -> float:
    """Copy the inputs of a task that are not where it reads them; return its start after their arrival."""
    t = s.tables
    for row in range(t.read_start[task], t.read_start[task + 1]):
        item, space = t.read_item[row], s.read_space[row]
        s.first[row] = False
        if t.item_bytes[item] == 0.0 or space == s.origin[item]:
            start = max(start, s.made_s[item])
            continue
        if s.arrival_s[item, space] == np.inf:
            s.arrival_s[item, space] = s.last_s[item, space] = _fetch(s, item, space, s.made_s[item])
            s.first[row] = True
        start = max(start, s.arrival_s[item, space])
    return start


@lean
def _allocate_results(s: ConstrainedState, task: int, start: float) -> float:
    """Allocate memory for the results of a task; return its start after the wait for free memory."""
    t = s.tables
    for row in range(t.make_start[task], t.make_start[task + 1]):
        item, old = t.make_item[row], t.make_replaces[row]
        # An in-place result reuses the memory of the old value, unless the old value has other readers there.
        if not s.own[item] and t.item_bytes[item] > 0.0 and (old < 0 or s.left[old, s.origin[item]] > 1):
            start = max(start, allocate(s.memory, s.heap, s.size, s.origin[item], t.item_bytes[item]))
    return start


@lean
def _release_inputs(s: ConstrainedState, task: int, start: float, finish: float) -> None:
    """Count the reads of a task as done, and release the inputs without further uses."""
    t = s.tables
    left, last_s, own = s.left, s.last_s, s.own
    for row in range(t.read_start[task], t.read_start[task + 1]):
        item, space = t.read_item[row], s.read_space[row]
        if t.item_bytes[item] == 0.0:
            continue
        source = s.origin[item]
        if s.first[row]:
            # Copies that are not listed can be made as late as their first reader allows.
            complete = s.arrival_s[item, space] if s.copying[LISTED] else start
            left[item, source] -= 1
            last_s[item, source] = max(last_s[item, source], complete)
            if left[item, source] == 0 and not own[item]:
                release(s.memory, s.heap, s.size, source, t.item_bytes[item], last_s[item, source])
        left[item, space] -= 1
        last_s[item, space] = max(last_s[item, space], finish)
        if left[item, space] == 0 and not (own[item] and space == source):
            reused = False
            for k in range(t.make_start[task], t.make_start[task + 1]):
                reused = reused or (t.make_replaces[k] == item and s.origin[t.make_item[k]] == space)
            if not reused:
                release(s.memory, s.heap, s.size, space, t.item_bytes[item], last_s[item, space])


@lean
def _deliver_results(s: ConstrainedState, task: int, finish: float) -> None:
    """Copy results at once to the host's memory and to spaces where they are wanted; release those without uses."""
    t = s.tables
    left, last_s, wanted = s.left, s.last_s, s.wanted
    for row in range(t.make_start[task], t.make_start[task + 1]):
        item = t.make_item[row]
        source = s.origin[item]
        s.made_s[item] = last_s[item, source] = finish
        for space in range(s.memory.shape[0]):
            if space == source or left[item, space] == 0 or t.item_bytes[item] == 0.0:
                continue
            if space == s.copying[HOST_SPACE] or wanted[item, space]:
                arrival_s = _fetch(s, item, space, finish)
                s.arrival_s[item, space] = last_s[item, space] = arrival_s
                left[item, source] -= 1
                last_s[item, source] = max(last_s[item, source], arrival_s)
        if left[item, source] == 0 and not s.own[item]:
            release(s.memory, s.heap, s.size, source, t.item_bytes[item], last_s[item, source])


@lean
def _copy_wanted(s: ConstrainedState) -> None:
    """Copy the items that are wanted in a space at the end and have not arrived there."""
    t = s.tables
    for k in range(t.want_item.size):
        item, space = t.want_item[k], t.want_space[k]
        if t.item_bytes[item] > 0.0 and space != s.origin[item] and s.arrival_s[item, space] == np.inf:
            s.arrival_s[item, space] = _fetch(s, item, space, s.made_s[item])


@lean
def measure(s: ConstrainedState) -> None:
    """Compute makespan, largest load and energy."""
    t, finish_s, load_s = s.tables, s.finish_s, s.load_s
    done = 0.0
    for task in range(finish_s.size):
        done = max(done, finish_s[task])
    for k in range(t.want_item.size):
        item, space = t.want_item[k], t.want_space[k]
        copied = t.item_bytes[item] > 0.0 and space != s.origin[item]
        done = max(done, s.arrival_s[item, space] if copied else s.made_s[item])
    largest_s = 0.0
    for k in range(load_s.size):
        largest_s = max(largest_s, load_s[k])
    joules = 0.0
    if s.watts.shape[0]:
        several_lanes = s.watts.shape[0] < t.processor_device.size
        if several_lanes:
            find_busy_seconds(s.device, s.start_s, finish_s, s.by_start, s.busy)
        for device in range(s.watts.shape[0]):
            busy_s = s.busy[device, 0] if several_lanes else load_s[device]
            joules += s.watts[device, 0] * busy_s + s.watts[device, 1] * max(0.0, done - busy_s)
    s.value[MAKESPAN], s.value[INTERVAL], s.value[ENERGY] = done, largest_s, joules
