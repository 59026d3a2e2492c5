# SPDX-License-Identifier: Apache-2.0
"""Numbers that decide shapes, computed on the host before a run that must not exceed their upper bounds."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.loops.host_program import HostProgram
from syclsched.frontends.onnx.network import ExtentGuard, Network
from syclsched.frontends.onnx.operations import operation_call

#: Kinds of nodes that compute extents.
_KINDS: Final = frozenset(
    {"elementwise", "reshape", "slice", "concat", "gather", "reduce", "transpose", "pad", "scan_sum", "arg"}
)
#: Elements of all values together, up to which they are computed in some microseconds.
_MOST: Final = 4096


class ExtentChecks:
    """The part of a network that computes its guarded numbers from small inputs."""

    def __init__(self, part: Network) -> None:
        self._part = part
        self._program: HostProgram | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs of which the numbers are computed."""
        return self._part.inputs

    def is_quick(self, carried: Collection[str]) -> bool:
        """Return whether the host can compute the numbers before each run; it does not have the carried inputs."""
        part = self._part
        made = {name for node in part.nodes for name in node.outputs if name} | set(part.inputs)
        elements = sum(math.prod(part.values[name].shape) for name in made)
        return elements <= _MOST and all(node.kind in _KINDS for node in part.nodes) and not {*carried} & {*part.inputs}

    def exceeded(self, values: Mapping[str, Any]) -> ExtentGuard | None:
        """Return the limits of a number that is beyond them for these values of inputs; None if there is none."""
        if self._program is None:
            self._program = HostProgram(self._part, operation_call)
        program = self._program
        for name, array in zip(self._part.inputs, program.inputs, strict=True):
            np.copyto(array, values[name])
        with np.errstate(all="ignore"):
            program.run()
        for guard, found in zip(self._part.guards.values(), program.outputs, strict=True):
            if not guard.holds(int(found.reshape(-1)[0])):
                return guard
        return None


def extent_checks(network: Network) -> ExtentChecks:
    """Return the part of a network that computes its guarded numbers."""
    needed, nodes = set(network.guards), []
    for node in reversed(network.nodes):
        if needed.intersection(filter(None, node.outputs)):
            nodes.append(node)
            needed.update(filter(None, node.inputs))
    part = replace(
        network,
        inputs=tuple(name for name in network.inputs if name in needed),
        outputs=tuple(network.guards),
        nodes=tuple(reversed(nodes)),
        constants={name: array for name, array in network.constants.items() if name in needed},
        lengths={},
    )
    return ExtentChecks(part)
