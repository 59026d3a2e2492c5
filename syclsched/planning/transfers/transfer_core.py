# SPDX-License-Identifier: Apache-2.0
"""Compiled core of `syclsched.planning.transfers.transfers`: tasks in order, each after the copies it needs."""

from __future__ import annotations

from syclsched.compiled import compiled, lean
from syclsched.model.graph_parts.access_columns import READS, WRITES
from syclsched.model.platform_parts.routes import NOTHING
from syclsched.planning.draft import BARRIER, HOST_CALL, LAUNCH
from syclsched.planning.transfers.copies import add_step, copy_missing, make_room
from syclsched.planning.transfers.rematerialisation import find_lost, note_recomputed, note_written
from syclsched.planning.transfers.residency import begin_task, can_hold, end_task
from syclsched.planning.transfers.transfer_state import (
    CLOCK,
    FULL,
    NOW,
    USES,
    ArrayAccesses,
    LimitedMemory,
    TransferInputs,
    TransferState,
    block_of,
    holds,
)


@compiled
def place_tasks(s: TransferInputs, m: TransferState, t: ArrayAccesses, k: LimitedMemory | None) -> None:
    """Add the steps of all tasks, until a copy has no route or memory does not suffice."""
    for position in range(len(s.task)):
        lost = 0
        if k is not None:
            k.counts[NOW] = 2 * position
            lost = find_lost(s, k, position)
        for each in range(lost + 1):  # what the task lacks is recomputed first
            run = position
            if k is not None:
                if each < lost:
                    run = k.maker[k.lost[each]]
                    k.again[s.task[run]] += 1
                else:
                    k.counts[NOW] += 1
                begin_task(s, m, k, run)
                if k.counts[FULL]:
                    return
            begin, end = s.access_starts[s.task[run]], s.access_starts[s.task[run] + 1]
            for access in range(begin, end):
                m.chosen[access - begin] = NOTHING
            for turn in range(2 * (end - begin)):  # segments first
                access = begin + turn % (end - begin)
                known = m.chosen[access - begin] != NOTHING
                if turn < end - begin and (known or not s.in_parts[s.access_array[access]]):
                    continue
                array, space = s.access_array[access], m.chosen[access - begin]
                if not known:
                    space = _choose_space(s, m, t, k, run, access)
                if k is not None:
                    make_room(s, m, k, run, array, space)
                if not known:
                    missing = _list_missing(s, m, run, access, space)
                    if missing:
                        copy_missing(s, m, k, run, missing, space)
            _work(s, m, k, run)
            if k is not None:
                if each < lost:
                    note_recomputed(s, m, k, k.lost[each])
                else:
                    k.counts[NOW] += 1
                    note_written(s, m, k, run)
                end_task(s, m, k, run)
                if k.refused[0] != NOTHING:
                    return
        if m.no_way[0] != NOTHING:
            return


# --- inside ---------------------------------------------------------------------------------------


@lean
def _choose_space(
    s: TransferInputs, m: TransferState, t: ArrayAccesses, k: LimitedMemory | None, position: int, access: int
) -> int:
    """Return the space in which a task accesses an array, or all segments of one."""
    array, home = s.access_array[access], s.home[s.device[position]]
    if s.in_parts[array]:
        return _space_for(s, m, t, k, position, access)
    if not READS[s.access_mode[access]]:
        return _space_to_write(s, m, t, k, position, array)
    space = _space_to_read(s, m, s.device[position], array)
    if space != NOTHING:
        return space
    return s.host if s.reached[array] == home else int(home)


@lean
def _list_missing(s: TransferInputs, m: TransferState, position: int, access: int, space: int) -> int:
    """Choose a space for an array, or for all segments of one; return how many of them are ``missing`` there."""
    begin, end = s.access_starts[s.task[position]], s.access_starts[s.task[position] + 1]
    whole, count = s.whole[s.access_array[access]], 0
    for other in range(access, end if s.in_parts[s.access_array[access]] else access + 1):
        array = s.access_array[other]
        if s.whole[array] != whole:
            continue
        m.chosen[other - begin] = space
        if READS[s.access_mode[other]] and not holds(m, array, space):
            place = count
            while place and m.missing[place - 1] > array:  # in the order of their rows
                m.missing[place] = m.missing[place - 1]
                place -= 1
            m.missing[place] = array
            count += 1
    return count


