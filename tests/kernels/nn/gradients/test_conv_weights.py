# SPDX-License-Identifier: Apache-2.0
"""Gradients of convolutions: by weights, compared with the definition, and by data, with transposed convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import NO_SHRINKING, UNCHECKED, close, implementations, last, numbers, on_host, unwritten

from syclsched.kernels.nn.convolution.conv import conv
from syclsched.kernels.nn.convolution.conv_transpose import conv_transpose
from syclsched.kernels.nn.gradients.conv_weights import conv_weights
from syclsched.model.operation import Operation

Arrays = dict[str, np.ndarray]
Case = tuple[Operation, Arrays, np.ndarray, str]
#: Groups, and input and output channels of each.
CHANNELS = [(1, 3, 5), (1, 17, 33), (2, 4, 3), (5, 1, 1), (3, 1, 2), (1, 1, 1), (1, 16, 40)]


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[dict[str, Any], Arrays]:
    """Draw attributes of a convolution, its input x, weights w and the gradient dy of its result, channels first."""
    dtype = draw(st.sampled_from(["float32", "float64"]))
    ndim = draw(st.sampled_from([1, 2, 2, 2, 3]))

    def each(low: int, high: int, count: int = ndim) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    groups, inside, outside = draw(st.sampled_from(CHANNELS))
    kernel, strides, dilations, pads = each(1, 3), each(1, 3), each(1, 2), each(-1, 4, 2 * ndim)
    spatial = tuple(
        max(size, (k - 1) * d + 1 - a - b, 1)
        for size, k, d, a, b in zip(each(1, 7), kernel, dilations, pads[:ndim], pads[ndim:], strict=True)
    )
    results = tuple(
        (n + a + b - (k - 1) * d - 1) // s + 1
        for n, a, b, k, d, s in zip(spatial, pads[:ndim], pads[ndim:], kernel, dilations, strides, strict=True)
    )
    batch = draw(st.integers(1, 3))
    attributes = {"strides": strides, "pads": pads, "dilations": dilations, "groups": groups}
    arrays = {
        "x": numbers(batch, groups * inside, *spatial, dtype=dtype),
        "w": numbers(groups * outside, inside, *kernel, dtype=dtype, seed=1),
        "dy": numbers(batch, groups * outside, *results, dtype=dtype, seed=2),
    }
    return attributes, arrays


def gradients(attributes: dict[str, Any], arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients by weights and by data: every product of the convolution, one by one."""
    x, w, dy = (arrays[name].astype("float64") for name in ("x", "w", "dy"))
    ndim, groups = x.ndim - 2, attributes["groups"]
    inside, outside = w.shape[1], w.shape[0] // groups
    dw, dx = np.zeros(w.shape), np.zeros(x.shape)
    for place in np.ndindex(*dy.shape[2:]):
        for tap in np.ndindex(*w.shape[2:]):
            at = [
                o * s + k * d - a
                for o, s, k, d, a in zip(
                    place, attributes["strides"], tap, attributes["dilations"], attributes["pads"][:ndim], strict=True
                )
            ]
            if not all(0 <= t < n for t, n in zip(at, x.shape[2:], strict=True)):
                continue
            for g in range(groups):
                read, made = slice(g * inside, (g + 1) * inside), slice(g * outside, (g + 1) * outside)
                given_here, x_here = dy[(slice(None), made, *place)], x[(slice(None), read, *at)]
                dw[(made, slice(None), *tap)] += given_here.T @ x_here
                dx[(slice(None), read, *at)] += given_here @ w[(made, slice(None), *tap)]
    return dw, dx


def by_weights(attributes: dict[str, Any], arrays: Arrays, channels_last: bool) -> Case:
    wanted, _ = gradients(attributes, arrays)
    x, dy = arrays["x"], arrays["dy"]
    operation = conv_weights(x.ndim - 2, **attributes, channels_last=channels_last)
    dtype = str(x.dtype)
    placed = {"x": last(x), "dy": last(dy)} if channels_last else {"x": x, "dy": dy}
    return operation, {"y": unwritten(wanted.shape, dtype), **placed}, wanted, dtype


@given(convolutions(), st.booleans())
@settings(max_examples=examples(50), deadline=None)
def test_the_host_computes_gradients_by_weights(case: tuple[dict[str, Any], Arrays], channels_last: bool) -> None:
    operation, arrays, wanted, dtype = by_weights(*case, channels_last)
    close(on_host(operation, arrays), wanted, dtype)


