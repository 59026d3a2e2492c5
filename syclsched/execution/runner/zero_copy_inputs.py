# SPDX-License-Identifier: Apache-2.0
"""Zero-copy inputs: buffers that the user writes directly and kernels read in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.devices.memory import usm_memory
from syclsched.errors import ArgumentError, UnknownArrayError
from syclsched.execution.dispatch.prepared import PreparedPlan
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.execution.memory.inputs import to_numpy
from syclsched.model.plan import Plan
from syclsched.model.usm import PoolKeys

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices


class ZeroCopyInputs:
    """Memory of inputs that are read in place, allocated on first request."""

    def __init__(self, devices: OpenDevices) -> None:
        self._devices = devices
        #: Views of the buffers handed to the user, by array.
        self.views: dict[str, NumpyArray] = {}

    def values(self, prepared: PreparedPlan, inputs: Mapping[str, Any] | None) -> dict[str, NumpyArray]:
        """Return checked inputs; inputs not passed take their value from the user-writable buffer."""
        if self.views and (inputs is None or isinstance(inputs, Mapping)):
            inputs = {**self.views, **(inputs or {})}
        return prepared.values(inputs)

    def view(self, prepared: PreparedPlan, name: str) -> NumpyArray:
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
        view = self.share(plan, name, None)
        assert view is not None
        given = prepared.graph.data.get(name)
        if given is not None:
            view[...] = to_numpy(given)
        return view

    def share(self, plan: Plan, name: str, held: NumpyArray | None) -> NumpyArray | None:
        """Return memory in which a plan reads an input: new and zeroed, or what is held already.

        Return None if kernels cannot address the memory that is held.
        """
        space = plan.residents[name]
        key = PoolKeys(plan.platform, plan.memory)[name, space]
        array = next(each for each in plan.arrays if each.name == name)
        if key.kind == "plain":
            held = np.zeros(array.shape, array.dtype) if held is None else held
        elif held is None:
            _, storage = self._devices.pools.take(key, array.nbytes, touch=True)
            # The view keeps the memory alive.
            held = usm_memory.as_numpy(storage, array.shape, array.dtype)
            held[...] = np.zeros((), array.dtype)
        elif usm_memory.usm_memory_of(held, self._devices.allocator_queue(key.context or key.space)) is None:
            return None
        self.views[name] = held
        return held
