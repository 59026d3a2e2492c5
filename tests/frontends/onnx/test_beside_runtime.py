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
