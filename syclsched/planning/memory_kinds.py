# SPDX-License-Identifier: Apache-2.0
"""The kind of USM memory of each array in each space, once it is known who touches it there.

What is usual in a space (`syclsched.model.usm.usual_kind`) stays unless

- the user asked for another kind, which the array then gets where those who touch it allow;
- kernels are measurably faster on another kind: by a tenth, and by more than three median absolute deviations of both
  measurements, on every device that touches the array. Memory of kind ``device`` the host cannot address, nor can
  devices of another context, so it is for arrays that only kernels of the space touch;
- an array in the host's memory is touched by functions of the host alone: that is not pinned.

Memory of one kind cannot take the place of memory of another. Where the capacity of a space leaves no room for that,
what is faster is given up, and what is usual stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.profile import Quantity
from syclsched.model.usm import USM_KINDS, ArrayMemory, MemoryKind, UsmKind, usual_kind
from syclsched.planning.in_place import InPlace, check_kind, kinds_given
from syclsched.planning.record import GraphRecord
from syclsched.planning.rows import ALLOC, FREE, Rows
from syclsched.planning.steps import COPY, HOST_CALL, LAUNCH, Draft, Flags, Ints

#: Two bandwidths differ if they do by so many median absolute deviations of both, and by this share: machines drift.
_MADS: Final = 3.0
_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Users:
    """Who touches each memory: functions of the host, copies from or to other devices' memory, which devices."""

    host: Flags
    crosses: Flags
    apart: Flags
    devices: Mapping[int, frozenset[str]]


def choose_kinds(
    known: GraphRecord, platform: Platform, draft: Draft, rows: Rows, in_place: InPlace
) -> tuple[ArrayMemory, ...]:
    """Return the memory of arrays that is not what is usual in its space."""
    usual: list[MemoryKind] = [usual_kind(space, platform) for space in platform.spaces]
    rates = {n: _faster(platform, space.name) for n, space in enumerate(platform.spaces) if space.name != HOST}
    faster = {n: found for n, found in rates.items() if found}
    asked = any(array.usm is not None for array in known.arrays)
    if not faster and not asked and "host" not in usual:
        return in_place.chosen
    users = _users(platform, draft, by_device=asked or bool(faster))
    decided = {(c.array, c.space) for c in in_place.chosen}
    ours = np.ones(len(draft.memory_nbytes), np.bool_)
    ours[draft.foreign] = False
    chosen: dict[int, ArrayMemory] = {}
    kinds: list[MemoryKind] = [usual[n] for n in draft.memory.space.tolist()]
    wished = list(kinds)
    of_interest = np.array([asked or n in faster or kind == "host" for n, kind in enumerate(usual)], np.bool_)
    for memory in np.flatnonzero(ours & of_interest[draft.memory.space]).tolist():
        array, number = known.arrays[draft.memory.array[memory]], int(draft.memory.space[memory])
        space = platform.spaces[number]
        if (array.name, space.name) in decided:
            continue
        if array.usm is not None and space.name != HOST:
            kind, why = _asked(array.usm, users, memory, host_accessible=space.host_accessible)
            if kind != kinds[memory]:
                chosen[memory] = ArrayMemory(array.name, space.name, kind, why)
                kinds[memory] = wished[memory] = kind
        elif number in faster:
            best = _best(faster[number], users, memory)
            if best is not None:
                wished[memory] = best[0]
                chosen[memory] = ArrayMemory(array.name, space.name, *best)
        elif usual[number] == "host" and not users.apart[memory]:
            wished[memory] = "plain"
            chosen[memory] = ArrayMemory(array.name, space.name, "plain", "only functions of the host touch it")
    for number in _too_small(platform, draft, rows, wished):
        for memory in [m for m in chosen if draft.memory.space[m] == number and kinds[m] != wished[m]]:
            del chosen[memory]
    return (*in_place.chosen, *_together(chosen, draft, np.flatnonzero(ours).tolist()))


def kinds_without_plan(graph: TaskGraph, known: GraphRecord, platform: Platform) -> tuple[ArrayMemory, ...]:
    """Return the memory of arrays in a run that decides as it goes, where that is not what is usual.

    Who touches an array where is not known then, so it is as the user asks where the host reaches it: ``device`` is for
    plans. Inputs that no task writes are read in place in the first memory that the host shares with a device.
    """
    asked = {array.name: array.usm for array in known.arrays if array.usm is not None and array.rows is None}
    wanted = {**dict(kinds_given(graph)), **asked}
    written = known.written() if wanted else frozenset()
    homes = dict.fromkeys(device.space for device in platform.compute_devices)
    found: list[ArrayMemory] = []
    for array in known.arrays:
        kind = wanted.get(array.name)
        if kind is None or kind == "device" or array.rows is not None:
            continue
        shared = [name for name in homes if platform.space(name).host_accessible]
        for name in homes:
            why = "asked for" if array.name in asked else f"the value given lies in USM memory of kind {kind}"
            resident = array.is_input and array.name not in written and name == next(iter(shared), None)
            if array.name in asked:
                check_kind(kind, array.name, [d for d in platform.compute_devices if d.space == name])
            if resident or (array.name in asked and (name in shared or kind == "shared")):
                found.append(ArrayMemory(array.name, name, kind, why, resident=resident))
    return tuple(found)


# --- inside ---------------------------------------------------------------------------------------


