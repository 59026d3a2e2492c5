# SPDX-License-Identifier: Apache-2.0
"""When memory comes and goes: allocations before first use, frees after last use, peaks per space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from syclsched.errors import MemoryLimitError
from syclsched.model.plan import Instruction
from syclsched.model.platform import Platform
from syclsched.planning.rows import ALLOC, FREE, WORK, Rows, Touches, gather
from syclsched.planning.steps import Draft


def add_allocations(draft: Draft, touched: Touches) -> Rows:
    """Return the steps with an ``alloc`` before each block's first use and a ``free`` after its last.

    The user's own blocks are neither allocated nor freed; those that are kept are not freed.

    Parameters
    ----------
    draft : Draft
        Steps in global order.
    touched : Touches
        What they touch.

    Returns
    -------
    Rows
        In global order.
    """
    count, uses, blocks = len(draft.steps), len(touched.blocks), len(draft.blocks)
    first, last = np.full(blocks, uses), np.full(blocks, -1)
    np.minimum.at(first, touched.blocks, np.arange(uses))
    np.maximum.at(last, touched.blocks, np.arange(uses))
    ours = last >= 0
    ours[list(draft.foreign)] = False
    freed = ours.copy()
    freed[list(draft.kept)] = False
    made, gone = np.flatnonzero(ours), np.flatnonzero(freed)
    step_of_use = np.repeat(np.arange(count), np.diff(touched.starts))
    step = np.concatenate((step_of_use[first[made]], np.arange(count), step_of_use[last[gone]]))
    phase = np.repeat(np.array([ALLOC, WORK, FREE]), (len(made), count, len(gone)))
    block = np.concatenate((made, np.full(count, -1), gone))
    use = np.concatenate((first[made], np.zeros(count, np.int64), last[gone]))
    order = np.lexsort((use, 3 * step + phase))
    # Beside the rows of steps one for each block, which only its allocation and its free touch.
    each = Touches(
        np.concatenate((touched.starts, uses + 1 + np.arange(blocks))),
        np.concatenate((touched.blocks, np.arange(blocks))),
        np.concatenate((touched.writes, np.ones(blocks, np.bool_))),
    )
    row = np.where(phase == WORK, step, count + block)
    return Rows(phase[order], step[order], block[order], gather(each, row[order]))


def peak_bytes(instructions: Iterable[Instruction]) -> dict[str, int]:
    """Return the most memory held at once per space, walking the global order.

    The engine holds an allocation back until earlier frees have taken effect, so this peak is kept.

    Parameters
    ----------
    instructions : iterable of Instruction
        In global order.

    Returns
    -------
    dict of str to int
        Bytes by space.
    """
    held: dict[str, int] = {}
    peak: dict[str, int] = {}
    for instruction in instructions:
        kind = instruction.kind
        if kind == "alloc":
            space = instruction.uses[0].space
            held[space] = now = held.get(space, 0) + instruction.nbytes
            if now > peak.get(space, -1):
                peak[space] = now
        elif kind == "free":
            held[instruction.uses[0].space] -= instruction.nbytes
    return peak


def over_capacity(peak: Mapping[str, int], platform: Platform) -> list[str]:
    """Return the spaces in which a plan needs more memory than there is; a capacity of 0 is unknown."""
    return [s.name for s in platform.spaces if s.capacity_bytes and peak.get(s.name, 0) > s.capacity_bytes]


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
    for space in over_capacity(peak, platform):
        capacity, needed = platform.space(space).capacity_bytes, peak[space]
        raise MemoryLimitError(
            f"the plan needs {needed} bytes ({needed / 2**20:.1f} MiB) at its peak, "
            f"there are {capacity} ({capacity / 2**20:.1f} MiB)",
            where=f"memory space {space!r}",
            hint="Use smaller tiles, declare arrays temporary, or add a device with more memory",
        )
