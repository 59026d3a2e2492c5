# SPDX-License-Identifier: Apache-2.0
"""Commands of instructions for the compiled loop."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.executables import (
    CopySubmission,
    EmptySubmission,
    Executable,
    KernelExecutable,
    KernelSubmission,
    LibrarySubmission,
    SequenceSubmission,
    Submission,
    needs_python,
)
from syclsched.devices.programs.joined_launches import join_launches
from syclsched.devices.programs.launch_chains import chain_launches
from syclsched.devices.submission.commands import Command, JointCommand
from syclsched.devices.submission.launch_batches import FEWEST_LAUNCHES, launch_commands
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.execution.core.program import Buffer, Program, ProgramNode
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.memory.buffers import AllocatedBuffer, BufferTable
from syclsched.model.operation import NativeCall


class CommandFactory:
    """Creates the commands of instructions for the compiled loop."""

    def __init__(self, loop: SubmissionLoop, queues: Mapping[int, SyclQueue], buffers: BufferTable) -> None:
        self._loop = loop
        self._queues = queues
        self._buffers = buffers

    def make(self, node: ProgramNode, work: InstructionWork | None, executable: Executable | None) -> Command | None:
        """Return the command of an instruction with allocated buffers; None if Python must submit it."""
        instruction, queue = node.instruction, self._queues[node.lane]
        if instruction.kind == "copy" and instruction.nbytes:
            source, target = self._buffers.ends(instruction)
            return self._loop.copy(node.id, node.lane, node.events, target.held, source.held, instruction.nbytes)
        if work is None or executable is None or work.writes_nothing:
            return self._loop.fence(node.id, node.lane, node.events)
        if needs_python(executable):
            return None
        return command_of(self._loop, node.id, node.lane, node.events, self.bind(node, work, executable), queue)

    def bind(self, node: ProgramNode, work: InstructionWork, executable: Executable) -> Submission:
        """Bind an instruction's executable to its arguments."""
        return executable.bind(work.bound(node.lane, self._queues[node.lane], self._buffer))

    def _buffer(self, buffer: Buffer) -> AllocatedBuffer:
        found = self._buffers.get(buffer)
        assert found is not None, buffer
        return found


