# SPDX-License-Identifier: Apache-2.0
"""Comparison of two imports of a loop's body that differ in the rank of single elements."""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np

from syclsched.frontends.onnx.network import CanonicalNode, Network


def compute_alike(one: Network, other: Network) -> bool:
    """Return whether two networks compute the same, but for the rank of single elements.

    Then they have the same nodes, in the same order, of the same values; all others have the same shapes.
    """
    first, second = _Values(one), _Values(other)
    if len(first.nodes) != len(second.nodes) or not _agree(first, second, one.outputs, other.outputs):
        return False
    return all(_are_alike(first, second, *pair) for pair in zip(first.nodes, second.nodes, strict=True))


class _Values:
    """The sources of a network's values: inputs, constants, and nodes that are no reshapes."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.nodes = [node for node in network.nodes if node.kind != "reshape"]
        self._sources: dict[str | None, Hashable] = {name: ("input", n) for n, name in enumerate(network.inputs)}
        for number, node in enumerate(self.nodes):
            self._sources |= {name: (number, n) for n, name in enumerate(node.outputs) if name is not None}
        self._reshaped = {node.outputs[0]: node.inputs[0] for node in network.nodes if node.kind == "reshape"}

    def source(self, name: str | None) -> Hashable:
        """Return the input or node that a value comes from, the name of a constant, or None."""
        while name in self._reshaped:
            name = self._reshaped[name]
        return self._sources.get(name, name)


def _are_alike(first: _Values, second: _Values, one: CanonicalNode, other: CanonicalNode) -> bool:
    if one.kind != other.kind or not _agree(first, second, one.outputs, other.outputs):
        return False
    if not _agree(first, second, one.inputs, other.inputs):
        return False
    names = [name for name in (*one.inputs, *one.outputs) if name is not None]
    if all(math.prod(first.network.values[name].shape) == 1 for name in names):
        return True
    try:
        return bool(one.attributes == other.attributes)
    except ValueError:  # arrays within, such as those of another loop's body
        return False


def _agree(first: _Values, second: _Values, names: tuple[str | None, ...], others: tuple[str | None, ...]) -> bool:
    """Return whether values come from the same, and have the same shapes or one element."""
    if len(names) != len(others):
        return False
    for name, other in zip(names, others, strict=True):
        if name is None or other is None:
            if name is not other:
                return False
            continue
        shapes = first.network.values[name].shape, second.network.values[other].shape
        if shapes[0] != shapes[1] and not math.prod(shapes[0]) == math.prod(shapes[1]) == 1:
            return False
        sources = first.source(name), second.source(other)
        constants = [
            values.network.constants.get(source) if isinstance(source, str) else None
            for values, source in zip((first, second), sources, strict=True)
        ]
        if constants[0] is not None and constants[1] is not None:
            if not np.array_equal(constants[0].reshape(-1), constants[1].reshape(-1), equal_nan=True):
                return False
        elif sources[0] != sources[1]:
            return False
    return True
