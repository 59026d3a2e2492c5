# SPDX-License-Identifier: Apache-2.0
"""Half precision where supported, integers, and empty sums, compared with the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.operations import close, numbers, on_host, unwritten

from syclsched.kernels import nn
from syclsched.kernels.nn.gradients.conv_weights import conv_weights
from syclsched.kernels.nn.gradients.pool_gradient import pool_gradient
from syclsched.model.operation import Operation

pytestmark = pytest.mark.sycl

Shapes = dict[str, tuple[int, ...]]


def by_channel(*names: str) -> Shapes:
    return dict.fromkeys(names, (8,))


NORMED: Shapes = {"y": (2, 8, 8, 8), "x": (2, 8, 8, 8)}
CASES: list[tuple[Operation, Shapes]] = [
    (
        nn.conv(2, pads=(1,) * 4, channels_last=True, activation=(("relu",),)),
        {"y": (2, 7, 7, 40), "x": (2, 7, 7, 24), "w": (40, 24, 3, 3)},
    ),
    (nn.conv(2, pads=(1,) * 4), {"y": (2, 40, 7, 7), "x": (2, 24, 7, 7), "w": (40, 24, 3, 3)}),
    (
        nn.conv(2, pads=(1,) * 4, groups=24, channels_last=True),
        {"y": (2, 7, 7, 24), "x": (2, 7, 7, 24), "w": (24, 1, 3, 3)},
    ),
    (nn.conv(2, pads=(1,) * 4, groups=24), {"y": (2, 24, 7, 7), "x": (2, 24, 7, 7), "w": (24, 1, 3, 3)}),
    (nn.conv_transpose(2, (2, 2)), {"y": (1, 5, 6, 6), "x": (1, 3, 3, 3), "w": (3, 5, 2, 2)}),
    (nn.matmul(bias=True), {"y": (5, 33), "a": (5, 20), "b": (20, 33), "c": (33,)}),
    (nn.matmul(bias=True), {"y": (5, 33), "a": (5, 20), "b": (20, 33), "c": (5, 1)}),
    (nn.softmax_over(-1), {"y": (3, 37), "x": (3, 37)}),
    (nn.softmax_over(0), {"y": (3, 37), "x": (3, 37)}),
    (nn.layer_norm(-1, 1e-5, True), {"y": (3, 37), "x": (3, 37), "scale": (37,), "b": (37,)}),
    (nn.im2col((2, 2)), {"y": (1, 8, 16), "x": (1, 2, 5, 5)}),
    (nn.resize("linear", "half_pixel", scales=(1, 1, 2, 2)), {"y": (1, 2, 6, 6), "x": (1, 2, 3, 3)}),
]
for last in (True, False):
    CASES += [
        (nn.group_norm(4, 1e-5, last), NORMED | by_channel("scale", "bias")),
        (nn.group_norm(8, 1e-5, last), NORMED | by_channel("scale", "bias")),
        (nn.batch_norm(1e-5, last), NORMED | by_channel("scale", "bias", "mean", "variance")),
        (nn.lrn(channels_last=last), NORMED),
        (
            nn.pool("average", (2, 2), pads=(1,) * 4, channels_last=last),
            NORMED | {"y": (2, 9, 9, 8) if last else (2, 8, 9, 9)},
        ),
        (nn.pool("max", (8, 8), channels_last=last), NORMED | {"y": (2, 1, 1, 8) if last else (2, 8, 1, 1)}),
        (
            pool_gradient("max", (2, 2), (2, 2), channels_last=last),
            NORMED | {"dy": (2, 4, 4, 8) if last else (2, 8, 4, 4)},
        ),
        (conv_weights(2, pads=(1,) * 4, channels_last=last), NORMED | {"y": (8, 8, 3, 3), "dy": (2, 8, 8, 8)}),
    ]


@pytest.mark.parametrize(("operation", "shapes"), CASES, ids=lambda each: getattr(each, "name", ""))
def test_half_precision(run: Any, queue: Any, operation: Operation, shapes: Shapes) -> None:
    if not queue.sycl_device.has_aspect_fp16:
        pytest.skip("this device has no fp16")
    arrays = {name: numbers(*shape, dtype="float16") for name, shape in shapes.items()}
    arrays["y"] = unwritten(shapes["y"], "float16")
    if "variance" in arrays:
        arrays["variance"] = np.abs(arrays["variance"])
    close(run(operation, "opencl-c", arrays)["y"], on_host(operation, arrays), "float16")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize(
    ("operation", "y", "x"),
    [
        (nn.pool("max", (3,), pads=(1, 1)), (1, 2, 20), (1, 2, 20)),
        (nn.pool("max", (3,), pads=(1, 1), channels_last=True), (1, 2, 20), (1, 2, 20)),
        (nn.resize("nearest", "asymmetric", scales=(1, 2)), (2, 6), (2, 3)),
        (nn.resize("nearest", "asymmetric", scales=(1, 2, 1)), (2, 6, 9), (2, 3, 9)),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_whole_numbers(run: Any, operation: Operation, y: tuple[int, ...], x: tuple[int, ...], dtype: str) -> None:
    low = np.iinfo(dtype).min // 2
    arrays = {"y": unwritten(y, dtype), "x": np.random.default_rng(1).integers(low, 100, x).astype(dtype)}
    np.testing.assert_array_equal(run(operation, "opencl-c", arrays)["y"], on_host(operation, arrays))


def test_empty_sums_give_the_bias(run: Any) -> None:
    arrays = {"y": unwritten((2, 4, 3, 3), "float32"), "x": numbers(2, 0, 5, 5), "w": numbers(4, 0, 3, 3)}
    arrays["b"] = numbers(4)
    got = run(nn.conv(2, bias=True), "opencl-c", arrays)["y"]
    np.testing.assert_array_equal(got, np.broadcast_to(arrays["b"][:, None, None], got.shape))


@pytest.mark.parametrize(
    ("operation", "shapes"),
    [
        (nn.conv(1), {"y": (0, 4, 3), "x": (0, 2, 5), "w": (4, 2, 3)}),
        (nn.matmul(), {"y": (0, 4), "a": (0, 3), "b": (3, 4)}),
        (nn.pool("max", (2,)), {"y": (0, 4, 3), "x": (0, 4, 4)}),
        (nn.softmax_over(1), {"y": (0, 4), "x": (0, 4)}),
        (nn.layer_norm(), {"y": (0, 4), "x": (0, 4), "scale": (4,)}),
        (nn.lrn(), {"y": (0, 4, 3), "x": (0, 4, 3)}),
        (nn.resize("linear", "half_pixel", scales=(1, 2)), {"y": (0, 4), "x": (0, 2)}),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_empty_inputs_give_empty_results(run: Any, operation: Operation, shapes: Shapes) -> None:
    arrays = {name: numbers(*shape) for name, shape in shapes.items()}
    assert run(operation, "opencl-c", arrays)["y"].shape == shapes["y"]
