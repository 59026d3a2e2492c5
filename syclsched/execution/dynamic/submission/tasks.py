# SPDX-License-Identifier: Apache-2.0
"""Compiled work of each task on each device, and tasks as plan instructions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

from syclsched.devices.memory.constant_uploads import ConstantUploader
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.executables import Executable, calls_library, needs_python
from syclsched.errors import PlanError
from syclsched.execution.core.compilation_batch import CompilationBatch
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.submission.task_outcomes import ANY_SPACE
from syclsched.model.access import row_range_name
from syclsched.model.operation import Implementation
from syclsched.model.plan import BufferUse, Instruction
from syclsched.model.task import Task
from syclsched.progress import Progress


class TaskWork:
    """The work of a graph's tasks, by task index and device index."""

    def __init__(self, layout: IndexedGraph) -> None:
        self._layout = layout
        self.tasks: list[Task] = [layout.graph.find_task(name) for name in layout.problem.names]
        self._executables: list[list[Executable | None]] = [[None] * len(layout.devices) for _ in self.tasks]
        self._implementations: list[list[Implementation | None]] = [
            self._implementation_of(n, task) for n, task in enumerate(self.tasks)
        ]
        self._nothing = [_writes_nothing(task) for task in self.tasks]
        self.with_status = {n for n, t in enumerate(self.tasks) if t.operation is not None and t.operation.status}

    def _implementation_of(self, number: int, task: Task) -> list[Implementation | None]:
        found: list[Implementation | None] = []
        for device in range(len(self._layout.devices)):
            name = self._layout.problem.implementation_of(number, device)
            made = None if name is None or task.operation is None else task.operation.implementation(name)
            if made is not None and made.kind == "cost-only":
                raise PlanError(
                    "it has costs only: it can be planned and simulated, not run",
                    where=f"task {task.name!r}",
                    hint="Give the task an operation with code",
                )
            found.append(made)
        return found

    def compile(
        self, queues: Mapping[int, SyclQueue], uploads: ConstantUploader, progress: Progress | None = None
    ) -> None:
        """Compile every task for every device that can run it, each distinct kernel once."""
        layout = self._layout
        queue_of = {layout.lanes[lane].number: queue for lane, queue in queues.items()}
        compiling = CompilationBatch()
        keys: dict[tuple[int, int], Hashable] = {}
        for number, task in enumerate(self.tasks):
            if task.operation is None or task.signature is None:
                continue
            for device, implementation in enumerate(self._implementations[number]):
                if implementation is not None:
                    queue = queue_of.get(device)
                    keys[number, device] = compiling.add(task, implementation, queue, layout.devices[device])
        made = compiling.compiled(uploads, progress)
        for (number, device), key in keys.items():
            self._executables[number][device] = made[key]

    @property
    def has_libraries(self) -> bool:
        """Whether any executable is a library call that submits its own work."""
        return any(calls_library(executable) for executable in self.executables())

    @property
    def needs_python(self) -> bool:
        """Whether any executable can be called from Python only."""
        return any(needs_python(executable) for executable in self.executables())

    def executables(self) -> Iterable[Executable]:
        """Return all distinct executables."""
        return {id(e): e for row in self._executables for e in row if e is not None}.values()

    def executable(self, task: int, device: int) -> Executable | None:
        """Return the executable of a task on a device; None for a barrier."""
        return self._executables[task][device]

    def implementation(self, task: int, device: int) -> Implementation | None:
        """Return the implementation of a task on a device; None for a barrier."""
        return self._implementations[task][device]

    def work(self, task: int, device: int, spaces: Sequence[int]) -> InstructionWork | None:
        """Return the work of a task on a device, given the space of each access; None for a barrier."""
        layout, known, implementation = self._layout, self.tasks[task], self._implementations[task][device]
        if implementation is None or known.operation is None or known.signature is None:
            return None
        space_of = {
            layout.arrays[layout.array_of[touch.piece]].name: layout.spaces[space]
            for touch, space in zip(layout.touches[task], spaces, strict=True)
        }
        buffers = {parameter: (array, space_of[array]) for parameter, array in known.arguments.items()}
        for parameter, rows in known.rows.items():
            array, space = buffers[parameter]
            buffers[parameter] = (row_range_name(array, rows), space)
        return InstructionWork(known, known.operation, implementation, known.signature, buffers, self._nothing[task])

    def instruction(self, task: int, device: int, spaces: Sequence[int] | None, number: int) -> Instruction:
        """Return a task as a numbered instruction."""
        layout = self._layout
        implementation = self._implementations[task][device] if device >= 0 else None
        kind = layout.tasks[task].kind
        touches = layout.touches[task]
        if spaces is None:
            names = [ANY_SPACE] * len(touches)
        else:
            names = [layout.spaces[space] for space in spaces]  # empty for a skipped task
        uses = tuple([BufferUse(layout.pieces[t.piece].name, s, t.mode) for t, s in zip(touches, names, strict=False)])
        return Instruction(
            number,
            "barrier" if kind == "barrier" else "host" if device >= 0 and layout.devices[device].is_host else "launch",
            layout.tasks[task].name,
            None if implementation is None else implementation.name,
            uses,
        )

    def unplaced_instruction(self, task: int) -> Instruction:
        """Return a task as an instruction for failure tracking: no location, numbered in order of submission."""
        return self.instruction(task, -1, None, self._layout.submission[task])


def with_current_status(piece: InstructionWork) -> InstructionWork:
    """Return the work of a task with a status array that is read from its current location."""
    assert piece.status is not None and piece.operation.status is not None
    return replace(piece, buffers={**piece.buffers, piece.operation.status: (piece.status[0], ANY_SPACE)})


def _writes_nothing(task: Task) -> bool:
    """Return whether all outputs of a task are empty: libraries and drivers do not order empty work."""
    if task.operation is None or task.signature is None:
        return False
    written = [p.name for p in task.operation.arrays if p.mode is not None and p.mode.writes]
    return bool(written) and all(0 in task.signature.shapes[name] for name in written)
