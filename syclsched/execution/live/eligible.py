# SPDX-License-Identifier: Apache-2.0
"""Which runs compiled code can decide and submit, and where the data of such a run is to lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syclsched.devices import faultpoints
from syclsched.execution.live.capacity import Block
from syclsched.execution.live.carrier import COPY_SLOTS
from syclsched.execution.live.layout import Layout
from syclsched.execution.live.submitter import Submitter
from syclsched.execution.live.tasks import TaskWork
from syclsched.scheduling.dynamic.family import DYNAMIC_POLICIES
from syclsched.scheduling.dynamic.hybrid import Hybrid
from syclsched.scheduling.dynamic.state import DynamicPolicy
from syclsched.scheduling.tables import NOTHING

#: Spaces of unknown size are believed to hold this much, and others this share of what they hold.
_UNKNOWN_BYTES, _SHARE = 1 << 30, 0.25
#: Numbers that may be kept of what things wait for: one for each of them and each lane.
_MOST_WAITS = 1 << 23


@dataclass(frozen=True, slots=True)
class Roof:
    """Where the data of a run is to lie."""

    only: int | None  # the space for all of it; None if it is spread over several
    blocks: tuple[Block, ...]  # the memory that there must be, by array and space
    contexts: tuple[int, ...]  # by lane, a number for its SYCL context; `NOTHING` for the host's


def roof_for(
    layout: Layout, work: TaskWork, limits: Sequence[int], policy: DynamicPolicy, submitter: Submitter
) -> Roof | None:
    """Return where the data of a run is to lie; None if compiled code cannot decide and submit it."""
    if not any(policy == known for known in DYNAMIC_POLICIES) and not isinstance(policy, Hybrid):
        return None
    if submitter.loop is None or faultpoints.active is not None or work.has_libraries:
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
    one = len({contexts[n] for n, lane in enumerate(layout.lanes) if lane.number in computing}) == 1
    if len(homes) == 1 and not one:
        return None
    if len(homes) == 1 and all(space in layout.reaches[d] for d in used):
        only, blocks = space, [(array, space) for array in range(len(layout.wholes))]
        if len(layout.pieces) > COPY_SLOTS:
            return None
    else:
        only, blocks = None, _blocks_of_several(layout, used)
        if any(len(layout.reaches[d]) > 1 for d in computing) or not _is_connected(layout, homes):
            return None
        if layout.spread.most_copies * len(layout.lanes) > _MOST_WAITS:
            return None
    taken = [0] * len(layout.spaces)
    for array, where in blocks:
        taken[where] += layout.wholes[array].nbytes
    if any(t > (limit * _SHARE if limit else _UNKNOWN_BYTES) for t, limit in zip(taken, limits, strict=True)):
        return None
    return Roof(only, tuple(blocks), tuple(contexts))


def _blocks_of_several(layout: Layout, used: Sequence[int]) -> list[Block]:
    """Return the memory that is needed wherever tasks run."""
    seconds = layout.problem.tables.seconds
    by_way_of_host = not np.isfinite(np.array(layout.spread.direct_s)).all()
    blocks: dict[Block, None] = {}
    for task, touches in enumerate(layout.touches):
        for touch in touches:
            for device in used:
                if math.isfinite(seconds[task, device]):
                    blocks[layout.whole_of[touch.piece], layout.home[device]] = None
            if by_way_of_host:
                blocks[layout.whole_of[touch.piece], layout.host_space] = None
    return list(blocks)


def _is_connected(layout: Layout, homes: set[int]) -> bool:
    """Return whether data can be copied between all spaces of a run, the host's among them."""
    spaces = sorted(homes | {layout.host_space})
    latency_s = layout.problem.tables.latency_s
    return bool(np.isfinite(np.array(latency_s)[np.ix_(spaces, spaces)]).all())
