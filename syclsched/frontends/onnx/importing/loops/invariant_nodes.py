# SPDX-License-Identifier: Apache-2.0
"""Nodes of a loop's body that compute the same in every iteration: a run computes them once, before the loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.loops.loop_body import LoopBody
from syclsched.frontends.onnx.loops.loop_kernel import step_flops
from syclsched.frontends.onnx.network import CanonicalNode, Network

#: Arithmetic operations of an iteration from which on they are moved: fewer take less than further tasks.
_WORTH_MOVING: Final = 1e5
#: Kinds of nodes that are moved.
_MOVED: Final = frozenset(
    {"concat", "conv", "elementwise", "gather", "layer_norm", "matmul", "reduce", "reshape", "slice", "softmax"}
    | {"transpose"}
)


def without_invariants(b: NetworkBuilder, body: LoopBody, inputs: list[str]) -> tuple[LoopBody, list[str]]:
    """Add the nodes of a body that outer values alone determine to the outer network; return body and inputs without.

    Few operations stay in the body.
    """
    network = body.network
    first = body.counted + body.carried + len(body.scanned)
    captured = dict(zip(network.inputs[first:], inputs[len(inputs) - (len(network.inputs) - first) :], strict=True))
    moved = _invariant(network, set(captured))
    if step_flops(replace(body, network=replace(network, nodes=tuple(moved)))) < _WORTH_MOVING:
        return body, inputs
    outer = dict(captured)
    for node in moved:
        for name in node.inputs:
            if name is not None and name not in outer:
                outer[name] = b.constant(network.constants[name])
        made = []
        for name in node.outputs:
            if name is not None:
                outer[name] = b.add_value(replace(network.values[name], name=f"{b.node_name}/{name}"))
                made.append(b.values[outer[name]])
        ins, outs = (
            tuple(None if each is None else outer[each] for each in names) for names in (node.inputs, node.outputs)
        )
        b.add_node(replace(node, name=f"{b.node_name}/{node.name}", inputs=ins, outputs=outs), made)
    left = tuple(node for node in network.nodes if node not in moved)
    read = {name for node in left for name in node.inputs} | {*network.outputs}
    made_before = [name for node in moved for name in node.outputs if name is not None]
    given = [name for name in (*captured, *made_before) if name in read]
    constants = {name: array for name, array in network.constants.items() if name in read}
    network = replace(network, inputs=(*network.inputs[:first], *given), nodes=left, constants=constants)
    kept = inputs[: len(inputs) - len(captured)]
    return replace(body, network=network), [*kept, *(outer[name] for name in given)]


def _invariant(network: Network, captured: set[str]) -> list[CanonicalNode]:
    """Return the nodes that outer values and constants determine."""
    known, found = captured | {*network.constants}, []
    for node in network.nodes:
        names = [name for name in (*node.inputs, *node.outputs) if name is not None]
        if node.kind in _MOVED and known.issuperset(filter(None, node.inputs)) and not {*names} & {*network.elements}:
            found.append(node)
            known.update(name for name in node.outputs if name is not None)
    return found
