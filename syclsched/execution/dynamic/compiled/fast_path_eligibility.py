# SPDX-License-Identifier: Apache-2.0
"""Eligibility of a run for the compiled fast path, and the memory placement of its data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syclsched.devices.submission import faultpoints
from syclsched.execution.dynamic.data.capacity import Block
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.submission.dynamic_executor import COPY_SLOTS
from syclsched.execution.dynamic.submission.submitter import Submitter
from syclsched.execution.dynamic.submission.tasks import TaskWork
from syclsched.scheduling.tables import NOTHING

#: Memory that the fast path may use: of a space of unknown size, and as a share of a known size.
_UNKNOWN_BYTES, _SHARE = 1 << 30, 0.25
#: Upper bound of the table of dependencies: one entry per copy and lane.
_MOST_WAITS = 1 << 23


@dataclass(frozen=True, slots=True)
class MemoryPlacement:
    """Memory placement of a fast-path run."""

    single_space: int | None  # the space of all data; None if it is spread over several
    blocks: tuple[Block, ...]  # blocks to allocate
    contexts: tuple[int, ...]  # SYCL context of each lane, by number; `NOTHING` for host lanes


def fast_path_placement(
    layout: IndexedGraph, work: TaskWork, limits: Sequence[int], submitter: Submitter
) -> MemoryPlacement | None:
    """Return the memory placement of a run; None if it is not eligible for the fast path."""
    if faultpoints.active is not None or work.has_libraries:
        return None
    seconds = layout.problem.tables.seconds
    used = [d for d in range(len(layout.devices)) if np.isfinite(seconds[:, d]).any()]
    computing = [d for d in used if not layout.devices[d].is_host]
    homes = {layout.home[d] for d in computing}
    if not homes:
        return None
    found: list[Any] = []
    contexts = []
    for lane in range(len(layout.lanes)):
        context = submitter.context(lane)
        if context is not None and context not in found:
            found.append(context)
        contexts.append(NOTHING if context is None else found.index(context))
    space = next(iter(homes))
    is_one_context = len({contexts[n] for n, lane in enumerate(layout.lanes) if lane.number in computing}) == 1
    if len(homes) == 1 and not is_one_context:
        return None
    if len(homes) == 1 and all(space in layout.reaches[d] for d in used):
        only, blocks = space, [(array, space) for array in range(len(layout.arrays))]
        if len(layout.pieces) > COPY_SLOTS:
            return None
    else:
        only, blocks = None, _blocks_of_several(layout, used)
        if any(len(layout.reaches[d]) > 1 for d in computing) or not _is_connected(layout, homes):
            return None
        if layout.spread.most_copies * len(layout.lanes) > _MOST_WAITS:
            return None
    taken = [0] * len(layout.spaces)
    for array, block_space in blocks:
        taken[block_space] += layout.arrays[array].nbytes
    if any(t > (limit * _SHARE if limit else _UNKNOWN_BYTES) for t, limit in zip(taken, limits, strict=True)):
        return None
    return MemoryPlacement(only, tuple(blocks), tuple(contexts))


def _blocks_of_several(layout: IndexedGraph, used: Sequence[int]) -> list[Block]:
    """Return the blocks needed when tasks may run on any of the used devices."""
    tables = layout.problem.tables
    needs_staging = not np.isfinite(np.array(layout.spread.direct_s)).all()
    blocks: dict[Block, None] = {}
    for task, touches in enumerate(layout.touches):
        for touch in touches:
            for device in used:
                if math.isfinite(tables.seconds[tables.kind[task], device]):
                    blocks[layout.array_of[touch.piece], layout.home[device]] = None
            if needs_staging:
                blocks[layout.array_of[touch.piece], layout.host_space] = None
    return list(blocks)


def _is_connected(layout: IndexedGraph, homes: set[int]) -> bool:
    """Return whether data can be copied between all spaces of a run, host memory included."""
    spaces = sorted(homes | {layout.host_space})
    latency_s = layout.problem.tables.latency_s
    return bool(np.isfinite(np.array(latency_s)[np.ix_(spaces, spaces)]).all())
