# SPDX-License-Identifier: Apache-2.0
"""Hazards between steps: which must finish before which, from the memory they touch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from syclsched.compiled import compiled
from syclsched.planning.rows import ALLOC, FREE, WORK, Rows
from syclsched.planning.steps import Buffer, Draft, Flags, Ints, ragged


def hazards(
    rows: Rows, draft: Draft, after: Mapping[str, Sequence[str]], *, by_buffer: bool = False
) -> tuple[Ints, Ints]:
    """Return for each row the earlier rows it depends on.

    Two that touch the same block, at least one of them writing, keep their global order (RAW, WAR, WAW); a
    free comes after every use. Tasks ordered explicitly or by a barrier keep that order. An allocation is work of the
    host at submission, which nothing on a device precedes; if the same array was in the same space before, it comes
    after that block's free.

    Parameters
    ----------
    rows : Rows
        The draft's, in global order.
    draft : Draft
        Steps and blocks.
    after : Mapping[str, sequence of str]
        Explicit and barrier dependencies: task name to the tasks before it.
    by_buffer : bool, optional
        Whether all blocks of one array in one space count as one, for rows without allocations; see `_buffers`.

    Returns
    -------
    starts, before : ndarray of int64
        Ragged: the positions of earlier rows, without duplicates.
    """
    starts, blocks, writes = rows.touched
    if by_buffer:
        first: dict[Buffer, int] = {}
        blocks = np.array([first.setdefault(b, n) for n, b in enumerate(_buffers(draft))], np.int64)[blocks]
    extra_starts, extra = ragged(_extra(rows, draft, after))
    return hazard_edges(starts, blocks, writes, rows.phase == ALLOC, len(draft.blocks), extra_starts, extra)


def _buffers(draft: Draft) -> Sequence[Buffer]:
    """Return what each block counts as if all blocks of one array in one space count as one.

    Segments of an array do not touch each other, unless the array leaves the space and comes back: then all of it must
    have gone before any of it comes.
    """
    if draft.memory == draft.blocks:
        return draft.blocks
    stays = Counter(draft.memory)
    memory = [draft.memory[index] for index in draft.memory_of.tolist()]
    return [whole if stays[whole] > 1 else block for whole, block in zip(memory, draft.blocks, strict=True)]


def _extra(rows: Rows, draft: Draft, after: Mapping[str, Sequence[str]]) -> list[Sequence[int]]:
    """Return the order that does not follow from uses: explicit edges, and allocations after frees."""
    extra: list[Sequence[int]] = [()] * len(rows.phase)
    if after:
        row_of_step = np.flatnonzero(rows.phase == WORK).tolist()
        task_row = {s.task: row_of_step[n] for n, s in enumerate(draft.steps) if s.kind != "copy" and not s.again}
        for task, earlier in after.items():
            extra[task_row[task]] = [task_row[name] for name in earlier]
    if len(set(draft.memory)) < len(draft.memory):
        freed: dict[Buffer, int] = {}
        memory = np.flatnonzero(rows.phase != WORK)
        for row, phase, index in zip(
            memory.tolist(), rows.phase[memory].tolist(), rows.memory[memory].tolist(), strict=True
        ):
            buffer = draft.memory[index]
            if phase == FREE:
                freed[buffer] = row
            elif buffer in freed:
                extra[row] = (freed[buffer],)
    return extra


@compiled
def hazard_edges(
    starts: Ints, touched: Ints, writes: Flags, skip: Flags, block_count: int, extra_starts: Ints, extra: Ints
) -> tuple[Ints, Ints]:
    """Return ragged rows of the earlier steps each step depends on.

    Parameters
    ----------
    starts, touched, writes
        Ragged: the blocks each step touches, and whether it writes them.
    skip : ndarray of bool
        Steps whose touches do not count.
    block_count : int
        Number of blocks.
    extra_starts, extra
        Ragged: further earlier steps.

    Returns
    -------
    starts, before : ndarray of int64
        Without duplicates.
    """
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
                if writes[k] and link >= 0:  # the readers came after the writer, so they cover it
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
