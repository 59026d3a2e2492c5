# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from syclsched.frontends.onnx.importing import import_model
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.frontends.onnx.model_file.model_reader import read_model
from syclsched.frontends.onnx.network import Network

FLOAT = TensorProto.FLOAT


def model_of(
    nodes: Sequence[Any],
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    *,
    opset: int = 17,
    dtypes: Mapping[str, int] | None = None,
) -> Any:
    """Return a model of nodes; inputs are given with their shapes (None: no shape is said)."""
    types = dtypes or {}
    graph = helper.make_graph(
        list(nodes),
        "small",
        [helper.make_tensor_value_info(name, types.get(name, FLOAT), shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, types.get(name, FLOAT), None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def relu_model(**more: Any) -> Any:
    """Return the smallest model there is: y = relu(x), x of shape (2, 3)."""
    return model_of([helper.make_node("Relu", ["x"], ["y"], name="r")], {"x": (2, 3)}, ["y"], **more)


def imported(model: Any, shapes: Any = None, **more: Any) -> Network:
    """Return a model as a network."""
    return import_model(read_model(model, limits=more.get("limits") or ModelLimits()), shapes, **more)


def write_classifier(model: str, image: str) -> None:
    """Write a model of four layers from ``image`` to ``probabilities``, and an image for it."""
    weights = np.random.default_rng(0).normal(size=(10, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["features"], name="conv"),
        helper.make_node("Relu", ["features"], ["positive"], name="relu"),
        helper.make_node("GlobalAveragePool", ["positive"], ["means"], name="pool"),
        helper.make_node("Flatten", ["means"], ["scores"], name="flatten"),
        helper.make_node("Softmax", ["scores"], ["probabilities"], name="softmax"),
    ]
    onnx.save(model_of(nodes, {"image": (1, 3, 32, 32)}, ["probabilities"], {"w": weights}), model)
    np.save(image, np.random.default_rng(1).random((1, 3, 32, 32)).astype(np.float32))


def write_encoder(model: str) -> None:
    """Write a model with the open dimensions ``batch`` and ``sequence``."""
    onnx.save(
        model_of([helper.make_node("Softmax", ["words"], ["means"])], {"words": ("batch", "sequence")}, ["means"]),
        model,
    )
