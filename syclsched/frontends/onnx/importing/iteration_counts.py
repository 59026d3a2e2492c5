# SPDX-License-Identifier: Apache-2.0
"""Numbers of iterations of loops that follow from their counter and from values that they carry, without any input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from syclsched.frontends.onnx.loops.host_program import HostProgram
from syclsched.frontends.onnx.model_file.onnx_model import ModelGraph
from syclsched.frontends.onnx.network import CanonicalNode, Network
from syclsched.frontends.onnx.operations import operation_call

#: Most iterations of a loop whose iterations are counted or unrolled while it is imported.
LONGEST_LOOP: Final = 10_000


def unchanged_positions(graph: ModelGraph) -> list[int]:
    """Return the positions of the carried values that the body of a Loop passes on as it gets them."""
    source = {node.outputs[0]: node.inputs[0] for node in graph.nodes if node.operator == "Identity"}
    found = []
    for position, (given, made) in enumerate(zip(graph.inputs[2:], graph.outputs[1:], strict=False)):
        name = made.name
        while name in source:
            name = source[name]
        if name == given.name:
            found.append(position)
    return found


def counted_rounds(network: Network, starts: Mapping[str, np.ndarray[Any, Any]], limit: int | None) -> int | None:
    """Return after how many iterations a body's condition ends the loop, 0 for never; None if inputs decide it.

    The first input is the counter, the first output the condition; carried values follow both, and start at known
    values where these are given. A limit is that of the trip count.
    """
    following = dict(zip(network.inputs[1:], network.outputs[1:], strict=False))
    nodes, read = _needed(network, {each: following[each] for each in starts})
    if read - {"counter"} - starts.keys() or any(node.kind == "reference" for node in nodes):
        return None
    states = [name for name in network.inputs[1:] if name in read]
    outputs = (network.outputs[0], *(following[name] for name in states))
    program = HostProgram(replace(network, inputs=("counter", *states), outputs=outputs, nodes=nodes), operation_call)
    counter, *carried = program.inputs
    condition, *changed = program.outputs
    for array, name in zip(carried, states, strict=True):
        array[...] = starts[name]
    most = 1 if not nodes and not states else LONGEST_LOOP if limit is None else min(limit, LONGEST_LOOP)
    for number in range(most):
        counter[...] = number
        program.run()
        if not bool(condition.reshape(-1)[0]):
            return number + 1
        for array, value in zip(carried, [each.copy() for each in changed], strict=True):
            array[...] = value
    return None if most == LONGEST_LOOP != limit else 0


def _needed(network: Network, following: Mapping[str, str]) -> tuple[tuple[CanonicalNode, ...], set[str]]:
    """Return the nodes that a body's condition needs, and the inputs: of carried ones, also what follows them."""
    producer, waiting = network.producer(), [network.outputs[0]]
    needed = set(waiting)
    while waiting:
        name = waiting.pop()
        node = producer.get(name)
        found = {each for each in node.inputs if each is not None} if node is not None else set()
        if name in following:
            found.add(following[name])
        waiting += found - needed
        needed |= found
    return tuple(node for node in network.nodes if needed.intersection(node.outputs)), needed & set(network.inputs)
