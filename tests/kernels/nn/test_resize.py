# SPDX-License-Identifier: Apache-2.0
"""Resize against onnx's reference implementation, for all of ONNX's conventions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_nodes import node
from operations import NO_SHRINKING, UNCHECKED, close, implementations, numbers, on_host, unwritten

from syclsched.errors import ArgumentError
from syclsched.kernels import nn
from syclsched.kernels.nn.resize import COORDINATES, MODES, NEAREST
from syclsched.model.operation import Operation

#: Opsets that have the last one are tried beside ONNX Runtime (tests/frontends/onnx/test_opsets.py).
REFERENCED = tuple(name for name in COORDINATES if name != "tf_half_pixel_for_nn")

Case = tuple[Operation, dict[str, np.ndarray], np.ndarray, str]


@st.composite
def resizings(draw: st.DrawFn) -> Case:
    """A resize, its arrays and what it must give."""
    dtype = draw(st.sampled_from(["float32", "float64"]))
    mode, coordinates, nearest = (draw(st.sampled_from(each)) for each in (MODES, REFERENCED, NEAREST))
    ndim = draw(st.sampled_from([1, 2, 2, 3])) if mode != "cubic" else 2
    x = numbers(1, 2, *(draw(st.integers(1, 5)) for _ in range(ndim)), dtype=dtype)
    scales = [1.0, 1.0, *(draw(st.sampled_from([0.5, 0.625, 1.0, 1.3, 2.0, 3.0])) for _ in range(ndim))]
    sizes = [math.floor(n * s) for n, s in zip(x.shape, scales, strict=True)]
    scales = [s if n else 1.0 for n, s in zip(sizes, scales, strict=True)]
    sizes = [math.floor(n * s) for n, s in zip(x.shape, scales, strict=True)]
    exclude, cubic = draw(st.booleans()), draw(st.sampled_from([-0.75, -0.5]))
    roi: list[float] = []
    if coordinates == "tf_crop_and_resize":
        begins = [draw(st.sampled_from([0.0, 0.25, -0.5])) for _ in range(ndim)]
        roi = [0.0, 0.0, *begins, 1.0, 1.0, *(begin + draw(st.sampled_from([0.5, 1.0])) for begin in begins)]
    wanted = node(
        "Resize",
        x,
        np.array(roi, dtype),
        np.array(scales, "float32"),
        mode=mode,
        coordinate_transformation_mode=coordinates,
        nearest_mode=nearest,
        cubic_coeff_a=cubic,
        exclude_outside=int(exclude and mode == "cubic"),
        extrapolation_value=-3.0,
    )
    assert list(wanted.shape) == sizes
    given_scales = [float(np.float32(s)) for s in scales]
    operation = nn.resize(mode, coordinates, nearest, given_scales, roi, cubic, exclude, -3.0)
    return operation, {"y": unwritten(wanted.shape, dtype), "x": x}, wanted, dtype


@given(resizings())
@settings(max_examples=150, deadline=None)
def test_the_host_resizes(case: Case) -> None:
    operation, arrays, wanted, _ = case
    close(on_host(operation, arrays), wanted, "float32")


@pytest.mark.sycl
@pytest.mark.parametrize("name", implementations(nn.resize("nearest", "asymmetric")))
@given(case=resizings())
@settings(max_examples=10, deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices_resize(run: Any, name: str, case: Case) -> None:
    operation, arrays, wanted, _ = case
    close(run(operation, name, arrays)["y"], wanted, "float32")


def test_whole_numbers_are_picked() -> None:
    x = np.array([[1, 2]], "int64")
    got = on_host(nn.resize("nearest", "asymmetric", "floor", (1, 2)), {"y": unwritten((1, 4), "int64"), "x": x})
    np.testing.assert_array_equal(got, [[1, 1, 2, 2]])


def test_nothing_in_nothing_out() -> None:
    operation = nn.resize("linear", "half_pixel", scales=(1, 2))
    assert on_host(operation, {"y": unwritten((0, 4), "float32"), "x": numbers(0, 2)}).size == 0


def test_other_modes_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no mode 'lanczos'"):
        nn.resize("lanczos", "half_pixel")
    with pytest.raises(ArgumentError, match="no coordinates"):
        nn.resize("linear", "center")
    with pytest.raises(ArgumentError, match="positive"):
        nn.resize("linear", "half_pixel", scales=(1, 0))
