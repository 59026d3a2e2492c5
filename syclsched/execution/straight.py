# SPDX-License-Identifier: Apache-2.0
"""Which plans need no thread that watches over them: all their work can be submitted at once, in the plan's order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from syclsched.devices.executables import Executable, submits_itself
from syclsched.execution.program import MEMORY_KINDS, Buffer, Program
from syclsched.model.plan import Plan
from syclsched.model.units import format_bytes


def why_not_straight(program: Program, executables: Mapping[int, Executable]) -> str | None:
    """Return why a plan must be watched over while it runs, or None if it need not be.

    Parameters
    ----------
    program : Program
        The plan.
    executables : Mapping[int, Executable]
        What its instructions launch, by instruction number.

    Returns
    -------
    str or None
        In words for the user.
    """
    for node in program.nodes.values():
        if node.instruction.kind in MEMORY_KINDS:
            continue
        name = node.instruction.task or node.instruction.kind
        if node.on_host:
            return f"{name!r} is done by the host"
        if node.completed_first:
            return f"{name!r} waits for a device of another SYCL context"
        executable = executables.get(node.id)
        if executable is not None and submits_itself(executable):
            return f"{name!r} is submitted by a library"
    if program.written_inputs:
        return f"input {min(program.written_inputs)!r} is written in the host's memory"
    return _why_memory(program.plan)


def allocations(plan: Plan) -> dict[Buffer, int]:
    """Return the bytes of every buffer that a plan allocates, in order."""
    return {
        (use.array, use.space): instruction.nbytes
        for _, instruction in plan.instructions()
        if instruction.kind == "alloc"
        for use in instruction.uses[:1]
    }


def _why_memory(plan: Plan) -> str | None:
    made = Counter(
        (instruction.uses[0].array, instruction.uses[0].space)
        for _, instruction in plan.instructions()
        if instruction.kind == "alloc"
    )
    again = [buffer for buffer, times in made.items() if times > 1]
    if again:
        return f"array {again[0][0]!r} is evicted from {again[0][1]!r} and brought back"
    total: Counter[str] = Counter()
    for (_, space), nbytes in allocations(plan).items():
        total[space] += nbytes
    for place in plan.platform.spaces:
        if total[place.name] > place.capacity_bytes:
            return (
                f"memory of {place.name!r} must be used again during a run: all buffers together take "
                f"{format_bytes(total[place.name])}"
            )
    return None
