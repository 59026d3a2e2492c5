# SPDX-License-Identifier: Apache-2.0
"""Pooling, local response normalisation and im2col, compared with their definitions, element by element."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import NO_SHRINKING, UNCHECKED, close, implementations, last, numbers, on_host, quick, unwritten

from syclsched.errors import ArgumentError
from syclsched.kernels import nn
from syclsched.kernels.nn import activation as act
from syclsched.model.operation import Operation

Case = tuple[Operation, dict[str, np.ndarray], np.ndarray, str]


def pooled(mode: str, x: Any, sizes: Any, kernel: Any, strides: Any, pads: Any, dilations: Any, count: bool) -> Any:
    """Return the pooling by its definition."""
    ndim = x.ndim - 2
    y = np.zeros((*x.shape[:2], *sizes), "float64")
    for place in np.ndindex(*sizes):
        axes, padded = [], 1
        for o, k, s, d, n, a, b in zip(
            place, kernel, strides, dilations, x.shape[2:], pads[:ndim], pads[ndim:], strict=True
        ):
            seen = [o * s - a + i * d for i in range(k)]
            axes.append([i for i in seen if 0 <= i < n])
            padded *= sum(-a <= i < n + b for i in seen)
        found = [x[(slice(None), slice(None), *i)] for i in itertools.product(*axes)]
        if mode == "max":
            y[(slice(None), slice(None), *place)] = np.maximum.reduce(found) if found else -np.inf
        else:
            y[(slice(None), slice(None), *place)] = sum(found) / (padded if count else len(found))
    return y


#: Element-wise finishes of results.
RELU = (("relu",),)


@st.composite
def poolings(draw: st.DrawFn) -> Case:
    """Draw a pooling, its arrays and its expected result."""
    mode = draw(st.sampled_from(["max", "average"]))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    ndim = draw(st.sampled_from([1, 2, 2, 3]))
    kernel, strides, dilations = (
        tuple(draw(st.lists(st.integers(1, high), min_size=ndim, max_size=ndim))) for high in (3, 3, 2)
    )
    # A window within the pads alone has no mean.
    pads = tuple(draw(st.integers(0, k - 1)) if d == 1 else 0 for k, d in zip(kernel * 2, dilations * 2, strict=True))
    spatial = tuple(max(draw(st.integers(1, 7)), (k - 1) * d + 1) for k, d in zip(kernel, dilations, strict=True))
    count, channels_last, ceil = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    sizes = tuple(
        min(-((n + a + b - (k - 1) * d - 1) // -s) if ceil else 10**6, (n + a + b - (k - 1) * d - 1) // s + ceil) + 1
        for n, a, b, k, d, s in zip(spatial, pads[:ndim], pads[ndim:], kernel, dilations, strides, strict=True)
    )
    # As in PyTorch: no window begins after the array.
    sizes = tuple(m - ((m - 1) * s >= n + a) for m, s, n, a in zip(sizes, strides, spatial, pads[:ndim], strict=True))
    x = numbers(draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 16, 37])), *spatial, dtype=dtype)
    if draw(st.booleans()):
        x[(0, 0, *[0] * ndim)] = np.nan
    wanted = pooled(mode, x, sizes, kernel, strides, pads, dilations, count)
    activation = draw(st.sampled_from([(), (), (("relu",),), (("scale", 0.5), ("clip", -0.25, 0.5))]))
    wanted = act.numpy(act.checked(activation), wanted)
    if channels_last:
        x, wanted = last(x), last(wanted)
    operation = nn.pool(mode, kernel, strides, pads, dilations, count, channels_last, activation)
    return operation, {"y": unwritten(wanted.shape, dtype), "x": x}, wanted, dtype


@st.composite
def responses(draw: st.DrawFn) -> Case:
    """Draw a local response normalisation, its arrays and its expected result."""
    dtype = draw(st.sampled_from(["float32", "float64"]))
    size, channels_last = draw(st.integers(1, 6)), draw(st.booleans())
    spatial = draw(st.sampled_from([(), (3,), (2, 3)]))
    alpha, beta, bias = draw(st.sampled_from([(1e-4, 0.75, 1.0), (0.5, 0.5, 2.0), (0.1, 1.1, 1.5)]))
    x = numbers(2, draw(st.integers(1, 20)), *spatial, dtype=dtype)
    total = np.zeros(x.shape)
    for channel in range(x.shape[1]):
        low, high = max(0, channel - (size - 1) // 2), channel + size // 2 + 1
        total[:, channel] = (x[:, low:high].astype("float64") ** 2).sum(axis=1)
    wanted = x / (bias + alpha / size * total) ** beta
    if channels_last:
        x, wanted = last(x), last(wanted)
    operation = nn.lrn(alpha, beta, bias, size, channels_last)
    return operation, {"y": unwritten(wanted.shape, dtype), "x": x}, wanted, dtype


@st.composite
def unfoldings(draw: st.DrawFn) -> Case:
    """Draw the windows of im2col: with weights they make the convolution of the host."""
    dtype = draw(st.sampled_from(["float32", "float64"]))
    kernel = draw(st.sampled_from([(1,), (3,), (2, 3), (3, 3), (2, 1, 2)]))
    strides = tuple(draw(st.integers(1, 2)) for _ in kernel)
    dilations = tuple(draw(st.integers(1, 2)) for _ in kernel)
    pads = tuple(draw(st.integers(0, 2)) for _ in kernel * 2)
    channels_last = draw(st.booleans())
    x = numbers(2, 3, *(draw(st.integers(5, 8)) for _ in kernel), dtype=dtype)
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[: len(kernel)], pads[len(kernel) :], strict=True)])
    span = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(padded, span, axis=tuple(range(2, 2 + len(kernel))))
    view = view[(..., *(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilations))]
    rank = len(kernel)
    outputs, taps = tuple(range(2, 2 + rank)), tuple(range(2 + rank, 2 + 2 * rank))
    windows, seen = int(np.prod(view.shape[2 : 2 + rank])), 3 * int(np.prod(kernel))
    if channels_last:
        x, wanted = last(x), view.transpose(0, *outputs, *taps, 1).reshape(2, windows, seen)
    else:
        wanted = view.transpose(0, 1, *taps, *outputs).reshape(2, seen, windows)
    operation = nn.im2col(kernel, strides, pads, dilations, channels_last)
    return operation, {"y": unwritten(wanted.shape, dtype), "x": x}, wanted, dtype


KINDS = {"pool": poolings(), "lrn": responses(), "im2col": unfoldings()}
OPERATIONS = {"pool": nn.pool("max", (2,)), "lrn": nn.lrn(), "im2col": nn.im2col((2,))}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=examples(50), deadline=None)
def test_host_results_equal_the_definition(kind: str, data: st.DataObject) -> None:
    operation, arrays, wanted, dtype = data.draw(KINDS[kind])
    close(on_host(operation, arrays), wanted, dtype)


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize(("kind", "name"), [(k, n) for k, o in OPERATIONS.items() for n in quick(o)])
@given(data=st.data())
@settings(max_examples=examples(8), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_device_results_equal_the_definition(run: Any, kind: str, name: str, data: st.DataObject) -> None:
    operation, arrays, wanted, dtype = data.draw(KINDS[kind])
    close(run(operation, name, arrays)["y"], wanted, dtype)


@pytest.mark.sycl
@pytest.mark.parametrize("kind", OPERATIONS)
@given(data=st.data())
@settings(max_examples=3, deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_python_kernel_results_equal_the_definition(run: Any, kind: str, data: st.DataObject) -> None:
    operation, arrays, wanted, dtype = data.draw(KINDS[kind])
    close(run(operation, "python", arrays)["y"], wanted, dtype)


def test_the_largest_of_whole_numbers() -> None:
    x = np.array([[[-5, -7, -128]]], "int8")
    y = unwritten((1, 1, 3), "int8")
    got = on_host(nn.pool("max", (3,), pads=(1, 1)), {"y": y, "x": x})
    np.testing.assert_array_equal(got, [[[-5, -5, -7]]])


@pytest.mark.sycl
def test_the_largest_of_whole_numbers_in_numba_dpex(run: Any) -> None:
    x = np.array([[[-5, -7, -128]]], "int8")
    got = run(nn.pool("max", (3,), pads=(1, 1)), "python", {"y": unwritten((1, 1, 3), "int8"), "x": x})["y"]
    np.testing.assert_array_equal(got, [[[-5, -5, -7]]])


@pytest.mark.sycl
@pytest.mark.parametrize("name", ["opencl-c", "python"])
@pytest.mark.parametrize(
    ("operation", "shape", "wanted", "dtype"),
    [
        (
            nn.pool("max", (3, 2), (2, 1), (1, 0, 1, 1), (1, 2), channels_last=True),
            (2, 7, 6, 37),
            (2, 4, 5, 37),
            "float32",
        ),
        (nn.pool("max", (2,), (2,), (1, 0), channels_last=True), (3, 9, 16), (3, 5, 16), "int16"),
        (nn.pool("average", (2, 3), (1, 2), (1, 1, 0, 1), channels_last=True), (1, 5, 7, 70), (1, 5, 4, 70), "float64"),
        (nn.pool("average", (3, 3), (2, 2), (1,) * 4, (), True, True), (2, 5, 6, 130), (2, 3, 3, 130), "float32"),
        (nn.pool("average", (2, 2, 2), channels_last=True), (1, 3, 4, 2, 33), (1, 2, 3, 1, 33), "float32"),
    ],
    ids=["overlapping", "whole numbers", "64 bits", "pads count", "three axes"],
)
def test_channels_in_vectors(
    run: Any, name: str, operation: Operation, shape: tuple[int, ...], wanted: tuple[int, ...], dtype: str
) -> None:
    x = (numbers(*shape) * 9).astype(dtype)
    if dtype == "float32":
        x[0, 1, 1, ..., 5:40:7] = np.nan
    as_on_the_host(run, name, operation, {"y": unwritten(wanted, dtype), "x": x}, dtype)


@pytest.mark.sycl
@pytest.mark.parametrize("name", ["opencl-c", "python"])
@pytest.mark.parametrize(
    ("operation", "shape", "wanted", "dtype"),
    [
        (nn.pool("max", (3, 3), (2, 2), (1,) * 4), (2, 3, 9, 67), (2, 3, 5, 34), "float32"),
        (nn.pool("max", (2, 3), (1, 1), (0, 2, 1, 2), (1, 2)), (1, 2, 4, 21), (1, 2, 4, 21), "int16"),
        (nn.pool("average", (2, 3), (1, 2), (1, 1, 0, 2)), (2, 1, 3, 40), (2, 1, 3, 21), "float64"),
        (nn.pool("average", (3,), (1,), (1, 1), (), True, activation=RELU), (3, 2, 18), (3, 2, 18), "float32"),
        (nn.pool("max", (2, 3, 4), (1, 2, 3), (1, 1, 2) * 2, (2, 1, 1)), (2, 2, 4, 5, 70), (2, 2, 4, 3, 24), "float32"),
        (nn.pool("average", (3, 11), (2, 9)), (2, 2, 7, 200), (2, 2, 3, 22), "float32"),
        (nn.pool("max", (2, 2), (2, 2)), (2, 300, 3, 35), (2, 300, 2, 18), "int8"),
        (nn.pool("max", (5, 9)), (2, 3, 5, 9), (2, 3, 1, 1), "float32"),
        (nn.pool("average", (5, 9), activation=RELU), (2, 3, 5, 9), (2, 3, 1, 1), "float64"),
    ],
    ids=[
        "every second",
        "dilated whole numbers",
        "64 bits",
        "pads count",
        "three axes",
        "far apart",
        "bytes, rounded up",
        "largest of a channel",
        "mean of a channel",
    ],
)
def test_lines_in_vectors(
    run: Any, name: str, operation: Operation, shape: tuple[int, ...], wanted: tuple[int, ...], dtype: str
) -> None:
    x = (numbers(*shape) * 9).astype(dtype)
    if dtype == "float32":
        x[0, 1, ..., 5:40:7], x[1, 0] = np.nan, -np.inf
    as_on_the_host(run, name, operation, {"y": unwritten(wanted, dtype), "x": x}, dtype)


@pytest.mark.sycl
@pytest.mark.parametrize("name", ["opencl-c", "python"])
@pytest.mark.parametrize(
    ("operation", "shape", "wanted", "dtype"),
    [
        (nn.im2col((3, 3), pads=(1,) * 4), (2, 3, 4, 56), (2, 27, 224), "float32"),
        (nn.im2col((2, 5), (1, 2), (0, 3, 1, 1), (1, 2)), (1, 2, 3, 75), (1, 20, 108), "float64"),
        (nn.im2col((3,), (7,), (2, 0)), (1, 2, 200), (1, 6, 29), "float32"),
        (nn.im2col((1, 4), (1, 1), (0, 9, 0, 9)), (2, 1, 2, 5), (2, 4, 40), "float32"),
        (nn.im2col((40,), (3,), (20, 20)), (1, 1, 230), (1, 40, 77), "float32"),
        (nn.im2col((3, 2), (1, 2), (1,) * 4, (1, 2), True), (2, 4, 7, 37), (2, 16, 222), "float32"),
        (nn.im2col((2,), (1,), (3, 0), channels_last=True), (1, 5, 16), (1, 7, 32), "float64"),
    ],
    ids=[
        "neighbours",
        "every second",
        "far apart",
        "more pads than elements",
        "many places",
        "channels last",
        "more pads than places",
    ],
)
def test_windows_along_long_lines(
    run: Any, name: str, operation: Operation, shape: tuple[int, ...], wanted: tuple[int, ...], dtype: str
) -> None:
    x = numbers(*shape, dtype=dtype)
    x[..., ::9] = np.nan
    arrays = {"y": unwritten(wanted, dtype), "x": x}
    np.testing.assert_array_equal(run(operation, name, arrays)["y"], on_host(operation, arrays))


@pytest.mark.sycl
@pytest.mark.parametrize("name", ["opencl-c", "python"])
@pytest.mark.parametrize(
    ("operation", "shape", "dtype"),
    [
        (nn.lrn(channels_last=True), (2, 3, 2, 256), "float32"),
        (nn.lrn(0.5, size=4, channels_last=True), (1, 2, 37), "float32"),
        (nn.lrn(0.5, size=6), (5, 70), "float64"),
        (nn.lrn(0.5, 0.6, 2.0, size=3), (2, 7, 40, 41), "float32"),
        (nn.lrn(0.5), (1, 130, 5, 9), "float64"),
        (nn.lrn(0.5, size=99, channels_last=True), (2, 60), "float32"),
    ],
    ids=["many channels", "a part of a vector", "no places", "long lines", "lines and parts", "all neighbours"],
)
def test_many_channels_and_pixels(
    run: Any, name: str, operation: Operation, shape: tuple[int, ...], dtype: str
) -> None:
    x = numbers(*shape, dtype=dtype)
    x[..., -1], x[(-1, -1, *[0] * (len(shape) - 2))] = 1e30, np.nan
    arrays = {"y": unwritten(shape, dtype), "x": x}
    with np.errstate(over="ignore"):
        wanted = on_host(operation, arrays)
    got = run(operation, name, arrays)["y"]
    large = np.abs(wanted) > 1e6
    close(np.where(large, 0, got), np.where(large, 0, wanted), dtype)
    np.testing.assert_allclose(got[large], wanted[large], rtol=1e-5)


def as_on_the_host(run: Any, name: str, operation: Operation, arrays: dict[str, np.ndarray], dtype: str) -> None:
    got, expected = run(operation, name, arrays)["y"], on_host(operation, arrays)
    if dtype.startswith("float"):
        close(got, expected, dtype)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.sycl
@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("channels", [1, 20])
def test_means_of_empty_windows_are_nan(run: Any, channels: int, channels_last: bool) -> None:
    x = numbers(2, channels, 33)
    wanted = np.concatenate([np.full((2, channels, 1), np.nan, "float32"), x], axis=2)
    if channels_last:
        x, wanted = last(x), last(wanted)
    operation = nn.pool("average", (1,), (), (1, 0), channels_last=channels_last)
    arrays = {"y": np.zeros_like(wanted), "x": x}
    for name in implementations(operation):
        close(run(operation, name, arrays)["y"], wanted, "float32")


def test_empty_inputs_give_empty_results() -> None:
    for operation in (nn.pool("max", (2, 2)), nn.pool("average", (2, 2)), nn.im2col((2, 2))):
        shape = (0, 3, 4, 4) if "pool" in operation.name else (0, 12, 16)
        assert on_host(operation, {"y": unwritten(shape, "float32"), "x": numbers(0, 3, 5, 5)}).size == 0


def test_other_modes_are_refused() -> None:
    with pytest.raises(ArgumentError, match="max or average"):
        nn.pool("median", (2, 2))
    with pytest.raises(ArgumentError, match="at least 1"):
        nn.lrn(size=0)
