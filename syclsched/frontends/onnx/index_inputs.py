# SPDX-License-Identifier: Apache-2.0
"""Detection of network inputs used as indices, such as token ids, and of their valid ranges."""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.frontends.onnx.network import CanonicalNode, Network

#: Kinds of nodes whose second input holds indices along their attribute ``axis``.
_PICKING = ("gather", "gather_elements", "scatter_elements")


@dataclass(frozen=True, slots=True)
class IndexInput:
    """The valid range of an index input."""

    extent: int  # elements along the axis: valid indices are ``-extent`` to ``extent - 1``
    operator: str  # the model's operator that uses the indices, as ``"Gather embedding"``


def find_index_inputs(network: Network) -> dict[str, IndexInput]:
    """Return the inputs used as indices without computation; reshapes and casts are allowed.

    The host can check such inputs in a few microseconds. Computed indices are not covered: devices clamp an index that
    is out of range.
    """
    same = {name: name for name in network.inputs}
    found: dict[str, IndexInput] = {}
    for node in network.nodes:
        source, indices = (*node.inputs, None, None)[:2]
        if source in same and node.outputs[0] is not None and _keeps_numbers(node):
            same[node.outputs[0]] = same[source]
        if node.kind in _PICKING and source is not None and indices in same:
            name, extent = same[indices], network.values[source].shape[node.attributes["axis"]]
            if name not in found or extent < found[name].extent:
                found[name] = IndexInput(extent, (node.origin or (node.name,))[0])
    return found


def _keeps_numbers(node: CanonicalNode) -> bool:
    if node.kind == "reshape":
        return True
    return node.kind == "elementwise" and node.attributes["expression"] in (0, ("cast", "int64", 0))
