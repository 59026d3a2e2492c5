# SPDX-License-Identifier: Apache-2.0
"""Search for the task of a training step that first makes a number that is not finite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from syclsched.frontends.onnx.host_evaluation import evaluate_node
from syclsched.training.step_model import StepModel

Array = np.ndarray[Any, Any]


def first_not_finite(model: StepModel, values: Mapping[str, Array]) -> str | None:
    """Return the first task of a step, or the input, whose result is not finite, by computing the step on the host."""
    shapes = {name: value.shape for name, value in values.items()}
    network = model.step(model.full_shapes(shapes))
    known: dict[str, Array] = dict(network.constants)
    for name in network.inputs:
        value = network.values[name]
        known[name] = np.asarray(values[name], value.dtype) if name in values else np.zeros(value.shape, value.dtype)
        if not _is_finite(known[name]):
            return f"input {name}"
    with np.errstate(all="ignore"):
        for node in network.nodes:
            made = evaluate_node(node, network.values, known)
            if not all(map(_is_finite, made.values())):
                return node.name
            known |= made
    return None


def _is_finite(value: Array) -> bool:
    return value.dtype.kind != "f" or bool(np.isfinite(value).all())
