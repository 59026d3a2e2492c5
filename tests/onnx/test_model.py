# SPDX-License-Identifier: Apache-2.0
"""Models that were read: specialisation and kept data."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import syclsched
from syclsched.errors import ArgumentError, DeclaredShapeWarning, OpenDimensionError

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

MODEL = Path(__file__).parents[2] / "examples" / "data" / "digits.onnx"


def of_one_size(batch: int) -> syclsched.onnx.OnnxModel:
    """Return a model whose input has known extents only."""
    proto = onnx.load(MODEL)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = batch
    return syclsched.onnx.load(proto)


def test_a_model_of_one_size_is_specialised_once() -> None:
    model = of_one_size(2)
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda shapes: model.specialised(shapes), (None, {"image": (2, 1, 8, 8)}, {})))
    assert all(each is found[0] for each in found) and model.graph is found[0].graph


def test_a_specialised_model_of_one_size_drops_the_file_data() -> None:
    model = of_one_size(2)
    nbytes = model.constant_bytes
    first = model.graph
    assert nbytes > 0 and model.constant_bytes == nbytes
    assert model._model.constant_bytes == 0 and not model._model.graph.nodes
    assert model.graph is first and model.inputs[0].dimensions == (2, 1, 8, 8)
    with pytest.raises(ArgumentError, match="image"):
        model.specialised({"image": (3, 1, 8, 8)})


def test_given_shapes_override_declared_shapes() -> None:
    proto = onnx.load(MODEL)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    given = {"image": (3, 1, 8, 8)}
    with pytest.warns(DeclaredShapeWarning, match=r"\(3, 1, 8, 8\) is given and used, and \(2, 1, 8, 8\) is declared"):
        compiled = syclsched.compile(proto, devices="cpu", shapes=given, autotune=False)
    images = np.random.default_rng(0).random((3, 1, 8, 8)).astype(np.float32)
    open_batch = syclsched.compile(MODEL, devices="cpu", autotune=False)
    with compiled, open_batch:
        with pytest.raises(ArgumentError, match="the model wants"):
            compiled(images[:2])
        for name, array in open_batch(images).items():
            np.testing.assert_allclose(compiled(images)[name], array, rtol=1e-5)


def test_a_model_of_any_size_can_be_specialised_again() -> None:
    model = syclsched.onnx.load(MODEL, shapes={"batch": 1})
    one, two = model.specialised(), model.specialised({"image": (2, 1, 8, 8)})
    assert model.specialised({"image": (1, 1, 8, 8)}) is one and one is not two
    assert model._model.constant_bytes == model.constant_bytes > 0


def test_open_dimensions_are_asked_for_together_and_sums_follow() -> None:
    def value(name: str, *dimensions: str) -> onnx.ValueInfoProto:
        return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dimensions)

    inputs = [value("x", "new rows"), value("past", "past"), value("mask", "past + new rows")]
    nodes = [onnx.helper.make_node("Add", ["mask", "mask"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "sums", inputs, [value("y", "n")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(OpenDimensionError) as caught:
        syclsched.onnx.load(model).full_shapes()
    assert caught.value.names == ("new rows", "past")
    assert "shapes={'new rows': 1, 'past': 1}" in str(caught.value)
    assert "--shape 'new rows=1' --shape past=1" in str(caught.value)
    loaded = syclsched.onnx.load(model, shapes={"new rows": np.int64(2), "past": 3})
    assert loaded.full_shapes() == {"x": (2,), "past": (3,), "mask": (5,)}
