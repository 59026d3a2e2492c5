# SPDX-License-Identifier: Apache-2.0
"""The readable reference simulator: events one by one, without channels, to compare with the compiled engine."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from syclsched.errors import IncompletePlanError
from syclsched.execution.memory.memory_admission import PeakMemoryLimit
from syclsched.model.plan import Instruction, Lane, Plan
from syclsched.model.platform import HOST, Device, Interference, Platform
from syclsched.simulation.overheads import host_overheads
from syclsched.simulation.timing import Timing

#: Two lanes of a device with a smaller mutual slow-down than this are on different cores.
_SEPARATE = 0.5

#: Slow-down of a host function and a kernel beside each other if they need more cores than there are.
_DISPLACED = 3.0


@dataclass(slots=True)
class _Running:
    """A running instruction: seconds of work left at ``since_s``, and its speed from then on."""

    instruction: Instruction
    left_s: float
    since_s: float
    rate: float
    stamp: int


def reference_times(plan: Plan) -> dict[int, Timing]:
    """Return the simulated seconds of every instruction number."""
    return _Simulation(plan.lanes, plan.platform, plan.peak_bytes).run()


class _Simulation:
    def __init__(self, lanes: Sequence[Lane], platform: Platform, peak_bytes: dict[str, int]) -> None:
        self._lanes = lanes
        self._submission_s, self._handoff_s = host_overheads(platform)
        self._lane_of = {i.id: n for n, lane in enumerate(lanes) for i in lane.instructions}
        self._on_host = {i.id for lane in lanes if lane.kind == "host" for i in lane.instructions}
        self._neighbours = _interfering_lanes(lanes, platform)
        self._processor = {d.name: d.processor for d in platform.devices}
        self._cores = {d.name: _cores_of_a_lane(d, platform) for d in platform.devices}
        self._size = {p: _size(p, platform) for p in self._processor.values() if p is not None}
        self._pointer = [0] * len(lanes)
        self._busy = [False] * len(lanes)
        self._finished: dict[int, float] = {}
        self._timing: dict[int, Timing] = {}
        self._running: dict[int, _Running] = {}
        self._events: list[tuple[float, int, int, int]] = []
        self._waiting_lanes: dict[int, list[int]] = {}
        self._submit_s = self._submission_times()
        self._submitting_until_s = max(self._submit_s.values(), default=0.0)
        self._host_load = [_load_of_submission(lane, lanes, platform) for lane in lanes]
        self._limit = PeakMemoryLimit((i for n in lanes for i in n.instructions if i.kind == "alloc"), peak_bytes)
        self._frees: list[Instruction] = []
        self._parked: list[int] = []
        self._stamp = 0
        self._now = 0.0

    def run(self) -> dict[int, Timing]:
        """Run all lanes to their ends."""
        for lane in range(len(self._lanes)):
            self._step(lane)
        heapq.heappush(self._events, (self._submitting_until_s, 2, 0, 0))
        while self._events:
            now, kind, lane, stamp = heapq.heappop(self._events)
            if kind == 0:  # a start at a later time
                self._now = now
                self._start(lane)
                continue
            if kind == 2:  # the host has submitted everything
                self._now = now
                self._adjust(range(len(self._lanes)))
                continue
            running = self._running.get(lane)
            if running is None or running.stamp != stamp:
                continue  # its speed changed meanwhile; a newer event is in the queue
            self._now = now
            self._finish(lane, running)
        for stuck, position in zip(self._lanes, self._pointer, strict=True):
            if position < len(stuck.instructions):
                raise IncompletePlanError(
                    f"instruction {stuck.instructions[position].id} never starts", where=f"lane {stuck.name!r}"
                )
        if self._frees:
            raise IncompletePlanError(f"instruction {self._frees[0].id} never starts")
        return self._timing

    def _submission_times(self) -> dict[int, float]:
        """Return the times of submissions, which follow each other in the plan's global order."""
        submitted: dict[int, float] = {}
        clock = 0.0
        for number in sorted(self._lane_of):
            if number not in self._on_host:
                clock += self._submission_s
            submitted[number] = clock
        return submitted

    def _step(self, lane: int) -> None:
        """Advance a free lane as far as possible without time passing; stop where it runs or waits."""
        instructions = self._lanes[lane].instructions
        while not self._busy[lane] and self._pointer[lane] < len(instructions):
            instruction = instructions[self._pointer[lane]]
            if instruction.kind == "free":
                self._pointer[lane] += 1
                self._frees.append(instruction)
                self._give_back()
                continue
            missing = next((w for w in instruction.waits if w not in self._finished), None)
            if missing is not None:
                self._waiting_lanes.setdefault(missing, []).append(lane)
                return
            if instruction.kind == "alloc":
                if not self._limit.allows(instruction):
                    self._parked.append(lane)
                    return
                self._limit.allocated(instruction)
                self._pointer[lane] += 1
                self._pass(instruction)
                continue
            self._busy[lane] = True
            ready = max(self._submit_s[instruction.id], self._now)
            here = instruction.id in self._on_host
            if instruction.waits and any((w in self._on_host) != here for w in instruction.waits):
                # Between host functions and devices one thread has to notice and another to be woken; and work that
                # waits for a host function is submitted only once that has returned.
                ready = max(ready, self._now + self._handoff_s)
            if ready > self._now:
                heapq.heappush(self._events, (ready, 0, lane, 0))
            else:
                self._start(lane)

    def _give_back(self) -> None:
        """Apply frees that have no more waits."""
        due = [free for free in self._frees if all(w in self._finished for w in free.waits)]
        self._frees = [free for free in self._frees if free not in due]
        for free in due:
            self._limit.freed(free.uses[0].space, free.nbytes)
        for free in due:
            self._pass(free)
        if due:
            parked, self._parked = self._parked, []
            for lane in parked:
                self._step(lane)

    def _pass(self, memory: Instruction) -> None:
        """Complete an instruction about memory."""
        self._timing[memory.id] = Timing(self._now, self._now, self._now)
        self._finished[memory.id] = self._now
        self._wake(memory.id)

    def _start(self, lane: int) -> None:
        instruction = self._lanes[lane].instructions[self._pointer[lane]]
        self._timing[instruction.id] = Timing(self._submit_s[instruction.id], self._now, self._now)
        self._running[lane] = _Running(instruction, instruction.duration_s, self._now, 1.0, 0)
        self._reschedule(lane)
        if instruction.kind != "copy":
            self._disturb(lane)

    def _finish(self, lane: int, running: _Running) -> None:
        del self._running[lane]
        number = running.instruction.id
        begun = self._timing[number]
        self._timing[number] = Timing(begun.submit_s, begun.start_s, self._now)
        self._finished[number] = self._now
        self._busy[lane] = False
        self._pointer[lane] += 1
        if running.instruction.kind != "copy":
            self._disturb(lane)
        self._wake(number)
        self._step(lane)

    def _wake(self, number: int) -> None:
        for waiting in self._waiting_lanes.pop(number, ()):
            self._step(waiting)
        self._give_back()

    def _disturb(self, lane: int) -> None:
        """Update the lanes that interfere or share cores with ``lane``, on which an instruction started or ended."""
        on = self._processor[self._lanes[lane].device]
        sharing = [n for n, other in enumerate(self._lanes) if on is not None and self._processor[other.device] == on]
        self._adjust({*sharing, *(other for other, _ in self._neighbours[lane])})

    def _adjust(self, lanes: Iterable[int]) -> None:
        """Account for the work done on these lanes so far, and set their new speed."""
        for other in lanes:
            running = self._running.get(other)
            if running is not None:
                running.left_s = max(0.0, running.left_s - (self._now - running.since_s) * running.rate)
                running.since_s = self._now
                self._reschedule(other)

    def _reschedule(self, lane: int) -> None:
        running = self._running[lane]
        load = self._host_load[lane] if self._now < self._submitting_until_s else 0.0
        if running.instruction.kind != "copy":
            for other, factor in self._neighbours[lane]:
                beside = self._running.get(other)
                if beside is not None and beside.instruction.kind != "copy":
                    load += factor
        running.rate = 1.0 / ((1.0 + load) * self._crowding(lane))
        self._stamp += 1
        running.stamp = self._stamp
        heapq.heappush(self._events, (self._now + running.left_s / running.rate, 1, lane, self._stamp))

    def _crowding(self, lane: int) -> float:
        """Return the ratio of needed and present cores of a lane's processor; 1 if there are enough."""
        on = self._processor[self._lanes[lane].device]
        if on is None or self._running[lane].instruction.kind == "copy":
            return 1.0
        devices = [self._lanes[n].device for n, r in self._running.items() if r.instruction.kind != "copy"]
        wanted = sum(self._cores[device] for device in devices if self._processor[device] == on)
        if self._now < self._submitting_until_s and self._processor.get(HOST) == on:
            wanted += 1
        return max(1.0, wanted / self._size[on])


