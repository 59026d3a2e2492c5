# SPDX-License-Identifier: Apache-2.0
"""Proof that a plan is free of races and complete, from the accesses alone; or a refusal that names the place.

The verifier knows nothing of how plans are made. It walks the plan in an order that lanes and waits allow and
keeps, for every buffer, the last writer and the readers since. Each conflicting pair must be ordered by
happens-before; then every execution computes what this one walk computes, and it suffices to check in the
walk that each task reads the version of each array that the sequential program would have read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from syclsched.errors import IncompletePlanError, MemoryLimitError, PlanError, RaceError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import BufferUse, Instruction, Plan, PlannedTask
from syclsched.model.platform import HOST
from syclsched.planning.happens_before import HappensBefore, Placed
from syclsched.planning.liveness import check_capacity, peak_bytes
from syclsched.planning.record import record_arrays, record_tasks
from syclsched.planning.steps import Buffer

#: Version of an array nobody has written yet: the user's input.
INPUT = "the input"


def verify(plan: Plan, graph: TaskGraph | None = None) -> None:
    """Prove that a plan computes what its graph says, in every execution its lanes and waits allow.

    Parameters
    ----------
    plan : Plan
        From the planner, or read from a file.
    graph : TaskGraph, optional
        The graph it is for; without it the plan's own record of the graph is believed.

    Raises
    ------
    RaceError
        If two conflicting accesses are not ordered; names both tasks and the array.
    IncompletePlanError
        If work is missing, repeated or misplaced, waits in a circle, or reads the wrong data.
    MemoryLimitError
        If a space is too small, or the peaks written in the plan are not its real ones.
    """
    if graph is not None:
        _same_graph(plan, graph)
    order = HappensBefore(plan)
    _structure(plan)
    _Walk(plan, order).check()
    _memory(plan)


def _same_graph(plan: Plan, graph: TaskGraph) -> None:
    same = plan.fingerprint == graph.fingerprint()
    if not same or plan.arrays != record_arrays(graph) or plan.tasks != record_tasks(graph):
        raise IncompletePlanError(
            f"the plan was made for another graph than {graph.name!r}",
            where=f"plan {plan.name!r}",
            hint="Plan again for this graph and these sizes",
        )


def _structure(plan: Plan) -> None:
    """Check what each lane may do and reach."""
    names = [lane.name for lane in plan.lanes]
    if len(set(names)) < len(names):
        raise IncompletePlanError("two lanes have the same name", where=f"plan {plan.name!r}")
    nbytes = {a.name: a.nbytes for a in plan.arrays}
    for lane in plan.lanes:
        device = plan.platform.device(lane.device)
        if device.is_host != (lane.kind == "host"):
            raise IncompletePlanError(
                f"a {lane.kind} lane cannot be on device {device.name!r}", where=f"lane {lane.name!r}"
            )
        for instruction in lane.instructions:
            where = f"instruction {instruction.id} on lane {lane.name!r}"
            if instruction.kind in ("alloc", "free", "copy"):
                _memory_instruction(instruction, plan, nbytes, where)
            for use in instruction.uses:
                if use.array not in nbytes:
                    raise IncompletePlanError(f"array {use.array!r} is not in the plan", where=where)
                plan.platform.space(use.space)
                if instruction.kind in ("launch", "host") and use.space not in device.reaches:
                    raise IncompletePlanError(
                        f"device {device.name!r} cannot reach array {use.array!r} in space {use.space!r}", where=where
                    )
            if instruction.kind == "launch" and lane.kind != "compute":
                raise IncompletePlanError(f"a launch cannot be on a {lane.kind} lane", where=where)
            if instruction.kind == "host" and lane.kind != "host":
                raise IncompletePlanError(f"a host function cannot be on a {lane.kind} lane", where=where)


def _memory_instruction(instruction: Instruction, plan: Plan, nbytes: dict[str, int], where: str) -> None:
    uses = instruction.uses
    if len(uses) != (2 if instruction.kind == "copy" else 1):
        raise IncompletePlanError(f"a {instruction.kind} does not touch {len(uses)} buffers", where=where)
    if instruction.nbytes != nbytes.get(uses[0].array):
        raise IncompletePlanError(f"the size of array {uses[0].array!r} is wrong", where=where)
    if instruction.kind == "copy":
        source, destination = uses
        good = source.array == destination.array and not source.mode.writes and not destination.mode.reads
        if not good or plan.platform.link(source.space, destination.space) is None:
            raise IncompletePlanError(
                f"no copy of {source.array!r} from {source.space!r} to {destination.space!r} is possible", where=where
            )


def _memory(plan: Plan) -> None:
    peak = peak_bytes(instruction for _, instruction in plan.instructions())
    if peak != plan.peak_bytes:
        raise MemoryLimitError(
            f"the plan claims peaks {dict(plan.peak_bytes)}, its instructions have {peak}", where=f"plan {plan.name!r}"
        )
    check_capacity(peak, plan.platform)


@dataclass(slots=True)
class _BufferState:
    """One buffer during the walk."""

    version: str | None = None
    allocated: int | None = None
    freed: int | None = None
    writer: int | None = None
    readers: list[int] = field(default_factory=list)


class _Walk:
    """One walk through the plan, checking order and versions."""

    def __init__(self, plan: Plan, order: HappensBefore) -> None:
        self._plan = plan
        self._order = order
        self._tasks = {t.name: t for t in plan.tasks}
        self._expected = _expected_versions(plan)
        self._written = {a.array for t in plan.tasks for a in t.accesses if a.mode.writes}
        self._buffers: dict[Buffer, _BufferState] = {
            (a.name, HOST): _BufferState(version=INPUT) for a in plan.arrays if a.is_input
        }
        self._inputs = set(self._buffers)
        self._done: dict[str, int] = {}

    def check(self) -> None:
        for placed in self._order.order:
            instruction = placed.instruction
            if instruction.kind == "alloc":
                self._alloc(placed)
            elif instruction.kind == "free":
                self._free(placed)
            elif instruction.kind == "copy":
                self._touch(instruction, instruction.uses[0])
                source = self._state(instruction.uses[0], instruction)
                self._touch(instruction, instruction.uses[1])
                self._state(instruction.uses[1], instruction).version = source.version
            else:
                self._run(instruction)
        self._complete()

    def _run(self, instruction: Instruction) -> None:
        where = f"instruction {instruction.id}"
        task = self._tasks.get(instruction.task or "")
        if task is None:
            raise IncompletePlanError(f"task {instruction.task!r} is not in the plan's graph", where=where)
        if task.name in self._done:
            raise IncompletePlanError(f"task {task.name!r} is run twice", where=where)
        if (task.kind == "barrier") != (instruction.kind == "barrier"):
            raise IncompletePlanError(f"a {instruction.kind} cannot run task {task.name!r} ({task.kind})", where=where)
        declared = [(a.array, a.mode) for a in task.accesses]
        if declared != [(u.array, u.mode) for u in instruction.uses]:
            raise IncompletePlanError(f"the buffers do not match what task {task.name!r} declares", where=where)
        for before in task.after:
            earlier = self._done.get(before)
            if earlier is None or not self._order.ordered(earlier, instruction.id):
                raise RaceError(
                    f"task {task.name!r} must come after task {before!r}, and nothing orders them", where=where
                )
        for use in instruction.uses:
            self._touch(instruction, use)
            if use.mode.reads:
                self._check_version(task, instruction, use)
        for use in instruction.uses:
            if use.mode.writes:
                self._state(use, instruction).version = task.name
        self._done[task.name] = instruction.id

    def _check_version(self, task: PlannedTask, instruction: Instruction, use: BufferUse) -> None:
        found = self._state(use, instruction).version
        expected = self._expected[task.name, use.array]
        if found != expected:
            raise IncompletePlanError(
                f"task {task.name!r} would read array {use.array!r} as left by {found or 'nobody'}, "
                f"not by {expected}, in space {use.space!r}",
                where=f"instruction {instruction.id}",
            )

    def _state(self, use: BufferUse, instruction: Instruction) -> _BufferState:
        state = self._buffers.get((use.array, use.space))
        if state is None:
            raise IncompletePlanError(
                f"array {use.array!r} has no memory in space {use.space!r}", where=f"instruction {instruction.id}"
            )
        return state

    def _touch(self, instruction: Instruction, use: BufferUse) -> None:
        """Check one access against the earlier ones, and remember it."""
        state = self._state(use, instruction)
        if state.freed is not None:
            raise IncompletePlanError(
                f"array {use.array!r} is used in space {use.space!r} after it is freed",
                where=f"instruction {instruction.id}",
            )
        if state.allocated is not None:
            self._must_follow(state.allocated, instruction, use)
        if state.writer is not None:
            self._must_follow(state.writer, instruction, use)
        if use.mode.writes:
            for reader in state.readers:
                self._must_follow(reader, instruction, use)
            state.writer, state.readers = instruction.id, []
        else:
            state.readers.append(instruction.id)

    def _must_follow(self, before: int, instruction: Instruction, use: BufferUse) -> None:
        if before == instruction.id or self._order.ordered(before, instruction.id):
            return
        first, second = self._label(before), self._label(instruction.id)
        raise RaceError(
            f"{first} and {second} both touch array {use.array!r} in space {use.space!r}, "
            "one of them writes, and nothing orders them",
            where=f"instructions {before} and {instruction.id}",
            hint="A dependency is missing from the plan; plan again",
        )

    def _label(self, number: int) -> str:
        instruction = self._order[number].instruction
        label = f"task {instruction.task!r}"
        return label if instruction.kind in ("launch", "host") else f"the {instruction.kind} for {label}"

    def _alloc(self, placed: Placed) -> None:
        instruction = placed.instruction
        buffer = (instruction.uses[0].array, instruction.uses[0].space)
        if buffer in self._buffers:
            raise IncompletePlanError(
                f"array {buffer[0]!r} has memory in {buffer[1]!r} already", where=f"instruction {instruction.id}"
            )
        self._buffers[buffer] = _BufferState(allocated=instruction.id)

    def _free(self, placed: Placed) -> None:
        instruction = placed.instruction
        use = instruction.uses[0]
        if (use.array, use.space) in self._inputs:
            raise IncompletePlanError(
                f"the input {use.array!r} is the user's and cannot be freed", where=f"instruction {instruction.id}"
            )
        self._touch(instruction, use)
        self._state(use, instruction).freed = instruction.id

    def _complete(self) -> None:
        missing = [t for t in self._tasks if t not in self._done]
        if missing:
            raise IncompletePlanError(
                f"{len(missing)} tasks are never run: {', '.join(missing[:5])}", where=f"plan {self._plan.name!r}"
            )
        for array in self._plan.arrays:
            if array.temporary or array.name not in self._written:
                continue
            last = self._expected["", array.name]
            kept = [s for (name, _), s in self._buffers.items() if name == array.name and s.freed is None]
            if not any(s.version == last for s in kept):
                raise IncompletePlanError(
                    f"the last value of array {array.name!r} is not kept", where=f"plan {self._plan.name!r}"
                )


def _expected_versions(plan: Plan) -> dict[tuple[str, str], str]:
    """Return which task's value each task reads of each array in the sequential program; ``""`` reads at the end."""
    current: dict[str, str] = {a.name: INPUT for a in plan.arrays}
    expected: dict[tuple[str, str], str] = {}
    for task in plan.tasks:
        for access in task.accesses:
            if access.array not in current:
                raise PlanError(f"task {task.name!r} touches array {access.array!r}, which is not in the plan")
            if access.mode.reads:
                expected[task.name, access.array] = current[access.array]
        for access in task.accesses:
            if access.mode.writes:
                current[access.array] = task.name
    expected.update({("", name): version for name, version in current.items()})
    return expected
