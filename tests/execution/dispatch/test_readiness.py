# SPDX-License-Identifier: Apache-2.0
"""The dispatcher's state machine, with random orders of answers from devices and threads."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import ScheduledGraph, cases

from syclsched.execution.core.program import MEMORY_KINDS, Program, ProgramNode
from syclsched.execution.dispatch.readiness import HOST_AHEAD, Readiness
from syclsched.execution.memory.memory_admission import PeakMemoryLimit
from syclsched.execution.memory.preallocation import buffers_to_preallocate
from syclsched.model.plan import Instruction, Lane, Plan
from syclsched.model.platform import Device, MemorySpace, Platform
from syclsched.model.schedule import Schedule
from syclsched.planning import build_plan


def program_of(case: ScheduledGraph) -> Program:
    return Program(build_plan(case.graph, case.platform, case.schedule, case.durations_s))


class MockDevices:
    """Mock devices and host threads that answer in random order and check their instructions."""

    def __init__(self, program: Program, rng: random.Random) -> None:
        self.program = program
        self.rng = rng
        self.readiness = Readiness(program.lanes)
        self.submitted: list[int] = []
        self.complete: set[int] = set()
        self.on_host: list[ProgramNode] = []
        self.on_device: list[list[ProgramNode]] = [[] for _ in program.lanes]
        self.signals: list[ProgramNode] = []

    def run(self) -> None:
        while not self.readiness.finished:
            actions = [self.finish_host] * bool(self.on_host) + [self.finish_device] * any(self.on_device)
            actions += [self.signal] * bool(self.signals)
            node = self.readiness.take()
            if node is not None:
                self.hand_on(node)
            else:
                assert actions, "nothing is ready and nothing is on its way: the run would hang"
            for action in self.rng.choices(actions, k=self.rng.randrange(1, 3)) if actions else ():
                action()
        while any(self.on_device):
            self.finish_device()

    def hand_on(self, node: ProgramNode) -> None:
        assert all(w in self.submitted or w in self.complete for w in node.submitted_first)
        assert all(w in self.complete for w in node.completed_first)
        self.submitted.append(node.id)
        self.readiness.submitted(node)
        if node.instruction.kind in MEMORY_KINDS:
            self.complete.add(node.id)
        elif node.on_host:
            self.on_host.append(node)
            assert sum(n.lane == node.lane for n in self.on_host) <= HOST_AHEAD
        else:
            self.on_device[node.lane].append(node)

    def finish_host(self) -> None:
        firsts = {n.lane: n for n in reversed(self.on_host)}  # a lane's thread executes one instruction after another
        able = [n for n in firsts.values() if all(e in self.complete for e in n.events)]
        if able:
            node = self.rng.choice(able)
            self.on_host.remove(node)
            self.complete.add(node.id)
            self.readiness.completed(node)

    def finish_device(self) -> None:
        """Complete the first instruction of some lane whose events have completed."""
        able = [q for q in self.on_device if q and all(e in self.complete for e in q[0].events)]
        if able:
            node = self.rng.choice(able).pop(0)
            self.complete.add(node.id)
            if node.id in self.program.signals:
                self.signals.append(node)

    def signal(self) -> None:
        if self.signals:
            self.readiness.completed(self.signals.pop(self.rng.randrange(len(self.signals))))


@given(case=st.one_of(cases(), cases(ranges=True)), seed=st.integers(0, 2**20))
def test_instructions_are_submitted_once_in_any_order(case: ScheduledGraph, seed: int) -> None:
    program = program_of(case)
    machine = MockDevices(program, random.Random(seed))
    machine.run()
    assert sorted(machine.submitted) == sorted(program.nodes)
    position = {number: place for place, number in enumerate(machine.submitted)}
    for lane in program.plan.lanes:
        order = [position[i.id] for i in lane.instructions]
        assert order == sorted(order)
    for node in program.nodes.values():
        if node.instruction.kind not in MEMORY_KINDS:
            assert all(position[w] < position[node.id] for w in node.instruction.waits)
    allocated: dict[tuple[str, str], int] = {}
    for _, each in program.plan.instructions():
        for use in each.uses:
            memory = (program.whole.get(use.array, use.array), use.space)
            if each.kind == "alloc":
                allocated[memory] = each.id
            assert position[allocated.get(memory, each.id)] <= position[each.id]


@given(case=st.one_of(cases(), cases(ranges=True)), seed=st.integers(0, 2**20))
def test_no_event_is_handed_to_another_context(case: ScheduledGraph, seed: int) -> None:
    program = program_of(case)
    space = {
        i.id: program.plan.platform.device(lane.device).space for lane in program.plan.lanes for i in lane.instructions
    }
    for node in program.nodes.values():
        if not node.on_host:
            assert all(space[event] == space[node.id] for event in node.events)
        assert not set(node.events) & set(node.completed_first)


def prepared_in(program: Program) -> dict[int, tuple[str, str]]:
    return buffers_to_preallocate((i for _, i in program.plan.instructions()), program.plan.peak_bytes)


@given(case=st.one_of(cases(), cases(ranges=True)), seed=st.integers(0, 2**20), ahead=st.booleans())
def test_memory_stays_within_the_planned_peak_without_deadlock(case: ScheduledGraph, seed: int, ahead: bool) -> None:
    program, rng = program_of(case), random.Random(seed)
    readiness = Readiness(program.lanes)
    limit = PeakMemoryLimit([n.instruction for n in program.nodes.values() if n.instruction.kind == "alloc"],
                        program.plan.peak_bytes, prepared := prepared_in(program) if ahead else {})  # fmt: skip
    held: dict[str, int] = {}
    for number, (_, space) in prepared.items():
        held[space] = held.get(space, 0) + program.nodes[number].instruction.nbytes
    complete: set[int] = set()
    frees: list[Instruction] = []

    def reap() -> None:
        for free in [f for f in frees if set(program.frees_after(f)) <= complete]:
            frees.remove(free)
            held[free.uses[0].space] -= free.nbytes
            limit.freed(free.uses[0].space, free.nbytes)
            readiness.unpark()

    while not readiness.finished:
        node = readiness.take()
        if node is None:
            assert readiness.parked
            before = len(frees)
            reap()
            assert len(frees) < before, "an allocation waits for frees that never come"
            continue
        instruction = node.instruction
        if instruction.kind == "alloc":
            if not limit.allows(instruction):
                readiness.park(node)
                continue
            limit.allocated(instruction)
            space = instruction.uses[0].space
            held[space] = held.get(space, 0) + (0 if node.id in prepared else instruction.nbytes)
            assert held[space] <= program.plan.peak_bytes[space]
        elif instruction.kind == "free":
            frees.append(instruction)
        complete.add(node.id)
        readiness.submitted(node)
        if node.on_host or node.id in program.signals:
            readiness.completed(node)
        if rng.random() < 0.2:
            reap()


def instruction(number: int, kind: str = "barrier", waits: tuple[int, ...] = ()) -> Instruction:
    return Instruction(number, kind, waits=waits)  # type: ignore[arg-type]


def plan_of(*lanes: Lane) -> Plan:
    device = Device("d0", "key", "cpu", "opencl", "a device", "m0", ("m0",))
    platform = Platform("p", (device,), (MemorySpace("m0", 0),))
    return Plan("p", "f", "by hand", platform, (), (), Schedule("by hand", ()), lanes)


@pytest.mark.parametrize("kind", ["alloc", "free"])
def test_a_wait_for_a_memory_instruction_is_for_its_predecessor(kind: str) -> None:
    first = Lane("d0:0", "d0", "compute", (instruction(0), instruction(1, kind)))
    second = Lane("d0:1", "d0", "compute", (instruction(2, waits=(1,)),))
    program = Program(plan_of(first, second))
    assert program.nodes[2].events == (0,)


def test_lowest_number_first_and_parked_instructions_return() -> None:
    lanes = (
        Lane("d0:0", "d0", "compute", (instruction(3), instruction(4))),
        Lane("d0:1", "d0", "compute", (instruction(1),)),
    )
    readiness = Readiness(Program(plan_of(*lanes)).lanes)
    first = readiness.take()
    assert first is not None and first.id == 1
    readiness.park(first)
    second = readiness.take()
    assert second is not None and second.id == 3
    readiness.submitted(second)
    readiness.unpark()
    again = readiness.take()
    assert again is first
    assert not readiness.finished
