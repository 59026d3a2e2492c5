# SPDX-License-Identifier: Apache-2.0
"""Resize, compared with onnx's reference implementation, for all of ONNX's conventions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.onnx_nodes import node
from support.operations import NO_SHRINKING, UNCHECKED, close, implementations, numbers, on_host, unwritten

from syclsched.errors import ArgumentError
from syclsched.kernels import nn
from syclsched.kernels.nn.pooling.resize import COORDINATES, MODES, NEAREST
from syclsched.model.operation import Operation, Signature

#: ``tests/frontends/onnx/test_opsets.py`` compares the last one with ONNX Runtime for its opsets.
REFERENCED = tuple(name for name in COORDINATES if name != "tf_half_pixel_for_nn")

Case = tuple[Operation, dict[str, np.ndarray], np.ndarray, str]


@st.composite
def resizings(draw: st.DrawFn) -> Case:
    """Draw a resize, its arrays and its expected result."""
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
@settings(max_examples=examples(150), deadline=None)
def test_the_host_resizes(case: Case) -> None:
    operation, arrays, wanted, _ = case
    close(on_host(operation, arrays), wanted, "float32")


@pytest.mark.sycl
@pytest.mark.parametrize("name", implementations(nn.resize("nearest", "asymmetric")))
@given(case=resizings())
@settings(max_examples=examples(10), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices_resize(run: Any, name: str, case: Case) -> None:
    operation, arrays, wanted, _ = case
    close(run(operation, name, arrays)["y"], wanted, "float32")


#: Long lines: more than a vector of the result, less and more of the source, repeating and other ratios.
LINES = {
    "twice": (("linear", "half_pixel"), (2, 3, 5, 40), (1, 1, 2, 2), "float32"),
    "three times as many": (("linear", "align_corners"), (1, 2, 4, 50), (1, 1, 1.5, 3), "float64"),
    "one and a half": (("nearest", "asymmetric"), (2, 1, 3, 90), (1, 1, 1, 1.5), "int8"),
    "half": (("linear", "half_pixel"), (1, 3, 6, 150), (1, 1, 0.5, 0.5), "float32"),
    "a fifth": (("linear", "half_pixel"), (1, 3, 6, 150), (1, 1, 1, 0.2), "float32"),
    "no ratio": (("linear", "half_pixel"), (1, 2, 3, 61), (1, 1, 1.37, 1.37), "float32"),
    "few of the source": (("nearest", "half_pixel"), (1, 2, 3, 5), (1, 1, 2, 7), "int64"),
    "cubic": (("cubic", "half_pixel"), (1, 2, 9, 33), (1, 1, 2, 2), "float32"),
    "too long to be written out": (("linear", "half_pixel"), (1, 1, 2, 1500), (1, 1, 1, 1.37), "float32"),
    "one in the source": (("linear", "half_pixel"), (2, 1, 3, 1), (1, 1, 2, 20), "float32"),
    "all axes": (("linear", "half_pixel"), (2, 3, 4, 20), (2, 2, 2, 2), "float32"),
    "channels last": (("linear", "half_pixel"), (1, 5, 9, 37), (1, 2, 3, 1), "float32"),
    "many behind": (("cubic", "half_pixel"), (1, 5, 700), (1, 3, 1), "float64"),
    "a copy": (("linear", "half_pixel"), (3, 70), (1, 1), "float32"),
}


@pytest.mark.sycl
@pytest.mark.parametrize("which", LINES)
def test_lines_in_vectors(run: Any, which: str) -> None:
    how, shape, scales, dtype = LINES[which]
    x = (9 * numbers(*shape)).astype(dtype)
    if dtype == "float32":
        # Elements outside the result are read, too: they must not affect it.
        x[..., 3 % shape[-1]] = x[0, ..., -1] = np.nan
    y = unwritten(tuple(math.floor(n * s) for n, s in zip(shape, scales, strict=True)), dtype)
    operation = nn.resize(*how, scales=scales)
    got, wanted = run(operation, "opencl-c", {"y": y, "x": x})["y"], on_host(operation, {"y": y, "x": x})
    if dtype.startswith("float"):
        close(got, wanted, dtype)
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.sycl
def test_lines_that_leave_the_source(run: Any) -> None:
    x = numbers(1, 2, 4, 40)
    roi = (0, 0, 0.5, -0.25, 1, 1, 1.5, 0.75)
    operation = nn.resize("linear", "tf_crop_and_resize", scales=(1, 1, 1.5, 2), roi=roi, extrapolation=7.0)
    arrays = {"y": unwritten((1, 2, 6, 80), "float32"), "x": x}
    close(run(operation, "opencl-c", arrays)["y"], on_host(operation, arrays), "float32")


def test_a_line_that_repeats_itself_is_a_loop() -> None:
    """The code for a long line is no longer than for a short one if its pattern repeats."""
    texts = []
    for count in (160, 1600):
        operation = nn.resize("linear", "half_pixel", scales=(1, 1, 2, 2))
        signature = Signature({"y": (1, 3, 8, 2 * count), "x": (1, 3, 4, count)}, dict.fromkeys("yx", "float32"))
        texts.append(operation.implementation("opencl-c").load(signature).source)
    assert len(texts[1]) < len(texts[0]) + 100


def test_whole_numbers_are_picked() -> None:
    x = np.array([[1, 2]], "int64")
    got = on_host(nn.resize("nearest", "asymmetric", "floor", (1, 2)), {"y": unwritten((1, 4), "int64"), "x": x})
    np.testing.assert_array_equal(got, [[1, 1, 2, 2]])


def test_empty_inputs_give_empty_results() -> None:
    operation = nn.resize("linear", "half_pixel", scales=(1, 2))
    assert on_host(operation, {"y": unwritten((0, 4), "float32"), "x": numbers(0, 2)}).size == 0


def test_other_modes_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no mode 'lanczos'"):
        nn.resize("lanczos", "half_pixel")
    with pytest.raises(ArgumentError, match="no coordinates"):
        nn.resize("linear", "center")
    with pytest.raises(ArgumentError, match="positive"):
        nn.resize("linear", "half_pixel", scales=(1, 0))