@lean
def _space_to_read(s: TransferInputs, m: TransferState, device: int, array: int) -> int:
    """Return the space where a device can read an array without a copy, its own first; `NOTHING` if none."""
    if s.reached[array] == s.home[device] and holds(m, array, s.host):
        return s.host
    if holds(m, array, s.home[device]):
        return int(s.home[device])
    for place in range(s.reach_starts[device], s.reach_starts[device + 1]):
        if holds(m, array, s.reach[place]):
            return int(s.reach[place])
    return NOTHING


@lean
def _space_to_write(
    s: TransferInputs, m: TransferState, t: ArrayAccesses, k: LimitedMemory | None, position: int, array: int
) -> int:
    """Return the space the next reader wants, if the device reaches it; else the device's own."""
    device = s.device[position]
    if s.reached[array] == s.home[device]:
        return s.host
    first, end = s.reach_starts[device], s.reach_starts[device + 1]
    if end - first > 1:
        for touch in range(m.next_touch[array], t.starts[array + 1]):
            if t.position[touch] == position:
                continue
            if READS[t.mode[touch]]:
                for place in range(first, end):
                    if s.reach[place] == t.home[touch] and (k is None or can_hold(s, m, k, array, t.home[touch])):
                        return int(s.reach[place])
            if WRITES[t.mode[touch]]:
                break
    return int(s.home[device])


@lean
def _space_for(
    s: TransferInputs, m: TransferState, t: ArrayAccesses, k: LimitedMemory | None, position: int, first: int
) -> int:
    """Return the reachable space with the fewest bytes of an array's segments to copy; the device's own on a tie."""
    task, device = s.task[position], s.device[position]
    array = s.access_array[first]
    best, fewest = s.home[device], NOTHING
    for place in range(s.reach_starts[device] - 1, s.reach_starts[device + 1]):
        space = s.home[device] if place < s.reach_starts[device] else s.reach[place]
        missing_bytes, reads = 0, False
        for access in range(first, s.access_starts[task + 1]):
            other = s.access_array[access]
            if s.whole[other] == s.whole[array] and READS[s.access_mode[access]]:
                reads = True
                if not holds(m, other, space):
                    missing_bytes += s.nbytes[other]
        if not reads:
            return _space_to_write(s, m, t, k, position, array)
        if fewest == NOTHING or (missing_bytes < fewest and (k is None or can_hold(s, m, k, array, space))):
            best, fewest = space, missing_bytes
    return int(best)


@lean
def _work(s: TransferInputs, m: TransferState, k: LimitedMemory | None, position: int) -> None:
    """Add the step of a task whose copies have been added."""
    task, device = s.task[position], s.device[position]
    begin, end = s.access_starts[task], s.access_starts[task + 1]
    for access in range(begin, end):
        use = m.counts[USES]
        m.counts[USES] += 1
        m.block[use] = block_of(s, m, s.access_array[access], m.chosen[access - begin])
        m.mode[use] = s.access_mode[access]
        if k is None or k.counts[NOW] % 2:
            m.next_touch[s.access_array[access]] += 1
    step = add_step(m, device * s.lanes + s.lane[position], task)
    m.kind[step] = BARRIER if s.barrier[task] else HOST_CALL if s.on_host[device] else LAUNCH
    m.nbytes[step], m.way[step] = 0, NOTHING
    m.duration_s[step] = s.duration_s[position]
    if k is not None:
        m.again[step] = k.again[task]
    for access in range(begin, end):
        array = s.access_array[access]
        if WRITES[s.access_mode[access]]:
            m.counts[CLOCK] += 1
            m.written[array] = m.since[array, m.chosen[access - begin]] = m.counts[CLOCK]