class CommandCache(CommandFactory):
    """Commands of a program's device instructions, created as soon as their buffers exist."""

    def __init__(
        self,
        loop: SubmissionLoop,
        program: Program,
        work: dict[int, InstructionWork],
        executables: dict[int, Executable],
        buffers: BufferTable,
        queues: dict[int, SyclQueue],
    ) -> None:
        super().__init__(loop, queues, buffers)
        self._program = program
        self._work = work
        self._executables = executables
        self._prepared: dict[int, Command] = {}

    def prepare(self) -> None:
        """Create the commands of all instructions whose buffers are allocated only once, those of a kernel together."""
        allocations = Counter(
            (use.array, use.space)
            for node in self._program.nodes.values()
            if node.instruction.kind == "alloc"
            for use in node.instruction.uses
        )
        several = {buffer for buffer, count in allocations.items() if count > 1}
        launches: dict[tuple[int, int], list[ProgramNode]] = defaultdict(list)
        for number, node in self._program.nodes.items():
            if node.lane not in self._queues or node.instruction.kind in ("alloc", "free"):
                continue
            uses = node.instruction.uses
            if several and any(self._buffers.memory_of((use.array, use.space)) in several for use in uses):
                continue
            executable = self._executables.get(number)
            if (
                isinstance(executable, KernelExecutable)
                and not executable.is_empty
                and not self._work[number].writes_nothing
            ):
                launches[id(executable), node.lane].append(node)
            else:
                self._prepare(node)
        for nodes in launches.values():
            self._prepare_launches(nodes)

    def _prepare(self, node: ProgramNode) -> None:
        try:
            command = self.get(node)
        except Exception:  # its buffers do not all exist yet; any other error is reported at submission
            command = None
        if command is not None:
            self._prepared[node.id] = command

    def _prepare_launches(self, nodes: Sequence[ProgramNode]) -> None:
        """Create the commands of launches of one executable on one lane whose buffers exist."""
        executable = self._executables[nodes[0].id]
        assert isinstance(executable, KernelExecutable)
        ready, addresses = [], []
        known: dict[Buffer, int] = {}  # addresses of the buffers, which launches share; -1 if not allocated
        for node in nodes:
            buffers = self._work[node.id].buffers
            found = []
            for name in executable.array_names:
                buffer = buffers[name]
                if buffer not in known:
                    live = self._buffers.get(buffer)
                    known[buffer] = -1 if live is None else live.address
                found.append(known[buffer])
            if -1 not in found and len(found) == len(buffers):
                ready.append(node)
                addresses.append(found)
        if len(ready) < FEWEST_LAUNCHES:
            for node in nodes:
                self._prepare(node)
            return
        try:
            first = self.bind(ready[0], self._work[ready[0].id], executable)
            assert isinstance(first, KernelSubmission)
            slots, waits = [node.id for node in ready], [node.events for node in ready]
            made = launch_commands(self._loop, ready[0].lane, slots, waits, first, addresses)
        except Exception:  # reported at submission
            return
        self._prepared.update(zip(slots, made, strict=True))

    def get(self, node: ProgramNode) -> Command | None:
        """Return the command of an instruction of the program; see `make`."""
        return self.make(node, self._work.get(node.id), self._executables.get(node.id))

    def make(self, node: ProgramNode, work: InstructionWork | None, executable: Executable | None) -> Command | None:
        """Return the command of an instruction, the prepared one if there is one; None if Python must submit it."""
        command = self._prepared.get(node.id)
        return super().make(node, work, executable) if command is None else command

    def fused(self, nodes: Sequence[ProgramNode], *, in_order: bool) -> Command:
        """Return one command for several fused or chained launches; see `syclsched.execution.replay.launch_fusion`."""
        first, slots, queue = nodes[0], tuple(node.id for node in nodes), self._queues[nodes[0].lane]
        executables = [self._executables[number] for number in slots]
        bound = [self.bind(node, self._work[node.id], each) for node, each in zip(nodes, executables, strict=True)]
        joined = chain_launches(executables, bound, queue) if in_order else join_launches(executables[0], bound, queue)
        waits = tuple(dict.fromkeys(number for node in nodes for number in node.events if number not in slots))
        whole = self._loop.kernel(slots[-1] if in_order else first.id, first.lane, waits, joined)
        return JointCommand(whole, slots, self._alone, in_order=in_order)

    def _alone(self, number: int) -> Command:
        command = self.get(self._program.nodes[number])
        assert command is not None, number
        return command


def command_of(
    loop: SubmissionLoop, slot: int, lane: int, waits: Sequence[int], submission: Submission, queue: SyclQueue
) -> Command | None:
    """Return the command of a submission; None if Python must submit it."""
    # On an in-order lane, a step without work-items can be dropped.
    steps = [step for step in _flat_steps(submission) if not isinstance(step, EmptySubmission)]
    known: list[KernelSubmission | CopySubmission | NativeCall] = []
    for step in steps:
        if isinstance(step, LibrarySubmission) and step.is_native:
            known += step.native(queue)
        elif isinstance(step, KernelSubmission | CopySubmission):
            known.append(step)
        else:
            return None
    if not known:
        return loop.fence(slot, lane, waits)
    single = known[0]
    if len(known) > 1:
        return loop.sequence(slot, lane, waits, known)
    if isinstance(single, KernelSubmission):
        return loop.kernel(slot, lane, waits, single)
    if isinstance(single, CopySubmission):
        return loop.copy(slot, lane, waits, single.to, single.source, single.nbytes)
    return loop.call(slot, lane, waits, single)


def _flat_steps(submission: Submission) -> list[Submission]:
    if isinstance(submission, SequenceSubmission):
        return [each for step in submission.steps for each in _flat_steps(step)]
    return [submission]
