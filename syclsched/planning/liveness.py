# SPDX-License-Identifier: Apache-2.0
"""When buffers come and go: allocations before first use, frees after last use, peaks per space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from syclsched.errors import MemoryLimitError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import BufferUse, Instruction, InstructionKind
from syclsched.model.platform import HOST, Platform
from syclsched.planning.steps import Buffer, Step


def add_allocations(steps: Sequence[Step], graph: TaskGraph, final_spaces: Mapping[str, Sequence[str]]) -> list[Step]:
    """Return the steps with an ``alloc`` before each buffer's first use and a ``free`` after its last.

    The user's own arrays, in the host's space, are neither allocated nor freed. The one buffer that holds the last
    value of an array someone may ask for is kept, and so are the status arrays that are read when the run ends.

    Parameters
    ----------
    steps : sequence of Step
        In global order.
    graph : TaskGraph
        The graph.
    final_spaces : Mapping[str, sequence of str]
        The spaces that hold each array's last value.

    Returns
    -------
    list of Step
        In global order.
    """
    arrays = graph.arrays
    inputs = set(graph.inputs())
    statuses = {t.arguments[t.operation.status] for t in graph.tasks if t.operation and t.operation.status}
    written = {use.array for step in steps if step.kind != "copy" for use in step.uses if use.mode.writes}
    kept: set[Buffer] = set()
    for array in written:
        if not arrays[array].temporary or array in statuses:
            kept.add((array, final_spaces[array][0]))
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for position, step in enumerate(steps):
        for use in step.uses:
            buffer = (use.array, use.space)
            if use.array in inputs and use.space == HOST:
                continue
            first.setdefault(buffer, position)
            last[buffer] = position
    freed: dict[int, list[Buffer]] = {}
    for buffer, position in last.items():
        if buffer not in kept:
            freed.setdefault(position, []).append(buffer)
    result: list[Step] = []
    for position, step in enumerate(steps):
        starting = [b for b in ((u.array, u.space) for u in step.uses) if first.get(b) == position]
        result += [_memory_step("alloc", buffer, step, graph) for buffer in starting]
        result.append(step)
        result += [_memory_step("free", buffer, step, graph) for buffer in freed.get(position, ())]
    return result


def _memory_step(kind: InstructionKind, buffer: Buffer, beside: Step, graph: TaskGraph) -> Step:
    array, space = buffer
    return Step(
        kind=kind,
        lane=beside.lane,
        task=beside.task,
        uses=(BufferUse(array, space, AccessMode.WRITE),),
        nbytes=graph.arrays[array].nbytes,
    )


def peak_bytes(instructions: Iterable[Instruction | Step]) -> dict[str, int]:
    """Return the most memory held at once per space, walking the global order.

    The engine holds an allocation back until earlier frees have taken effect, so this peak is kept.

    Parameters
    ----------
    instructions : iterable of Instruction or Step
        In global order.

    Returns
    -------
    dict of str to int
        Bytes by space.
    """
    held: dict[str, int] = {}
    peak: dict[str, int] = {}
    for instruction in instructions:
        if instruction.kind == "alloc":
            space = instruction.uses[0].space
            held[space] = held.get(space, 0) + instruction.nbytes
            peak[space] = max(peak.get(space, 0), held[space])
        elif instruction.kind == "free":
            held[instruction.uses[0].space] -= instruction.nbytes
    return peak


def check_capacity(peak: Mapping[str, int], platform: Platform) -> None:
    """Refuse a plan that needs more memory than a space has.

    Parameters
    ----------
    peak : Mapping[str, int]
        Bytes by space.
    platform : Platform
        Capacities; 0 means unknown and is not checked.

    Raises
    ------
    MemoryLimitError
        With both sizes.
    """
    for space, needed in peak.items():
        capacity = platform.space(space).capacity_bytes
        if capacity and needed > capacity:
            raise MemoryLimitError(
                f"the plan needs {needed} bytes ({needed / 2**20:.1f} MiB) at its peak, "
                f"there are {capacity} ({capacity / 2**20:.1f} MiB)",
                where=f"memory space {space!r}",
                hint="Use smaller tiles, declare arrays temporary, or add a device with more memory",
            )
