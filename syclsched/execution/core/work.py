# SPDX-License-Identifier: Apache-2.0
"""Tasks bound to a plan's instructions, with their buffers, and their compilation before the first submission."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from syclsched.devices.memory.constant_uploads import ConstantUploader
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.executables import Executable
from syclsched.errors import IncompletePlanError, PlanError
from syclsched.execution.core.compilation_batch import CompilationBatch
from syclsched.execution.core.program import Buffer, Program
from syclsched.model.access import row_range_name
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Parameter, Scalar, Shape, Signature
from syclsched.model.plan import Instruction, Lane, PlannedRows
from syclsched.model.task import Task
from syclsched.progress import Progress


@dataclass(frozen=True, slots=True)
class InstructionWork:
    """Task, implementation and buffers of one ``launch`` or ``host`` instruction."""

    task: Task
    operation: Operation
    implementation: Implementation  # chosen by the plan
    signature: Signature
    #: Buffer by parameter name; a row range has its own name, such as ``a[0:100]``, in place of the array's.
    buffers: dict[str, Buffer]
    writes_nothing: bool  # whether all its outputs are empty: libraries and drivers do not keep the order of empty work

    @property
    def arrays(self) -> tuple[Parameter, ...]:
        """The parameters bound to arrays of the graph, without constants."""
        return tuple(p for p in self.operation.arrays if p.name in self.buffers)

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shapes of the arguments that are passed reshaped, by parameter name."""
        return {name: self.signature.shapes[name] for name in self.task.reshaped}

    def bound(self, lane: int, queue: SyclQueue, buffer: Callable[[Buffer], Any]) -> dict[str, Any]:
        """Return the array arguments on a lane, by parameter name."""
        if not self.task.reshaped:
            return {name: buffer(each).bound(lane, queue) for name, each in self.buffers.items()}
        shapes = self.shapes
        return {name: buffer(each).bound(lane, queue, shapes.get(name)) for name, each in self.buffers.items()}

    @property
    def scalars(self) -> dict[str, Scalar]:
        """Scalars by parameter name."""
        return dict(self.signature.scalars)

    @property
    def status(self) -> Buffer | None:
        """The buffer of the task's status value; None without one, or if the task runs on the host."""
        name = self.operation.status
        return self.buffers[name] if name is not None and self.implementation.kind != "host" else None


def resolve_work(program: Program, graph: TaskGraph) -> dict[int, InstructionWork]:
    """Return the work of every ``launch`` and ``host`` instruction, by instruction number."""
    tasks = {task.name: task for task in graph.tasks}
    known: dict[Hashable, tuple[Implementation, bool]] = {}
    return {
        instruction.id: _work(program, lane, instruction, tasks, known)
        for lane in program.plan.lanes
        for instruction in lane.instructions
        if instruction.kind in ("launch", "host")
    }


def argument_rows(graph: TaskGraph) -> dict[str, PlannedRows]:
    """Return the row ranges that tasks take as arguments, by their names."""
    return {
        row_range_name(task.arguments[parameter], rows): PlannedRows(task.arguments[parameter], *rows)
        for task in graph.tasks
        for parameter, rows in task.rows.items()
    }


def _work(
    program: Program,
    lane: Lane,
    instruction: Instruction,
    tasks: Mapping[str, Task],
    known: dict[Hashable, tuple[Implementation, bool]],
) -> InstructionWork:
    """Return the work of an instruction; ``known`` caches the part that depends on operation and signature only."""
    task = tasks[instruction.task or ""]
    operation, signature = task.operation, task.signature
    if operation is None or signature is None:
        raise IncompletePlanError(f"task {task.name!r} has nothing to run", where=_where(instruction, lane))
    key = id(operation), id(signature), instruction.implementation, instruction.kind
    found = known.get(key)
    if found is None:
        written = tuple(p.name for p in operation.parameters if p.mode is not None and p.mode.writes)
        empty = bool(written) and all(0 in signature.shapes[name] for name in written)
        found = known[key] = _implementation(operation, instruction, lane), empty
    implementation, nothing = found
    if program.whole or task.rows:
        spaces = {program.whole.get(use.array, use.array): use.space for use in instruction.uses}
    else:
        spaces = {use.array: use.space for use in instruction.uses}
    buffers = {parameter: (array, spaces[array]) for parameter, array in task.arguments.items()}
    for parameter, rows in task.rows.items():
        array, space = buffers[parameter]
        buffers[parameter] = (row_range_name(array, rows), space)
    return InstructionWork(task, operation, implementation, signature, buffers, nothing)


def _implementation(operation: Operation, instruction: Instruction, lane: Lane) -> Implementation:
    """Return the implementation an instruction names; refuse one that the instruction cannot run."""
    try:
        implementation = operation.implementation(instruction.implementation or "")
    except KeyError as error:
        raise IncompletePlanError(
            str(error.args[0]), where=_where(instruction, lane), hint="Plan again for this graph"
        ) from error
    if implementation.kind == "cost-only":
        raise PlanError(
            "it has costs only: it can be planned and simulated, not run",
            where=f"task {instruction.task!r}",
            hint="Give the task an operation with code",
        )
    if (implementation.kind == "host") != (instruction.kind == "host"):
        raise IncompletePlanError(
            f"implementation {implementation.name!r} ({implementation.kind}) cannot be run by a {instruction.kind}",
            where=_where(instruction, lane),
        )
    return implementation


def _where(instruction: Instruction, lane: Lane) -> str:
    return f"instruction {instruction.id} on lane {lane.name!r}"


def compile_work(
    program: Program,
    work: dict[int, InstructionWork],
    queues: dict[str, SyclQueue],
    uploads: ConstantUploader,
    progress: Progress | None = None,
) -> dict[int, Executable]:
    """Compile all work of a plan, each distinct kernel once, and upload its constants to its devices."""
    compiling = CompilationBatch()
    keys: dict[int, Hashable] = {}
    for lane in program.plan.lanes:
        queue = queues.get(lane.name)
        device = program.plan.platform.device(lane.device)
        # Tasks without constants share their operation's, signature's and implementation's compiled work.
        kinds: dict[tuple[int, int, int], Hashable] = {}
        for instruction in lane.instructions:
            piece = work.get(instruction.id)
            if piece is None:
                continue
            kind = id(piece.operation), id(piece.signature), id(piece.implementation)
            key = None if piece.task.constants else kinds.get(kind)
            if key is None:
                key = kinds[kind] = compiling.add(piece.task, piece.implementation, queue, device)
            keys[instruction.id] = key
    executables = compiling.compiled(uploads, progress)
    return {number: executables[key] for number, key in keys.items()}