def _size(processor: str, platform: Platform) -> int:
    """Return the cores of a processor: those that the host may use, if it is the host's; else its largest device's."""
    devices = [d for d in platform.devices if d.processor == processor]
    own = [d.compute_units for d in devices if d.is_host]
    return own[0] if own else max(d.compute_units for d in devices)


def _cores_of_a_lane(device: Device, platform: Platform) -> int:
    if device.processor is None:
        return 0
    size = _size(device.processor, platform)
    if device.is_host:
        return min(size, max(1, device.compute_units // device.lanes))
    if device.lanes > 1 and platform.interference(device.name, device.name) < _SEPARATE:
        return 1
    return min(size, device.compute_units)


def _load_of_submission(lane: Lane, lanes: Sequence[Lane], platform: Platform) -> float:
    """Return how much the submitting thread slows a lane down whose cores are all in use.

    With ``c`` cores and ``t`` threads of the device's lanes on them, one more thread slows all of them to
    ``c / (t + 1)``, if that is less than 1.
    """
    if platform.device(lane.device).processor is not None:
        return 0.0
    if lane.kind != "compute" or not platform.interference(lane.device, HOST):
        return 0.0
    cores = platform.device(lane.device).compute_units
    used = sum(1 for other in lanes if other.device == lane.device and other.kind == "compute")
    apart = any({p.first, p.second} == {lane.device} and p.factor < _SEPARATE for p in platform.interferences)
    threads = used if apart else cores
    return max(0.0, (threads + 1) / cores - 1.0)


def _beyond_cores(pair: Interference, platform: Platform) -> float:
    """Return the part of an interference factor that shared cores do not explain."""
    first, second = platform.device(pair.first), platform.device(pair.second)
    if None in (first.processor, second.processor) or first.processor != second.processor:
        return pair.factor
    both = _cores_of_a_lane(first, platform) + _cores_of_a_lane(second, platform)
    alone = max(1.0, both / _size(str(first.processor), platform))
    for device in (first, second):
        if device.is_host:
            return max(0.0, _DISPLACED / alone - 1.0) if alone > 1.0 else 0.0
    return max(0.0, (1.0 + pair.factor) / alone - 1.0)


def _interfering_lanes(lanes: Sequence[Lane], platform: Platform) -> list[list[tuple[int, float]]]:
    """Return for each lane the other lanes that slow it down, with factors."""
    factors = {frozenset((p.first, p.second)): _beyond_cores(p, platform) for p in platform.interferences}
    result: list[list[tuple[int, float]]] = [[] for _ in lanes]
    if not factors:
        return result
    for a, lane in enumerate(lanes):
        for b, other in enumerate(lanes):
            factor = factors.get(frozenset((lane.device, other.device)), 0.0)
            if a != b and factor and lane.kind != "copy" and other.kind != "copy":
                result[a].append((b, factor))
    return result
