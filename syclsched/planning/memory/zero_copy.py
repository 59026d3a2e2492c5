# SPDX-License-Identifier: Apache-2.0
"""Zero-copy arrays: inputs in USM memory, and arrays that host and device exchange without a copy.

A device with its own memory can also access the host's memory, if that is USM memory of kind ``host`` in the device's
context: kernels then read and write over the link. This saves the copy and device memory, but every access crosses the
link and nothing is cached on the device. So it pays for arrays that one side writes once and the other reads once. How
often a kernel fetches an element is not known; the bound used is once per two operations (a multiply and an add), which
excludes matrix products.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from syclsched.errors import PlanError
from syclsched.model.access import MODES, AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.access_columns import WRITES
from syclsched.model.plan import PlannedArray
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.platform_parts.machines import machine_of
from syclsched.model.schedule import Assignment
from syclsched.model.task import Task
from syclsched.model.text.units import format_seconds
from syclsched.model.usm import ArrayMemory, MemoryKind, UsmKind, default_kind
from syclsched.planning.graph_record import GraphRecord

_WRITE: Final = MODES.index(AccessMode.WRITE)


@dataclass(frozen=True, slots=True)
class ZeroCopyArrays:
    """The arrays that a plan uses without a copy."""

    #: The space that holds each input's value when a run begins; the host's memory for arrays not listed.
    resident: Mapping[str, str] = field(default_factory=dict)
    #: For each array that devices access in the host's memory: those devices' space.
    reached: Mapping[str, str] = field(default_factory=dict)
    extra_s: Mapping[str, float] = field(default_factory=dict)  # time this adds to each task
    chosen: tuple[ArrayMemory, ...] = ()  # the arrays' memory
    donated: frozenset[str] = frozenset()  # inputs that the runtime owns from run to run

    def resident_bytes(self, known: GraphRecord) -> dict[str, int]:
        """Return how much of each space resident inputs occupy."""
        found: dict[str, int] = {}
        for array in known.arrays:
            space = self.resident.get(array.name)
            if space is not None and array.rows is None:
                found[space] = found.get(space, 0) + array.nbytes
        return found

    def donated_only(self) -> ZeroCopyArrays:
        """Return the arrays that the runtime owns from run to run, and that tasks update in place."""
        chosen = tuple(each for each in self.chosen if each.array in self.donated)
        resident = {each.array: each.space for each in chosen}
        return ZeroCopyArrays(resident, chosen=chosen, donated=self.donated) if chosen else NO_ZERO_COPY

    def with_half_donated(self, known: GraphRecord) -> ZeroCopyArrays:
        """Return the arrays without half the bytes of donated ones or more: those least used for their size."""
        mine = [name for name in self.resident if name in self.donated]
        nbytes, uses, whole = {each.name: each.nbytes for each in known.arrays}, Counter[str](), known.whole()
        for task in known.tasks:
            uses.update(whole.get(access.array, access.array) for access in task.accesses)
        left = sum(nbytes[name] for name in mine) // 2
        dropped = set(mine)
        for name in sorted(mine, key=lambda name: nbytes[name] / max(uses[name], 1)):
            if 0 < nbytes[name] <= left:
                left -= nbytes[name]
                dropped.discard(name)
        resident = {name: space for name, space in self.resident.items() if name not in dropped}
        chosen = tuple(each for each in self.chosen if each.array not in dropped)
        return replace(self, resident=resident, chosen=chosen)


#: No array is used in place.
NO_ZERO_COPY: Final = ZeroCopyArrays()


def requested_zero_copy(
    graph: TaskGraph, known: GraphRecord, platform: Platform, assignments: Sequence[Assignment]
) -> ZeroCopyArrays:
    """Return the arrays to use in place because of the user's memory kinds or of the inputs' own memory."""
    wanted: dict[str, UsmKind] = {a.name: a.usm for a in known.arrays if a.usm is not None and a.rows is None}
    donated = donated_inputs(graph)
    given = {name: kind for name, kind in kinds_given(graph) if name not in wanted and name not in donated}
    if not wanted and not given and not donated:
        return NO_ZERO_COPY
    written = set(known.written())
    users = _users(known, platform, assignments, {*wanted, *given})
    chosen = list(_donated_memory(known, platform, assignments, donated))
    resident, reached = {each.array: each.space for each in chosen}, dict[str, str]()
    for array in known.arrays:
        kind = wanted.get(array.name) or given.get(array.name)
        devices = users.get(array.name)
        if kind is None or not devices or array.rows is not None:
            continue
        device, asked = devices[0], array.name in wanted
        if asked:
            check_kind(kind, array.name, devices)
        space = device.space
        why = "asked for" if asked else f"the value given lies in USM memory of kind {kind}"
        if platform.space(space).host_accessible:
            if array.is_input and array.name not in written and kind != "device":
                resident[array.name] = space
                chosen.append(ArrayMemory(array.name, space, kind, f"{why}: read in place", resident=True))
        elif (
            asked
            and kind == "host"
            and array.name not in known.pieces
            and (not array.is_input or array.name not in written)
        ):
            reached[array.name] = space
            if array.is_input:
                resident[array.name] = HOST
            why = f"{why}: devices use it in the host's memory"
            chosen.append(ArrayMemory(array.name, HOST, kind, why, context=space, resident=array.is_input))
    extra_s = added_seconds(graph, known, platform, assignments, reached)
    return ZeroCopyArrays(resident, reached, extra_s, tuple(chosen), frozenset(donated))


def profitable_zero_copy(
    graph: TaskGraph, known: GraphRecord, platform: Platform, assignments: Sequence[Assignment], besides: ZeroCopyArrays
) -> ZeroCopyArrays | None:
    """Return ``besides`` with the arrays for which zero-copy access is cheaper than a copy; None if there is none."""
    capable = {d.name: d for d in platform.compute_devices if reaches_host(d, platform)}
    used = {each.device for each in assignments} if capable else set()
    if HOST not in used or used.isdisjoint(capable):
        return None
    reached, chosen, shown = dict(besides.reached), list(besides.chosen), {c.array for c in besides.chosen}
    for name, device, together in _handed_over(known, assignments, capable):
        array = together.array
        if name in shown:
            continue
        copy_s, extra_s = _copy_s(platform, device, array.nbytes, together.from_host), 0.0
        for task in together.by_device:
            extra_s += slower_seconds(platform, device, array.nbytes) * fetches(graph.find_task(task))
        if extra_s < copy_s:
            reached[name] = device.space
            how = "read" if together.from_host else "written"
            why = (
                f"{how} in place by {device.name}, which takes {format_seconds(extra_s)} longer; "
                f"a copy takes {format_seconds(copy_s)} ({_origin(device)})"
            )
            chosen.append(ArrayMemory(name, HOST, "host", why, context=device.space))
    if len(reached) == len(besides.reached):
        return None
    return ZeroCopyArrays(
        besides.resident,
        reached,
        added_seconds(graph, known, platform, assignments, reached),
        tuple(chosen),
        besides.donated,
    )


# --- inside ---------------------------------------------------------------------------------------


class _HandedOver(NamedTuple):
    """An array that one side writes once and the other side reads."""

    array: PlannedArray
    by_device: tuple[str, ...]
    from_host: bool


def _donated_memory(
    known: GraphRecord, platform: Platform, assignments: Sequence[Assignment], names: set[str]
) -> Iterator[ArrayMemory]:
    """Yield the memory of donated inputs that one space has from run to run: that of all tasks which update them.

    Tasks of other spaces read a copy. Inputs that no task updates lie where all their readers are.
    """
    used: dict[str, set[str]] = {name: set() for name in names}
    written: dict[str, set[str]] = {name: set() for name in names}
    overwriting: dict[str, set[str]] = {name: set() for name in names}  # spaces that tasks can write instead of theirs
    touched, whole = {t.name: t.accesses for t in known.tasks}, known.whole()
    for each in sorted(assignments, key=lambda each: each.start_s) if names else ():
        for access in touched[each.task]:
            name = whole.get(access.array, access.array)
            if name in names:
                device = platform.device(each.device)
                used[name].add(device.space)
                if access.mode.reads and device.space in overwriting[name]:
                    written[name].add(device.space)  # a result is written where the next reader wants it
                if access.mode.writes:
                    written[name].add(device.space)
                if access.mode is AccessMode.WRITE:
                    overwriting[name].update(device.reaches)
    for array in known.arrays:
        spaces = written.get(array.name) or used.get(array.name, set())
        if len(spaces) == 1 and array.is_input and array.rows is None:
            home = platform.space(*spaces)
            if machine_of(home.name) and not home.host_accessible:
                continue  # a cluster passes values on by the hosts of its machines
            kind: MemoryKind = "plain" if home.name == HOST else default_kind(home, platform)
            yield ArrayMemory(array.name, home.name, kind, "donated: updated in place", resident=True)


def donated_inputs(graph: TaskGraph) -> set[str]:
    """Return the arrays that runs may keep where tasks update them, as the user asks for no kind of memory."""
    return {name for name, array in graph.arrays.items() if array.donated and array.usm is None}


def kinds_given(graph: TaskGraph) -> Iterator[tuple[str, UsmKind]]:
    """Yield the inputs whose values are in host-accessible USM memory, with its kind."""
    for name, value in graph.data.items():
        kind = getattr(value, "usm_type", None)
        if kind in ("shared", "host") and value.size:
            yield name, kind


def _users(
    known: GraphRecord, platform: Platform, assignments: Sequence[Assignment], names: set[str]
) -> dict[str, list[Device]]:
    """Return the devices whose kernels touch each of some arrays, in order of first use."""
    devices = {d.name: d for d in platform.compute_devices}
    touched, whole = {t.name: t.accesses for t in known.tasks}, known.whole()
    found: dict[str, dict[str, Device]] = {}
    for each in assignments:
        if each.device in devices:
            for access in touched[each.task]:
                name = whole.get(access.array, access.array)
                if name in names:
                    found.setdefault(name, {})[each.device] = devices[each.device]
    return {name: list(users.values()) for name, users in found.items()}


def check_kind(kind: UsmKind, array: str, devices: Sequence[Device]) -> None:
    """Refuse a requested memory kind that a device does not support."""
    for device in devices:
        if device.aspects and f"usm_{kind}_allocations" not in device.aspects:
            raise PlanError(
                f"device {device.name!r} has no USM memory of kind {kind!r}",
                where=f"array {array!r}",
                hint="Let the plan choose, or keep the tasks that touch the array off the device",
            )


def reaches_host(device: Device, platform: Platform) -> bool:
    """Return whether kernels can access the host's memory, and the bandwidth of that is known."""
    return (
        not platform.space(device.space).host_accessible
        and "usm_host_allocations" in device.aspects
        and device.profile is not None
        and platform.link(HOST, device.space) is not None
        and platform.link(device.space, HOST) is not None
    )


