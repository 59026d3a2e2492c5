# SPDX-License-Identifier: Apache-2.0
"""Faulty plans that the verifier refuses, each with one fault in a correct plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.strategies import touching

from syclsched.errors import IncompletePlanError, MemoryLimitError, PlanError, RaceError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import BufferUse, Instruction, Plan, PlannedAccess
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build_plan, verify

READ, WRITE, UPDATE = AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE


def small() -> Plan:
    """Return a plan: on the GPU ``make`` reads input ``x`` and writes ``y``; on the host ``use`` updates ``y``."""
    return small_plan(small_graph())


def small_graph() -> TaskGraph:
    graph = TaskGraph("small")
    x, y = graph.array("x", (4,)), graph.array("y", (4,))
    graph.kernel(touching((READ, WRITE)), name="make", p0=x, p1=y)
    graph.kernel(touching((UPDATE,)), name="use", p0=y)
    return graph


def small_plan(graph: TaskGraph) -> Plan:
    gpu = Device("gpu", "k", "gpu", "level_zero", "", "gpu", ("gpu",), dtypes=("float64",))
    platform = Platform(
        "one",
        (gpu, Device(HOST, HOST, HOST, HOST, "", HOST, (HOST,))),
        (MemorySpace("gpu", 1000), MemorySpace(HOST, 0, True)),
        (Link(HOST, "gpu", 1e-6, 1e9), Link("gpu", HOST, 1e-6, 1e9)),
    )
    assigned = (
        Assignment("make", "gpu", 0, "kernel", 0.0, 1.0),
        Assignment("use", HOST, 0, "host", 1.0, 2.0),
    )
    return build_plan(graph, platform, Schedule("by hand", assigned), {"make": 1.0, "use": 1.0})


def find(plan: Plan, kind: str, array: str | None = None) -> Instruction:
    return next(i for _, i in plan.instructions() if i.kind == kind and (array is None or i.uses[0].array == array))


def edit(plan: Plan, edits: Callable[[Instruction], Instruction | None]) -> Plan:
    """Return the plan with each instruction replaced by the result of ``edits``, or removed."""
    lanes = [
        replace(lane, instructions=tuple(new for i in lane.instructions if (new := edits(i)) is not None))
        for lane in plan.lanes
    ]
    return replace(plan, lanes=tuple(lanes))


def change(plan: Plan, which: Instruction, **fields: object) -> Plan:
    return edit(plan, lambda i: replace(i, **fields) if i is which else i)  # type: ignore[arg-type]


def without(plan: Plan, which: Instruction) -> Plan:
    return edit(plan, lambda i: None if i is which else i)


def test_the_plan_without_faults_is_accepted() -> None:
    plan = small()
    verify(plan)
    assert [lane.name for lane in plan.lanes] == ["gpu:0", "gpu:copy", "host:0"]
    assert [(i.kind, i.task, i.uses[0].array) for _, i in plan.instructions()] == [
        ("alloc", "make", "x"), ("copy", "make", "x"), ("alloc", "make", "y"), ("launch", "make", "x"),
        ("free", "make", "x"), ("alloc", "use", "y"), ("copy", "use", "y"), ("free", "use", "y"), ("host", "use", "y"),
    ]  # fmt: skip


def on(plan: Plan, **fields: object) -> Plan:
    """Return the plan on a platform with other ``fields``."""
    return replace(plan, platform=replace(plan.platform, **fields))  # type: ignore[arg-type]


X_GPU, Y_GPU, Y_HOST = BufferUse("x", "gpu", READ), BufferUse("y", "gpu", WRITE), BufferUse("y", HOST, WRITE)

Incomplete = IncompletePlanError


def last_value_freed(plan: Plan) -> Plan:
    free = Instruction(99, "free", "use", uses=(Y_HOST,), nbytes=32)
    host = plan.lanes[2]
    return replace(plan, lanes=(*plan.lanes[:2], replace(host, instructions=(*host.instructions, free))))


FAULTS: dict[str, tuple[Callable[[Plan], Plan], type[PlanError], str]] = {
    "a number twice": (lambda p: change(p, find(p, "host"), id=0), Incomplete, "have the number 0"),
    "a number out of order": (
        lambda p: change(p, find(p, "launch"), id=1000), Incomplete, "numbers must follow the order",
    ),
    "a wait for nothing": (
        lambda p: change(p, find(p, "launch"), waits=(77,)), Incomplete, "77, which does not exist",
    ),
    "a wait for what comes later": (
        lambda p: change(p, find(p, "launch"), waits=(find(p, "host").id,)), Incomplete, "wait for each other",
    ),
    "no wait for the copy": (lambda p: change(p, find(p, "launch"), waits=()), RaceError, "nothing orders them"),
    "a launch on a copy lane": (
        lambda p: replace(p, lanes=(replace(p.lanes[0], kind="copy"), *p.lanes[1:])), Incomplete, "on a compute lane",
    ),
    "two lanes of one name": (
        lambda p: replace(p, lanes=(*p.lanes[:2], replace(p.lanes[2], name="gpu:0"))), Incomplete, "same name",
    ),
    "a host lane on a device": (
        lambda p: replace(p, lanes=(replace(p.lanes[0], kind="host"), *p.lanes[1:])), Incomplete, "cannot be on",
    ),
    "an array out of reach": (
        lambda p: change(p, find(p, "launch"), uses=(BufferUse("x", HOST, READ), Y_GPU)), Incomplete,
        "cannot reach array 'x'",
    ),
    "an array of another plan": (
        lambda p: change(p, find(p, "launch"), uses=(X_GPU, BufferUse("z", "gpu", WRITE))), Incomplete,
        "'z' is not in the plan",
    ),
    "a copy of nothing": (lambda p: change(p, find(p, "copy"), uses=()), Incomplete, "touch 0 buffers"),
    "a copy of another size": (lambda p: change(p, find(p, "copy"), nbytes=8), Incomplete, "size of array 'x'"),
    "a copy into another array": (
        lambda p: change(p, find(p, "copy"), uses=(BufferUse("x", HOST, READ), Y_GPU)), Incomplete, "no copy of",
    ),
    "a copy where no link is": (
        lambda p: replace(p, platform=replace(p.platform, links=p.platform.links[1:])), Incomplete,
        "from 'host' to 'gpu'",
    ),
    "an unknown task": (lambda p: change(p, find(p, "host"), task="other"), Incomplete, "'other' is not in"),
    "a task run as a barrier": (
        lambda p: change(p, find(p, "launch"), kind="barrier"), Incomplete, r"cannot run task 'make' \(kernel\)",
    ),
    "another mode than declared": (
        lambda p: change(p, find(p, "launch"), uses=(X_GPU, BufferUse("y", "gpu", UPDATE))), Incomplete,
        "do not match what task 'make' declares",
    ),
    "fewer buffers than declared": (
        lambda p: change(p, find(p, "launch"), uses=(X_GPU,)), Incomplete, "do not match",
    ),
    "a task run twice": (
        lambda p: replace(p, lanes=(replace(p.lanes[0], instructions=(
            *p.lanes[0].instructions, replace(find(p, "launch"), id=99))), *p.lanes[1:])),
        Incomplete, "task 'make' is run twice",
    ),
    "a task left out": (lambda p: without(p, find(p, "host")), Incomplete, "1 tasks are never run: use"),
    "an allocation left out": (lambda p: without(p, find(p, "alloc", "x")), Incomplete, "'x'.* no memory"),
    "an allocation made twice": (
        lambda p: change(p, find(p, "alloc", "y"), uses=(BufferUse("x", "gpu", WRITE),)), Incomplete,
        "'x'.* has memory already",
    ),
    "a free too early": (
        lambda p: edit(p, lambda i: replace(i, kind="free", uses=(BufferUse("x", "gpu", WRITE),))
                       if i is find(p, "alloc", "y") else i),
        PlanError, "both touch array 'x'|after it is freed",
    ),
    "the user's array freed": (
        lambda p: change(p, find(p, "free"), uses=(BufferUse("x", HOST, WRITE),)), Incomplete, "the user's input",
    ),
    "a copy left out": (
        lambda p: change(without(p, find(p, "copy")), find(p, "launch"), waits=(find(p, "alloc", "x").id,)), Incomplete,
        "'x' as left by no task, not by the input",
    ),
    "the last value freed": (last_value_freed, Incomplete, "last value of array 'y' is not kept"),
    "the last value freed, and an older one kept": (
        lambda p: last_value_freed(without(p, find(p, "free", "y"))), Incomplete, "last value of array 'y' is not kept",
    ),
    "a peak that is not": (lambda p: replace(p, peak_bytes={"gpu": 1}), MemoryLimitError, "claims peaks"),
    "too little memory": (
        lambda p: replace(p, platform=replace(p.platform, spaces=(MemorySpace("gpu", 40), p.platform.spaces[1]))),
        MemoryLimitError, "64 bytes .* there are 40",
    ),
    "a task that touches an array the plan does not have": (
        lambda p: replace(p, tasks=(replace(p.tasks[0], accesses=(PlannedAccess("z", READ),)), p.tasks[1])), PlanError,
        "task 'make' touches array 'z'",
    ),
    "a task after one the plan does not have": (
        lambda p: replace(p, tasks=(p.tasks[0], replace(p.tasks[1], after=("other",)))), PlanError, "not in the plan",
    ),
    "one array twice": (
        lambda p: replace(p, arrays=(*p.arrays, p.arrays[0])), IncompletePlanError, "two arrays have the name 'x'",
    ),
    "one task twice": (
        lambda p: replace(p, tasks=(*p.tasks, p.tasks[1])), IncompletePlanError, "two tasks have the name 'use'",
    ),
    "one memory space twice": (
        lambda p: on(p, spaces=(*p.platform.spaces, p.platform.spaces[0])), IncompletePlanError,
        "two memory spaces have the name 'gpu'",
    ),
    "one device twice": (
        lambda p: on(p, devices=(p.platform.devices[0], *p.platform.devices)), IncompletePlanError,
        "two devices have the name 'gpu'",
    ),
    "a platform without the host's memory": (
        lambda p: on(p, spaces=p.platform.spaces[:1]), IncompletePlanError, "has no memory space 'host'",
    ),
    "a lane on a device that is not there": (
        lambda p: replace(p, lanes=(replace(p.lanes[0], device="fpga"), *p.lanes[1:])), IncompletePlanError,
        "instruction 2 on lane 'gpu:0': device 'fpga' is not on the platform",
    ),
    "memory in a space that is not there": (
        lambda p: change(p, find(p, "host"), uses=(BufferUse("y", "disk", UPDATE),)), IncompletePlanError,
        "instruction 8 on lane 'host:0': memory space 'disk' is not on the platform. It has gpu, host",
    ),
    "an explicit order that nothing keeps": (
        lambda p: replace(p, tasks=(replace(p.tasks[0], after=("use",)), p.tasks[1])), RaceError,
        "'make' must come after task 'use'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_and_named(fault: str) -> None:
    spoil, error, message = FAULTS[fault]
    with pytest.raises(error, match=message):
        verify(spoil(small()))


@pytest.mark.parametrize(("kind", "name", "message"), [
    ("launch", "no-such", "operation 'touch_rw' of task 'make' has no implementation 'no-such'.*It has kernel, host"),
    ("launch", None, "has no implementation None"),
    ("launch", "host", r"implementation 'host' \(host\) of task 'make' cannot be run by a launch"),
    ("host", "kernel", r"implementation 'kernel' \(opencl-c\) of task 'use' cannot be run by a host"),
])  # fmt: skip
def test_unknown_implementations_are_refused(kind: str, name: str | None, message: str) -> None:
    graph = small_graph()
    plan = small_plan(graph)
    verify(plan, graph)
    wrong = change(plan, find(plan, kind), implementation=name)
    verify(wrong)  # the plan alone does not have the implementations
    with pytest.raises(IncompletePlanError, match=message):
        verify(wrong, graph)
