# SPDX-License-Identifier: Apache-2.0
"""Copies that bring each task its arrays, and evictions and recomputation where memory is limited.

Devices that reach the same memory space need no copy between them, and a copy serves every later reader until the array
is written again. Of a divided array only the needed segments are copied, but all segments a task touches are in one
space, as an argument's rows must be contiguous. Where memory suffices for all arrays, a buffer has one block for the
whole plan; else see `syclsched.planning.transfers.residency` and `syclsched.planning.transfers.rematerialisation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

import numpy as np

from syclsched.errors import MemoryLimitError
from syclsched.model.graph_parts.access_columns import READS, WRITES
from syclsched.model.platform import HOST, Platform
from syclsched.model.platform_parts.routes import NOTHING, find_routes
from syclsched.model.schedule import Assignment
from syclsched.model.text.units import format_exact_bytes
from syclsched.planning.draft import BufferColumns, Flags, Ints, LaneKey, PlanDraft, Steps, ragged
from syclsched.planning.graph_record import GraphRecord
from syclsched.planning.memory.zero_copy import NO_ZERO_COPY, ZeroCopyArrays
from syclsched.planning.transfers.copy_lanes import copy_owners
from syclsched.planning.transfers.limited_memory import limited_memory
from syclsched.planning.transfers.transfer_core import place_tasks
from syclsched.planning.transfers.transfer_state import (
    BLOCKS,
    CLOCK,
    FULL,
    MEMORIES,
    STEPS,
    USES,
    ArrayAccesses,
    TransferInputs,
    TransferState,
    block_of,
    touches_by_array,
)


def transfers(
    graph: GraphRecord,
    platform: Platform,
    durations_s: Mapping[str, float],
    assignments: Sequence[Assignment],
    in_place: ZeroCopyArrays = NO_ZERO_COPY,
    *,
    limited: bool = False,
    remaking: bool = False,
) -> PlanDraft:
    """Turn assignments into steps, with a copy wherever data is needed in another space.

    With ``limited`` they fit into the platform's spaces; with ``remaking`` some values are recomputed for that.
    """
    setting = _setting(graph, platform, durations_s, assignments, in_place)
    touching = touches_by_array(setting, len(graph.arrays))
    numbers = {s.name: n for n, s in enumerate(platform.spaces)}
    resident = {name: numbers[space] for name, space in in_place.resident.items()}
    times, full = 1, True
    while full:  # recomputed tasks may need a larger state
        made = _preallocated(setting, touching, times if limited else 0)
        for number, array in enumerate(graph.arrays):
            if array.is_input and array.name not in graph.pieces:
                space = resident.get(graph.arrays[setting.whole[number]].name, setting.host)
                block_of(setting, made, number, space)
                made.since[number, space] = 0
        foreign = np.arange(made.counts[MEMORIES])
        memory = None
        if limited:
            memory = limited_memory(graph, platform, setting, touching, len(foreign), remaking=remaking, times=times)
        place_tasks(setting, made, touching, memory)
        times, full = 2 * times, memory is not None and bool(memory.counts[FULL])
    source, destination = made.no_way.tolist()
    if source != NOTHING:
        platform.route(platform.spaces[source].name, platform.spaces[destination].name)
    if memory is not None and memory.refused[0] != NOTHING:
        raise _refusal(graph, platform, *memory.refused.tolist())
    implementations: list[str | None] = [None] * len(graph.tasks)
    for task, assignment in zip(setting.task.tolist(), assignments, strict=True):
        implementations[task] = assignment.implementation
    return _draft(graph, platform, setting, made, foreign, tuple(implementations))


def _draft(
    graph: GraphRecord,
    platform: Platform,
    setting: TransferInputs,
    made: TransferState,
    foreign: Ints,
    implementations: tuple[str | None, ...],
) -> PlanDraft:
    """Return the steps and blocks of a state as the draft of a plan."""
    count, uses, blocks, memories = made.counts[[STEPS, USES, BLOCKS, MEMORIES]].tolist()
    lanes, lane = _lanes(platform, setting, made.lane[:count])
    memory_of = made.block_memory[:blocks].copy()
    memory = BufferColumns(made.memory_array[:memories].copy(), made.memory_space[:memories].copy())
    results = np.flatnonzero(_results(graph))
    since = made.since[results]
    holder = np.where(since < made.written[results, None], made.counts[CLOCK] + 1, since).argmin(axis=1)
    return PlanDraft(
        Steps(
            made.kind[:count].copy(),
            lane,
            made.task[:count].copy(),
            made.duration_s[:count].copy(),
            made.nbytes[:count].copy(),
            made.again[:count].copy(),
            made.way[:count].copy(),
            np.concatenate(([0], made.ends[:count])),
            made.block[:uses].copy(),
            made.mode[:uses].copy(),
        ),
        lanes,
        implementations,
        BufferColumns(made.block_array[:blocks].copy(), made.block_space[:blocks].copy()),
        memory,
        memory_of,
        graph.nbytes[memory.array],
        foreign,
        np.unique(memory_of[made.block_at[results, holder]]),
    )


def _refusal(graph: GraphRecord, platform: Platform, task: int, space: int, needed: int) -> MemoryLimitError:
    """Return the error for a task that needs more memory than a space has."""
    found = platform.spaces[space]
    return MemoryLimitError(
        f"when task {graph.tasks[task].name!r} runs, at least {format_exact_bytes(needed)} are needed at once, "
        f"there are {format_exact_bytes(found.capacity_bytes)}",
        where=f"memory space {found.name!r}",
        hint="Use smaller arrays (tiles, batches), raise a limit that was set, or add a device with more memory",
    )


def _setting(
    graph: GraphRecord,
    platform: Platform,
    durations_s: Mapping[str, float],
    assignments: Sequence[Assignment],
    in_place: ZeroCopyArrays,
) -> TransferInputs:
    """Return the input of the compiled pass."""
    tasks, spaces = {t.name: n for n, t in enumerate(graph.tasks)}, {s.name: n for n, s in enumerate(platform.spaces)}
    devices = {d.name: n for n, d in enumerate(platform.devices)}
    names = [a.task for a in assignments]
    lane = _ints(map(attrgetter("lane"), assignments), len(assignments))
    reach_starts, reach = ragged([[spaces[space] for space in d.reaches] for d in platform.devices])
    routes = find_routes(platform.links, tuple(spaces))
    number = {a.name: n for n, a in enumerate(graph.arrays)}
    rows = [a.rows for a in graph.arrays]
    duration_s = np.fromiter(map(durations_s.__getitem__, names), np.float64, len(names))
    for position, name in enumerate(names if in_place.extra_s else ()):
        duration_s[position] += in_place.extra_s.get(name, 0.0)
    reached = np.full(len(graph.arrays), NOTHING, np.int64)
    for name, space in in_place.reached.items():
        reached[number[name]] = spaces[space]
    return TransferInputs(
        task=_ints(map(tasks.__getitem__, names), len(names)),
        device=_ints(map(devices.__getitem__, map(attrgetter("device"), assignments)), len(assignments)),
        lane=lane,
        duration_s=duration_s,
        barrier=np.array([t.kind == "barrier" for t in graph.tasks], np.bool_),
        access_starts=graph.access_starts,
        access_array=graph.access_array,
        access_mode=graph.access_mode,
        home=_ints((spaces[d.space] for d in platform.devices), len(devices)),
        copy_lane=np.array([d.copy_lane for d in platform.devices], np.bool_),
        on_host=np.array([d.is_host for d in platform.devices], np.bool_),
        reach_starts=reach_starts,
        reach=reach,
        **copy_owners(platform)._asdict(),
        stop=routes.stop,
        latency_s=routes.latency_s,
        bytes_per_s=routes.bytes_per_s,
        host=spaces[HOST],
        nbytes=graph.nbytes,
        whole=_ints((n if r is None else number[r.array] for n, r in enumerate(rows)), len(rows)),
        first_row=_ints((0 if r is None else r.start for r in rows), len(rows)),
        end_row=_ints((0 if r is None else r.stop for r in rows), len(rows)),
        in_parts=np.array([r is not None for r in rows], np.bool_),
        lanes=int(lane.max(initial=0)) + 2,
        reached=reached,
    )


def _preallocated(setting: TransferInputs, touching: ArrayAccesses, times: int) -> TransferState:
    """Return arrays for the largest possible result; the system provides their pages only when they are written.

    With recomputation there is no limit: then ``times`` is how often tasks may run. It is 0 for unlimited memory.
    """
    arrays, accesses = len(setting.nbytes), len(setting.access_array)
    hops = 2 * int(np.count_nonzero(READS[setting.access_mode]))
    steps, uses, blocks = len(setting.task) + hops, accesses + 2 * hops, arrays + accesses + hops
    nowhere = np.full((arrays, len(setting.stop)), NOTHING, np.int64)
    touched = int(np.diff(setting.access_starts).max(initial=0))
    if times:  # each access may also lead to a save of an array
        uses = times * (uses + 2 * accesses) + 5 * touched + 2 * arrays
        steps, blocks, touched = len(setting.task) + uses, arrays + uses, max(touched, arrays)
    return TransferState(
        kind=_empty(steps),
        lane=_empty(steps),
        task=_empty(steps),
        nbytes=_empty(steps),
        again=np.zeros(steps, np.int64),
        way=_empty(steps),
        duration_s=np.empty(steps, np.float64),
        ends=_empty(steps),
        block=_empty(uses),
        mode=np.empty(uses, np.uint8),
        block_array=_empty(blocks),
        block_space=_empty(blocks),
        block_memory=_empty(blocks),
        memory_array=_empty(blocks),
        memory_space=_empty(blocks),
        block_at=nowhere.copy(),
        memory_at=nowhere.copy(),
        since=nowhere,
        written=np.zeros(arrays, np.int64),
        next_touch=touching.starts[:-1].copy(),
        chosen=_empty(touched),
        missing=_empty(touched),
        source=_empty(touched),
        counts=np.zeros(5, np.int64),
        no_way=np.full(2, NOTHING, np.int64),
    )


def _lanes(platform: Platform, setting: TransferInputs, used: Ints) -> tuple[tuple[LaneKey, ...], Ints]:
    """Return the lanes in order of first use, and the lane of each step among them."""
    codes, first, which = np.unique(used, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    keys = []
    for device, number in zip(*(part.tolist() for part in np.divmod(codes[order], setting.lanes)), strict=True):
        name, is_host = platform.devices[device].name, platform.devices[device].is_host
        if number == setting.lanes - 1:
            keys.append(LaneKey(name, "copy"))
        else:
            keys.append(LaneKey(name, "host" if is_host else "compute", number))
    return tuple(keys), place[which]


def _results(graph: GraphRecord) -> Flags:
    """Return the arrays and segments whose last values may be read after the run."""
    written = np.zeros(len(graph.arrays), np.bool_)
    written[graph.access_array[WRITES[graph.access_mode]]] = True
    return written & np.array([not a.temporary or a.name in graph.statuses for a in graph.arrays], np.bool_)


def _ints(values: Iterable[int], count: int) -> Ints:
    return np.fromiter(values, np.int64, count)


def _empty(count: int) -> Ints:
    return np.empty(count, np.int64)
