# SPDX-License-Identifier: Apache-2.0
"""Inputs that stay in one memory from run to run: buffers that kernels use in place, and the user writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.devices.memory import usm_memory
from syclsched.devices.memory.resident_array import InputValue, ResidentArray, set_value
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.errors import ArgumentError, UnknownArrayError
from syclsched.execution.dispatch.prepared import PreparedPlan
from syclsched.execution.memory.inputs import to_numpy
from syclsched.model.plan import Plan, PlannedArray
from syclsched.model.usm import PoolKey, PoolKeys

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices


class ZeroCopyInputs:
    """Memory of inputs that are read in place, allocated on first request."""

    def __init__(self, devices: OpenDevices) -> None:
        self._devices = devices
        #: Buffers handed to the user, by array.
        self.views: dict[str, InputValue] = {}

    def values(self, prepared: PreparedPlan, inputs: Mapping[str, Any] | None) -> dict[str, InputValue]:
        """Return checked inputs; inputs not passed take their value from the user-writable buffer."""
        if self.views and (inputs is None or isinstance(inputs, Mapping)):
            inputs = {**self.views, **(inputs or {})}
        return prepared.values(inputs)

    def view(self, prepared: PreparedPlan, name: str) -> InputValue:
        """Return the buffer of an input; initially it holds the value declared in the graph, or zeros."""
        found = self.views.get(name)
        if found is not None:
            return found
        plan, declared = prepared.plan, prepared.graph.arrays
        if name in prepared.graph.joined or name in prepared.program.segments:
            raise ArgumentError(
                "it is split by rows, so there is no single buffer to fill",
                where=f"array {name!r}",
                hint='Plan with rewrite="none", and let tasks access the whole array',
            )
        if name not in declared:
            raise UnknownArrayError("there is none", where=f"array {name!r}", hint="Give the name of an input")
        space = plan.residents.get(name)
        if space is None:
            raise ArgumentError(
                "its value is not read in place, so there is no buffer to fill",
                where=f"array {name!r}",
                hint='Declare an input that no task writes with usm="shared" or usm="host", others with donated=True. '
                "The devices that use it in this plan must reach memory of that kind",
            )
        view = self.own(plan, name)
        given = prepared.graph.data.get(name)
        if given is not None:
            set_value(view, to_numpy(given))
        return view

    def share(self, plan: Plan, name: str, held: InputValue) -> InputValue | None:
        """Let a plan use an input in memory that is held already; return that, None if kernels cannot address it."""
        if not self._can_use(held, PoolKeys(plan.platform, plan.memory)[name, plan.residents[name]]):
            return None
        self.views[name] = held
        return held

    def own(self, plan: Plan, name: str) -> InputValue:
        """Return zeroed memory for a plan's input: the plan's existing memory for it, or else new memory."""
        found = self.views.get(name)
        if found is None:
            array = next(each for each in plan.arrays if each.name == name)
            key = PoolKeys(plan.platform, plan.memory)[name, plan.residents[name]]
            found = self.views[name] = self._allocated(key, array)
        set_value(found, 0)
        return found

    def own_donated(self, plan: Plan) -> frozenset[str]:
        """Give a plan memory for all donated inputs that it keeps in place; return them: runs need no values then."""
        residents = plan.residents
        names = frozenset(each.name for each in plan.arrays if each.donated and each.name in residents)
        for name in names - self.views.keys():
            self.own(plan, name)
        return names

    def _allocated(self, key: PoolKey, array: PlannedArray) -> InputValue:
        if key.kind == "plain":
            return np.empty(array.shape, array.dtype)
        _, storage = self._devices.pools.take(key, array.nbytes, touch=True)
        # The array keeps the memory alive.
        if key.kind == "device":
            assert isinstance(storage, MemoryRange)
            return ResidentArray(storage, array.shape, array.dtype)
        return usm_memory.as_numpy(storage, array.shape, array.dtype)

    def _can_use(self, held: InputValue, key: PoolKey) -> bool:
        """Return whether kernels can use an array where it is, in place of memory of a pool."""
        if isinstance(held, ResidentArray):
            return key.kind == "device" and held.is_reachable_by(self._devices.allocator_queue(key.space))
        if key.kind in ("plain", "device"):
            return key.kind == "plain"
        return usm_memory.usm_memory_of(held, self._devices.allocator_queue(key.context or key.space)) is not None
