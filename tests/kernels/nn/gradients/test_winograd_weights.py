# SPDX-License-Identifier: Apache-2.0
"""Gradient of a convolution's weights by minimal filtering."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import NO_SHRINKING, UNCHECKED, close, described, numbers, on_host, unwritten

from syclsched.kernels import nn
from syclsched.kernels.nn.gradients.conv_weights import conv_weights
from syclsched.kernels.nn.gradients.winograd_weights import SUMS, GradientTiling, with_sums
from syclsched.model.operation import DeviceLimits, Operation, Signature

NAME = "opencl-c-winograd"
Arrays = dict[str, np.ndarray]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Operation, Arrays]:
    """Draw a gradient and its arrays."""
    pads = tuple(draw(st.lists(st.integers(0, 2), min_size=4, max_size=4)))
    high, wide, batch = draw(st.integers(4, 20)), draw(st.integers(4, 20)), draw(st.integers(1, 3))
    inside, outside = (16 * draw(st.integers(1, 4)) for _ in range(2))
    image = (batch, high + pads[0] + pads[2] - 2, wide + pads[1] + pads[3] - 2, outside)
    arrays = {"y": unwritten((outside, inside, 3, 3), "float32"), "x": numbers(batch, high, wide, inside)}
    return conv_weights(2, (), pads, channels_last=True), arrays | {"dy": numbers(*image, seed=1)}


def by_sums(run: Any, operation: Operation, arrays: Arrays, units: int) -> np.ndarray:
    """Return the result of the two kernels, for a device with this number of compute units."""
    found = with_sums(operation, described(operation, arrays), units)
    assert found is not None
    held = {**arrays, SUMS: unwritten(found[1], "float32")}
    for part in found[0].implementation(NAME).load(described(found[0], held)):
        given = {own: held[whole] for own, whole in part.arguments}
        made = run(part.operation, NAME, given)
        held |= {whole: made[own] for own, whole in part.arguments if own in made}
    return held["y"]


@pytest.mark.sycl
@given(case=cases(), units=st.sampled_from([1, 2, 3, 7]))
@settings(max_examples=examples(12), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices_sum(run: Any, case: tuple[Operation, Arrays], units: int) -> None:
    operation, arrays = case
    close(by_sums(run, operation, arrays, units), on_host(operation, arrays), "float32")


@pytest.mark.sycl
def test_sums_of_more_tiles_than_scratch_holds(run: Any) -> None:
    operation = conv_weights(2, (), (1,) * 4, channels_last=True)
    arrays = {"y": unwritten((96, 80, 3, 3), "float32"), "x": numbers(3, 40, 40, 80), "dy": numbers(3, 40, 40, 96)}
    close(by_sums(run, operation, arrays, 2), on_host(operation, arrays), "float32")


@given(
    st.integers(1, 64),
    st.integers(3, 130),
    st.integers(1, 32),
    st.integers(1, 32),
    st.sampled_from([1, 2, 16, 64, 200]),
)
@settings(max_examples=examples(200), deadline=None)
def test_sums_fit_and_all_compute_units_have_work(
    batch: int, extent: int, inside: int, outside: int, units: int
) -> None:
    image = (batch, extent, extent)
    shapes = {"y": (16 * outside, 16 * inside, 3, 3), "x": (*image, 16 * inside), "dy": (*image, 16 * outside)}
    found = with_sums(
        conv_weights(2, (), (1,) * 4, channels_last=True), Signature(shapes, dict.fromkeys(shapes, "float32")), units
    )
    if found is None:
        assert 16 * 16 * inside * outside * 16 * 4 > 4 << 20
        return
    blocks, places, *channels = found[1]
    assert channels == [16 * inside, 16 * outside]
    assert 4 * np.prod(found[1]) <= 32 << 20 or blocks == 1
    step = found[0].steps[0].operation.implementation(NAME)
    assert step.launch is not None
    given = Signature({**shapes, SUMS: found[1]}, dict.fromkeys((*shapes, SUMS), "float32"))
    launch = step.launch(given, DeviceLimits(64, units, 1 << 15))
    assert launch.global_range[0] == blocks
    assert launch.global_range[1] * 8 <= 16 * outside
    tiles = batch * (-(-extent // (4 if places == 36 else 2))) ** 2
    assert blocks <= min(tiles, units)
    m = 4 if places == 36 else 2
    tiled = GradientTiling(m, 1, 1, tiles, *channels, nn_block(channels[1]), blocks)
    assert 2 * tiled.places * tiled.plane * 4 <= 4 << 20
    assert tiled.most >= 1


def nn_block(outside: int) -> Any:
    from syclsched.kernels.nn.gradients.winograd_weights import _block

    return _block(outside)


@pytest.mark.parametrize(
    ("operation", "kernel", "channels"),
    [
        (conv_weights(2, (), (1,) * 4), 3, 16),
        (conv_weights(2, (2, 2), (1,) * 4, channels_last=True), 3, 16),
        (conv_weights(2, channels_last=True), 1, 16),
        (conv_weights(2, (), (1,) * 4, channels_last=True), 3, 24),
        (conv_weights(2, (), (1,) * 4, channels_last=True), 3, 1024),
        (nn.conv(2, (), (1,) * 4, channels_last=True), 3, 16),
    ],
)
def test_other_operations_are_left_as_they_are(operation: Operation, kernel: int, channels: int) -> None:
    shapes = {"y": (channels, channels, kernel, kernel), "x": (1, 14, 14, channels), "dy": (1, 14, 14, channels)}
    assert with_sums(operation, Signature(shapes, dict.fromkeys(shapes, "float32")), 2) is None
