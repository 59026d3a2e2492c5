# SPDX-License-Identifier: Apache-2.0
"""Small models whose results are compared with ONNX Runtime's, for constant, known and unknown values of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper, numpy_helper  # noqa: E402

pytestmark = pytest.mark.sycl

node = helper.make_node
X = np.arange(20, dtype=np.float32).reshape(4, 5)
LARGEST = np.iinfo(np.int64).max


def model(
    nodes: Sequence[Any], inputs: Mapping[str, Any], outputs: Sequence[str], constants: Mapping[str, Any], opset: int
) -> Any:
    """Return a model that declares open extents for its inputs."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in inputs.items()}
    graph = helper.make_graph(
        list(nodes),
        "small",
        [helper.make_tensor_value_info(name, kinds[name], [None] * value.ndim) for name, value in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def check(made: Any, *inputs: Mapping[str, Any]) -> None:
    """Compare the results for some inputs."""
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    with syclsched.compile(made, devices="cpu", autotune=False) as compiled:
        for each in inputs:
            found = compiled(each)
            for output, wanted in zip(session.get_outputs(), session.run(None, dict(each)), strict=True):
                assert (found[output.name].shape, found[output.name].dtype) == (wanted.shape, wanted.dtype)
                np.testing.assert_allclose(found[output.name], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("given", [(), ("end",), ("start", "end", "step")])
@pytest.mark.parametrize("largest", [LARGEST, (1 << 31) - 1])
def test_backward_slice_to_the_largest_integer(given: Any, largest: int) -> None:
    """It was empty."""
    slices = [node("Slice", ["x", "start", "end", "", "step"], ["y"])]
    bounds = [
        ([3, 4], [largest, largest], [-1, -2]),
        ([2, 0], [largest, largest], [-2, 1]),
        ([-1, -1], [0, 1], [-1, -1]),
    ]
    values = [dict(zip(("start", "end", "step"), map(np.int64, each), strict=True)) for each in bounds]
    for value in values if len(given) < 3 else values[:1]:
        inputs = {"x": X, **{name: value[name] for name in given}}
        constants = {name: each for name, each in value.items() if name not in given}
        others = [{"x": X, **each} for each in values] if len(given) == 3 else [inputs]
        check(model(slices, inputs, ["y"], constants, 13), *others)


@pytest.mark.parametrize(
    ("extents", "attributes"),
    [
        ((5, 6), {"kernel_shape": [3, 2]}),
        ((5, 6), {"kernel_shape": [3, 2], "strides": [2, 1], "storage_order": 1}),
        ((6,), {"kernel_shape": [3], "pads": [2, 0]}),
        ((4, 7), {"kernel_shape": [1, 2], "pads": [0, 1, 0, 1], "ceil_mode": 1}),
        ((4, 5, 6), {"kernel_shape": [2, 2, 3], "strides": [1, 2, 1], "dilations": [1, 1, 2], "storage_order": 1}),
        ((5, 5), {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_indices_of_maxima(extents: tuple[int, ...], attributes: Mapping[str, Any], dtype: Any) -> None:
    """The reference implementation errs where windows are not square, and fails with some pads."""
    given = np.random.default_rng(0).integers(0, 9, (2, 3, *extents)).astype(dtype)  # with equal ones
    check(
        model([node("MaxPool", ["x"], ["y", "places"], **attributes)], {"x": given}, ["y", "places"], {}, 12),
        {"x": given},
    )


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("condition", [[True, False, True], [False], [True] * 3 + [False], []])
def test_a_selection_by_a_constant_has_a_known_extent(axis: int | None, condition: list[bool]) -> None:
    """It had a length, and was refused beside constants of this length."""
    chosen = np.compress(condition, X, axis=axis)
    nodes = [
        node("Compress", ["x", "condition"], ["part"], **({} if axis is None else {"axis": axis})),
        node("Max", ["part", "limit"], ["y"]),
    ]
    constants = {"condition": np.array(condition, bool), "limit": np.full(chosen.shape, 7, np.float32)}
    check(model(nodes, {"x": X}, ["y"], constants, 13), {"x": X}, {"x": 2 * X})


@pytest.mark.parametrize("reduction", ["add", "mul"])
@pytest.mark.parametrize("operator", ["ScatterElements", "ScatterND"])
def test_sums_and_products_of_scattered_truth_values(operator: str, reduction: str) -> None:
    """They were refused."""
    places = np.array([[0, 1, 0], [3, 1, 1]]) if operator == "ScatterElements" else np.array([[0, 1], [0, 1], [-1, 2]])
    updates = np.array([[True, False, False], [False, True, True]])
    constants = {"places": places, "updates": updates if operator == "ScatterElements" else updates[0]}
    made = model(
        [node(operator, ["x", "places", "updates"], ["y"], reduction=reduction)], {"x": X > 9}, ["y"], constants, 16
    )
    check(made, {"x": X > 9}, {"x": X < 9})


def test_places_of_extrema_of_scalars() -> None:
    """The error was an `IndexError`'s text; ONNX Runtime computes them if it does not know the shape beforehand."""
    nodes = [node("ArgMax", ["x"], ["most"]), node("ArgMin", ["x"], ["least"], keepdims=0)]
    with syclsched.compile(model(nodes, {"x": X[0, 0]}, ["most", "least"], {}, 13), devices="cpu") as compiled:
        for found in compiled(np.float32(2)).values():
            np.testing.assert_array_equal(found, np.array(0))
