# SPDX-License-Identifier: Apache-2.0
"""Evaluation of canonical nodes on the host with NumPy, for constant folding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from syclsched.frontends.onnx.loops.host_program import node_calls
from syclsched.frontends.onnx.network import CanonicalNode, Value
from syclsched.frontends.onnx.operations import operation_call

Array = np.ndarray[Any, Any]


def evaluate_node(node: CanonicalNode, values: Mapping[str, Value], known: Mapping[str, Array]) -> dict[str, Array]:
    """Evaluate a node with the host implementation of its operation; return its outputs by name."""
    arrays = {name: np.ascontiguousarray(known[name]).reshape(known[name].shape) for name in node.inputs if name}
    for call in node_calls(node, values, arrays, operation_call):
        call()
    return {name: arrays[name] for name in node.outputs if name}
