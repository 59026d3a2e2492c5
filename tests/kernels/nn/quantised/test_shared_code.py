# SPDX-License-Identifier: Apache-2.0
"""Kernels whose constants are arguments, so that layers that differ in them share code."""

from __future__ import annotations

from typing import Any

import numpy as np

from syclsched.kernels.nn.quantised.finishing import Finish
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


def test_integer_products_that_differ_in_scales_share_code() -> None:
    shapes: dict[str, Any] = {"y": (4, 16), "x": (4, 8), "w": (8, 16), "s": ()}
    dtypes = {"y": "uint8", "x": "uint8", "w": "int8", "s": "float32"}
    signature = Signature(dtypes=dtypes, shapes=shapes)
    one, other = (
        code_of(integer_matmul(Finish(scaled=True, symmetric=True, quantise=given)), signature)
        for given in ((0.5, 3), (0.125, 120))
    )
    assert one.source == other.source
    assert (numbers(one), numbers(other)) == ([0.5, 3.0], [0.125, 120.0])
