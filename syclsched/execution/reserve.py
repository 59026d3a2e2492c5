# SPDX-License-Identifier: Apache-2.0
"""Which memory is got and touched before a run starts, so that no page fault falls into a copy or a kernel. Pure.

The first write to fresh pages costs more than the write itself: on the CPU device a copy of 512 KiB takes several
times as long into fresh memory. A plan says what it will allocate and free, so what it needs at once is known
beforehand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from syclsched.execution.program import Buffer
from syclsched.model.plan import Instruction
from syclsched.model.usm import ArrayMemory

#: Memory space, kind of memory (if not the usual, with its context) and size in bytes: these replace each other.
Kind = tuple[str, tuple[str, str | None] | None, int]


def buffers_to_prepare(
    instructions: Iterable[Instruction], peak_bytes: Mapping[str, int], memory: Iterable[ArrayMemory] = ()
) -> dict[int, Buffer]:
    """Return the buffers that need a block of their own; those allocated later fit into blocks that were freed."""
    kinds = {(chosen.array, chosen.space): (chosen.kind, chosen.context) for chosen in memory}
    idle: Counter[Kind] = Counter()
    in_use: Counter[str] = Counter()
    # The most that was taken so far, with what is prepared and not yet in use: another one prepared adds to all of it.
    most: Counter[str] = Counter()
    found: dict[int, Buffer] = {}
    seen: set[Buffer] = set()
    for instruction in instructions:
        if instruction.kind not in ("alloc", "free") or not instruction.nbytes:
            continue
        use, nbytes = instruction.uses[0], instruction.nbytes
        buffer = (use.array, use.space)
        kind = (use.space, kinds.get(buffer), nbytes)
        if instruction.kind == "free":
            idle[kind] += 1
            in_use[use.space] -= nbytes
            continue
        if idle[kind]:
            idle[kind] -= 1
        elif buffer not in seen and most[use.space] + nbytes <= peak_bytes.get(use.space, 0):
            most[use.space] += nbytes
            found[instruction.id] = buffer
        seen.add(buffer)
        in_use[use.space] += nbytes
        most[use.space] = max(most[use.space], in_use[use.space])
    return found
