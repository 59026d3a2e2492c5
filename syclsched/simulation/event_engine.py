# SPDX-License-Identifier: Apache-2.0
"""Compiled discrete-event simulation of a plan's instructions on lanes that may slow each other down.

Every instruction has a duration alone on the machine. While instructions of interfering devices run concurrently, each
proceeds at the rate ``1 / (1 + sum of interference factors)``: a factor of 1 means time-sharing (half speed each), 0 no
effect. Instructions that compute on one processor share its cores: while they could use more cores than it has, each is
slower by that ratio (processor sharing). The thread that submits takes part with one core until all is submitted.
Copies do not interfere; they share channels (see `syclsched.simulation.channels`).

A lane waits at an allocation until enough memory has been freed for it and for all allocations before it in the plan's
order. A free does not block its lane: it takes effect once the lane has reached it and its waits are done.

A lane has at most one flags event. All events of one instant are processed before channels are granted and rates are
set for the time after it, so the result does not depend on the order of the lanes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from syclsched.compiled import lean
from syclsched.simulation.channels import FAIR, ONE_PORT, fair_speeds
from syclsched.simulation.eventqueue import put, remove
from syclsched.simulation.machine import ALLOC, COPY, DONE, FREE, LOST, Floats, Ints, Machine, Records

#: Phase of a lane: waiting for instructions (or at its end), waiting for a time, running, in the latency of a copy,
#: moving data, waiting for a channel, failed.
_WAITING, _DUE, _RUNNING, _LATENCY, _MOVING, _QUEUED, _DEAD = 0, 1, 2, 3, 4, 5, 6


class _EngineState(NamedTuple):
    """State of a run beside its machine. A list of lanes has its length as its first element."""

    heap: Ints  # the event queue
    stack: Ints  # lanes to advance, and frees (as -2 minus their index)
    channel_waiters: Ints  # lanes that wait for a channel, in order of submission
    memory_waiters: Ints  # lanes that wait for memory
    flags: Ints  # whether rates, channels and bandwidth shares must be updated, and whether all is submitted
    #: Buffers for the lanes whose copies move data, their instructions and their speeds.
    moving: Ints
    flows: Ints
    speed: Floats


#: Indices into `_EngineState.flags`.
_RATES, _PORTS, _FLOWS, _SUBMITTED = 0, 1, 2, 3


def run_machine(m: Machine) -> Records:
    """Run a plan until it ends or no instruction can proceed; return the timed instructions."""
    copy = m._replace(
        steps=m.steps.copy(),
        lanes=m.lanes.copy(),
        devices=m.devices.copy(),
        processors=m.processors.copy(),
        channels=m.channels.copy(),
        freed_bytes=m.freed_bytes.copy(),
    )
    _run_machine(copy, _state(len(m.lanes), len(m.steps)))
    return copy.steps[:-1]


def _state(lanes: int, steps: int) -> _EngineState:
    """Return the initial state for some number of lanes and steps."""
    heap, channel_waiters, memory_waiters = (np.zeros(lanes + 1, dtype=np.int64) for _ in range(3))
    stack = np.zeros(lanes + steps + 1, dtype=np.int64)
    moving, flows = (np.zeros(lanes, dtype=np.int64) for _ in range(2))
    flags = np.zeros(4, dtype=np.int64)
    return _EngineState(heap, stack, channel_waiters, memory_waiters, flags, moving, flows, np.zeros(lanes))


@lean
def _run_machine(m: Machine, s: _EngineState) -> None:
    lanes = m.lanes
    heap = s.heap
    submitted_s = 0.0
    for i in range(len(m.steps)):
        submitted_s = max(submitted_s, m.steps[i].submit_s)
    s.flags[_SUBMITTED] = submitted_s <= 0.0
    if not s.flags[_SUBMITTED]:
        _count_submission(m, 1)
    event = 0
    for lane in range(len(lanes)):
        _push(s, lane)
    _advance_lanes(m, s, 0.0)
    _update_rates(m, s, 0.0)
    while True:
        now = lanes[heap[1]].due_s if heap[0] else np.inf
        if not s.flags[_SUBMITTED]:
            now = min(now, submitted_s)
        if event < len(m.events):
            now = min(now, m.events[event].at_s)
        if now == np.inf:
            return
        while heap[0] and lanes[heap[1]].due_s <= now:
            lane = heap[1]
            remove(heap, lanes, lane)
            if lanes[lane].phase == _DUE:
                _begin(m, s, lane, now)
            else:
                _end(m, s, lane, now)
                _advance_lanes(m, s, now)
        if not s.flags[_SUBMITTED] and submitted_s <= now:
            s.flags[_SUBMITTED] = s.flags[_RATES] = 1
            _count_submission(m, -1)
        while event < len(m.events) and m.events[event].at_s <= now:
            _apply_disturbance(m, s, event, now)
            event += 1
        _update_rates(m, s, now)


@lean
def _count_submission(m: Machine, change: int) -> None:
    """Add or subtract the cores that the submitting thread uses."""
    for p in range(len(m.processors)):
        m.processors[p].wanted += change * m.processors[p].submitting


@lean
def _push(s: _EngineState, lane: int) -> None:
    """Add a lane, or a free, to those to advance."""
    s.stack[0] += 1
    s.stack[s.stack[0]] = lane


@lean
def _advance_lanes(m: Machine, s: _EngineState, now: float) -> None:
    """Advance the lanes on the stack, and those they wake, as far as possible at the current time."""
    while s.stack[0] > 0:
        lane = s.stack[s.stack[0]]
        s.stack[0] -= 1
        if lane < 0:
            _apply_free(m, s, -2 - lane, now)
            continue
        state = m.lanes[lane]
        while state.pointer < state.end:
            step = m.steps[state.pointer]
            if step.kind == FREE:
                _push(s, -2 - state.pointer)
                _advance(m, lane)
                continue
            w = state.cursor
            while w < step.wait_end and m.steps[m.waits[w]].outcome == DONE:
                w += 1
            state.cursor = w
            if w < step.wait_end:
                state.next_waiter = m.steps[m.waits[w]].waiter
                m.steps[m.waits[w]].waiter = lane
                break
            if step.kind == ALLOC:
                if m.freed_bytes[step.first] < step.room_bytes:
                    s.memory_waiters[0] += 1
                    s.memory_waiters[s.memory_waiters[0]] = lane
                    break
                step.start_s = now
                step.finish_s = now
                _advance(m, lane)
                _done(m, s, step)
                continue
            ready = max(step.submit_s, now + step.handoff_s)
            if ready > now:
                state.phase = _DUE
                put(s.heap, m.lanes, lane, ready)
            else:
                _begin(m, s, lane, now)
            break


@lean
def _apply_free(m: Machine, s: _EngineState, free: int, now: float) -> None:
    """Apply a free, or make it wait for its first unfinished predecessor."""
    step = m.steps[free]
    w = step.wait_start
    while w < step.wait_end and m.steps[m.waits[w]].outcome == DONE:
        w += 1
    step.wait_start = w
    if w < step.wait_end:
        step.second = m.steps[m.waits[w]].waiter
        m.steps[m.waits[w]].waiter = -2 - free
        return
    step.start_s = now
    step.finish_s = now
    m.freed_bytes[step.first] += step.room_bytes
    _done(m, s, step)
    if s.memory_waiters[0]:
        _resume_parked(m, s)


@lean
def _resume_parked(m: Machine, s: _EngineState) -> None:
    """Resume the lanes whose allocations now fit."""
    kept = 0
    for n in range(1, s.memory_waiters[0] + 1):
        lane = s.memory_waiters[n]
        step = m.steps[m.lanes[lane].pointer]
        if m.freed_bytes[step.first] < step.room_bytes:
            kept += 1
            s.memory_waiters[kept] = lane
        else:
            s.stack[0] += 1
            s.stack[s.stack[0]] = lane
    s.memory_waiters[0] = kept


@lean
def _advance(m: Machine, lane: int) -> None:
    """Move a lane to its next instruction."""
    state = m.lanes[lane]
    state.pointer += 1
    state.cursor = m.steps[state.pointer].wait_start


@lean
def _done(m: Machine, s: _EngineState, step: Any) -> None:
    """Mark an instruction as done, and wake the lanes and frees that wait for it."""
    step.outcome = DONE
    other = step.waiter
    step.waiter = -1
    while other != -1:
        _push(s, other)
        other = m.lanes[other].next_waiter if other >= 0 else m.steps[-2 - other].second


@lean
def _begin(m: Machine, s: _EngineState, lane: int, now: float) -> None:
    """Start a lane's instruction, or queue it for its channels."""
    state = m.lanes[lane]
    step = m.steps[state.pointer]
    if step.lost_s <= now:
        state.phase = _DEAD
    elif m.contention == ONE_PORT and step.first >= 0:
        state.phase = _QUEUED
        s.flags[_PORTS] = 1
        s.channel_waiters[0] += 1
        place = s.channel_waiters[0]
        while place > 1 and m.steps[m.lanes[s.channel_waiters[place - 1]].pointer].order > step.order:
            s.channel_waiters[place] = s.channel_waiters[place - 1]
            place -= 1
        s.channel_waiters[place] = lane
    else:
        _start(m, s, lane, now)


