# SPDX-License-Identifier: Apache-2.0
"""USM memory kind of each array in each space, chosen from the accesses a plan makes.

The usual kind of a space (`syclsched.model.usm.default_kind`) is kept unless

- the user asked for another kind, and every access to the array allows it;
- kernels are measurably faster with another kind, by a tenth and by more than three median absolute deviations of both
  measurements, on every device that touches the array. Kind ``device`` can be addressed neither by the host nor by
  devices of another context, so it is only for arrays that kernels of the space alone touch;
- an array in the host's memory is touched by host functions only: that one is not pinned.

Memory of one kind cannot be reused as another. Where the sum of the kinds' peaks exceeds a space's capacity, faster
kinds are given up for the usual one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Device, Platform
from syclsched.model.profile import Quantity
from syclsched.model.usm import USM_KINDS, ArrayMemory, MemoryKind, UsmKind, default_kind
from syclsched.planning.draft import COPY, HOST_CALL, LAUNCH, Flags, Ints, PlanDraft
from syclsched.planning.graph_record import GraphRecord
from syclsched.planning.instruction_rows import ALLOC, FREE, InstructionRows
from syclsched.planning.memory.zero_copy import ZeroCopyArrays, check_kind, kinds_given

#: Two bandwidths differ if by more than this many median absolute deviations of both, and by this share (drift).
_MADS: Final = 3.0
_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Users:
    """Accesses to each memory: by host functions, across contexts, by copies to other memory, and by which devices."""

    host: Flags
    crosses: Flags
    apart: Flags
    devices: Mapping[int, frozenset[str]]


def choose_kinds(
    known: GraphRecord, platform: Platform, draft: PlanDraft, rows: InstructionRows, in_place: ZeroCopyArrays
) -> tuple[ArrayMemory, ...]:
    """Return the memory of arrays whose kind is not the usual one of its space."""
    usual: list[MemoryKind] = [default_kind(space, platform) for space in platform.spaces]
    rates = {
        n: _faster(platform, space.name)
        for n, space in enumerate(platform.spaces)
        if space.host_accessible and space.name != HOST
    }
    faster = {n: found for n, found in rates.items() if found}
    asked = any(array.usm is not None for array in known.arrays)
    if not faster and not asked and "host" not in usual:
        return in_place.chosen
    users = _users(platform, draft, by_device=asked or bool(faster))
    decided = {(c.array, c.space) for c in in_place.chosen}
    owned = np.ones(len(draft.memory_nbytes), np.bool_)
    owned[draft.foreign] = False
    chosen: dict[int, ArrayMemory] = {}
    kinds: list[MemoryKind] = [usual[n] for n in draft.memory.space.tolist()]
    preferred = list(kinds)
    of_interest = np.array([asked or n in faster or kind == "host" for n, kind in enumerate(usual)], np.bool_)
    for memory in np.flatnonzero(owned & of_interest[draft.memory.space]).tolist():
        array, number = known.arrays[draft.memory.array[memory]], int(draft.memory.space[memory])
        space = platform.spaces[number]
        if (array.name, space.name) in decided:
            continue
        if array.usm is not None and space.name != HOST:
            kind, why = _asked(array.usm, users, memory, host_accessible=space.host_accessible)
            if kind != kinds[memory]:
                chosen[memory] = ArrayMemory(array.name, space.name, kind, why)
                kinds[memory] = preferred[memory] = kind
        elif number in faster:
            best = _best(faster[number], users, memory)
            if best is not None:
                preferred[memory] = best[0]
                chosen[memory] = ArrayMemory(array.name, space.name, *best)
        elif usual[number] == "host" and not users.apart[memory]:
            preferred[memory] = "plain"
            chosen[memory] = ArrayMemory(array.name, space.name, "plain", "only functions of the host touch it")
    for number in _too_small(platform, draft, rows, preferred):
        for memory in [m for m in chosen if draft.memory.space[m] == number and kinds[m] != preferred[m]]:
            del chosen[memory]
    return (*in_place.chosen, *_together(chosen, draft, np.flatnonzero(owned).tolist()))


def kinds_without_plan(graph: TaskGraph, known: GraphRecord, platform: Platform) -> tuple[ArrayMemory, ...]:
    """Return the memory of arrays in a dynamic run, where its kind is not the usual one.

    Accesses are not known in advance, so only kinds that the host can address are used as requested; ``device`` needs a
    plan. Inputs that no task writes are read in place, in the first space that the host shares with a device.
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


