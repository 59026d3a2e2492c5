# SPDX-License-Identifier: Apache-2.0
"""Kernels whose constants are arguments, so that layers that differ in them share code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syclsched.kernels.nn.quantised.finishing import Finish
from syclsched.kernels.nn.quantised.integer_conv import integer_conv
from syclsched.kernels.nn.quantised.integer_matmul import integer_matmul
from syclsched.kernels.tensor.elementwise import elementwise
from syclsched.model.operation import DeviceLimits, OpenCLSource, Signature, Tailored

LIMITS = DeviceLimits(max_work_group_size=64, compute_units=2, local_memory_bytes=1 << 16)


def code_of(operation: Any, signature: Signature) -> OpenCLSource:
    """Return the code of an operation's implementation for all devices."""
    loaded = operation.implementation("opencl-c").load(signature)
    made = loaded.of(LIMITS) if isinstance(loaded, Tailored) else loaded
    assert isinstance(made, OpenCLSource)
    return made


def numbers(code: OpenCLSource) -> list[float]:
    return [float(each) for each in np.array(code.extents, np.int32).view(np.float32)]


def test_expressions_that_differ_in_constants_share_code() -> None:
    signature = Signature(dtypes={"y": "float32", "x0": "float32"}, shapes={"y": (8, 8), "x0": (8, 8)})
    one, other = (code_of(elementwise(("div", 0, ("const", scale, "float32")), 1), signature) for scale in (0.25, 1.7))
    assert one.source == other.source
    assert 0.25 in numbers(one) and float(np.float32(1.7)) in numbers(other)


def product_of(rows: int, terms: int, columns: int, quantise: tuple[float, int] = (0.5, 3)) -> OpenCLSource:
    shapes: dict[str, Any] = {"y": (rows, columns), "x": (rows, terms), "w": (terms, columns), "s": ()}
    dtypes = {"y": "uint8", "x": "uint8", "w": "int8", "s": "float32"}
    finish = Finish(scaled=True, symmetric=True, quantise=quantise)
    return code_of(integer_matmul(finish), Signature(dtypes=dtypes, shapes=shapes))


def convolution_of(size: int, inside: int, outside: int) -> OpenCLSource:
    shapes = {"y": (1, size, size, outside), "x": (1, size, size, inside), "w": (outside, inside, 3, 3), "z": ()}
    dtypes = {"y": "int32", "x": "uint8", "w": "int8", "z": "uint8"}
    operation = integer_conv(2, pads=(1, 1, 1, 1), channels_last=True)
    return code_of(operation, Signature(dtypes=dtypes, shapes=shapes))


def test_integer_products_that_differ_in_scales_share_code() -> None:
    one, other = (product_of(4, 8, 16, given) for given in ((0.5, 3), (0.125, 120)))
    assert one.source == other.source
    changed = [pair for pair in zip(numbers(one), numbers(other), strict=True) if pair[0] != pair[1]]
    assert changed == [(0.5, 0.125), (3.0, 120.0)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (product_of(128, 384, 512), product_of(50, 512, 1024)),
        (product_of(1, 6000, 64), product_of(1, 5000, 640)),
        (convolution_of(28, 64, 96), convolution_of(14, 128, 256)),
    ],
    ids=["products", "of long rows", "convolutions"],
)
def test_integer_products_of_other_shapes_share_code(one: OpenCLSource, other: OpenCLSource) -> None:
    assert one.source == other.source
    assert one.extents != other.extents