@lean
def _start(m: Machine, s: _EngineState, lane: int, now: float) -> None:
    """Start a lane's instruction now."""
    state = m.lanes[lane]
    step = m.steps[state.pointer]
    step.start_s = now
    state.since_s = now
    state.speed = 1.0
    state.phase = _RUNNING
    state.left_s = step.duration_s
    if step.kind == COPY:
        _use_cores(m, s, step, 1)
        if m.contention == FAIR and step.bytes_per_s > 0.0:
            state.phase = _LATENCY
            state.left_s = step.latency_s
    elif state.mixes:
        _count(m, s, lane, 1)
    state.rate = _rate(m, s, lane)
    put(s.heap, m.lanes, lane, now + state.left_s / state.rate)


@lean
def _count(m: Machine, s: _EngineState, lane: int, change: int) -> None:
    """Count a lane's instruction as running, or no longer; request new rates if others are affected."""
    state = m.lanes[lane]
    device = m.devices[state.device]
    device.running += change
    if device.interference_start < device.interference_end:
        s.flags[_RATES] = 1
    if state.processor >= 0:
        _want(m, s, state.processor, float(change * state.cores))


@lean
def _use_cores(m: Machine, s: _EngineState, copy: Any, change: int) -> None:
    """Count a copy's use of cores at its ends, or end it."""
    if copy.cores > 0.0:
        if copy.source >= 0:
            _want(m, s, copy.source, change * copy.cores)
        if copy.target >= 0:
            _want(m, s, copy.target, change * copy.cores)


