# SPDX-License-Identifier: Apache-2.0
"""Search for the task of a training step that first makes a number that is not finite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from syclsched.api import run
from syclsched.frontends.onnx.host_evaluation import evaluate_node
from syclsched.frontends.onnx.lowering import lower
from syclsched.frontends.onnx.network import CanonicalNode, Network, Value
from syclsched.model.platform import Platform
from syclsched.training.steps.step_model import StepModel

Array = np.ndarray[Any, Any]


def first_not_finite(model: StepModel, values: Mapping[str, Array], platform: Platform) -> str | None:
    """Return the first task of a step, or the input, whose result is not finite, by computing the step on the host.

    Operations that the host does not implement run on the platform's devices.
    """
    shapes = {name: value.shape for name, value in values.items()}
    network = model.step(model.full_shapes(shapes))
    values = {**values, **{name: values[of] for name, of in model.replicas.items()}}
    known: dict[str, Array] = dict(network.constants)
    for name in network.inputs:
        value = network.values[name]
        known[name] = np.asarray(values[name], value.dtype) if name in values else np.zeros(value.shape, value.dtype)
        if not _is_finite(known[name]):
            return f"input {name}"
    with np.errstate(all="ignore"):
        for node in network.nodes:
            made = _evaluated(node, network.values, known, platform)
            if not all(map(_is_finite, made.values())):
                return node.name
            known |= made
    return None


def _evaluated(
    node: CanonicalNode, values: Mapping[str, Value], known: Mapping[str, Array], platform: Platform
) -> Mapping[str, Array]:
    ways = node.attributes["operation"].implementations if node.kind == "operation" else ()
    if node.kind != "operation" or any(each.kind == "host" for each in ways):
        return evaluate_node(node, values, known)
    inputs = tuple(dict.fromkeys(filter(None, node.inputs)))
    outputs = tuple(filter(None, node.outputs))
    lowered = lower(
        Network(node.name, inputs, outputs, {name: values[name] for name in (*inputs, *outputs)}, {}, (node,))
    )
    given = {lowered.inputs[name]: known[name] for name in inputs}
    with run(lowered.graph, platform, inputs=given, calibrate=False) as running:
        return {name: np.array(running.result(lowered.outputs[name])) for name in outputs}


def _is_finite(value: Array) -> bool:
    return value.dtype.kind != "f" or bool(np.isfinite(value).all())
