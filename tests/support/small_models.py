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
    """Return a model of nodes; inputs are given with their shapes (None: no declared shape)."""
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
    """Return a minimal model: y = relu(x), x of shape (2, 3)."""
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


def write_pipeline(pipeline: str, joined: str) -> None:
    """Write a model of a column of text and one of numbers, and one that joins the arrays of a sequence."""
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    nodes = [
        helper.make_node("OneHotEncoder", ["city"], ["hot"], cats_strings=["Bern", "Oslo"], domain="ai.onnx.ml"),
        helper.make_node("MatMul", ["hot", "w"], ["of_city"]),
        helper.make_node("Add", ["of_city", "age"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("city", TensorProto.STRING, ["n"]),
        helper.make_tensor_value_info("age", FLOAT, ["n"]),
    ]
    weights = numpy_helper.from_array(np.array([1.0, 2.0], np.float32), "w")
    graph = helper.make_graph(nodes, "pipeline", inputs, [helper.make_tensor_value_info("y", FLOAT, ["n"])], [weights])
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=8), pipeline)
    join = helper.make_node("ConcatFromSequence", ["parts"], ["y"], axis=0)
    parts = helper.make_tensor_sequence_value_info("parts", FLOAT, ["n", 3])
    graph = helper.make_graph([join], "joined", [parts], [helper.make_tensor_value_info("y", FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=8), joined)
