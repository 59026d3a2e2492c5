# SPDX-License-Identifier: Apache-2.0
"""Cost of recomputing a value for its next reader, instead of saving it and copying it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from syclsched.compiled import lean
from syclsched.model.graph_parts.access_columns import READS, WRITES
from syclsched.model.platform import HOST, Platform
from syclsched.model.platform_parts.routes import NOTHING
from syclsched.model.schedule import Assignment
from syclsched.planning.graph_record import GraphRecord
from syclsched.planning.transfers.future_accesses import home_at, is_wanted, next_read_in, next_reader, written_within
from syclsched.planning.transfers.transfer_state import (
    MARK,
    NEEDED,
    NOW,
    UNTIL,
    LimitedMemory,
    TransferInputs,
    TransferState,
    copy_seconds,
    holds,
)

#: Most tasks that are run again to recompute one value.
MAX_RECOMPUTED_TASKS: Final = 32

_IMPOSSIBLE: Final = -1.0


@lean
def recomputing_seconds(s: TransferInputs, m: TransferState, k: LimitedMemory, array: int, space: int) -> float:
    """Return the cost of recomputing a value for its next reader; a negative number if that is impossible.

    All that would be read, and until when, is left in ``needed`` and ``counts``.
    """
    reader = next_reader(m, k, array)
    until = reader - reader % 2  # just before the reader
    if not k.remaking or not k.temporary[array] or reader == NOTHING:
        return _IMPOSSIBLE
    if home_at(s, reader) != space or until <= k.counts[NOW]:
        return _IMPOSSIBLE
    k.counts[MARK] += 1
    seconds, tasks, left, reads = 0.0, 0, 1, 0
    k.stack[0] = array
    while left:
        left -= 1
        made = k.stack[left]
        if k.seen[made] == k.counts[MARK]:
            continue
        maker = k.maker[made]
        if maker == NOTHING or tasks == MAX_RECOMPUTED_TASKS or not _can_repeat(s, m, k, maker, made, space, until):
            return _IMPOSSIBLE
        k.seen[made] = k.counts[MARK]
        tasks += 1
        seconds += s.duration_s[maker]
        for access in range(s.access_starts[s.task[maker]], s.access_starts[s.task[maker] + 1]):
            if not READS[s.access_mode[access]]:
                continue
            needed = s.access_array[access]
            k.needed[reads] = needed
            reads += 1
            if k.given_up[needed] != NOTHING:
                k.stack[left] = needed
                left += 1
                continue
            fetch_s = _fetch_seconds(s, m, k, needed, space, until)
            if fetch_s < 0.0:
                return _IMPOSSIBLE
            seconds += fetch_s
    k.counts[NEEDED], k.counts[UNTIL] = reads, until
    return float(seconds)


@lean
def _can_repeat(
    s: TransferInputs, m: TransferState, k: LimitedMemory, maker: int, array: int, space: int, until: int
) -> bool:
    """Return whether running a task again at a position writes the same value there, and nothing else."""
    task, device = s.task[maker], s.device[maker]
    if not k.repeatable[task] or s.home[device] != space or s.reach_starts[device + 1] - s.reach_starts[device] > 1:
        return False
    for access in range(s.access_starts[task], s.access_starts[task + 1]):
        other = s.access_array[access]
        if WRITES[s.access_mode[access]] and other != array and not (k.is_status[other] and k.maker[other] == maker):
            return False
        if written_within(m, k, other, 2 * maker + 2, until):
            return False
    return True


@lean
def _fetch_seconds(s: TransferInputs, m: TransferState, k: LimitedMemory, array: int, space: int, until: int) -> float:
    """Return the seconds of copies needed for an array to be in a space at a position.

    A negative number if its value exists nowhere.
    """
    here, elsewhere, nearest_s = False, False, np.inf
    for other in range(len(s.stop)):
        if holds(m, array, other) and m.memory_at[s.whole[array], other] != NOTHING:
            if other == space:
                here = True
            else:
                elsewhere = True
                nearest_s = min(nearest_s, copy_seconds(s, other, space, s.nbytes[array]))
    if not here and not elsewhere:
        return _IMPOSSIBLE
    if here and next_read_in(s, m, k, array, space) <= until:
        return 0.0  # it stays there for another reader
    if elsewhere:
        return float(nearest_s)
    back_s = copy_seconds(s, s.host, space, s.nbytes[array])
    return back_s if is_wanted(m, k, array) else back_s + copy_seconds(s, space, s.host, s.nbytes[array])


def recomputing_may_pay(
    graph: GraphRecord, platform: Platform, assignments: Sequence[Assignment], durations_s: Mapping[str, float]
) -> bool:
    """Return whether some temporary takes less time to recompute than to copy out and back."""
    temporary = {a.name: a.nbytes for a in graph.arrays if a.temporary and a.rows is None}
    tasks = {t.name: t for t in graph.tasks if t.repeatable}
    links = {
        device.name: (*platform.route(device.space, HOST), *platform.route(HOST, device.space))
        for device in platform.devices
        if device.space != HOST and any(a.device == device.name for a in assignments)
    }
    for assignment in assignments:
        task = tasks.get(assignment.task)
        if task is not None and assignment.device in links:
            nbytes = max((temporary.get(a.array, 0) for a in task.accesses if a.mode.writes), default=0)
            if nbytes and durations_s[task.name] < sum(link.seconds(nbytes) for link in links[assignment.device]):
                return True
    return False
