# SPDX-License-Identifier: Apache-2.0
"""Convolution by minimal filtering with variable weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import NO_SHRINKING, UNCHECKED, close, described, numbers, on_host, unwritten

from syclsched.kernels import nn
from syclsched.kernels.nn.convolution import winograd
from syclsched.kernels.nn.convolution.winograd_filters import with_filters
from syclsched.model.operation import Operation, Signature

NAME = "opencl-c-winograd"
Arrays = dict[str, np.ndarray]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Operation, Arrays]:
    """Draw a convolution, or a transposed one, and its arrays."""
    is_transposed = draw(st.booleans())
    pads = tuple(draw(st.lists(st.integers(0, 2), min_size=4, max_size=4)))
    high, wide = (draw(st.integers(6, 20)) for _ in range(2))
    batch, inside, outside = draw(st.integers(1, 3)), draw(st.integers(16, 70)), draw(st.integers(16, 70))
    activation = draw(st.sampled_from([(), (("relu",),)]))
    bias = draw(st.booleans())
    if is_transposed:
        operation = nn.conv_transpose(2, (), pads, channels_last=True, activation=activation, bias=bias)
        w, grown = numbers(inside, outside, 3, 3), [2 - pads[axis] - pads[axis + 2] for axis in range(2)]
    else:
        operation = nn.conv(2, (), pads, channels_last=True, activation=activation, bias=bias)
        w, grown = numbers(outside, inside, 3, 3), [pads[axis] + pads[axis + 2] - 2 for axis in range(2)]
    arrays = {"y": unwritten((batch, high + grown[0], wide + grown[1], outside), "float32")}
    arrays |= {"x": numbers(batch, high, wide, inside), "w": w}
    return operation, arrays | ({"b": numbers(outside)} if bias else {})


def run_steps(run: Any, operation: Operation, name: str, arrays: Arrays) -> np.ndarray:
    """Return the result of an implementation that is a sequence of kernels, one after another."""
    held = dict(arrays)
    for part in operation.implementation(name).load(described(operation, arrays)):
        given = {own: held[whole] for own, whole in part.arguments}
        made = run(part.operation, part.implementation.name, given)
        held |= {whole: made[own] for own, whole in part.arguments if own in made}
    return held["y"]


@pytest.mark.sycl
@given(case=cases())
@settings(max_examples=examples(12), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices_convolve(run: Any, case: tuple[Operation, Arrays]) -> None:
    operation, arrays = case
    found = with_filters(operation, described(operation, arrays))
    if found is None:  # images that are too small
        return
    whole, shape = found
    given = {**arrays, "filters": unwritten(shape, "float32")}
    wanted = on_host(operation, arrays)
    np.testing.assert_array_equal(on_host(whole, given), wanted)
    close(run_steps(run, whole, NAME, given), wanted, "float32")


@pytest.mark.sycl
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize(("extent", "outside"), [(28, 40), (7, 24)])
def test_devices_transform_filters(run: Any, extent: int, outside: int, is_transposed: bool) -> None:
    made = nn.conv_transpose if is_transposed else nn.conv
    operation, image = made(2, (), (1,) * 4, channels_last=True), (1, extent, extent)
    w = numbers(16, outside, 3, 3) if is_transposed else numbers(outside, 16, 3, 3)
    arrays = {"y": unwritten((*image, outside), "float32"), "x": numbers(*image, 16), "w": w}
    found = with_filters(operation, described(operation, arrays))
    assert found is not None
    got = run(found[0].steps[0].operation, NAME, {"filters": unwritten(found[1], "float32"), "w": w})["filters"]
    places = got.shape[0]
    straight = w[:, :, ::-1, ::-1].swapaxes(0, 1) if is_transposed else w
    wanted = winograd.filters(straight.transpose(2, 3, 1, 0), winograd.outputs_of(places))
    # Columns after the last output channel may have any values.
    close(got.transpose(0, 2, 1, 3).reshape(places, 16, -1)[..., :outside], wanted, "float32")


def test_tiles_suit_the_batch_if_weights_change() -> None:
    """Images of 8 x 8 are divided into tiles of 2 with constant weights, and into others if there is one image."""
    operation = nn.conv(2, (), (1,) * 4, channels_last=True)

    def places(images: int) -> int:
        shapes = {"y": (images, 8, 8, 32), "x": (images, 8, 8, 16), "w": (32, 16, 3, 3)}
        found = with_filters(operation, Signature(shapes, dict.fromkeys(shapes, "float32")))
        assert found is not None
        return found[1][0]

    assert (places(1), places(32)) == (16, 36)


@pytest.mark.sycl
@pytest.mark.parametrize("name", ["opencl-c", NAME])
def test_implementations_by_kernels_take_the_further_array(run: Any, name: str) -> None:
    operation = nn.conv(2, (), (1,) * 4, channels_last=True, bias=True, residual=True)
    arrays = {"y": unwritten((2, 14, 14, 32), "float32"), "x": numbers(2, 14, 14, 16), "w": numbers(32, 16, 3, 3)}
    arrays |= {"b": numbers(32), "r": numbers(2, 14, 14, 32)}
    found = with_filters(operation, described(operation, arrays))
    assert found is not None
    given = {**arrays, "filters": unwritten(found[1], "float32")}
    close(run_steps(run, found[0], name, given), on_host(operation, arrays), "float32")


@pytest.mark.parametrize(
    ("operation", "shapes", "why"),
    [
        (nn.conv(2, (), (1,) * 4), ((1, 32, 28, 28), (1, 16, 28, 28), (32, 16, 3, 3)), "channels first"),
        (
            nn.conv(2, (2, 2), (1,) * 4, channels_last=True),
            ((1, 14, 14, 32), (1, 28, 28, 16), (32, 16, 3, 3)),
            "strides",
        ),
        (nn.conv(2, channels_last=True), ((1, 28, 28, 32), (1, 28, 28, 16), (32, 16, 1, 1)), "other kernels"),
        (
            nn.conv(2, (), (1,) * 4, channels_last=True),
            ((1, 28, 28, 32), (1, 28, 28, 3), (32, 3, 3, 3)),
            "few channels",
        ),
        (
            nn.conv(2, (), (1,) * 4, channels_last=True),
            ((1, 28, 28, 1024), (1, 28, 28, 1024), (1024, 1024, 3, 3)),
            "large filters",
        ),
        (
            nn.conv_transpose(2, (), (3,) * 4, channels_last=True),
            ((1, 24, 24, 32), (1, 28, 28, 16), (16, 32, 3, 3)),
            "pads beyond the kernel",
        ),
        (
            nn.conv_transpose(2, (), (1,) * 4, channels_last=True, output_padding=1),  # type: ignore[arg-type]
            ((1, 29, 29, 32), (1, 28, 28, 16), (16, 32, 3, 3)),
            "output padding",
        ),
        (nn.pool("max", (3, 3)), ((1, 16, 26, 26), (1, 16, 28, 28), ()), "no convolution"),
    ],
)
def test_other_operations_are_left_as_they_are(operation: Operation, shapes: Any, why: str) -> None:
    given = Signature(dict(zip("yxw", shapes, strict=True)), dict.fromkeys("yxw", "float32"))
    assert with_filters(operation, given) is None, why


def test_constant_weights_are_transformed_in_advance() -> None:
    operation = nn.conv(2, (), (1,) * 4, channels_last=True)
    shapes = {"y": (1, 28, 28, 32), "x": (1, 28, 28, 16), "w": (32, 16, 3, 3)}
    assert with_filters(operation, Signature(shapes, dict.fromkeys(shapes, "float32"))) is not None
    assert with_filters(operation, Signature(shapes, dict.fromkeys(shapes, "float32"), {}, frozenset("w"))) is None
