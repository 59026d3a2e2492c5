# SPDX-License-Identifier: Apache-2.0
"""MaxPool with places of maxima, on the device and on the host, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import TensorProto, helper  # noqa: E402
from support.small_models import model_of  # noqa: E402

pytestmark = pytest.mark.sycl

RANDOM = np.random.default_rng(20)


def check(made: Any, *inputs: dict[str, Any]) -> None:
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    with syclsched.compile(made, devices="cpu", autotune=False) as compiled:
        for each in inputs:
            got = compiled(each)
            for name, value in zip(names, session.run(None, each), strict=True):
                np.testing.assert_array_equal(got[name], value, err_msg=name)


def pool(outputs: list[str], x: str = "x", **attributes: Any) -> Any:
    return helper.make_node("MaxPool", [x], outputs, **attributes)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((2, 2, 6, 7), {"kernel_shape": [2, 3], "pads": [-1, -2, -1, 0]}),
        ((2, 2, 6), {"kernel_shape": [3], "strides": [3], "pads": [0, -2], "ceil_mode": 1}),
        ((1, 2, 5, 7), {"kernel_shape": [2, 3], "strides": [3, 3], "pads": [-2, -2, -1, -1], "ceil_mode": 1}),
        ((2, 2, 7, 6), {"kernel_shape": [1, 2], "strides": [2, 1], "pads": [-2, 1, -1, 0], "ceil_mode": 1}),
    ],
)
def test_places_with_negative_pads(shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    """They were refused; ONNX Runtime refuses them, and has the cropped value instead."""
    x, kinds = RANDOM.standard_normal(shape).astype(np.float32), {"places": TensorProto.INT64}
    rank = len(shape) - 2
    pads = zip(shape[2:], attributes["pads"][:rank], attributes["pads"][rank:], strict=True)
    cut = (..., *(slice(-min(first, 0), n + min(last, 0)) for n, first, last in pads))
    margins = {**attributes, "pads": [max(n, 0) for n in attributes["pads"]]}
    cropped = model_of([pool(["y", "places"], **margins)], {"x": None}, ["y", "places"], opset=12, dtypes=kinds)
    session = ort.InferenceSession(cropped.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted, places = session.run(None, {"x": x[cut]})
    made = model_of([pool(["y", "places"], **attributes)], {"x": None}, ["y", "places"], opset=12, dtypes=kinds)
    with syclsched.compile(made, devices="cpu", autotune=False) as compiled:
        got = compiled(x)
    np.testing.assert_array_equal(got["y"], wanted)
    numbers = np.arange(x.size).reshape(shape)[cut]
    np.testing.assert_array_equal(got["places"], numbers.reshape(-1)[places])


@pytest.mark.parametrize("kind", ["float32", "float64", "uint8"])
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [2, 2]},
        {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": "SAME_LOWER", "storage_order": 1},
        {"kernel_shape": [2, 3], "dilations": [2, 1], "pads": [1, 0, 0, 1], "ceil_mode": 1, "strides": [2, 2]},
    ],
)
def test_places_in_values_whose_length_follows_from_values(kind: str, axis: int, attributes: dict[str, Any]) -> None:
    """They were those of onnx's reference implementation, which are others, as its results are with ``auto_pad``."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes = [
        helper.make_node("Cast", ["end"], ["to"], to=TensorProto.INT64),
        helper.make_node("Slice", ["x", "zero", "to", "axis"], ["part"]),
        pool(["y", "places"], "part", **attributes),
    ]
    made = model_of(
        nodes,
        {"x": (5, 4, 7, 6), "end": (1,)},
        ["y", "places"],
        {"zero": [0], "axis": [axis]},
        opset=12,
        dtypes={"x": element, "y": element, "places": TensorProto.INT64},
    )
    x = RANDOM.integers(0, 99, (5, 4, 7, 6)).astype(kind)
    check(made, *({"x": x, "end": np.array([end], np.float32)} for end in (4, 3, 5)))


def test_integers_of_unknown_length_in_windows_of_the_same_number() -> None:
    """It was refused: minus infinity is no integer."""
    nodes = [
        helper.make_node("Cast", ["end"], ["to"], to=TensorProto.INT64),
        helper.make_node("Slice", ["x", "zero", "to", "axis"], ["part"]),
        pool(["y"], "part", kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_LOWER"),
    ]
    kinds = {"x": TensorProto.UINT8, "y": TensorProto.UINT8}
    made = model_of(nodes, {"x": (2, 3, 9, 6), "end": (1,)}, ["y"], {"zero": [0], "axis": [2]}, opset=12, dtypes=kinds)
    x = RANDOM.integers(0, 255, (2, 3, 9, 6)).astype(np.uint8)
    check(made, *({"x": x, "end": np.array([end], np.float32)} for end in (4, 7, 5)))


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "pads"),
    [(3, 2, 2, (0, 0)), (3, 2, 2, (0, 1)), (3, 3, 2, (1, 0)), (2, 2, 1, (0, 1)), (3, 2, 1, (0, 2)), (3, 3, 1, (2, 1))],
)
def test_windows_beyond_short_values(kernel: int, stride: int, dilation: int, pads: tuple[int, int]) -> None:
    """With ``ceil_mode`` there was a window where none begins."""
    nodes = [
        helper.make_node("Cast", ["end"], ["to"], to=TensorProto.INT64),
        helper.make_node("Slice", ["x", "zero", "to", "axis"], ["part"]),
        pool(
            ["y", "places"],
            "part",
            kernel_shape=[kernel],
            strides=[stride],
            dilations=[dilation],
            pads=pads,
            ceil_mode=1,
        ),
    ]
    kinds = {"places": TensorProto.INT64}
    constants = {"zero": [0], "axis": [2]}
    made = model_of(nodes, {"x": (2, 2, 9), "end": (1,)}, ["y", "places"], constants, opset=12, dtypes=kinds)
    x = RANDOM.integers(0, 9, (2, 2, 9)).astype(np.float32)
    check(made, *({"x": x, "end": np.array([end], np.float32)} for end in range(9, 1, -1)))


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": "SAME_LOWER", "storage_order": 1},
        {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"kernel_shape": [2, 3], "dilations": [2, 1], "pads": [1, 0, 1, 1], "ceil_mode": 1, "strides": [2, 2]},
    ],
)
def test_places_in_buckets(attributes: dict[str, Any]) -> None:
    """They were refused."""
    kinds = {"places": TensorProto.INT64}
    shape = ("n", "c", "h", "w")
    made = model_of([pool(["y", "places"], **attributes)], {"x": shape}, ["y", "places"], opset=12, dtypes=kinds)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    buckets = dict.fromkeys(shape, 8)
    with syclsched.compile(made, devices="cpu", autotune=False, buckets=buckets) as compiled:
        for size in ((2, 3, 5, 8), (1, 2, 6, 3), (3, 8, 4, 7)):
            x = RANDOM.integers(-9, 9, size).astype(np.float32)
            for got, wanted in zip(compiled(x).values(), session.run(None, {"x": x}), strict=True):
                np.testing.assert_array_equal(got, wanted)
        assert len(compiled.kept_shapes) == 1
