# SPDX-License-Identifier: Apache-2.0
"""Memory reserved for constants, which are allocated before a run begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from syclsched.errors import MemoryLimitError
from syclsched.model.constant import Constant
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.tables.lazy_objects import lane_table
from syclsched.model.text.units import format_exact_bytes


def constant_bytes(
    constants: Mapping[str, tuple[Constant, ...]], where: Iterable[tuple[str, str]], platform: Platform
) -> dict[str, int]:
    """Return the size of the constants used in each memory space, in their original form.

    An implementation may keep a constant in another layout of a different size; that is not counted.
    """
    if not constants:
        return {}
    devices = {device.name: device for device in platform.devices}
    needed: dict[str, dict[Constant, None]] = {}
    for task, name in where:
        device = devices[name]
        if task in constants and not device.is_host:
            needed.setdefault(device.space, {}).update(dict.fromkeys(constants[task]))
    return {space: sum(constant.nbytes for constant in found) for space, found in needed.items()}


def launched(plan: Plan) -> list[tuple[str, str]]:
    """Return the tasks that a plan launches, each with its device."""
    found: list[tuple[str, str]] = []
    for lane in plan.lanes:
        table = lane_table(lane)
        rows = np.flatnonzero(table.kind.numbered({"launch": 0}) == 0)
        names = [table.task.values[n] for n in table.task.index[rows].tolist()]
        found += [(name, lane.device) for name in names if name is not None]
    return found


def reserve_memory(platform: Platform, taken: Mapping[str, int]) -> Platform:
    """Return a platform whose capacities are reduced by the memory already taken in each space."""
    spaces = []
    for space in platform.spaces:
        needed, capacity = taken.get(space.name, 0), space.capacity_bytes
        if not needed or not capacity:
            spaces.append(space)
            continue
        if needed >= capacity:
            raise MemoryLimitError(
                f"constants take {format_exact_bytes(needed)}, there are {format_exact_bytes(capacity)}",
                where=f"memory space {space.name!r}",
                hint="Allow more memory, or let another device do the tasks that need them",
            )
        spaces.append(replace(space, capacity_bytes=capacity - needed))
    return replace(platform, spaces=tuple(spaces)) if taken else platform
