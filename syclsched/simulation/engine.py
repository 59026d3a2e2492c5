# SPDX-License-Identifier: Apache-2.0
"""Discrete-event execution of a plan's instructions on lanes that may slow each other down, compiled.

Every instruction has a duration alone on the machine. While instructions of interfering devices run at
once, each proceeds at rate ``1 / (1 + sum of interference factors)``: a factor of 1 takes turns (half speed each), 0
does not matter. Copies do not interfere; they share channels as `syclsched.simulation.channels` says. While the host
submits, its thread takes a core from lanes that compute on the host's cores.

A lane waits at an allocation until enough memory has been given back for it and for all before it in the plan's order.
A free holds no lane up: it takes effect once its lane has come to it and what it waits for is done.

A lane has at most one event to come. Everything that happens at one instant is worked off before channels are handed
out and rates are set for the time after it: the result does not depend on the order of lanes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from syclsched.compiled import inlined, lean
from syclsched.simulation.channels import FAIR, ONE_PORT, fair_speeds
from syclsched.simulation.eventqueue import put, remove
from syclsched.simulation.machine import ALLOC, COPY, DONE, FREE, LOST, Floats, Ints, Machine, Records

#: What a lane is at: waiting for others (or at its end), waiting for a time, running, in the latency of a copy, moving
#: data, waiting for a channel, lost with its device.
_WAITING, _DUE, _RUNNING, _LATENCY, _MOVING, _QUEUED, _DEAD = 0, 1, 2, 3, 4, 5, 6


class _State(NamedTuple):
    """What a run needs besides its machine: lists of lanes, each with its length first, and what is to be done.

    ``heap`` is the queue of events, ``stack`` holds lanes to go on with, and frees (-2 less their place), ``ported``
    lanes that wait for a channel in order of submission, ``parked`` those that wait for memory. ``todo``: whether
    rates, ports and flows must be settled, and whether all is submitted. ``moving``, ``flows`` and ``speed`` are room
    for the lanes whose copies move data, their instructions and shares.
    """

    heap: Ints
    stack: Ints
    ported: Ints
    parked: Ints
    todo: Ints
    moving: Ints
    flows: Ints
    speed: Floats


#: Places in `_State.todo`.
_RATES, _PORTS, _FLOWS, _SUBMITTED = 0, 1, 2, 3


def run_machine(m: Machine) -> Records:
    """Run a plan to its end, or until nothing can go on."""
    copy = m._replace(
        steps=m.steps.copy(),
        lanes=m.lanes.copy(),
        devices=m.devices.copy(),
        channels=m.channels.copy(),
        freed_bytes=m.freed_bytes.copy(),
    )
    _run_machine(copy, _state(len(m.lanes), len(m.steps)))
    return copy.steps[:-1]


def _state(lanes: int, steps: int) -> _State:
    """Return empty lists for some number of lanes and steps."""
    heap, ported, parked = (np.zeros(lanes + 1, dtype=np.int64) for _ in range(3))
    stack = np.zeros(lanes + steps + 1, dtype=np.int64)
    moving, flows = (np.zeros(lanes, dtype=np.int64) for _ in range(2))
    return _State(heap, stack, ported, parked, np.zeros(4, dtype=np.int64), moving, flows, np.zeros(lanes))


@lean
def _run_machine(m: Machine, s: _State) -> None:
    lanes = m.lanes
    heap = s.heap
    submitted_s = 0.0
    for i in range(len(m.steps)):
        submitted_s = max(submitted_s, m.steps[i].submit_s)
    s.todo[_SUBMITTED] = submitted_s <= 0.0
    event = 0
    for lane in range(len(lanes)):
        _push(s, lane)
    _go_on(m, s, 0.0)
    _settle(m, s, 0.0)
    while True:
        now = lanes[heap[1]].due_s if heap[0] else np.inf
        if not s.todo[_SUBMITTED]:
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
                _go_on(m, s, now)
        if not s.todo[_SUBMITTED] and submitted_s <= now:
            s.todo[_SUBMITTED] = s.todo[_RATES] = 1
        while event < len(m.events) and m.events[event].at_s <= now:
            _suffer(m, s, event, now)
            event += 1
        _settle(m, s, now)


@inlined
def _push(s: _State, lane: int) -> None:
    """Note a lane, or a free, to go on with."""
    s.stack[0] += 1
    s.stack[s.stack[0]] = lane


@inlined
def _go_on(m: Machine, s: _State, now: float) -> None:
    """Let the lanes on the stack, and those that they wake, go on as far as they can without time passing."""
    while s.stack[0] > 0:
        lane = s.stack[s.stack[0]]
        s.stack[0] -= 1
        if lane < 0:
            _give_back(m, s, -2 - lane, now)
            continue
        here = m.lanes[lane]
        while here.pointer < here.end:
            step = m.steps[here.pointer]
            if step.kind == FREE:
                _push(s, -2 - here.pointer)
                _advance(m, lane)
                continue
            w = here.cursor
            while w < step.wait_end and m.steps[m.waits[w]].outcome == DONE:
                w += 1
            here.cursor = w
            if w < step.wait_end:
                here.next_waiter = m.steps[m.waits[w]].waiter
                m.steps[m.waits[w]].waiter = lane
                break
            if step.kind == ALLOC:
                if m.freed_bytes[step.first] < step.room_bytes:
                    s.parked[0] += 1
                    s.parked[s.parked[0]] = lane
                    break
                step.start_s = now
                step.finish_s = now
                _advance(m, lane)
                _done(m, s, step)
                continue
            ready = max(step.submit_s, now + step.handoff_s)
            if ready > now:
                here.phase = _DUE
                put(s.heap, m.lanes, lane, ready)
            else:
                _begin(m, s, lane, now)
            break


@inlined
def _give_back(m: Machine, s: _State, free: int, now: float) -> None:
    """Let a free take effect, or wait for the first thing it lacks."""
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
    if s.parked[0]:
        _unpark(m, s)


@lean
def _unpark(m: Machine, s: _State) -> None:
    """Go on with the lanes for whose allocations there is room now."""
    kept = 0
    for n in range(1, s.parked[0] + 1):
        lane = s.parked[n]
        step = m.steps[m.lanes[lane].pointer]
        if m.freed_bytes[step.first] < step.room_bytes:
            kept += 1
            s.parked[kept] = lane
        else:
            s.stack[0] += 1
            s.stack[s.stack[0]] = lane
    s.parked[0] = kept


@inlined
def _advance(m: Machine, lane: int) -> None:
    """Turn a lane to its next instruction."""
    here = m.lanes[lane]
    here.pointer += 1
    here.cursor = m.steps[here.pointer].wait_start


@inlined
def _done(m: Machine, s: _State, step: Any) -> None:
    """Note that an instruction is done, and wake the lanes and frees that waited for it."""
    step.outcome = DONE
    other = step.waiter
    step.waiter = -1
    while other != -1:
        _push(s, other)
        other = m.lanes[other].next_waiter if other >= 0 else m.steps[-2 - other].second


@inlined
def _begin(m: Machine, s: _State, lane: int, now: float) -> None:
    """Start a lane's instruction, or have it wait for its channels."""
    here = m.lanes[lane]
    step = m.steps[here.pointer]
    if step.lost_s <= now:
        here.phase = _DEAD
    elif m.contention == ONE_PORT and step.first >= 0:
        here.phase = _QUEUED
        s.todo[_PORTS] = 1
        s.ported[0] += 1
        place = s.ported[0]
        while place > 1 and m.steps[m.lanes[s.ported[place - 1]].pointer].order > step.order:
            s.ported[place] = s.ported[place - 1]
            place -= 1
        s.ported[place] = lane
    else:
        _start(m, s, lane, now)


