# SPDX-License-Identifier: Apache-2.0
"""Future accesses to each array while the compiled pass walks through a schedule's tasks.

Tasks have odd positions, in global order. A task that runs again right before another one has the even position before
it; so have the extra reads of its inputs, which are not in the schedule. No task writes an array between the current
position and an extra read of it.
"""

from __future__ import annotations

from syclsched.compiled import lean
from syclsched.model.graph_parts.access_columns import READS, WRITES
from syclsched.model.platform_parts.routes import NOTHING
from syclsched.planning.transfers.transfer_state import NOW, LimitedMemory, TransferInputs, TransferState, holds


@lean
def _next_extra(k: LimitedMemory, array: int) -> int:
    """Return the first extra read of an array that is still to come; `NOTHING` if there is none."""
    each = k.first_extra[array]
    while each != NOTHING and k.extra_position[each] < k.counts[NOW]:
        each = k.next_of_array[each]
    return int(each)


@lean
def home_at(s: TransferInputs, position: int) -> int:
    """Return the own space of the device that reads at a position."""
    return int(s.home[s.device[position // 2]])


@lean
def is_over(m: TransferState, k: LimitedMemory, array: int) -> bool:
    """Return whether no access is left."""
    return bool(m.next_touch[array] == k.touches.starts[array + 1] and _next_extra(k, array) == NOTHING)


@lean
def next_reader(m: TransferState, k: LimitedMemory, array: int) -> int:
    """Return the position of the next access if it reads the current value, else `NOTHING`."""
    touch, extra = m.next_touch[array], _next_extra(k, array)
    scheduled = touch != k.touches.starts[array + 1]
    if extra != NOTHING and (not scheduled or k.extra_position[extra] < 2 * k.touches.position[touch]):
        return int(k.extra_position[extra])
    return int(2 * k.touches.position[touch] + 1) if scheduled and READS[k.touches.mode[touch]] else NOTHING


@lean
def next_read_in(s: TransferInputs, m: TransferState, k: LimitedMemory, array: int, space: int) -> int:
    """Return the position of the current value's next read by a device of a space; if there is none, the end."""
    found = 2 * len(s.task) + 2
    for touch in range(m.next_touch[array], k.touches.starts[array + 1]):
        if READS[k.touches.mode[touch]] and k.touches.home[touch] == space:
            found = 2 * k.touches.position[touch] + 1
            break
        if WRITES[k.touches.mode[touch]]:
            break
    extra = _next_extra(k, array)
    while extra != NOTHING and k.extra_position[extra] < found:
        if home_at(s, k.extra_position[extra]) == space:
            found = k.extra_position[extra]
        extra = k.next_of_array[extra]
    return int(found)


@lean
def written_within(m: TransferState, k: LimitedMemory, array: int, first: int, last: int) -> bool:
    """Return whether a task writes an array from one position to before another."""
    touch, position = m.next_touch[array], k.touches.position
    while touch > k.touches.starts[array] and 2 * position[touch - 1] + 1 >= first:
        touch -= 1
    while touch < k.touches.starts[array + 1] and 2 * position[touch] + 1 < last:
        if WRITES[k.touches.mode[touch]]:
            return True
        touch += 1
    return False


@lean
def is_only_here(m: TransferState, k: LimitedMemory, array: int, space: int) -> bool:
    """Return whether a value that will be read, by a task or after the run, is in a space and nowhere else."""
    for other in range(m.since.shape[1]):
        if holds(m, array, other) != (other == space):
            return False
    return is_wanted(m, k, array)


@lean
def is_wanted(m: TransferState, k: LimitedMemory, array: int) -> bool:
    """Return whether the current value of an array or a segment will be read, by a task or after the run."""
    return next_reader(m, k, array) != NOTHING or (k.lasting[array] and is_over(m, k, array))
