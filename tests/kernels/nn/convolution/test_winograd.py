# SPDX-License-Identifier: Apache-2.0
"""Convolution by minimal filtering: the transforms, the distribution of work, and the kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import NO_SHRINKING, UNCHECKED, close, numbers, on_host, placed_in, unwritten

from syclsched.kernels import nn
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.convolution import winograd, winograd_opencl, winograd_tiling
from syclsched.model.operation import DeviceLimits, Implementation, Operation, Signature

NAME = "opencl-c-winograd"


def minimal(operation: Operation) -> Implementation:
    """Return the implementation."""
    return operation.implementation(NAME)


def signature(
    extent: int = 28, inside: int = 32, outside: int = 48, *, batch: int = 1, kernel: int = 3, known: bool = True
) -> Signature:
    """Return the signature of a convolution that keeps an image's size."""
    image = (batch, extent, extent)
    shapes = {"y": (*image, outside), "x": (*image, inside), "w": (outside, inside, kernel, kernel)}
    return Signature(shapes, dict.fromkeys(shapes, "float32"), {}, frozenset("w" if known else ""))


def run_lines(lines: list[str], values: dict[str, Any]) -> None:
    """Run generated statements as Python code on arrays."""
    text = re.sub(r"(-?)(0x[0-9a-f.]+p[+-]\d+)f", r"float.fromhex('\1\2')", " ".join(lines))
    for statement in text.replace("const AV ", "").replace("(AV)", "").translate(str.maketrans("{}", "  ")).split(";"):
        exec(statement.strip(), {"fma": lambda a, b, c: a * b + c}, values)


@pytest.mark.parametrize("m", winograd.POINTS)
def test_the_transforms_compute_the_filter(m: int) -> None:
    random = np.random.default_rng(m)
    given, taps = random.standard_normal((m + 2, m + 2)), random.standard_normal((3, 3))
    d, made = [f"d{i}" for i in range(m + 2)], [f"t{i}" for i in range(m + 2)]

    def along(lines: list[str], names: list[str], results: list[str], array: np.ndarray) -> np.ndarray:
        values: dict[str, Any] = dict(zip(names, array, strict=True))
        run_lines(lines, values)
        return np.stack([values[name] for name in results])

    transformed = given
    for _ in range(2):
        transformed = along(winograd.inputs(m, d, made), d, made, transformed).T
    product = transformed * winograd.filters(taps, m).reshape(m + 2, m + 2)
    for _ in range(2):
        product = along(winograd.results(m, d, made[:m]), d, made[:m], product).T
    wanted = [[(given[i : i + 3, j : j + 3] * taps).sum() for j in range(m)] for i in range(m)]
    np.testing.assert_allclose(product, wanted, atol=1e-12)


def test_only_suitable_convolutions_have_the_implementation() -> None:
    names = {each.name for each in nn.conv(2, channels_last=True).implementations}
    assert NAME in names
    for other in (
        nn.conv(2),
        nn.conv(1, channels_last=True),
        nn.conv(2, (2, 1), channels_last=True),
        nn.conv(2, dilations=(1, 2), channels_last=True),
        nn.conv(2, groups=2, channels_last=True),
    ):
        assert NAME not in {each.name for each in other.implementations}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (signature(), None),
        (signature(kernel=1), "3x3"),
        (signature(known=False), "constant"),
        (signature(inside=3), "channels or more"),
        (signature(outside=8), "channels or more"),
        (signature(extent=4), "saves nothing"),
        (signature(batch=0), "saves nothing"),
        (signature(inside=40_000), "too much"),
    ],
)
def test_unsuitable_convolutions_are_refused(given: Signature, reason: str | None) -> None:
    requires = minimal(nn.conv(2, channels_last=True)).requires
    assert requires.refuses is not None
    told = requires.refuses(given)
    assert told is None if reason is None else reason in str(told)


