# SPDX-License-Identifier: Apache-2.0
"""Evaluation of canonical nodes on the host with NumPy, for constant folding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.network import CanonicalNode, Value
from syclsched.frontends.onnx.operations import operation_call
from syclsched.frontends.onnx.shapes import unused_output
from syclsched.model.operation import Signature

Array = np.ndarray[Any, Any]


def evaluate_node(node: CanonicalNode, values: Mapping[str, Value], known: Mapping[str, Array]) -> dict[str, Array]:
    """Evaluate a node with the host implementation of its operation; return its outputs by name."""
    if node.kind == "reshape":
        source, target = node.inputs[0], node.outputs[0]
        assert source is not None and target is not None
        return {target: known[source].reshape(values[target].shape)}
    call = operation_call(node, values)
    arguments = {
        parameter: np.ascontiguousarray(known[name]).reshape(known[name].shape)
        for parameter, name in call.reads.items()
    }
    made: dict[str, Array] = {}
    for position, (parameter, name) in enumerate(call.writes.items()):
        if name is not None:
            made[name] = np.empty(values[name].shape, values[name].dtype)
            if parameter in call.updated:
                made[name][...] = known[call.updated[parameter]]
            arguments[parameter] = made[name].reshape(call.reshaped.get(parameter, values[name].shape))
        else:
            arguments[parameter] = np.empty(*unused_output(node, values, position))
    arguments |= {parameter: np.empty(value.shape, value.dtype) for parameter, value in call.scratch.items()}
    signature = Signature(
        {parameter: array.shape for parameter, array in arguments.items()},
        {parameter: array.dtype.name for parameter, array in arguments.items()},
    )
    wrong = call.operation.check(signature) if call.operation.check is not None else None
    if wrong is not None:
        raise ArgumentError(wrong, where=f"node {node.name!r}")
    host = next(each for each in call.operation.implementations if each.kind == "host")
    host.load(signature)(**arguments)
    return made
