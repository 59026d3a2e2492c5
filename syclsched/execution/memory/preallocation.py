# SPDX-License-Identifier: Apache-2.0
"""Selection of buffers to allocate and touch before a run starts, so that no copy or kernel page-faults. Pure.

The first write to fresh pages costs more than the write itself: on the CPU device a copy of 512 KiB into fresh memory
takes several times as long. The plan lists all allocations and frees, so the memory needed at once is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from syclsched.execution.core.program import Buffer
from syclsched.model.plan import Instruction
from syclsched.model.usm import ArrayMemory

#: Memory space, USM kind with its context (None: the default) and size in bytes: equal blocks are interchangeable.
BlockKind = tuple[str, tuple[str, str | None] | None, int]


def buffers_to_preallocate(
    instructions: Iterable[Instruction], peak_bytes: Mapping[str, int], memory: Iterable[ArrayMemory] = ()
) -> dict[int, Buffer]:
    """Return the buffers to allocate before the run, by allocation number; later ones reuse freed blocks."""
    kinds = {(chosen.array, chosen.space): (chosen.kind, chosen.context) for chosen in memory}
    idle: dict[BlockKind, int] = {}
    in_use: defaultdict[str, int] = defaultdict(int)
    # Peak bytes so far, including prepared buffers that are not in use yet: each further one adds to it.
    peak: defaultdict[str, int] = defaultdict(int)
    found: dict[int, Buffer] = {}
    seen: set[Buffer] = set()
    for instruction in instructions:
        if instruction.kind not in ("alloc", "free") or not instruction.nbytes:
            continue
        use, nbytes = instruction.uses[0], instruction.nbytes
        buffer = (use.array, use.space)
        kind = (use.space, kinds.get(buffer) if kinds else None, nbytes)
        if instruction.kind == "free":
            idle[kind] = idle.get(kind, 0) + 1
            in_use[use.space] -= nbytes
            continue
        if idle.get(kind):
            idle[kind] -= 1
        elif buffer not in seen and peak[use.space] + nbytes <= peak_bytes.get(use.space, 0):
            peak[use.space] += nbytes
            found[instruction.id] = buffer
        seen.add(buffer)
        in_use[use.space] += nbytes
        if in_use[use.space] > peak[use.space]:
            peak[use.space] = in_use[use.space]
    return found
