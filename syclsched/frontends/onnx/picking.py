# SPDX-License-Identifier: Apache-2.0
"""Inputs of a network that say which elements are picked, such as the numbers of words: what they may be."""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.frontends.onnx.network import Network, Node

#: Kinds of nodes whose second input is indices along their attribute ``axis``.
_PICKING = ("gather", "gather_elements", "scatter_elements")


@dataclass(frozen=True, slots=True)
class Picked:
    """What the indices in an input pick from."""

    extent: int  # elements along the axis: indices are from ``-extent`` to ``extent - 1``
    by: str  # the model's operator that picks, as ``"Gather embedding"``


def picked(network: Network) -> dict[str, Picked]:
    """Return the inputs that are indices as they are, but for their shape and dtype.

    Indices that a network computes are not looked at. A device takes the nearest element there is for one that is out
    of range; what an input says, the host can check in a few microseconds.
    """
    same = {name: name for name in network.inputs}
    found: dict[str, Picked] = {}
    for node in network.nodes:
        source, indices = (*node.inputs, None, None)[:2]
        if source in same and node.outputs[0] is not None and _keeps_numbers(node):
            same[node.outputs[0]] = same[source]
        if node.kind in _PICKING and source is not None and indices in same:
            name, extent = same[indices], network.values[source].shape[node.attributes["axis"]]
            if name not in found or extent < found[name].extent:
                found[name] = Picked(extent, (node.origin or (node.name,))[0])
    return found


def _keeps_numbers(node: Node) -> bool:
    if node.kind == "reshape":
        return True
    return node.kind == "elementwise" and node.attributes["expression"] in (0, ("cast", "int64", 0))