@inlined
def _start(m: Machine, s: _State, lane: int, now: float) -> None:
    """Start a lane's instruction now."""
    here = m.lanes[lane]
    step = m.steps[here.pointer]
    step.start_s = now
    here.since_s = now
    here.speed = 1.0
    here.phase = _RUNNING
    here.left_s = step.duration_s
    if step.kind == COPY:
        if m.contention == FAIR and step.bytes_per_s > 0.0:
            here.phase = _LATENCY
            here.left_s = step.latency_s
    elif here.mixes:
        _count(m, s, here.device, 1)
    here.rate = _rate(m, s, lane)
    put(s.heap, m.lanes, lane, now + here.left_s / here.rate)


@inlined
def _count(m: Machine, s: _State, device: int, change: int) -> None:
    """Note that something started or ended on a device that may slow others down."""
    m.devices[device].running += change
    if m.devices[device].beside_start < m.devices[device].beside_end:
        s.todo[_RATES] = 1


@inlined
def _rate(m: Machine, s: _State, lane: int) -> float:
    """Return how fast a lane's instruction proceeds as things are: 1 as if alone."""
    here = m.lanes[lane]
    load = 0.0 if s.todo[_SUBMITTED] else here.load
    if m.steps[here.pointer].kind == COPY:
        return float(here.speed / (1.0 + load))
    device = m.devices[here.device]
    if here.mixes:
        for n in range(device.beside_start, device.beside_end):
            beside = m.beside[n]
            load += beside.factor * (m.devices[beside.device].running - (beside.device == here.device))
    return float(1.0 / ((1.0 + load) * device.slowed))


