# SPDX-License-Identifier: Apache-2.0
"""Decoder of the constrained search: from order and placement to times, copies and memory use, task by task.

Every task starts as early as its processor, predecessors, copies and the memory for its results allow. Where a space is
limited, tasks wait for free memory; an allocation that does not fit even then is counted as excess.

There are few functions, and they unpack tuples once: a call passes every array of a tuple.
"""

from __future__ import annotations

import numpy as np

from syclsched.compiled import compiled, lean
from syclsched.scheduling.objectives.memory_accounting import FLOOR, HELD, LIMIT, OVER, STANDING, allocate, release
from syclsched.scheduling.objectives.search_state import (
    BACKING,
    COPIES,
    ENERGY,
    INTERVAL,
    LISTED,
    MAKESPAN,
    SearchState,
)
from syclsched.scheduling.tables import Floats, Ints, Tables


@compiled
def decode(t: Tables, s: SearchState) -> None:
    """Derive everything that follows from an order and a placement."""
    _locate(t, s)
    _place(t, s)
    _measure(t, s)


@lean
def _read_in(
    origin: int, nbytes: float, device: int, reach_start: Ints, reach_space: Ints, latency_s: Floats, s_per_byte: Floats
) -> int:
    """Return the space in which a device reads an item: its origin if reached, else the one with the fastest copy."""
    best, best_s = reach_space[reach_start[device]], np.inf
    for k in range(reach_start[device], reach_start[device + 1]):
        space = reach_space[k]
        if space == origin:
            return int(origin)
        copy_s = latency_s[origin, space] + nbytes * s_per_byte[origin, space] if nbytes > 0.0 else 0.0
        if copy_s < best_s:
            best, best_s = space, copy_s
    return int(best)