@lean
def _want(m: Machine, s: _EngineState, number: int, cores: float) -> None:
    """Change the number of cores that are wanted of a processor; request new rates if others are affected."""
    processor = m.processors[number]
    before = processor.wanted
    processor.wanted += cores
    if max(before, processor.wanted) > processor.cores:
        s.flags[_RATES] = 1


@lean
def _rate(m: Machine, s: _EngineState, lane: int) -> float:
    """Return the current rate of a lane's instruction: 1 if nothing slows it down."""
    state = m.lanes[lane]
    load = 0.0 if s.flags[_SUBMITTED] else state.load
    if m.steps[state.pointer].kind == COPY:
        return float(state.speed / (1.0 + load))
    device = m.devices[state.device]
    if state.mixes:
        for n in range(device.interference_start, device.interference_end):
            other = m.interference[n]
            load += other.factor * (m.devices[other.device].running - (other.device == state.device))
    oversubscription = 1.0
    if state.mixes and state.processor >= 0:
        processor = m.processors[state.processor]
        if processor.wanted > processor.cores:
            oversubscription = processor.wanted / processor.cores
    return float(1.0 / ((1.0 + load) * oversubscription * device.slowed))


@lean
def _release(m: Machine, s: _EngineState, lane: int) -> None:
    """Release the device or channels of a lane's running instruction, which ends or is lost."""
    state = m.lanes[lane]
    step = m.steps[state.pointer]
    if step.kind != COPY:
        if state.mixes:
            _count(m, s, lane, -1)
        return
    _use_cores(m, s, step, -1)
    if state.phase == _MOVING:
        s.flags[_FLOWS] = 1
    elif m.contention == ONE_PORT and step.first >= 0:
        s.flags[_PORTS] = 1
        m.channels[step.first].taken = 0
        if step.second >= 0:
            m.channels[step.second].taken = 0


@lean
def _end(m: Machine, s: _EngineState, lane: int, now: float) -> None:
    """End a lane's instruction, or the latency of its copy."""
    state = m.lanes[lane]
    step = m.steps[state.pointer]
    if state.phase == _LATENCY:
        state.phase = _MOVING
        state.left_s = step.duration_s - step.latency_s
        state.since_s = now
        state.rate = 0.0  # until `_update_rates` gives it a share of the bandwidth
        s.flags[_FLOWS] = 1
        return
    _release(m, s, lane)
    step.finish_s = now
    state.phase = _WAITING
    _advance(m, lane)
    _done(m, s, step)
    _push(s, lane)