@pytest.mark.parametrize(("is_small", "registers"), [(False, 32), (True, 16)])
@given(
    st.integers(1, 40),
    st.integers(5, 130),
    st.sampled_from([16, 64, 200, 512, 2048]),
    st.sampled_from([16, 24, 96, 512]),
    st.integers(1, 80),
)
@settings(max_examples=examples(200), deadline=None)
def test_blocks_and_parts_cover_all_and_fit(
    is_small: bool, registers: int, batch: int, extent: int, inside: int, outside: int, units: int
) -> None:
    given = signature(extent, inside, outside, batch=batch)
    with on_processor(is_small):
        tiled = winograd_tiling.tiling(given)
        launch = winograd_tiling.launch(given, DeviceLimits(64, units, 1 << 15))
    assert tiled.block.width == registers // 2
    assert tiled.down * tiled.m >= extent > (tiled.down - 1) * tiled.m
    assert tiled.panels * tiled.block.columns >= outside
    # The sums, the weights, and one input.
    assert (tiled.block.rows + 1) * tiled.block.vectors < registers
    blocks, parts = launch.global_range
    assert -(-tiled.tiles // blocks) <= tiled.most
    assert parts <= tiled.panels
    assert tiled.scratch_bytes(tiled.most) <= winograd_tiling.SCRATCH_BYTES or tiled.most == tiled.block.rows


@contextmanager
def on_processor(is_small: bool) -> Iterator[None]:
    """Let the host's processor have few and short registers, or many."""
    cached = (winograd_tiling._tiling, winograd_tiling._partition)
    for each in cached:
        each.cache_clear()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(panels, "has_small_registers", lambda: is_small)
            yield
    finally:
        for each in cached:
            each.cache_clear()


def test_an_image_is_cut_alike_alone_and_in_a_batch() -> None:
    for extent in range(6, 60):
        assert winograd_tiling.tiling(signature(extent)).m == winograd_tiling.tiling(signature(extent, batch=9)).m


@st.composite
def cases(draw: st.DrawFn) -> tuple[Operation, dict[str, np.ndarray]]:
    """Draw a convolution and its arrays."""
    inside, outside = draw(st.sampled_from([(16, 16), (17, 33), (40, 24), (64, 96), (23, 65), (70, 48)]))
    pads = tuple(draw(st.lists(st.integers(-1, 3), min_size=4, max_size=4)))
    extents = (draw(st.integers(8, 31)), draw(st.integers(8, 31)))
    bias, residual = draw(st.booleans()), draw(st.booleans())
    in_place = residual and draw(st.booleans())
    activation = draw(st.sampled_from([(), (("relu",),), (("clip", -0.5, 0.75),), (("silu",),)]))
    operation = nn.conv(2, (), pads, (), 1, True, activation, bias, residual, in_place)
    batch = draw(st.integers(1, 3))
    outputs = tuple(size + pads[a] + pads[a + 2] - 2 for a, size in enumerate(extents))
    arrays = {
        "y": unwritten((batch, *outputs, outside), "float32"),
        "x": numbers(batch, *extents, inside),
        # Errors are relative to the summands: an activation must not hide their size.
        "w": numbers(outside, inside, 3, 3) / np.float32(3 * inside**0.5),
    }
    if bias:
        arrays["b"] = numbers(outside)
    if residual:
        arrays["r"] = numbers(batch, *outputs, outside, seed=1)
    return operation, placed_in(arrays) if in_place else arrays


@pytest.mark.sycl
@given(case=cases())
@settings(max_examples=examples(12), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices_convolve(run: Any, case: tuple[Operation, dict[str, np.ndarray]]) -> None:
    operation, arrays = case
    wanted = on_host(operation, arrays)
    close(run(operation, NAME, arrays, constants=("w",))["y"], wanted, "float32")


@pytest.mark.sycl
@pytest.mark.parametrize("extent", [7, 14, 28])
def test_an_image_of_a_batch_has_the_bits_it_has_alone(run: Any, extent: int) -> None:
    operation = nn.conv(2, (), (1,) * 4, channels_last=True, activation=(("relu",),), bias=True)
    arrays = {"y": unwritten((5, extent, extent, 40), "float32"), "x": numbers(5, extent, extent, 32)}
    arrays |= {"w": numbers(40, 32, 3, 3), "b": numbers(40)}
    together = run(operation, NAME, arrays, constants=("w",))["y"]
    for image in range(5):
        one = {name: each[image : image + 1] if name in "xy" else each for name, each in arrays.items()}
        np.testing.assert_array_equal(run(operation, NAME, one, constants=("w",))["y"][0], together[image])


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize("extent", [14, 28])
def test_rounding_stays_near_that_of_the_sum(run: Any, extent: int) -> None:
    operation = nn.conv(2, (), (1,) * 4, channels_last=True)
    arrays = {"x": np.maximum(numbers(1, extent, extent, 256), 0), "w": numbers(64, 256, 3, 3)}
    arrays["y"] = unwritten((1, extent, extent, 64), "float32")
    exact = on_host(operation, {name: each.astype("float64") for name, each in arrays.items()})
    got = run(operation, NAME, arrays, constants=("w",))["y"]
    assert np.abs(got - exact).max() < 5e-6 * np.abs(exact).max()


@pytest.mark.parametrize("m", winograd.POINTS)
def test_filters_of_one_tap_at_infinity(m: int) -> None:
    taps = np.zeros((3, 3))
    taps[2, 2] = 1
    assert winograd.filters(taps, m)[-1] == 1


def test_constant_filters_are_packed_with_zero_padding() -> None:
    given = signature(28, 16, 40)
    w = numbers(40, 16, 3, 3)
    packed = winograd_opencl.prepare(given, None, {"w": w})["w"]
    tiled = winograd_tiling.tiling(given)
    assert packed.shape == (tiled.places, tiled.panels, 16, tiled.block.columns)
    columns = packed.transpose(0, 2, 1, 3).reshape(tiled.places, 16, -1)
    filters = winograd.filters(w.transpose(2, 3, 1, 0), tiled.m)
    np.testing.assert_array_equal(columns[..., :40], filters.astype("float32"))
    assert not columns[..., 40:].any()


def test_transforms_are_loops() -> None:
    operation = nn.conv(2, (1, 1), (1, 1, 1, 1), channels_last=True)
    source = minimal(operation).load(signature()).source
    n = winograd_tiling.tiling(signature()).n
    assert source.count("(uint)(ix + j) < (uint)x_2 ?") == n  # one column of a tile, not all
    assert source.count("#pragma nounroll") == 5 and "#pragma unroll" not in source
    assert "vload" not in re.sub("#define.*", "", source)