@inlined
def _leave(m: Machine, s: _State, lane: int) -> None:
    """Give back what a lane's running instruction held, as it ends, well or not."""
    here = m.lanes[lane]
    step = m.steps[here.pointer]
    if step.kind != COPY:
        if here.mixes:
            _count(m, s, here.device, -1)
    elif here.phase == _MOVING:
        s.todo[_FLOWS] = 1
    elif m.contention == ONE_PORT and step.first >= 0:
        s.todo[_PORTS] = 1
        m.channels[step.first].taken = 0
        if step.second >= 0:
            m.channels[step.second].taken = 0


@inlined
def _end(m: Machine, s: _State, lane: int, now: float) -> None:
    """End a lane's instruction, or the latency of its copy."""
    here = m.lanes[lane]
    step = m.steps[here.pointer]
    if here.phase == _LATENCY:
        here.phase = _MOVING
        here.left_s = step.duration_s - step.latency_s
        here.since_s = now
        here.rate = 0.0  # until `_settle` gives it a share
        s.todo[_FLOWS] = 1
        return
    _leave(m, s, lane)
    step.finish_s = now
    here.phase = _WAITING
    _advance(m, lane)
    _done(m, s, step)
    _push(s, lane)


@lean
def _suffer(m: Machine, s: _State, at: int, now: float) -> None:
    """Let an event from outside happen: a device is slower from now on, or something is lost."""
    event = m.events[at]
    if event.device >= 0:
        m.devices[event.device].slowed = event.factor
        s.todo[_RATES] = 1
        return
    for lane in range(len(m.lanes)):
        here = m.lanes[lane]
        if here.phase == _WAITING or here.phase == _DUE or here.phase == _DEAD:
            continue  # `_begin` will see
        step = m.steps[here.pointer]
        if step.lost_s > now:
            continue
        if here.phase == _QUEUED:
            _drop(s.ported, lane)
            s.todo[_PORTS] = 1
        else:
            _leave(m, s, lane)
            step.finish_s = now
            step.outcome = LOST
            remove(s.heap, m.lanes, lane)
        here.phase = _DEAD


@lean
def _drop(lanes: Ints, lane: int) -> None:
    """Take a lane out of a list."""
    kept = 0
    for n in range(1, lanes[0] + 1):
        if lanes[n] != lane:
            kept += 1
            lanes[kept] = lanes[n]
    lanes[0] = kept


@inlined
def _settle(m: Machine, s: _State, now: float) -> None:
    """Hand out free channels and set the rates for the time that comes, where anything has changed."""
    if s.todo[_PORTS]:
        s.todo[_PORTS] = 0
        _hand_out(m, s, now)
    if s.todo[_FLOWS]:
        s.todo[_FLOWS] = 0
        s.todo[_RATES] = 1
        _share_out(m, s)
    if not s.todo[_RATES]:
        return
    s.todo[_RATES] = 0
    for lane in range(len(m.lanes)):
        here = m.lanes[lane]
        if here.phase == _RUNNING or here.phase == _LATENCY or here.phase == _MOVING:
            rate = _rate(m, s, lane)
            if rate != here.rate:
                here.left_s = max(0.0, here.left_s - (now - here.since_s) * here.rate)
                here.since_s = now
                here.rate = rate
                put(s.heap, m.lanes, lane, now + here.left_s / rate)


#: States of a channel while it is handed out.
_FREE, _TAKEN, _CLAIMED = 0, 1, 2


@lean
def _hand_out(m: Machine, s: _State, now: float) -> None:
    """Start the copies whose channels are free; one whose are not keeps later ones off those that are."""
    kept = 0
    for n in range(1, s.ported[0] + 1):
        lane = s.ported[n]
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
            s.ported[kept] = lane
    s.ported[0] = kept
    for n in range(1, kept + 1):
        step = m.steps[m.lanes[s.ported[n]].pointer]
        _mark(m, step.first, _CLAIMED, _FREE)
        _mark(m, step.second, _CLAIMED, _FREE)


@lean
def _mark(m: Machine, channel: int, old: int, new: int) -> None:
    """Change the state of a channel, if there is one and it is in the old state."""
    if channel >= 0 and m.channels[channel].taken == old:
        m.channels[channel].taken = new


@lean
def _share_out(m: Machine, s: _State) -> None:
    """Give the copies that move data their max-min fair speeds."""
    count = 0
    for lane in range(len(m.lanes)):
        if m.lanes[lane].phase == _MOVING:
            s.moving[count] = lane
            s.flows[count] = m.lanes[lane].pointer
            count += 1
    fair_speeds(m, s.flows[:count], s.speed)
    for n in range(count):
        m.lanes[s.moving[n]].speed = s.speed[n]
