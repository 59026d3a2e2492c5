# SPDX-License-Identifier: Apache-2.0
"""Initial state of memory spaces with capacities, for the compiled pass."""

from __future__ import annotations

import numpy as np

from syclsched.model.platform import Platform
from syclsched.model.platform_parts.routes import NOTHING
from syclsched.planning.draft import Ints
from syclsched.planning.graph_record import GraphRecord
from syclsched.planning.transfers.transfer_state import UNLIMITED, UNUSED, ArrayAccesses, LimitedMemory, TransferInputs


def limited_memory(
    graph: GraphRecord,
    platform: Platform,
    setting: TransferInputs,
    touching: ArrayAccesses,
    foreign: int,
    *,
    remaking: bool,
    times: int,
) -> LimitedMemory:
    """Return the state before the first task, with space for ``times`` as many extra reads as there are accesses."""
    arrays, spaces, accesses = len(graph.arrays), len(platform.spaces), len(setting.access_array)
    names = [a.name for a in graph.arrays]
    by_rank = np.lexsort((np.array(names, np.str_), -graph.nbytes))
    rank = np.empty(arrays, np.int64)
    rank[by_rank] = np.arange(arrays)
    divided = np.bincount(setting.whole[setting.in_parts], minlength=arrays) > 0
    is_status = np.array([name in graph.statuses for name in names], np.bool_)
    temporary = np.array([a.temporary for a in graph.arrays], np.bool_)
    nowhere, extra = np.full((arrays, spaces), NOTHING, np.int64), times * accesses
    counts = np.zeros(8, np.int64)
    counts[UNUSED] = NOTHING
    return LimitedMemory(
        touches=touching,
        capacity=np.array([space.capacity_bytes or UNLIMITED for space in platform.spaces], np.int64),
        held=np.zeros(spaces, np.int64),
        used=np.zeros(spaces, np.int64),
        status_held=np.zeros(spaces, np.int64),
        foreign=foreign,
        remaking=remaking,
        first_piece=np.arange(arrays) + divided,
        end_piece=np.searchsorted(setting.whole, np.arange(arrays), side="right"),  # segments follow their array
        rank=rank,
        by_rank=by_rank,
        has_status=np.bincount(setting.whole[is_status], minlength=arrays) > 0,
        is_status=is_status,
        lasting=is_status | ~temporary,
        temporary=temporary & ~is_status & ~divided & ~setting.in_parts,
        repeatable=np.array([t.repeatable for t in graph.tasks], np.bool_),
        again=np.zeros(len(graph.tasks), np.int64),
        in_use=nowhere.copy(),
        newest=nowhere,
        heap=np.empty((spaces, 2 * arrays + 1), np.int64),
        heap_size=np.zeros(spaces, np.int64),
        maker=_nothing(arrays),
        first_extra=_nothing(arrays),
        given_up=_nothing(arrays),
        extra_position=np.empty(extra, np.int64),
        extra_array=np.empty(extra, np.int64),
        next_of_array=np.empty(extra, np.int64),
        next_of_value=np.empty(extra, np.int64),
        seen=np.zeros(arrays, np.int64),
        kept=np.empty(2 * arrays + 1, np.int64),
        stack=np.empty(accesses + 2 * arrays + 1, np.int64),
        lost=np.empty(arrays, np.int64),
        needed=np.empty(accesses, np.int64),
        counts=counts,
        refused=_nothing(3),
    )


def _nothing(count: int) -> Ints:
    return np.full(count, NOTHING, np.int64)
