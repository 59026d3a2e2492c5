# SPDX-License-Identifier: Apache-2.0
"""Copies of a run's inputs to the devices while the run before computes, in memory beside that of the plan."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from syclsched.devices.memory import usm_memory
from syclsched.devices.memory.memory_pool import padded
from syclsched.devices.memory.resident_array import CopiedArray
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.submission.copy_queues import CopyQueues, given_up
from syclsched.errors import MemoryLimitError
from syclsched.execution.core.program import Buffer
from syclsched.execution.recovery.health import complete_in_time
from syclsched.model.plan import Plan, PlannedArray
from syclsched.model.usm import PoolKey, PoolKeys

if TYPE_CHECKING:
    from syclsched.devices.native.sycl_types import SyclEvent
    from syclsched.devices.opened_devices import OpenDevices

NumpyArray = np.ndarray[Any, np.dtype[Any]]

_LOGGER: Final = logging.getLogger("syclsched")


class InputCopies:
    """Memory on devices for inputs of two runs: copies of the next run's are made while the last ones are read.

    ``forget`` releases the memory that the runs still hold. Raises `MemoryLimitError` if there is no memory for the
    inputs.
    """

    def __init__(
        self,
        devices: OpenDevices,
        wanted: Mapping[str, tuple[PoolKey, PlannedArray]],
        forget: Callable[[], object],
    ) -> None:
        self._forget = forget
        self._sets: list[dict[str, MemoryRange]] = [{}, {}]
        self._queues = CopyQueues()
        for memory in self._sets:
            for name, (key, array) in wanted.items():
                _, held = devices.pools.take(key, array.nbytes, touch=True)
                assert isinstance(held, MemoryRange)
                memory[name] = held
        self._forms = {name: (array.shape, np.dtype(array.dtype)) for name, (_, array) in wanted.items()}

    def copy(self, values: Mapping[str, NumpyArray]) -> dict[str, CopiedArray] | None:
        """Copy inputs to the devices, and wait for that; return those copied, or None if a device does not do it.

        The run before the last one must have ended, and the arrays must not change until theirs has.
        """
        if not self._sets:
            return None
        memory = self._sets[0]
        events: list[SyclEvent] = []
        found = {}
        try:
            for name, held in memory.items():
                value = values[name]
                if (value.shape, value.dtype) != self._forms[name] or not value.flags.c_contiguous:
                    continue
                found[name] = CopiedArray(held, value)
                if value.nbytes:
                    source = usm_memory.as_bytes(value)
                    events.append(
                        self._queues.queue_for(held.queue).memcpy_async(held.memory, source, value.nbytes, [])
                    )
            is_done = complete_in_time(events)
        except Exception as error:  # the device is lost, which the run finds out
            _LOGGER.warning("inputs are not copied to the device ahead: %s", error)
            is_done = False
        if not is_done:
            given_up.append((self._sets, values, events))
            self._sets = []
            return None
        self._sets.reverse()
        return found

    def close(self) -> None:
        """Release the memory; no run may be in flight."""
        self._sets = []
        self._forget()


def copies_for(
    plan: Plan,
    targets: Mapping[str, tuple[int, Buffer]],
    devices: OpenDevices,
    least_s: float,
    forget: Callable[[], object],
) -> InputCopies | None:
    """Return memory for inputs of a plan's next run; None if that is not worthwhile.

    It is not where copies are predicted to take less than ``least_s`` seconds, or the memory is too small. ``targets``
    are the number of each input's copy, and the buffer that it fills.
    """
    copies = {number for number, _ in targets.values()}
    if not targets or sum(each.duration_s for _, each in plan.instructions() if each.id in copies) < least_s:
        return None
    keys, arrays = PoolKeys(plan.platform, plan.memory), {each.name: each for each in plan.arrays}
    wanted = {name: (keys[buffer], arrays[name]) for name, (_, buffer) in targets.items()}
    needed = Counter(plan.needed_bytes)
    for key, array in wanted.values():
        needed[key.space] += 2 * padded(array.nbytes)
    capacities = {space.name: space.capacity_bytes for space in plan.platform.spaces}  # 0: unknown
    if any(0 < capacities[space] < nbytes for space, nbytes in needed.items()):
        return None
    try:
        return InputCopies(devices, wanted, forget)
    except MemoryLimitError:
        return None