@lean
def _locate(t: Tables, s: SearchState) -> None:
    """Find where each item lies and is read, and count its uses; a copy is a use of its source."""
    processor, device_of, read_start, read_item = s.processor, t.processor_device, t.read_start, t.read_item
    make_start, make_item, make_replaces, nbytes = t.make_start, t.make_item, t.make_replaces, t.item_bytes
    reach_start, reach_space, latency_s, s_per_byte = t.reach_start, t.reach_space, t.latency_s, t.s_per_byte
    origin, own, left, lasting, read_space = s.origin, s.own, s.left, s.lasting, s.read_space
    left[:] = 0
    for item in range(origin.size):
        own[item] = t.item_producer[item] < 0
        origin[item] = t.item_space[item]
    for task in range(processor.size):
        device = device_of[processor[task]]
        s.device[task] = device
        for row in range(read_start[task], read_start[task + 1]):
            item = read_item[row]
            space = _read_in(origin[item], nbytes[item], device, reach_start, reach_space, latency_s, s_per_byte)
            read_space[row] = space
            if nbytes[item] > 0.0:
                if left[item, space] == 0 and space != origin[item]:
                    left[item, origin[item]] += 1
                left[item, space] += 1
        for row in range(make_start[task], make_start[task + 1]):
            item, old = make_item[row], make_replaces[row]
            space = reach_space[reach_start[device]]
            if old >= 0:
                space = _read_in(origin[old], nbytes[old], device, reach_start, reach_space, latency_s, s_per_byte)
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
def _place(t: Tables, s: SearchState) -> None:
    """Place the tasks in order: their copies, memory and times, and the memory they release."""
    seconds, release_s, nbytes, channel = t.seconds, t.release_s, t.item_bytes, t.channel
    pred_start, pred_task, read_start, read_item = t.pred_start, t.pred_task, t.read_start, t.read_item
    make_start, make_item, make_replaces = t.make_start, t.make_item, t.make_replaces
    latency_s, s_per_byte = t.latency_s, t.s_per_byte
    device, start_s, finish_s, free_s, load_s, port_s = s.device, s.start_s, s.finish_s, s.free_s, s.load_s, s.port_s
    origin, made_s, own, read_space, first = s.origin, s.made_s, s.own, s.read_space, s.first
    arrival_s, last_s, left, wanted = s.arrival_s, s.last_s, s.left, s.wanted
    memory, heap, size, what, when_s, counts = s.room, s.heap, s.size, s.copy_what, s.copy_when_s, s.counts
    free_s[:], load_s[:], port_s[:], made_s[:], size[:] = 0.0, 0.0, 0.0, 0.0, 0
    arrival_s[:] = np.inf
    counts[COPIES] = 0
    for space in range(memory.shape[0]):
        memory[space, HELD], memory[space, FLOOR] = memory[space, STANDING], 0.0
        memory[space, OVER] = max(0.0, memory[space, STANDING] - memory[space, LIMIT])
    for task in s.order:
        processor = s.processor[task]
        start = max(release_s[task], free_s[processor])
        for k in range(pred_start[task], pred_start[task + 1]):
            start = max(start, finish_s[pred_task[k]])
        for row in range(read_start[task], read_start[task + 1]):
            item, space = read_item[row], read_space[row]
            source = origin[item]
            first[row] = False
            if nbytes[item] == 0.0 or space == source:
                start = max(start, made_s[item])
                continue
            if arrival_s[item, space] == np.inf:
                copy_s = latency_s[source, space] + nbytes[item] * s_per_byte[source, space]
                at = allocate(memory, heap, size, space, nbytes[item])
                at = _copy(
                    (item, source, space, copy_s), at, made_s[item], channel, port_s, load_s, what, when_s, counts
                )
                arrival_s[item, space] = last_s[item, space] = at
                first[row] = True
            start = max(start, arrival_s[item, space])
        for row in range(make_start[task], make_start[task + 1]):
            item, old = make_item[row], make_replaces[row]
            # An in-place result reuses the memory of the old value, unless the old value has other readers there.
            if not own[item] and nbytes[item] > 0.0 and (old < 0 or left[old, origin[item]] > 1):
                start = max(start, allocate(memory, heap, size, origin[item], nbytes[item]))
        finish = start + seconds[task, device[task]]
        start_s[task], finish_s[task], free_s[processor] = start, finish, finish
        load_s[processor] += seconds[task, device[task]]
        for row in range(read_start[task], read_start[task + 1]):
            item, space = read_item[row], read_space[row]
            if nbytes[item] == 0.0:
                continue
            source = origin[item]
            if first[row]:
                # Copies that are not listed can be made as late as their first reader allows.
                complete = arrival_s[item, space] if counts[LISTED] else start
                left[item, source] -= 1
                last_s[item, source] = max(last_s[item, source], complete)
                if left[item, source] == 0 and not own[item]:
                    release(memory, heap, size, source, nbytes[item], last_s[item, source])
            left[item, space] -= 1
            last_s[item, space] = max(last_s[item, space], finish)
            if left[item, space] == 0 and not (own[item] and space == source):
                reused = False
                for k in range(make_start[task], make_start[task + 1]):
                    reused = reused or (make_replaces[k] == item and origin[make_item[k]] == space)
                if not reused:
                    release(memory, heap, size, space, nbytes[item], last_s[item, space])
        for row in range(make_start[task], make_start[task + 1]):
            item = make_item[row]
            source = origin[item]
            made_s[item] = last_s[item, source] = finish
            for space in range(memory.shape[0]):
                # An item is copied at once to the host's memory, and to spaces where it is wanted.
                if space == source or left[item, space] == 0 or nbytes[item] == 0.0:
                    continue
                if space == counts[BACKING] or wanted[item, space]:
                    copy_s = latency_s[source, space] + nbytes[item] * s_per_byte[source, space]
                    at = allocate(memory, heap, size, space, nbytes[item])
                    at = _copy((item, source, space, copy_s), at, finish, channel, port_s, load_s, what, when_s, counts)
                    arrival_s[item, space] = last_s[item, space] = at
                    left[item, source] -= 1
                    last_s[item, source] = max(last_s[item, source], at)
            if left[item, source] == 0 and not own[item]:
                release(memory, heap, size, source, nbytes[item], last_s[item, source])
    for k in range(t.want_item.size):
        item, space = t.want_item[k], t.want_space[k]
        source = origin[item]
        if nbytes[item] > 0.0 and space != source and arrival_s[item, space] == np.inf:
            copy_s = latency_s[source, space] + nbytes[item] * s_per_byte[source, space]
            at = allocate(memory, heap, size, space, nbytes[item])
            arrival_s[item, space] = _copy(
                (item, source, space, copy_s), at, made_s[item], channel, port_s, load_s, what, when_s, counts
            )


@compiled
def _measure(t: Tables, s: SearchState) -> None:
    """Compute makespan, largest load and energy."""
    finish_s, start_s, load_s, device_of, device_start = s.finish_s, s.start_s, s.load_s, s.device, t.device_start
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
    for device in range(s.watts.shape[0]):
        busy_w, idle_w = s.watts[device, 0], s.watts[device, 1]
        if busy_w == 0.0 and idle_w == 0.0:
            continue
        busy_s, until = load_s[device_start[device]], 0.0
        if device_start[device + 1] - device_start[device] > 1:
            busy_s = 0.0
            for task in np.argsort(start_s):
                if device_of[task] == device and finish_s[task] > max(until, start_s[task]):
                    busy_s += finish_s[task] - max(until, start_s[task])
                    until = finish_s[task]
        joules += busy_w * busy_s + idle_w * max(0.0, done - busy_s)
    s.value[MAKESPAN], s.value[INTERVAL], s.value[ENERGY] = done, largest_s, joules