def _together(chosen: Mapping[int, ArrayMemory], draft: PlanDraft, ours: Sequence[int]) -> list[ArrayMemory]:
    """Return choices on which all memories of an array in a space agree, one per array and space."""
    if not chosen:
        return []
    kinds: dict[tuple[int, int], set[MemoryKind | None]] = {}
    places = list(zip(draft.memory.array.tolist(), draft.memory.space.tolist(), strict=True))
    for memory in ours:
        kinds.setdefault(places[memory], set()).add(chosen[memory].kind if memory in chosen else None)
    return list({places[m]: each for m, each in chosen.items() if len(kinds[places[m]]) == 1}.values())


def _users(platform: Platform, draft: PlanDraft, *, by_device: bool) -> _Users:
    """Return the accesses to each memory; by device only on request, as there are many pairs."""
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
    """Return the kind an array gets in a device's space for the kind the user requested, and the reason."""
    if not host_accessible:
        # Memory of kind host is in the host's memory; this is the copy for a device that does not reach that.
        return "device" if kind == "host" else kind, "asked for"
    if kind == "device" and (users.host[memory] or users.crosses[memory]):
        return "shared", "asked for as device, but the host or another context touches it"
    return kind, "asked for"


def _faster(platform: Platform, space: str) -> dict[str, dict[UsmKind, str]]:
    """Return, for each device of a space, the kinds measurably faster than the usual one, with the reason."""
    found: dict[str, dict[UsmKind, str]] = {}
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
    """Return whether a bandwidth is significantly higher than the usual one."""
    return rate.value - usual.value > max(_MADS * (rate.mad + usual.mad), _SHARE * usual.value)


def _best(faster: Mapping[str, Mapping[UsmKind, str]], users: _Users, memory: int) -> tuple[UsmKind, str] | None:
    """Return the fastest kind that all accesses to a memory allow, and the reason; None for the usual kind."""
    devices = sorted(users.devices.get(memory, ()))
    if not devices:
        return None
    for kind, why in faster.get(devices[0], {}).items():
        reaches = kind != "device" or not (users.host[memory] or users.crosses[memory])
        if reaches and all(kind in faster.get(device, {}) for device in devices):
            return kind, f"{why}; only kernels touch it" if kind == "device" else why
    return None


def _too_small(platform: Platform, draft: PlanDraft, rows: InstructionRows, kinds: Sequence[MemoryKind]) -> list[int]:
    """Return the spaces whose capacity is less than the sum of the peaks of all kinds."""
    moves = np.flatnonzero((rows.phase == ALLOC) | (rows.phase == FREE))
    memory = rows.memory[moves]
    change = np.where(rows.phase[moves] == ALLOC, draft.memory_nbytes[memory], -draft.memory_nbytes[memory])
    codes = {kind: n for n, kind in enumerate((*USM_KINDS, "plain"))}
    code = np.array([codes[kind] for kind in kinds], np.int64)
    found = []
    kind_of_move: Ints = code[memory]
    for number in np.unique(draft.memory.space[memory]).tolist():
        space = platform.spaces[number]
        inside = draft.memory.space[memory] == number
        present_kinds = np.unique(kind_of_move[inside])
        peak = sum(int(np.cumsum(change[inside & (kind_of_move == kind)]).max(initial=0)) for kind in present_kinds)
        if space.capacity_bytes and len(present_kinds) > 1 and peak > space.capacity_bytes:
            found.append(number)
    return found