@lean
def _apply_disturbance(m: Machine, s: _EngineState, at: int, now: float) -> None:
    """Apply a disturbance: change a device's speed, or lose the instructions of a failure."""
    event = m.events[at]
    if event.device >= 0:
        m.devices[event.device].slowed = event.factor
        s.flags[_RATES] = 1
        return
    for lane in range(len(m.lanes)):
        state = m.lanes[lane]
        if state.phase == _WAITING or state.phase == _DUE or state.phase == _DEAD:
            continue  # `_begin` handles lanes that have not started
        step = m.steps[state.pointer]
        if step.lost_s > now:
            continue
        if state.phase == _QUEUED:
            _remove(s.channel_waiters, lane)
            s.flags[_PORTS] = 1
        else:
            _release(m, s, lane)
            step.finish_s = now
            step.outcome = LOST
            remove(s.heap, m.lanes, lane)
        state.phase = _DEAD


@lean
def _remove(lanes: Ints, lane: int) -> None:
    """Remove a lane from a list."""
    kept = 0
    for n in range(1, lanes[0] + 1):
        if lanes[n] != lane:
            kept += 1
            lanes[kept] = lanes[n]
    lanes[0] = kept


@lean
def _update_rates(m: Machine, s: _EngineState, now: float) -> None:
    """Grant free channels, and update the rates if anything has changed."""
    if s.flags[_PORTS]:
        s.flags[_PORTS] = 0
        _grant_channels(m, s, now)
    if s.flags[_FLOWS]:
        s.flags[_FLOWS] = 0
        s.flags[_RATES] = 1
        _share_bandwidth(m, s)
    if not s.flags[_RATES]:
        return
    s.flags[_RATES] = 0
    for lane in range(len(m.lanes)):
        state = m.lanes[lane]
        if state.phase == _RUNNING or state.phase == _LATENCY or state.phase == _MOVING:
            rate = _rate(m, s, lane)
            if rate != state.rate:
                state.left_s = max(0.0, state.left_s - (now - state.since_s) * state.rate)
                state.since_s = now
                state.rate = rate
                put(s.heap, m.lanes, lane, now + state.left_s / rate)


#: States of a channel while channels are granted.
_FREE, _TAKEN, _CLAIMED = 0, 1, 2


@lean
def _grant_channels(m: Machine, s: _EngineState, now: float) -> None:
    """Start the copies whose channels are free; a blocked copy keeps later ones off its free channel."""
    kept = 0
    for n in range(1, s.channel_waiters[0] + 1):
        lane = s.channel_waiters[n]
        step = m.steps[m.lanes[lane].pointer]
        free = m.channels[step.first].taken == _FREE
        if step.second >= 0:
            free = free and m.channels[step.second].taken == _FREE
        _mark(m, step.first, _FREE, _TAKEN if free else _CLAIMED)
        _mark(m, step.second, _FREE, _TAKEN if free else _CLAIMED)
        if free:
            _start(m, s, lane, now)
        else:
            kept += 1
            s.channel_waiters[kept] = lane
    s.channel_waiters[0] = kept
    for n in range(1, kept + 1):
        step = m.steps[m.lanes[s.channel_waiters[n]].pointer]
        _mark(m, step.first, _CLAIMED, _FREE)
        _mark(m, step.second, _CLAIMED, _FREE)


@lean
def _mark(m: Machine, channel: int, old: int, new: int) -> None:
    """Change the state of a channel from one value to another, if the channel exists and has the first."""
    if channel >= 0 and m.channels[channel].taken == old:
        m.channels[channel].taken = new


@lean
def _share_bandwidth(m: Machine, s: _EngineState) -> None:
    """Set the max-min fair speeds of the copies that move data."""
    count = 0
    for lane in range(len(m.lanes)):
        if m.lanes[lane].phase == _MOVING:
            s.moving[count] = lane
            s.flows[count] = m.lanes[lane].pointer
            count += 1
    fair_speeds(m, s.flows[:count], s.speed)
    for n in range(count):
        m.lanes[s.moving[n]].speed = s.speed[n]