def _handed_over(
    known: GraphRecord, assignments: Sequence[Assignment], able: Mapping[str, Device]
) -> Iterator[tuple[str, Device, _HandedOver]]:
    """Yield arrays the host writes once and devices of one space read, or one device writes and the host reads."""
    count, place = len(known.arrays), {each.task: each.device for each in assignments}
    task_of = np.repeat(np.arange(len(known.tasks)), np.diff(known.access_starts))
    writes = np.bincount(known.access_array[WRITES[known.access_mode]], minlength=count)
    plain = np.bincount(known.access_array[known.access_mode == _WRITE], minlength=count)
    by_host = np.array([place.get(task.name) == HOST for task in known.tasks], np.bool_)[task_of]
    used_by_both = np.bincount(known.access_array[by_host], minlength=count) > 0
    used_by_both &= np.bincount(known.access_array[~by_host], minlength=count) > 0
    candidates = (writes == 1) & (plain == 1) & used_by_both
    users: dict[int, list[tuple[str, bool]]] = {}
    for access in np.flatnonzero(candidates[known.access_array]).tolist():
        wrote = bool(WRITES[known.access_mode[access]])
        users.setdefault(int(known.access_array[access]), []).append((known.tasks[task_of[access]].name, wrote))
    for number, touching in users.items():
        array = known.arrays[number]
        if array.is_input or array.rows is not None or array.name in known.pieces or not array.nbytes:
            continue
        on = [(task, wrote, place[task]) for task, wrote in touching]
        devices = {device for _, _, device in on if device != HOST}
        writer = next(device for _, wrote, device in on if wrote)
        spaces = {able[d].space if d in able else None for d in devices}
        if len(spaces) != 1 or None in spaces or not any(not wrote for _, wrote, _ in on):
            continue
        from_host = writer == HOST
        if not from_host and any(d != HOST for _, wrote, d in on if not wrote):
            continue  # devices read the array, too: it is best in their own memory
        by_device = tuple(task for task, _, device in on if device != HOST)
        yield array.name, able[next(iter(devices))], _HandedOver(array, by_device, from_host)