@pytest.mark.sycl
@pytest.mark.parametrize("name", implementations(conv_weights(2)))
@given(case=convolutions(), channels_last=st.booleans())
@settings(max_examples=examples(20), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices_compute_gradients_by_weights(
    run: Any, name: str, case: tuple[dict[str, Any], Arrays], channels_last: bool
) -> None:
    operation, arrays, wanted, dtype = by_weights(*case, channels_last)
    close(run(operation, name, arrays)["y"], wanted, dtype)


def by_data(attributes: dict[str, Any], arrays: Arrays, channels_last: bool) -> Case:
    _, wanted = gradients(attributes, arrays)
    x, w, dy = (arrays[name] for name in ("x", "w", "dy"))
    # The elements that the windows leave out at the end.
    extra = tuple(
        n - ((o - 1) * s + (k - 1) * d + 1 - a - b)
        for n, o, s, k, d, a, b in zip(
            x.shape[2:], dy.shape[2:], attributes["strides"], w.shape[2:], attributes["dilations"],
            attributes["pads"][: x.ndim - 2], attributes["pads"][x.ndim - 2 :], strict=True,
        )
    )  # fmt: skip
    assert all(0 <= e < s for e, s in zip(extra, attributes["strides"], strict=True))
    operation = conv_transpose(x.ndim - 2, **attributes, channels_last=channels_last, output_padding=extra)
    if channels_last:
        dy, wanted = last(dy), last(wanted)
    return operation, {"y": unwritten(wanted.shape, str(x.dtype)), "x": dy, "w": w}, wanted, str(x.dtype)


@given(convolutions(), st.booleans())
@settings(max_examples=examples(50), deadline=None)
def test_a_transposed_convolution_is_the_gradient_by_data(
    case: tuple[dict[str, Any], Arrays], channels_last: bool
) -> None:
    operation, arrays, wanted, dtype = by_data(*case, channels_last)
    close(on_host(operation, arrays), wanted, dtype)


@pytest.mark.sycl
@given(case=convolutions(), channels_last=st.booleans())
@settings(max_examples=examples(20), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices_compute_gradients_by_data(run: Any, case: tuple[dict[str, Any], Arrays], channels_last: bool) -> None:
    operation, arrays, wanted, dtype = by_data(*case, channels_last)
    close(run(operation, "opencl-c", arrays)["y"], wanted, dtype)


@pytest.mark.sycl
def test_sums_of_many_images_and_of_none(run: Any) -> None:
    operation = conv_weights(2, pads=(1,) * 4, channels_last=True)
    x, dy = numbers(64, 16, 16, 3), numbers(64, 16, 16, 20, seed=1)
    arrays = {"y": unwritten((20, 3, 3, 3), "float32"), "x": x, "dy": dy}
    exact = {name: each.astype("float64") for name, each in arrays.items()}
    got = run(operation, "opencl-c", arrays)["y"]
    # Sums of 16,384 products, each image's apart: a single sum in float32 has a larger error.
    np.testing.assert_allclose(got, on_host(operation, exact), atol=3e-4)
    np.testing.assert_array_equal(run(operation, "opencl-c", arrays)["y"], got)
    arrays |= {"x": x[:0], "dy": dy[:0]}
    assert not run(operation, "opencl-c", arrays)["y"].any()
    assert not on_host(operation, arrays).any()


def test_shapes_that_do_not_fit_are_named() -> None:
    from syclsched.model.operation import Signature

    operation = conv_weights(1, (2,), groups=2)
    assert operation.check is not None

    def said(y: tuple[int, ...], x: tuple[int, ...], dy: tuple[int, ...]) -> str | None:
        shapes = {"y": y, "x": x, "dy": dy}
        return operation.check(Signature(shapes, dict.fromkeys(shapes, "float32")))  # type: ignore[misc]

    assert said((4, 3, 3), (1, 6, 9), (1, 4, 4)) is None
    assert (
        said((4, 3, 3), (1, 6, 9), (1, 4, 5)) == "dy of x (1, 6, 9) and weights (4, 3, 3) is (1, 4, 4), not (1, 4, 5)"
    )
    assert "does not fit the 5 channels" in str(said((4, 3, 3), (1, 5, 9), (1, 4, 4)))
    assert "3 axes each" in str(said((4, 3), (1, 6, 9), (1, 4, 4)))


def test_weight_gradient_of_transposed_convolution() -> None:
    forward = conv_transpose(2, (2, 1), (1, 0, 0, 1), groups=2)
    x, w = numbers(2, 4, 3, 4, dtype="float64"), numbers(4, 3, 3, 2, dtype="float64")
    dy = numbers(2, 6, 6, 4, dtype="float64", seed=3)
    got = on_host(
        conv_weights(2, (2, 1), (1, 0, 0, 1), groups=2), {"y": unwritten(w.shape, "float64"), "x": dy, "dy": x}
    )
    step = numbers(*w.shape, dtype="float64", seed=4)
    moved = [
        on_host(forward, {"y": unwritten(dy.shape, "float64"), "x": x, "w": w + sign * step}) for sign in (1.0, -1.0)
    ]
    np.testing.assert_allclose((got * step).sum(), ((moved[0] - moved[1]) / 2 * dy).sum(), rtol=1e-12)
    back = on_host(conv(2, (2, 1), (1, 0, 0, 1), groups=2), {"y": unwritten(x.shape, "float64"), "x": dy, "w": w})
    np.testing.assert_allclose((back * x).sum(), (got * w).sum(), rtol=1e-12)
