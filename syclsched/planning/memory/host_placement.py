# SPDX-License-Identifier: Apache-2.0
"""Arrays that devices use in the host's memory, because their own is short.

Arrays that runs own, such as parameters and the optimiser's state in training, may be larger than a device's memory or
a limit of it; then they would be copied there and back in every run. Kernels can use them in the host's memory instead:
an update reads and writes each element once, over the link. Where host and device share their memory, that costs
nothing. The same is done with arrays of a task that do not fit into the device's memory together. Arrays whose use over
the link takes longest for their size stay in the device's memory; how many of them is tried, and simulation decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.schedule import Assignment
from syclsched.model.usm import ArrayMemory
from syclsched.planning.graph_record import GraphRecord
from syclsched.planning.memory.zero_copy import (
    NO_ZERO_COPY,
    ZeroCopyArrays,
    added_seconds,
    fetches,
    reaches_host,
    slower_seconds,
)

#: Shares of a memory space that arrays of runs may take, tried in this order.
_SHARES: Final = (0.75, 0.5, 0.25)


def placements_on_host(
    graph: TaskGraph, known: GraphRecord, room: Platform, assignments: Sequence[Assignment], in_place: ZeroCopyArrays
) -> Iterator[ZeroCopyArrays]:
    """Yield ways to use arrays in the host's memory, the more of them the later; none if no device can.

    ``room`` is the platform with the memory that there is for all arrays.
    """
    found = _candidates(graph, known, room, assignments, in_place.donated)
    too_large = _too_large(known, room, assignments, found)
    state = [each for each in found.values() if each.is_state and each.name not in too_large]
    if not too_large and not state:
        return
    state.sort(key=lambda each: (-each.extra_s / max(each.nbytes, 1), -each.nbytes))
    capacity = {space.name: space.capacity_bytes for space in room.spaces}
    shares = _SHARES if any(each.extra_s for each in state) else ()
    before: set[str] | None = None
    for share in (*shares, 0.0):
        held = dict.fromkeys(capacity, 0)
        moved = set(too_large)
        for each in state:
            if held[each.space] + each.nbytes <= share * capacity[each.space]:
                held[each.space] += each.nbytes
            else:
                moved.add(each.name)
        if moved != before:
            yield _placed(graph, room, assignments, known, in_place, {name: found[name] for name in moved})
        before = moved


def shares_memory(device: Device, platform: Platform) -> bool:
    """Return whether host and device use the same memory, and the device takes memory of the host's kind."""
    accessible = platform.space(device.space).host_accessible
    return accessible and (not device.aspects or "usm_host_allocations" in device.aspects)


def movable_arrays(graph: TaskGraph) -> frozenset[str]:
    """Return the arrays that runs can have in the host's memory: whole ones that they own."""
    inputs, divided = graph.inputs(), graph.segments().keys()
    return frozenset(
        name
        for name, array in graph.arrays.items()
        if (array.donated or name not in inputs) and array.usm is None and name not in divided and array.nbytes
    )


# --- inside ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An array that all its devices can use in the host's memory."""

    name: str
    space: str  # the devices' own
    nbytes: int
    extra_s: float  # the additional time of its use there
    is_state: bool  # whether runs own it


def _candidates(
    graph: TaskGraph, known: GraphRecord, room: Platform, assignments: Sequence[Assignment], donated: frozenset[str]
) -> dict[str, _Candidate]:
    """Return the arrays that only devices of one limited space use, besides the host."""
    devices = {device.name: device for device in room.compute_devices}
    limited = {space.name for space in room.spaces if space.capacity_bytes and space.name != HOST}
    able = {
        d.name for d in devices.values() if d.space in limited and (shares_memory(d, room) or reaches_host(d, room))
    }
    touched = {task.name: task.accesses for task in known.tasks}
    users: dict[str, list[tuple[str, Device]]] = {}
    for each in assignments:
        if each.device in devices:
            for name in dict.fromkeys(access.array for access in touched[each.task]):
                users.setdefault(name, []).append((each.task, devices[each.device]))
    found, nbytes = {}, {array.name: array.nbytes for array in known.arrays}
    state = donated.intersection(graph.inputs())
    for name in sorted(movable_arrays(graph).intersection(users)):
        using, size = users[name], nbytes[name]
        if len({device.space for _, device in using}) == 1 and all(device.name in able for _, device in using):
            extra_s = sum(slower_seconds(room, device, size) * fetches(graph.find_task(task)) for task, device in using)
            found[name] = _Candidate(name, using[0][1].space, size, extra_s, name in state)
    return found


def _too_large(
    known: GraphRecord, room: Platform, assignments: Sequence[Assignment], found: Mapping[str, _Candidate]
) -> set[str]:
    """Return the arrays to use in the host's memory so that each task's others fit into its device's."""
    capacity = {device.name: room.space(device.space).capacity_bytes for device in room.compute_devices}
    nbytes, whole = {array.name: array.nbytes for array in known.arrays}, known.whole()
    touched = {task.name: task.accesses for task in known.tasks}
    chosen: set[str] = set()
    for each in assignments:
        limit = capacity.get(each.device, 0)
        names = {whole.get(access.array, access.array) for access in touched[each.task]} if limit else set()
        needed = sum(nbytes[name] for name in names - chosen)
        movable = [found[name] for name in names - chosen if name in found] if needed > limit else []
        movable.sort(key=lambda array: (array.extra_s / array.nbytes, not array.is_state, -array.nbytes, array.name))
        for array in movable:
            if needed > limit:
                chosen.add(array.name)
                needed -= array.nbytes
    return chosen


def _placed(
    graph: TaskGraph,
    room: Platform,
    assignments: Sequence[Assignment],
    known: GraphRecord,
    in_place: ZeroCopyArrays,
    moved: Mapping[str, _Candidate],
) -> ZeroCopyArrays:
    """Return the arrays used in place if some are in the host's memory."""
    kept = in_place.donated_only()
    chosen = [each for each in kept.chosen if each.array not in moved]
    resident = {each.array: each.space for each in chosen}
    reached = {name: array.space for name, array in moved.items()}
    for name, array in moved.items():
        if array.is_state:
            resident[name] = HOST
        why = f"memory of {array.space} is short: used in the host's"
        chosen.append(ArrayMemory(name, HOST, "host", why, context=array.space, resident=array.is_state))
    if not chosen:
        return NO_ZERO_COPY
    extra_s = added_seconds(graph, known, room, assignments, reached)
    return ZeroCopyArrays(resident, reached, extra_s, tuple(chosen), in_place.donated)
