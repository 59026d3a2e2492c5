# SPDX-License-Identifier: Apache-2.0
"""Batches of instructions that the compiled loop submits in one call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.executables import (
    CopySubmission,
    EmptySubmission,
    Executable,
    KernelSubmission,
    LibrarySubmission,
    SequenceSubmission,
    Submission,
    needs_python,
)
from syclsched.devices.programs.joined_launches import join_launches
from syclsched.devices.submission.commands import Command, JointCommand
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.execution.core.program import Buffer, Program, ProgramNode
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.memory.buffers import AllocatedBuffer, BufferTable
from syclsched.model.operation import NativeCall

#: First and largest size of a batch in instructions. The first batch is small, so that lanes start early; each further
#: one is twice as large.
FIRST_GATHERED, MOST_GATHERED = 4, 16
#: Limit of a batch in predicted seconds of work.
MOST_GATHERED_S = 0.05


class CommandCache:
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
        self._loop = loop
        self._program = program
        self._work = work
        self._executables = executables
        self._buffers = buffers
        self._queues = queues
        self._made: dict[int, Command] = {}
        # A library call's arguments must live until its work has completed: kept until the command is made again.
        self._made_late: dict[int, Command] = {}

    def prepare(self) -> None:
        """Create the commands of all instructions whose buffers are allocated only once."""
        allocations = Counter(
            (use.array, use.space)
            for node in self._program.nodes.values()
            if node.instruction.kind == "alloc"
            for use in node.instruction.uses
        )
        for number, node in self._program.nodes.items():
            if node.lane not in self._queues or node.instruction.kind in ("alloc", "free"):
                continue
            uses = [(use.array, use.space) for use in node.instruction.uses]
            if all(
                allocations[self._buffers.memory_of(buffer)] <= 1 and self._buffers.get_or_prepared(buffer) is not None
                for buffer in uses
            ):
                try:
                    command = self._make(node)
                except Exception:  # tried again at submission, where the error is reported
                    command = None
                if command is not None:
                    self._made[number] = command

    def get(self, node: ProgramNode) -> Command | None:
        """Return the command of an instruction with allocated buffers; None if Python must submit it."""
        command = self._made.get(node.id)
        if command is None:
            command = self._make(node)
            if command is not None:
                self._made_late[node.id] = command
        return command

    def fused(self, nodes: Sequence[ProgramNode]) -> Command:
        """Return one command for several fused launches; see `syclsched.execution.replay.launch_fusion`."""
        first, slots = nodes[0], tuple(node.id for node in nodes)
        joined = join_launches(
            self._executables[first.id], [self._bind(node) for node in nodes], self._queues[first.lane]
        )
        waits = tuple(dict.fromkeys(number for node in nodes for number in node.events))
        return JointCommand(self._loop.kernel(first.id, first.lane, waits, joined), slots, self._alone)

    def _alone(self, number: int) -> Command:
        command = self._make(self._program.nodes[number])
        assert command is not None, number
        return command

    def _bind(self, node: ProgramNode) -> Submission:
        """Bind an instruction's executable to its arguments."""
        queue, work = self._queues[node.lane], self._work[node.id]
        return self._executables[node.id].bind(work.bound(node.lane, queue, self._buffer))

    def _make(self, node: ProgramNode) -> Command | None:
        instruction, work = node.instruction, self._work.get(node.id)
        if instruction.kind == "copy" and instruction.nbytes:
            source, target = self._buffers.ends(instruction)
            queue = self._queues[node.lane]
            return self._loop.copy(
                node.id,
                node.lane,
                node.events,
                target.copy_operand(queue),
                source.copy_operand(queue),
                instruction.nbytes,
            )
        executable = self._executables.get(node.id)
        if work is None or executable is None or work.writes_nothing:
            return self._loop.fence(node.id, node.lane, node.events)
        if needs_python(executable):
            return None
        queue = self._queues[node.lane]
        return command_of(self._loop, node.id, node.lane, node.events, self._bind(node), queue)

    def _buffer(self, buffer: Buffer) -> AllocatedBuffer:
        found = self._buffers.get_or_prepared(buffer)
        assert found is not None, buffer
        return found


def command_of(
    loop: SubmissionLoop, slot: int, lane: int, waits: Sequence[int], submission: Submission, queue: SyclQueue
) -> Command | None:
    """Return the command of a submission; None if Python must submit it."""
    # On an in-order lane, a step without work-items can be dropped.
    steps = [step for step in _flat_steps(submission) if not isinstance(step, EmptySubmission)]
    known: list[KernelSubmission | CopySubmission | NativeCall] = []
    for step in steps:
        if isinstance(step, LibrarySubmission) and step.is_native:
            known.append(step.native(queue))
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
    """Return the steps of a submission, flattened, in order."""
    if isinstance(submission, SequenceSubmission):
        return [each for step in submission.steps for each in _flat_steps(step)]
    return [submission]


class InstructionBatch:
    """Batch of instructions of one device, to be submitted in one call."""

    def __init__(self, most: int = FIRST_GATHERED) -> None:
        self.most = most
        self.nodes: list[ProgramNode] = []
        self.commands: list[Command] = []
        self.device: str | None = None
        self._seconds = 0.0

    def add(self, node: ProgramNode, command: Command, device: str) -> None:
        """Append an instruction."""
        self.nodes.append(node)
        self.commands.append(command)
        self.device = device
        self._seconds += node.instruction.duration_s

    def next(self) -> InstructionBatch:
        """Return the next batch, empty, with twice the limit."""
        return InstructionBatch(min(2 * self.most, MOST_GATHERED))

    @property
    def full(self) -> bool:
        """Whether the batch has reached its limit."""
        return len(self.nodes) >= self.most or self._seconds > MOST_GATHERED_S
