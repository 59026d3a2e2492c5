# SPDX-License-Identifier: Apache-2.0
"""Hazards between steps: the order that follows from the memory they touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from syclsched.compiled import compiled
from syclsched.planning.draft import COPY, BufferColumns, Flags, Ints, PlanDraft
from syclsched.planning.instruction_rows import ALLOC, FREE, WORK, InstructionRows


def hazards(
    rows: InstructionRows, draft: PlanDraft, after: Mapping[int, Sequence[int]], *, by_buffer: bool = False
) -> tuple[Ints, Ints]:
    """Return the earlier rows each row depends on, ragged.

    Two rows that touch the same block, at least one of them writing, keep their global order (RAW, WAR, WAW). A free
    comes after every use. Tasks ordered explicitly or by a barrier keep that order. The host allocates at submission,
    so no device work precedes an allocation; only an earlier block of the same array in the same space must have been
    freed.
    """
    starts, blocks, writes = rows.touched
    count = len(draft.memory_of)
    if by_buffer:
        blocks = _buffers(draft)[blocks]
    extra_starts, extra = _extra(rows, draft, after)
    return _hazard_edges(starts, blocks, writes, rows.phase == ALLOC, count, extra_starts, extra)


def _codes(buffers: BufferColumns, spaces: int) -> Ints:
    """Return one number per buffer, equal for equal buffers."""
    return buffers.array * spaces + buffers.space


def _buffers(draft: PlanDraft) -> Ints:
    """Return a representative block for each block, where the blocks of one array in one space count as one.

    Segments stay apart unless their array leaves the space and returns: then all of it must be freed before any of it
    is copied in again.
    """
    spaces = int(max(draft.blocks.space.max(initial=0), draft.memory.space.max(initial=0))) + 1
    memory, counts = np.unique(_codes(draft.memory, spaces), return_inverse=True, return_counts=True)[1:]
    stays = counts[memory] > 1
    block = _codes(draft.blocks, spaces)
    if stays.any():
        again = stays[draft.memory_of]
        block = np.where(again, _codes(draft.memory, spaces)[draft.memory_of], block)
    first, which = np.unique(block, return_index=True, return_inverse=True)[1:]
    return first[which]


def _extra(rows: InstructionRows, draft: PlanDraft, after: Mapping[int, Sequence[int]]) -> tuple[Ints, Ints]:
    """Return, ragged, the order that does not follow from uses: explicit edges, and allocations after frees."""
    extra: dict[int, Sequence[int]] = {}
    if after:
        steps = draft.steps
        first = np.flatnonzero((steps.kind != COPY) & (steps.again == 0))
        row_of_task = np.zeros(len(draft.implementations), np.int64)
        row_of_task[steps.task[first]] = np.flatnonzero(rows.phase == WORK)[first]
        row = row_of_task.tolist()
        for task, earlier in after.items():
            extra[row[task]] = [row[other] for other in earlier]
    spaces = int(draft.memory.space.max(initial=0)) + 1
    codes = _codes(draft.memory, spaces)
    if len(np.unique(codes)) < len(codes):
        freed: dict[int, int] = {}
        memory = np.flatnonzero(rows.phase != WORK)
        for place, phase, buffer in zip(
            memory.tolist(), rows.phase[memory].tolist(), codes[rows.memory[memory]].tolist(), strict=True
        ):
            if phase == FREE:
                freed[buffer] = place
            elif buffer in freed:
                extra[place] = (freed[buffer],)
    starts = np.zeros(len(rows.phase) + 1, np.int64)
    for place, earlier in extra.items():
        starts[place + 1] = len(earlier)
    flat = chain.from_iterable(extra[place] for place in sorted(extra))
    return np.cumsum(starts), np.fromiter(flat, np.int64)


@compiled
def _hazard_edges(
    starts: Ints, touched: Ints, writes: Flags, skip: Flags, block_count: int, extra_starts: Ints, extra: Ints
) -> tuple[Ints, Ints]:
    """Return, ragged, the earlier steps each step depends on."""
    count = len(skip)
    writer = np.full(block_count, -1, np.int64)
    # Readers since the last write, as linked lists: the newest touch of each block, and the one before each touch.
    newest = np.full(block_count, -1, np.int64)
    older = np.full(len(touched), -1, np.int64)
    reader = np.full(len(touched), -1, np.int64)
    seen = np.full(count, -1, np.int64)
    edge_starts = np.zeros(count + 1, np.int64)
    # A touch is found at most once by the next writer and finds at most one writer.
    edges = np.empty(2 * len(touched) + len(extra), np.int64)
    filled = 0
    for step in range(count):
        seen[step] = step
        if not skip[step]:
            for k in range(starts[step], starts[step + 1]):
                block = touched[k]
                last = writer[block]
                link = newest[block]
                if writes[k] and link >= 0:  # the readers follow the writer, so they imply it
                    while link >= 0:
                        if seen[reader[link]] != step:
                            seen[reader[link]] = step
                            edges[filled] = reader[link]
                            filled += 1
                        link = older[link]
                elif last >= 0 and seen[last] != step:
                    seen[last] = step
                    edges[filled] = last
                    filled += 1
                if writes[k]:
                    writer[block] = step
                    newest[block] = -1
                else:
                    reader[k] = step
                    older[k] = newest[block]
                    newest[block] = k
        for k in range(extra_starts[step], extra_starts[step + 1]):
            if seen[extra[k]] != step:
                seen[extra[k]] = step
                edges[filled] = extra[k]
                filled += 1
        edge_starts[step + 1] = filled
    return edge_starts, edges[:filled].copy()
