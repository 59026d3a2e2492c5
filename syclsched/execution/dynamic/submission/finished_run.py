# SPDX-License-Identifier: Apache-2.0
"""View of a finished dynamic run for recovery: its executed plan and the outcome of each instruction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from syclsched.errors import SyclschedError
from syclsched.execution.core.execution_records import Record
from syclsched.execution.core.failures import Failures, InstructionFailure
from syclsched.execution.core.program import MEMORY_KINDS, Program
from syclsched.execution.memory.buffers import BufferLookup
from syclsched.model.plan import Instruction, Plan


class FinishedRun:
    """A finished dynamic run; implements `syclsched.execution.handle.engine.EndedEngine`."""

    owns_buffers = True

    def __init__(
        self,
        plan: Plan,
        records: Mapping[int, Record],
        failed: Sequence[InstructionFailure],
        never_begun: Collection[str],
        buffers: BufferLookup,
        *,
        cancelled: bool,
        error: SyclschedError | None,
    ) -> None:
        self.program = Program(plan)
        self.buffers = buffers
        self.cancelled = cancelled
        self.error = error
        self.failures = Failures(self.program.tasks)
        self._done: set[int] = set()
        bad: dict[str | None, list[Instruction]] = {}
        for _, instruction in plan.instructions():
            record = records.get(instruction.id)
            if instruction.kind in MEMORY_KINDS:
                continue
            if record is not None and record.outcome == "done":
                self._done.add(instruction.id)
                continue
            begun = instruction.kind == "copy" or instruction.task not in never_begun
            self.failures.lost(instruction, begun=begun)
            if record is not None and record.outcome == "failed":
                bad.setdefault(instruction.task, []).append(instruction)
        for each in failed:
            found = bad.get(each.instruction.task)
            if found:
                self.failures.record(found[0], each.error, each.reason)

    def passed(self, number: int) -> bool:
        """Return whether an instruction was executed."""
        return number in self._done
