# SPDX-License-Identifier: Apache-2.0
"""Convolutions along an axis that others of one element follow: right, and as quick as along the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched.frontends.onnx.importing import import_model  # noqa: E402
from syclsched.frontends.onnx.lowering import lower  # noqa: E402
from syclsched.frontends.onnx.model_file.model_reader import read_model  # noqa: E402
from syclsched.frontends.onnx.rewrites import rewrite  # noqa: E402

pytestmark = pytest.mark.sycl

node = helper.make_node
CHANNELS, LENGTH = 24, 50


def normal(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32) / 4


def check(model: Any, given: dict[str, Any]) -> None:
    wanted = ReferenceEvaluator(model).run(None, given)
    for without in (["onednn"], ["opencl-c"], ["opencl-c", "onednn"]):
        with syclsched.compile(model, devices="cpu", autotune=False, without=without) as compiled:
            for found, right in zip(compiled(given).values(), wanted, strict=True):
                assert found.shape == right.shape and np.allclose(found, right, rtol=1e-4, atol=1e-4)


def residual_model(units: tuple[int, ...]) -> Any:
    """Return a model of two convolutions with bias, the second added to a residual, and a strided one in groups."""
    wide, ends = (3, *(1 for _ in units)), [1] + [0] * len(units)
    constants = {
        "w0": normal(CHANNELS, CHANNELS, *wide),
        "w1": normal(CHANNELS, CHANNELS, *wide),
        "w2": normal(2 * CHANNELS, CHANNELS // 2, *wide),
        "b": normal(CHANNELS),
    }
    nodes = [
        node("Conv", ["x", "w0", "b"], ["h"], pads=ends * 2),
        node("Relu", ["h"], ["i"]),
        node("Conv", ["i", "w1", "b"], ["j"], pads=ends * 2),
        node("Add", ["j", "h"], ["k"]),
        node("Relu", ["k"], ["l"]),
        node("Conv", ["l", "w2"], ["y"], group=2, strides=[2] * (1 + len(units)), dilations=[2] + [1] * len(units)),
    ]
    return model_of(nodes, {"x": (2, CHANNELS, LENGTH, *units)}, ["y"], constants)


@pytest.mark.parametrize("units", [(1,), (1, 1)])
def test_a_line_is_convolved(units: tuple[int, ...]) -> None:
    check(residual_model(units), {"x": normal(2, CHANNELS, LENGTH, *units)})


def test_kernels_see_the_line_as_the_last_axis() -> None:
    graph = lower(rewrite(imported(residual_model((1,)))).network).graph
    shapes = [task.signature.shapes for task in graph.tasks if task.signature and "w" in task.signature.shapes]
    assert len(shapes) == 3
    assert all(each["w"][2:] == (1, 3) and each["x"][1] == 1 for each in shapes)


@pytest.mark.parametrize("width", [1, 2])
def test_weights_that_are_computed(width: int) -> None:
    nodes = [node("Abs", ["w"], ["positive"]), node("Conv", ["x", "positive"], ["y"], pads=[0, 0, 2, 0])]
    model = model_of(nodes, {"x": (1, 3, 9, width), "w": (4, 3, 3, 1)}, ["y"])
    check(model, {"x": normal(1, 3, 9, width), "w": normal(4, 3, 3, 1)})


@pytest.mark.parametrize("extra", [0, 1])
def test_transposed_convolutions(extra: int) -> None:
    at = {"strides": [3, 2], "pads": [1, 0, 0, 0], "output_padding": [0, extra]}
    model = model_of(
        [node("ConvTranspose", ["x", "w"], ["y"], **at)], {"x": (2, 8, 11, 1)}, ["y"], {"w": normal(8, 6, 4, 1)}
    )
    check(model, {"x": normal(2, 8, 11, 1)})


def test_pads_beside_the_line_make_it_wider() -> None:
    model = model_of(
        [node("Conv", ["x", "w"], ["y"], pads=[0, 1, 0, 0])], {"x": (1, 4, 9, 1)}, ["y"], {"w": normal(5, 4, 3, 1)}
    )
    check(model, {"x": normal(1, 4, 9, 1)})


def test_integers() -> None:
    random = np.random.default_rng(0)
    weights = random.integers(-9, 9, (8, 4, 3, 1)).astype(np.int8)
    constants = {"w": weights, "z": np.array(3, np.uint8)}
    model = model_of(
        [node("ConvInteger", ["x", "w", "z"], ["y"], pads=[1, 0, 1, 0])],
        {"x": (1, 4, 21, 1)},
        ["y"],
        constants,
        dtypes={"x": onnx.TensorProto.UINT8, "y": onnx.TensorProto.INT32},
    )
    check(model, {"x": random.integers(0, 9, (1, 4, 21, 1)).astype(np.uint8)})


def test_the_weights_of_several_lengths_are_one_constant() -> None:
    model = residual_model((1,))
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "length"
    read = read_model(model)
    networks = [rewrite(import_model(read, {"x": (2, CHANNELS, n, 1)})).network for n in (20, 30)]
    short, long = (lower(each).graph.constants for each in networks)
    assert len(short) == len(long) > 0 and all(a is b for a, b in zip(short, long, strict=True))
