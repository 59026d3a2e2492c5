# SPDX-License-Identifier: Apache-2.0
"""Rematerialisation: where memory is short, temporaries are dropped and recomputed before their next reader.

An array that must leave a space is either saved to the host's memory and copied back, or dropped; then the task that
wrote it runs again right before the next reader, as for activations in training (Griewank and Walther 2000; Chen et al.
2016, https://arxiv.org/abs/1604.06174). It pays where the task takes less time than the two copies. The task's inputs
must still have the same values then, so they count as read until then, which keeps them from being freed or evicted
first.
"""

from __future__ import annotations

from syclsched.compiled import lean
from syclsched.model.graph_parts.access_columns import READS, WRITES
from syclsched.model.platform_parts.routes import NOTHING
from syclsched.planning.transfers.recomputation_cost import recomputing_seconds
from syclsched.planning.transfers.residency import can_save, enqueue, settle
from syclsched.planning.transfers.transfer_state import (
    EXTRA,
    FULL,
    MARK,
    NEEDED,
    NO_READS,
    UNTIL,
    UNUSED,
    LimitedMemory,
    TransferInputs,
    TransferState,
    copy_seconds,
)


@lean
def drop_if_cheaper(s: TransferInputs, m: TransferState, k: LimitedMemory, array: int, space: int) -> bool:
    """Give up an array's value if recomputing is cheaper than saving it, or if it cannot be saved."""
    seconds = recomputing_seconds(s, m, k, array, space)
    if seconds < 0.0:
        return False
    nbytes = s.nbytes[array]
    # The load of the link is not known yet; the caller compares plans with and without recomputation.
    copies_s = copy_seconds(s, space, s.host, nbytes) + copy_seconds(s, s.host, space, nbytes)
    if seconds >= copies_s and can_save(s, m, k, array, space):
        return False
    k.given_up[array] = NO_READS
    for each in range(k.counts[NEEDED]):
        needed = k.needed[each]
        _expect(k, array, needed, k.counts[UNTIL])
        for other in range(len(s.stop)):
            if m.memory_at[s.whole[needed], other] >= k.foreign:
                enqueue(s, m, k, s.whole[needed], other)
    return True


@lean
def find_lost(s: TransferInputs, k: LimitedMemory, position: int) -> int:
    """Return how many arrays must be recomputed before a task can run; they are in ``lost``, in order."""
    left, found = _push_reads(s, k, position, 0), 0
    k.counts[MARK] += 1
    while left:
        left -= 1
        array, ready = k.stack[left] // 2, k.stack[left] % 2
        if k.seen[array] == k.counts[MARK]:
            continue
        if ready:
            k.seen[array] = k.counts[MARK]
            k.lost[found] = array
            found += 1
        else:
            k.stack[left] = 2 * array + 1  # after all that it needs
            left = _push_reads(s, k, k.maker[array], left + 1)
    return found


@lean
def note_written(s: TransferInputs, m: TransferState, k: LimitedMemory, position: int) -> None:
    """Record that a task has been placed."""
    for access in range(s.access_starts[s.task[position]], s.access_starts[s.task[position] + 1]):
        if WRITES[s.access_mode[access]]:
            k.maker[s.access_array[access]] = position
            note_recomputed(s, m, k, s.access_array[access])  # an old value that was dropped has no readers left


@lean
def note_recomputed(s: TransferInputs, m: TransferState, k: LimitedMemory, array: int) -> None:
    """Record that an array has been recomputed or overwritten, if its value was dropped."""
    first = k.given_up[array]
    k.given_up[array] = NOTHING
    each = first
    while each >= 0:
        _forget(k, each)
        each = k.next_of_value[each]
    each = first
    while each >= 0:
        if s.whole[k.extra_array[each]] == k.extra_array[each]:
            settle(s, m, k, k.extra_array[each])
        following = k.next_of_value[each]
        k.next_of_value[each] = k.counts[UNUSED]
        k.counts[UNUSED] = each
        each = following


# --- inside ---------------------------------------------------------------------------------------


@lean
def _push_reads(s: TransferInputs, k: LimitedMemory, position: int, left: int) -> int:
    """Push the dropped arrays that a task reads onto the stack; return its new size."""
    for access in range(s.access_starts[s.task[position]], s.access_starts[s.task[position] + 1]):
        array = s.access_array[access]
        if READS[s.access_mode[access]] and k.given_up[array] != NOTHING:
            k.stack[left] = 2 * array
            left += 1
    return left


@lean
def _expect(k: LimitedMemory, value: int, array: int, position: int) -> None:
    """Add a read of an array at a position, for the sake of a dropped value."""
    new = k.counts[UNUSED]
    if new != NOTHING:
        k.counts[UNUSED] = k.next_of_value[new]
    elif k.counts[EXTRA] < len(k.extra_position):
        new = k.counts[EXTRA]
        k.counts[EXTRA] += 1
    else:
        k.counts[FULL] = 1
        return
    k.extra_position[new], k.extra_array[new] = position, array
    k.next_of_value[new], k.given_up[value] = k.given_up[value], new
    before, after = NOTHING, k.first_extra[array]
    while after != NOTHING and k.extra_position[after] < position:
        before, after = after, k.next_of_array[after]
    k.next_of_array[new] = after
    if before == NOTHING:
        k.first_extra[array] = new
    else:
        k.next_of_array[before] = new


@lean
def _forget(k: LimitedMemory, each: int) -> None:
    """Remove a read from the list of its array."""
    before, after = NOTHING, k.first_extra[k.extra_array[each]]
    while after != each:
        before, after = after, k.next_of_array[after]
    if before == NOTHING:
        k.first_extra[k.extra_array[each]] = k.next_of_array[each]
    else:
        k.next_of_array[before] = k.next_of_array[each]