def _together(chosen: Mapping[int, ArrayMemory], draft: Draft, ours: Sequence[int]) -> list[ArrayMemory]:
    """Return what is chosen for all memories that an array has in a space, one after another: they are of one kind."""
    kinds: dict[tuple[int, int], set[MemoryKind | None]] = {}
    places = list(zip(draft.memory.array.tolist(), draft.memory.space.tolist(), strict=True))
    for memory in ours:
        kinds.setdefault(places[memory], set()).add(chosen[memory].kind if memory in chosen else None)
    return list({places[m]: each for m, each in chosen.items() if len(kinds[places[m]]) == 1}.values())


def _users(platform: Platform, draft: Draft, *, by_device: bool) -> _Users:
    """Return who touches each memory; which devices do only if that is asked for, as there are many pairs."""
    steps, count, spaces = draft.steps, len(draft.memory_nbytes), len(platform.spaces)
    used = draft.memory_of[steps.blocks]
    step = np.repeat(np.arange(len(steps)), np.diff(steps.starts))
    kind = steps.kind[step]
    host, crosses, apart = (np.zeros(count, np.bool_) for _ in range(3))
    host[used[kind == HOST_CALL]] = True
    copying = kind == COPY
    way = steps.way[step[copying]]
    host_number = next(n for n, s in enumerate(platform.spaces) if s.name == HOST)
    accessible = np.array([s.host_accessible for s in platform.spaces], np.bool_)
    source, target = way // spaces, way % spaces
    crosses[used[copying][(source != host_number) & (target != host_number)]] = True
    apart[used[copying][~accessible[source] | ~accessible[target]]] = True
    home = {d.name: d.space for d in platform.devices}
    names = [key.device for key in draft.lanes]
    launched = kind == LAUNCH
    pairs = np.unique(used[launched] * len(names) + steps.lane[step[launched]]) if by_device else ()
    devices: dict[int, set[str]] = {}
    for memory, lane in (divmod(int(pair), len(names)) for pair in pairs):
        devices.setdefault(memory, set()).add(names[lane])
        if home[names[lane]] != platform.spaces[int(draft.memory.space[memory])].name:
            crosses[memory] = True
    return _Users(host, crosses, apart, {memory: frozenset(found) for memory, found in devices.items()})


def _asked(kind: UsmKind, users: _Users, memory: int, *, host_accessible: bool) -> tuple[MemoryKind, str]:
    """Return the kind that an array gets in a device's space if the user asks for one."""
    if not host_accessible:
        # Of kind host it would be in the host's memory: what is here is a copy for a device that does not reach that.
        return "device" if kind == "host" else kind, "asked for"
    if kind == "device" and (users.host[memory] or users.crosses[memory]):
        return "shared", "asked for as device, but the host or another context touches it"
    return kind, "asked for"


def _faster(platform: Platform, space: str) -> dict[str, dict[UsmKind, str]]:
    """Return the kinds that are measurably faster than the usual one, and by what, for each device of a space."""
    found: dict[str, dict[UsmKind, str]] = {}
    if not platform.space(space).host_accessible:
        return found
    for device in platform.compute_devices:
        if device.space == space:
            found[device.name] = _faster_on(device)
    return found if any(found.values()) else {}


def _faster_on(device: Device) -> dict[UsmKind, str]:
    usm = {} if device.profile is None else device.profile.usm
    rates = {kind: usm[kind].bandwidth_bytes_per_s for kind in USM_KINDS if kind in usm}
    usual = rates.get("shared")
    if usual is None:
        return {}
    found: dict[UsmKind, str] = {}
    for kind, rate in sorted(rates.items(), key=lambda each: -(each[1].value if each[1] else 0.0)):
        if rate is not None and _differ(rate, usual):
            found[kind] = f"{rate.value / 1e9:.4g} GB/s on {device.name}, shared {usual.value / 1e9:.4g} GB/s"
    return found


def _differ(rate: Quantity, usual: Quantity) -> bool:
    """Return whether a bandwidth is higher than the usual by more than it could be by chance."""
    return rate.value - usual.value > max(_MADS * (rate.mad + usual.mad), _SHARE * usual.value)


def _best(faster: Mapping[str, Mapping[UsmKind, str]], users: _Users, memory: int) -> tuple[UsmKind, str] | None:
    """Return the fastest kind that all who touch a memory reach, and why it is chosen; None for the usual one."""
    devices = sorted(users.devices.get(memory, ()))
    if not devices:
        return None
    for kind, why in faster.get(devices[0], {}).items():
        reaches = kind != "device" or not (users.host[memory] or users.crosses[memory])
        if reaches and all(kind in faster.get(device, {}) for device in devices):
            return kind, f"{why}; only kernels touch it" if kind == "device" else why
    return None


def _too_small(platform: Platform, draft: Draft, rows: Rows, kinds: Sequence[MemoryKind]) -> list[int]:
    """Return the spaces that do not have room for the peaks of all kinds together."""
    moves = np.flatnonzero((rows.phase == ALLOC) | (rows.phase == FREE))
    memory = rows.memory[moves]
    change = np.where(rows.phase[moves] == ALLOC, draft.memory_nbytes[memory], -draft.memory_nbytes[memory])
    code = np.array([(*USM_KINDS, "plain").index(kind) for kind in kinds], np.int64)
    found = []
    for number, space in enumerate(platform.spaces):
        here: Ints = code[memory]
        inside = draft.memory.space[memory] == number
        mine = np.unique(here[inside])
        peak = sum(int(np.cumsum(change[inside & (here == kind)]).max(initial=0)) for kind in mine)
        if space.capacity_bytes and len(mine) > 1 and peak > space.capacity_bytes:
            found.append(number)
    return found
