# SPDX-License-Identifier: Apache-2.0
"""Gradients of pooling, compared with the definition, window by window."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import NO_SHRINKING, UNCHECKED, close, implementations, last, numbers, on_host, unwritten

from syclsched.errors import ArgumentError
from syclsched.kernels.nn.gradients.pool_gradient import _PoolGradient, pool_gradient
from syclsched.model.operation import Operation, Signature

Case = tuple[Operation, dict[str, np.ndarray], np.ndarray, str]


def defined(
    mode: str, x: Any, dy: Any, kernel: Any, strides: Any, pads: Any, dilations: Any, include: bool
) -> np.ndarray:
    """Return the gradient: each window's value goes to its first largest element, or to all in equal parts."""
    ndim, y = x.ndim - 2, np.zeros(x.shape)
    for place in np.ndindex(*dy.shape[2:]):
        axes, padded = [], 1
        for o, k, s, d, n, a, b in zip(
            place, kernel, strides, dilations, x.shape[2:], pads[:ndim], pads[ndim:], strict=True
        ):
            seen = [o * s - a + i * d for i in range(k)]
            axes.append([i for i in seen if 0 <= i < n])
            padded *= sum(-a <= i < n + b for i in seen)
        members = list(itertools.product(*axes))
        for image, channel in np.ndindex(*x.shape[:2]) if members else ():
            number = dy[(image, channel, *place)]
            if mode == "average":
                for member in members:
                    y[(image, channel, *member)] += number / (padded if include else len(members))
                continue
            chosen = members[0]
            for member in members:  # like PyTorch's comparison
                value, best = x[(image, channel, *member)], x[(image, channel, *chosen)]
                if value > best or np.isnan(value):
                    chosen = member
            y[(image, channel, *chosen)] += number
    return y


@st.composite
def poolings(draw: st.DrawFn) -> Case:
    """Draw a gradient of a pooling, its arrays and its expected result."""
    mode, dtype = draw(st.sampled_from(["max", "average"])), draw(st.sampled_from(["float32", "float64"]))
    ndim = draw(st.sampled_from([1, 2, 2, 3]))
    kernel, strides, dilations = (
        tuple(draw(st.lists(st.integers(1, high), min_size=ndim, max_size=ndim))) for high in (3, 3, 2)
    )
    include, channels_last, ceil = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    # A last window outside of the array, after negative pads, has no elements.
    pads = tuple(draw(st.integers(0 if ceil else -1, k)) for k in kernel * 2)
    spatial = tuple(
        max(draw(st.integers(1, 6)), (k - 1) * d + 1 - a - b, 1)
        for k, d, a, b in zip(kernel, dilations, pads[:ndim], pads[ndim:], strict=True)
    )
    results = tuple(
        (-(-(n + a + b - (k - 1) * d - 1) // s) if ceil else (n + a + b - (k - 1) * d - 1) // s) + 1
        for n, a, b, k, d, s in zip(spatial, pads[:ndim], pads[ndim:], kernel, dilations, strides, strict=True)
    )
    shape = (draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 16, 19])))
    # Few different numbers, so that windows have several largest ones.
    x = np.round(numbers(*shape, *spatial, dtype=dtype) * 0.7)
    if draw(st.booleans()):
        x[(0, ..., 0)] = draw(st.sampled_from([np.nan, -np.inf]))
    dy = numbers(*shape, *results, dtype=dtype, seed=1)
    wanted = defined(mode, x, dy, kernel, strides, pads, dilations, include)
    if channels_last:
        x, dy, wanted = last(x), last(dy), last(wanted)
    operation = pool_gradient(mode, kernel, strides, pads, dilations, include, channels_last)
    return operation, {"y": unwritten(x.shape, dtype), "x": x, "dy": dy}, wanted, dtype


@given(poolings())
@settings(max_examples=examples(60), deadline=None)
def test_the_host(case: Case) -> None:
    operation, arrays, wanted, dtype = case
    close(on_host(operation, arrays), wanted, dtype)


@pytest.mark.sycl
@pytest.mark.parametrize("name", implementations(pool_gradient("max", (2, 2))))
@given(case=poolings())
@settings(max_examples=examples(40), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices(run: Any, name: str, case: Case) -> None:
    operation, arrays, wanted, dtype = case
    close(run(operation, name, arrays)["y"], wanted, dtype)


@pytest.mark.sycl
@pytest.mark.parametrize(("images", "channels", "channels_last"), [(64, 70, True), (40, 3, False), (30, 3, True)])
def test_many_images(run: Any, images: int, channels: int, channels_last: bool) -> None:
    # A work-item computes an image's, or several of its rows.
    operation = pool_gradient("max", (3, 3), (2, 2), (1,) * 4, (), False, channels_last)
    x, dy = np.round(numbers(images, channels, 33, 7) * 4), numbers(images, channels, 17, 4, seed=1)
    if channels_last:
        x, dy = last(x), last(dy)
    arrays = {"y": unwritten(x.shape, "float32"), "x": x, "dy": dy}
    close(run(operation, "opencl-c", arrays)["y"], on_host(operation, arrays), "float32")


@pytest.mark.parametrize("channels", [1, 6, 16, 24, 70])
def test_no_two_work_items_add_to_the_same_channels(channels: int) -> None:
    shapes = {"y": (2, 9, 5, channels), "x": (2, 9, 5, channels), "dy": (2, 5, 3, channels)}
    of_maxima = _PoolGradient.of(Signature(shapes, dict.fromkeys(shapes, "float32")), "max", True)
    assert of_maxima.panels * of_maxima.width == channels


@pytest.mark.sycl
def test_empty_inputs_give_empty_results(run: Any) -> None:
    operation = pool_gradient("max", (2, 2), (2, 2), channels_last=True)
    arrays = {"y": numbers(0, 4, 4, 3), "x": numbers(0, 4, 4, 3), "dy": numbers(0, 2, 2, 3)}
    assert run(operation, "opencl-c", arrays)["y"].size == 0
    assert on_host(operation, arrays).size == 0


def test_other_modes_are_refused() -> None:
    with pytest.raises(ArgumentError, match="max or average"):
        pool_gradient("median", (2, 2))
