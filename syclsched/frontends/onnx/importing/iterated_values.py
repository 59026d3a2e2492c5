# SPDX-License-Identifier: Apache-2.0
"""Values in each iteration of a loop, where they follow from counters alone: those of all iterations at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.loops.host_program import HostProgram
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.network import CanonicalNode, Network, Value
from syclsched.frontends.onnx.operations import operation_call

Array = np.ndarray[Any, Any]


def values_in_iterations(b: NetworkBuilder, name: str) -> Array | None:
    """Return a value in each iteration of the loop in whose body it is computed; None if it is not known."""
    sources = b.sources(name)
    if not sources or not b.iterations.keys() >= {*sources} or b.dtype(name) in FLOATS:
        return None
    count = len(b.iterations[sources[0]])
    nodes = b.nodes_between((), name)
    if not count or not all(map(_takes_iterations, nodes)):
        return None
    given = {each: b.iterations[each] for each in sources}
    return _of_all(b, nodes, given, name, count)


def _takes_iterations(node: CanonicalNode) -> bool:
    """Return whether a node computes the same of values that have the iterations as their first axis."""
    return node.kind == "reshape" or (node.kind == "elementwise" and not _has_index(node.attributes["expression"]))


def _has_index(expression: Any) -> bool:
    """Return whether an expression reads an index that counts from the first axis."""
    if not isinstance(expression, tuple):
        return False
    return (expression[0] == "index" and expression[1] >= 0) or any(map(_has_index, expression[1:]))


def _of_all(b: NetworkBuilder, nodes: list[CanonicalNode], given: Mapping[str, Array], name: str, count: int) -> Array:
    """Compute a value in all iterations; arrays have these as their first axis, constants have not."""
    values: dict[str, Value] = {each: Value(each, array.shape, b.dtype(each)) for each, array in given.items()}
    made: list[CanonicalNode] = []
    for node in nodes:
        inputs: list[str | None] = []
        for each in node.inputs:
            if each is None or each not in values:  # a constant, which is the same in all
                inputs.append(each)
                continue
            padding = len(b.shape(node.outputs[0] or "")) - len(b.shape(each))
            if node.kind == "elementwise" and padding > 0:
                wide = f"{each} in {node.name}"
                values[wide] = Value(wide, (count, *(1,) * padding, *b.shape(each)), b.dtype(each))
                made.append(CanonicalNode(wide, "reshape", (each,), (wide,), {}, ()))
                each = wide
            inputs.append(each)
        for output in node.outputs:
            if output is not None:
                values[output] = Value(output, (count, *b.shape(output)), b.dtype(output))
        made.append(replace(node, inputs=tuple(inputs)))
    network = Network("iterations", tuple(given), (name,), {**b.values, **values}, b.constants, tuple(made))
    program = HostProgram(network, operation_call)
    for array, value in zip(program.inputs, given.values(), strict=True):
        array[...] = value
    with np.errstate(all="ignore"):
        program.run()
    return program.outputs[0]
