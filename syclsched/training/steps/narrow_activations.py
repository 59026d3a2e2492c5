# SPDX-License-Identifier: Apache-2.0
"""Storage of activations in bfloat16: values that the backward pass reads again take half the memory.

Everything is computed in float32. A kept value is rounded once, where it is made. All that reads it, in the forward
pass too, reads the rounded one, so that the float32 value is needed no longer than until the next operation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.network import CanonicalNode, Value

#: Expressions of the two conversions.
NARROWED: Final = ("bfloat16_bits", 0)
WIDENED: Final = ("of_bfloat16_bits", 0)
#: Kinds whose results stay as they are: small, and each error in them changes many others.
_PRECISE: Final = frozenset({"reduce", "moments"})
#: Fewest elements of a value that is stored in bfloat16: moments of channels have fewer.
_FEWEST: Final = 4096


def kept_values(
    b: NetworkBuilder, forward: Iterable[CanonicalNode], backward: Iterable[CanonicalNode], without: Iterable[str]
) -> frozenset[str]:
    """Return the values of a forward pass that a backward pass reads, and that can be stored in bfloat16."""
    producer = {name: node for node in forward for name in node.outputs if name is not None}
    found: set[str] = set()
    for node in backward:
        for name in node.inputs:
            made = producer.get(name or "")
            while made is not None and made.kind == "reshape":  # of the same memory
                name = made.inputs[0]
                made = producer.get(name or "")
            if made is None or name is None or made.kind in _PRECISE:
                continue
            if b.dtype(name) == "float32" and math.prod(b.shape(name)) >= _FEWEST:
                found.add(name)
    return frozenset(found.difference(without))


def emit_rounded(b: NetworkBuilder, x: str) -> str:
    """Add the conversions of a value to bfloat16 and back; return the rounded value."""
    return b.elementwise(WIDENED, b.elementwise(NARROWED, x))


def widen_for_each_reader(b: NetworkBuilder) -> None:
    """Convert stored values for each reader anew, so that none is held in float32 between them."""
    stored = {
        node.outputs[0] or "": node.inputs[0] or ""
        for node in b.nodes
        if node.kind == "elementwise" and node.attributes["expression"] == WIDENED
    }
    nodes: list[CanonicalNode] = []
    for node in b.nodes:
        if node.outputs and node.outputs[0] in stored:
            nodes.append(node)  # for outputs of the network
        elif node.kind == "reshape" and node.inputs[0] in stored:
            nodes += _reshaped(b, node, stored)
        else:
            nodes += _with_own_inputs(b, node, stored)
    b.replace_nodes(nodes)


def _reshaped(b: NetworkBuilder, node: CanonicalNode, stored: dict[str, str]) -> Sequence[CanonicalNode]:
    """Return the reshaping of a stored value, and its conversion."""
    given, made = stored[node.inputs[0] or ""], node.outputs[0] or ""
    bits = b.add_value(Value(f"{made} stored", b.shape(made), "uint16"))
    stored[made] = bits
    return replace(node, inputs=(given,), outputs=(bits,)), _widening(node, bits, made)


def _with_own_inputs(b: NetworkBuilder, node: CanonicalNode, stored: dict[str, str]) -> list[CanonicalNode]:
    """Return a node behind conversions of its inputs."""
    own: dict[str, str] = {}
    for name in node.inputs:
        if name in stored and name not in own:
            own[name] = b.add_value(Value(f"{name} for {node.name}", b.shape(name), "float32"))
    conversions = [_widening(node, stored[name], wide) for name, wide in own.items()]
    read = tuple(None if name is None else own.get(name, name) for name in node.inputs)
    return [*conversions, replace(node, inputs=read)]


def _widening(reader: CanonicalNode, bits: str, made: str) -> CanonicalNode:
    name = f"{made} widened"
    return CanonicalNode(name, "elementwise", (bits,), (made,), {"expression": WIDENED}, reader.origin)