def _copy_s(platform: Platform, device: Device, nbytes: int, from_host: bool) -> float:
    ends = (HOST, device.space) if from_host else (device.space, HOST)
    link = platform.link(*ends)
    assert link is not None
    return link.seconds(nbytes)


def slower_seconds(platform: Platform, device: Device, nbytes: int) -> float:
    """Return how much longer one pass over an array takes in the host's memory than in the device's."""
    profile, link = device.profile, platform.link(HOST, device.space)
    if profile is None or link is None or platform.space(device.space).host_accessible:  # it is the same memory
        return 0.0
    device_rate = profile.triad_bandwidth_bytes_per_s.value
    costs = profile.usm.get("host")
    measured = None if costs is None else costs.read_bandwidth_bytes_per_s or costs.bandwidth_bytes_per_s
    host_rate = link.bandwidth_bytes_per_s if measured is None else measured.value
    if not device_rate or not host_rate:
        return 0.0
    return max(0.0, nbytes / host_rate - nbytes / device_rate)


def _origin(device: Device) -> str:
    costs = None if device.profile is None else device.profile.usm.get("host")
    if costs is not None and (costs.read_bandwidth_bytes_per_s or costs.bandwidth_bytes_per_s):
        return "kernel's bandwidth measured"
    return "kernel's bandwidth taken to be the link's"


def fetches(task: Task) -> float:
    """Return an upper bound of how often a kernel fetches an element: once per two operations."""
    if task.operation is None or task.signature is None:
        return 1.0
    elements = max((int(np.prod(shape)) for shape in task.signature.shapes.values()), default=0)
    flops = float(task.operation.work(task.signature).flops)
    return max(1.0, flops / (2.0 * elements)) if elements else 1.0


def added_seconds(
    graph: TaskGraph,
    known: GraphRecord,
    platform: Platform,
    assignments: Sequence[Assignment],
    reached: Mapping[str, str],
) -> dict[str, float]:
    """Return how much zero-copy access adds to the duration of each task."""
    if not reached:
        return {}
    devices = {d.name: d for d in platform.compute_devices}
    touched, nbytes = {t.name: t.accesses for t in known.tasks}, {a.name: a.nbytes for a in known.arrays}
    found: dict[str, float] = {}
    for each in assignments:
        device = devices.get(each.device)
        if device is None:
            continue
        mine = [a.array for a in touched[each.task] if reached.get(a.array) == device.space]
        if mine:
            slower_s = sum(slower_seconds(platform, device, nbytes[name]) for name in mine)
            found[each.task] = fetches(graph.find_task(each.task)) * slower_s
    return found
