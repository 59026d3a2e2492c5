# SPDX-License-Identifier: Apache-2.0
"""What a run that takes too long is waiting for, in words."""

from __future__ import annotations

from collections.abc import Callable

from syclsched.execution.program import MEMORY_KINDS, Program
from syclsched.model.plan import Instruction

_MOST_LANES = 4


def what_is_left(program: Program, is_complete: Callable[[int], bool]) -> str:
    """Return for every lane what is done on it, or is to be done next, and what that waits for.

    Parameters
    ----------
    program : Program
        What runs.
    is_complete : callable
        Whether an instruction, by number, has completed.

    Returns
    -------
    str
        ``lane cpu:0 is at task 'gemm' (3 of 8), which waits for task 'load' on host:0``; of a few lanes.
    """
    places = {i.id: lane for lane in program.plan.lanes for i in lane.instructions}
    named = {i.id: i for lane in program.plan.lanes for i in lane.instructions}
    found = []
    for lane in program.plan.lanes:
        work = [i for i in lane.instructions if i.kind not in MEMORY_KINDS]
        position = next((p for p, i in enumerate(work) if not is_complete(i.id)), None)
        if position is None:
            continue
        node = program.nodes[work[position].id]
        behind = [n for n in sorted({*node.events, *node.completed_first}) if not is_complete(n)]
        text = f"lane {lane.name} is at {_name(work[position])} ({position + 1} of {len(work)})"
        if behind:
            text += f", which waits for {_name(named[behind[0]])} on {places[behind[0]].name}"
        found.append(text)
    more = [f"{len(found) - _MOST_LANES} more lanes are not done"] if len(found) > _MOST_LANES else []
    return "; ".join(found[:_MOST_LANES] + more) or "everything is done but the end"


def _name(instruction: Instruction) -> str:
    if instruction.kind == "copy":
        return f"a copy of {instruction.uses[0].array!r}"
    return f"task {instruction.task!r}" if instruction.task is not None else instruction.kind
