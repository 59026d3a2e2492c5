# SPDX-License-Identifier: Apache-2.0
"""Lifetimes of memory: allocations before first use, frees after last use, peaks per space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from syclsched.errors import MemoryLimitError
from syclsched.model.platform import Platform
from syclsched.model.text.units import format_exact_bytes
from syclsched.planning import plan_indices as plan_numbers
from syclsched.planning.draft import PlanDraft
from syclsched.planning.instruction_rows import ALLOC, FREE, WORK, InstructionRows, Touches, gather
from syclsched.planning.plan_indices import PlanIndices


def add_allocations(draft: PlanDraft, touched: Touches) -> InstructionRows:
    """Return the steps with an ``alloc`` before the first use of each memory and a ``free`` after its last.

    The user's own memory is neither allocated nor freed; memory with values that may be read after the run is not
    freed.
    """
    count, uses, memories = len(draft.steps), len(touched.blocks), len(draft.memory_nbytes)
    used = draft.memory_of[touched.blocks]
    first, last = np.full(memories, uses), np.full(memories, -1)
    np.minimum.at(first, used, np.arange(uses))
    np.maximum.at(last, used, np.arange(uses))
    ours = last >= 0
    ours[draft.foreign] = False
    freed = ours.copy()
    freed[draft.kept] = False
    allocated_memory, freed_memory = np.flatnonzero(ours), np.flatnonzero(freed)
    step_of_use = np.repeat(np.arange(count), np.diff(touched.starts))
    step = np.concatenate((step_of_use[first[allocated_memory]], np.arange(count), step_of_use[last[freed_memory]]))
    phase = np.repeat(np.array([ALLOC, WORK, FREE]), (len(allocated_memory), count, len(freed_memory)))
    memory = np.concatenate((allocated_memory, np.full(count, -1), freed_memory))
    use = np.concatenate((first[allocated_memory], np.zeros(count, np.int64), last[freed_memory]))
    order = np.lexsort((use, 3 * step + phase))
    # After the rows of steps, one row per memory: its allocation and its free touch all its blocks.
    blocks = np.argsort(draft.memory_of, kind="stable")
    each = Touches(
        np.concatenate((touched.starts, uses + np.cumsum(np.bincount(draft.memory_of, minlength=memories)))),
        np.concatenate((touched.blocks, blocks)),
        np.concatenate((touched.writes, np.ones(len(blocks), np.bool_))),
    )
    row = np.where(phase == WORK, step, count + memory)
    return InstructionRows(phase[order], step[order], memory[order], gather(each, row[order]))


def peak_bytes(numbers: PlanIndices, spaces: Sequence[str]) -> dict[str, int]:
    """Return the most memory held at once in each space, in global order.

    The engine delays an allocation until earlier frees have taken effect, so a run does not exceed this peak.
    """
    rows = np.flatnonzero((numbers.kind == plan_numbers.ALLOC) | (numbers.kind == plan_numbers.FREE))
    gets = numbers.kind[rows] == plan_numbers.ALLOC
    space = numbers.use_space[numbers.use_starts[rows]] if len(rows) else rows
    change = np.where(gets, numbers.nbytes[rows], -numbers.nbytes[rows])
    return {spaces[n]: int(np.cumsum(change[space == n]).max(initial=0)) for n in np.unique(space[gets]).tolist()}


def _over_capacity(peak: Mapping[str, int], platform: Platform) -> list[str]:
    """Return the spaces in which a plan needs more memory than there is; a capacity of 0 means unknown."""
    return [s.name for s in platform.spaces if s.capacity_bytes and peak.get(s.name, 0) > s.capacity_bytes]


def check_capacity(peak: Mapping[str, int], platform: Platform) -> None:
    """Refuse a plan that needs more memory than a space has."""
    for space in _over_capacity(peak, platform):
        capacity, needed = platform.space(space).capacity_bytes, peak[space]
        raise MemoryLimitError(
            f"the plan needs {format_exact_bytes(needed)} at its peak, there are {format_exact_bytes(capacity)}",
            where=f"memory space {space!r}",
            hint="Use smaller arrays (tiles, batches), declare arrays temporary, or add a device with more memory",
        )
