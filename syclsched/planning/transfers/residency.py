# SPDX-License-Identifier: Apache-2.0
"""Residency of arrays in memory spaces with capacities, and the choice of arrays to evict.

The array whose next use is farthest ahead is evicted (Belady 1966: with a known future, this needs the fewest reloads).
A plan knows its future, so no heuristic such as least recently used is needed. On a tie it is one that need not be
saved, then the largest one. Each space has a heap of keys that combine these three; a key changes when a task has
touched its array.

A block ends when it is freed; if the array returns to the space, it gets a new one. The segments of an array have
their own blocks but share the whole array's memory, so they are allocated and freed together.
"""

from __future__ import annotations

from syclsched.compiled import lean
from syclsched.model.platform_parts.routes import NOTHING
from syclsched.planning.transfers.future_accesses import is_only_here, is_over, next_read_in
from syclsched.planning.transfers.recomputation_cost import recomputing_seconds
from syclsched.planning.transfers.transfer_state import (
    FULL,
    MARK,
    RUN,
    UNLIMITED,
    USES,
    LimitedMemory,
    TransferInputs,
    TransferState,
    block_of,
    holds,
)
from syclsched.scheduling.core.integer_heap import pop, push


@lean
def begin_task(s: TransferInputs, m: TransferState, k: LimitedMemory, position: int) -> None:
    """Begin a task: the arrays that it uses from now on cannot be evicted."""
    begin, end = s.access_starts[s.task[position]], s.access_starts[s.task[position] + 1]
    k.counts[RUN] += 1
    k.used[:] = 0
    # A task uses each array and two copies of it over two links, and may have to save every array.
    if m.counts[USES] + 5 * (end - begin) + 2 * len(s.nbytes) > len(m.block):
        k.counts[FULL] = 1
    device, needed = s.device[position], 0
    k.counts[MARK] += 1
    for access in range(begin, end):
        is_elsewhere = s.reached[s.access_array[access]] == s.home[device]  # in the host's memory
        needed += s.nbytes[s.whole[s.access_array[access]]] if _is_unseen(s, k, access) and not is_elsewhere else 0
    alone = s.reach_starts[device + 1] - s.reach_starts[device] == 1
    if alone and needed > k.capacity[s.home[device]]:
        _refuse(s, k, position, s.home[device], needed)


@lean
def end_task(s: TransferInputs, m: TransferState, k: LimitedMemory, position: int) -> None:
    """End a task: free the memory that is stale or no longer needed."""
    k.counts[MARK] += 1
    for access in range(s.access_starts[s.task[position]], s.access_starts[s.task[position] + 1]):
        if _is_unseen(s, k, access):
            settle(s, m, k, s.whole[s.access_array[access]])


@lean
def admit(s: TransferInputs, m: TransferState, k: LimitedMemory, position: int, array: int, space: int) -> int:
    """Allocate an array in a space, or return the array that must be evicted first; `NOTHING` if there is none."""
    whole = s.whole[array]
    nbytes = s.nbytes[whole]
    if m.memory_at[whole, space] == NOTHING:
        if k.held[space] + nbytes > k.capacity[space]:
            victim = _choose_victim(s, m, k, space)
            if victim != NOTHING:
                return victim
            _refuse(s, k, position, space, k.used[space] + k.status_held[space] + _saved(s, m, k, space) + nbytes)
        k.held[space] += nbytes
        k.status_held[space] += nbytes if k.has_status[whole] else 0
        block_of(s, m, array, space)
        enqueue(s, m, k, whole, space)
    if k.in_use[whole, space] != k.counts[RUN]:
        k.in_use[whole, space] = k.counts[RUN]
        counted = m.memory_at[whole, space] >= k.foreign and not k.has_status[whole]
        k.used[space] += nbytes if counted else 0
    block_of(s, m, array, space)
    return NOTHING


@lean
def can_hold(s: TransferInputs, m: TransferState, k: LimitedMemory, array: int, space: int) -> bool:
    """Return whether an array fits into a space beside the arrays the task uses, after evictions."""
    whole = s.whole[array]
    staying = k.used[space] + k.status_held[space]
    return bool(m.memory_at[whole, space] != NOTHING or staying + s.nbytes[whole] <= k.capacity[space])


@lean
def can_save(s: TransferInputs, m: TransferState, k: LimitedMemory, array: int, space: int) -> bool:
    """Return whether an array evicted from a space can be saved to the host's memory."""
    if space == s.host:
        return False  # there is no other space to save it to
    if m.memory_at[array, s.host] != NOTHING:
        return True
    room = k.capacity[s.host] - s.nbytes[array]
    staying = k.used[s.host] + k.status_held[s.host]
    return bool(k.held[s.host] <= room or staying + _saved(s, m, k, s.host) <= room)


