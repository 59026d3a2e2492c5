# SPDX-License-Identifier: Apache-2.0
"""Plans of the bodies of loops that no kernel executes whole: planned and bound once, run in every iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from syclsched.costs import CostModel
from syclsched.frontends.onnx.loops.loop_kernel import step_flops
from syclsched.frontends.onnx.loops.loop_operation import loop_body_of
from syclsched.frontends.onnx.lowering import LoweredNetwork, lower
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.onnx.tuning.implementations import device_supports

if TYPE_CHECKING:
    from syclsched.execution import Runner
    from syclsched.frontends.onnx.loops.loop_body import LoopBody

#: Arithmetic operations of an iteration from which on devices are faster than NumPy, whose calls take less to begin.
_WORTH_PLANNING: Final = 1e5


class PlannedBody:
    """A body's network as a bound plan; see `syclsched.frontends.onnx.loops.loop_body.BodyProgram`."""

    def __init__(self, body: LoopBody, lowered: LoweredNetwork, runner: Runner) -> None:
        network, values = body.network, body.network.values
        self._place = body.planned
        self.inputs = [np.zeros(values[name].shape, values[name].dtype) for name in network.inputs]
        self.outputs = [np.zeros(values[name].shape, values[name].dtype) for name in network.outputs]
        self._runner = runner
        read = {access.array for task in lowered.graph.tasks for access in task.accesses}
        self._given = {
            array: each
            for name, each in zip(network.inputs, self.inputs, strict=True)
            if (array := lowered.inputs[name]) in read
        }
        self._names = [lowered.outputs[name] for name in network.outputs]
        self._wanted = tuple(dict.fromkeys(self._names))
        self._repeat: Callable[[tuple[Any, ...]], dict[str, Any] | None] | None = None

    def run(self) -> None:
        """Compute the outputs from the inputs."""
        found = None if self._repeat is None else self._repeat(tuple(self._given.values()))
        if found is None:
            from syclsched.execution.replay.input_commands import InputSpec

            found = self._runner(self._given, self._wanted)
            specs = [InputSpec(name, each.dtype, each.shape) for name, each in self._given.items()]
            self._repeat = self._runner.repeat(specs, self._wanted)
        for name, target in zip(self._names, self.outputs, strict=True):
            np.copyto(target, found[name])

    def close(self) -> None:
        """Release the plan's memory; NumPy executes the body from now on."""
        if self._place.program is self:
            self._place.program = None
        self._runner.close()


def plan_bodies(graph: TaskGraph, platform: Platform, bind: Callable[[TaskGraph], Runner]) -> list[PlannedBody]:
    """Plan the bodies of a graph's loops that no device executes whole, and of those within them."""
    costs = CostModel(platform)
    found: list[PlannedBody] = []
    try:
        for task in graph.tasks:
            body = loop_body_of(task.operation)
            if body is None or device_supports(task, costs) or sum(map(step_flops, body.with_inner)) < _WORTH_PLANNING:
                continue
            lowered = lower(body.network)
            found += plan_bodies(lowered.graph, platform, bind)
            found.append(PlannedBody(body, lowered, bind(lowered.graph)))
            body.planned.program = found[-1]
    except BaseException:
        for each in found:
            each.close()
        raise
    return found