@lean
def drop(s: TransferInputs, m: TransferState, k: LimitedMemory, array: int, space: int) -> None:
    """Free an array's memory in a space."""
    m.memory_at[array, space] = k.newest[array, space] = NOTHING
    for piece in range(k.first_piece[array], k.end_piece[array]):
        m.block_at[piece, space] = NOTHING
    k.held[space] -= s.nbytes[array]
    k.status_held[space] -= s.nbytes[array] if k.has_status[array] else 0


@lean
def settle(s: TransferInputs, m: TransferState, k: LimitedMemory, array: int) -> None:
    """Free an array's memory where it is stale or dead, and update its next use elsewhere."""
    dead = True
    for piece in range(k.first_piece[array], k.end_piece[array]):
        dead = dead and not k.lasting[piece] and is_over(m, k, piece)
    for space in range(len(s.stop)):
        if m.memory_at[array, space] >= k.foreign:
            current = False
            for piece in range(k.first_piece[array], k.end_piece[array]):
                current = current or holds(m, piece, space)
            if dead or not current:
                drop(s, m, k, array, space)
            else:
                enqueue(s, m, k, array, space)


@lean
def enqueue(s: TransferInputs, m: TransferState, k: LimitedMemory, array: int, space: int) -> None:
    """Update the key of an array in a space's heap of candidates for eviction."""
    if k.capacity[space] == UNLIMITED or k.has_status[array]:
        return
    never = 2 * len(s.task) + 2
    next_use = never
    for piece in range(k.first_piece[array], k.end_piece[array]):
        next_use = min(next_use, next_read_in(s, m, k, piece, space))
    unsaved = 1 if _is_only_copy(m, k, array, space) else 0
    key = ((never - next_use) * 2 + unsaved) * len(k.rank) + k.rank[array]
    if k.newest[array, space] == key:
        return
    k.newest[array, space] = key
    heap = k.heap[space]
    if k.heap_size[space] < len(heap):
        k.heap_size[space] = push(heap, k.heap_size[space], key)
        return
    k.heap_size[space] = 0
    for other in range(len(k.rank)):
        if k.newest[other, space] != NOTHING:
            k.heap_size[space] = push(heap, k.heap_size[space], k.newest[other, space])


# --- inside ---------------------------------------------------------------------------------------


@lean
def _is_unseen(s: TransferInputs, k: LimitedMemory, access: int) -> bool:
    """Return whether the whole array of an access was not marked yet, and mark it."""
    whole = s.whole[s.access_array[access]]
    unseen = k.seen[whole] != k.counts[MARK]
    k.seen[whole] = k.counts[MARK]
    return bool(unseen)


@lean
def _is_only_copy(m: TransferState, k: LimitedMemory, array: int, space: int) -> bool:
    """Return whether a space has the only copy of a live value of an array or of one of its segments."""
    found = False
    for piece in range(k.first_piece[array], k.end_piece[array]):
        found = found or is_only_here(m, k, piece, space)
    return found


@lean
def _choose_victim(s: TransferInputs, m: TransferState, k: LimitedMemory, space: int) -> int:
    """Return the evictable array of a space whose next use is farthest ahead; `NOTHING` if there is none."""
    heap, kept, victim = k.heap[space], 0, NOTHING
    while k.heap_size[space] and victim == NOTHING:
        key = heap[0]
        k.heap_size[space] = pop(heap, k.heap_size[space])
        array = k.by_rank[key % len(k.rank)]
        if k.newest[array, space] != key:
            continue
        k.kept[kept] = key
        kept += 1
        if k.in_use[array, space] == k.counts[RUN]:
            continue
        if space == s.host and _is_only_copy(m, k, array, space) and recomputing_seconds(s, m, k, array, space) < 0.0:
            continue  # there is no other space to save it to
        victim = array
    for each in range(kept):
        k.heap_size[space] = push(heap, k.heap_size[space], k.kept[each])
    return int(victim)


@lean
def _saved(s: TransferInputs, m: TransferState, k: LimitedMemory, space: int) -> int:
    """Return the bytes in the host's memory of values that exist nowhere else."""
    nbytes = 0
    for array in range(len(k.rank) if space == s.host else 0):
        evictable = k.in_use[array, space] != k.counts[RUN] and not k.has_status[array]
        if m.memory_at[array, space] >= k.foreign and evictable and _is_only_copy(m, k, array, space):
            nbytes += s.nbytes[array]
    return nbytes


@lean
def _refuse(s: TransferInputs, k: LimitedMemory, position: int, space: int, needed: int) -> None:
    """Record that a task needs more memory than a space has, unless another one did before."""
    if k.refused[0] == NOTHING:
        k.refused[0], k.refused[1], k.refused[2] = s.task[position], space, needed
