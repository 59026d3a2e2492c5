# SPDX-License-Identifier: Apache-2.0
"""Pooling, normalisations, softmax, resizing, moves and reductions by oneDNN, compared with the host."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import numbers, on_host, unwritten

from syclsched.kernels import nn
from syclsched.kernels.nn.geometry import arranged
from syclsched.kernels.nn.gradients.pool_gradient import pool_gradient
from syclsched.kernels.onednn.operations.data_movement import merged
from syclsched.kernels.tensor.concat import concat
from syclsched.kernels.tensor.reductions.reduce import reduce
from syclsched.kernels.tensor.transpose import transpose
from syclsched.kernels.windows import Window

pytestmark = [pytest.mark.sycl, pytest.mark.instruction_sets]


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_pools(onednn: Any, data: st.DataObject) -> None:
    ndim = data.draw(st.integers(1, 3))

    def each(low: int, high: int, count: int = ndim) -> tuple[int, ...]:
        return tuple(data.draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    kernel, strides = each(1, 4), each(1, 3)
    begins = tuple(data.draw(st.integers(0, k - 1)) for k in kernel)
    ends = tuple(data.draw(st.integers(0, k - 1)) for k in kernel)
    spatial = tuple(max(n, k) for n, k in zip(each(1, 9), kernel, strict=True))
    mode, count, last, ceil = data.draw(
        st.tuples(st.sampled_from(["max", "average"]), *[st.booleans()] * 3)
    )  # fmt: skip
    window = Window(strides, (*begins, *ends), (1,) * ndim)
    sizes, channels = window.extents(spatial, kernel, ceil=ceil), data.draw(st.sampled_from([1, 3, 16, 40]))
    activation = data.draw(st.sampled_from([(), (("relu",),), (("scale", 0.5), ("tanh",))]))
    operation = nn.pool(mode, kernel, strides, window.pads, (), count, last, activation)
    x, y = arranged(2, spatial, channels, last), arranged(2, sizes, channels, last)
    arrays = {"y": unwritten(y, "float32"), "x": numbers(*x)}
    why = onednn.refused(operation, arrays)
    assume(why is None)
    onednn.agrees(operation, arrays)
    if mode == "average":
        gradient = pool_gradient(mode, kernel, strides, window.pads, (), count, last)
        onednn.agrees(gradient, {"y": unwritten(x, "float32"), "x": unwritten(x, "float32"), "dy": numbers(*y)})


def test_unsupported_pools_are_refused(onednn: Any) -> None:
    x = numbers(1, 6, 6, 8)
    gaps = nn.pool("max", (3, 3), dilations=(2, 2), channels_last=True)
    assert "gaps" in str(onednn.refused(gaps, {"y": unwritten((1, 2, 2, 8), "float32"), "x": x}))
    beyond = nn.pool("average", (3, 3), (2, 2), (), (), True, True)
    assert "beyond" in str(onednn.refused(beyond, {"y": unwritten((1, 3, 3, 8), "float32"), "x": x}))
    pads = nn.pool("max", (2, 2), (1, 1), (2, 2, 2, 2), channels_last=True)
    assert "nothing but pads" in str(onednn.refused(pads, {"y": unwritten((1, 9, 9, 8), "float32"), "x": x}))


IMAGES = [(2, 8), (2, 16, 5), (2, 8, 5, 6), (1, 32, 3, 4, 5)]


def image(shape: tuple[int, ...], last: bool) -> dict[str, np.ndarray]:
    shape = arranged(shape[0], shape[2:], shape[1], last)
    return {"y": unwritten(shape, "float32"), "x": numbers(*shape)}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape", IMAGES)
def test_normalisations_of_channels(onednn: Any, shape: tuple[int, ...], last: bool) -> None:
    arrays, channels = image(shape, last), shape[1]
    for size in (1, 3, 5):
        onednn.agrees(nn.lrn(0.02, 0.75, 1.5, size, last), arrays)
    per_channel = {"scale": numbers(channels, seed=1), "bias": numbers(channels, seed=2)}
    known = {"mean": numbers(channels, seed=3), "variance": np.abs(numbers(channels, seed=4))}
    for activation in ((), (("relu",),)):
        onednn.agrees(nn.batch_norm(1e-3, last, activation), {**arrays, **per_channel, **known}, ["scale", "mean"], 5)
    onednn.agrees(nn.group_norm(channels, 1e-3, last), {**arrays, **per_channel}, ["scale", "bias"], 5)
    if not last:
        onednn.agrees(nn.group_norm(4, 1e-3), {**arrays, **per_channel}, factor=5)


def test_unsupported_normalisations_are_refused(onednn: Any) -> None:
    arrays = image((2, 8, 3, 3), True)
    assert "odd" in str(onednn.refused(nn.lrn(size=4, channels_last=True), arrays))
    assert "multiple of 8" in str(onednn.refused(nn.lrn(size=3), image((2, 9, 3, 3), False)))
    extra = {name: numbers(8) for name in ("scale", "bias", "mean", "variance")}
    tanh = nn.batch_norm(channels_last=True, activation=(("tanh",),))
    assert onednn.refused(tanh, {**arrays, **extra}) == "only relu can follow"
    extra = {name: numbers(8) for name in ("scale", "bias")}
    groups = nn.group_norm(4, channels_last=True)
    assert "groups of one" in str(onednn.refused(groups, {**arrays, **extra}))
    followed = nn.group_norm(4, activation=(("relu",),))
    assert onednn.refused(followed, {**image((2, 8, 3), False), **extra}) == "nothing can follow"


@pytest.mark.parametrize(("axis", "bias"), [*itertools.product((-1, 1, 2), (False, True))])
def test_rows_are_normalised(onednn: Any, axis: int, bias: bool) -> None:
    x = numbers(3, 5, 33)
    arrays = {"y": unwritten(x.shape, "float32"), "x": x, "scale": numbers(*x.shape[axis:], seed=1)}
    if bias:
        arrays["b"] = numbers(*x.shape[axis:], seed=2)
    onednn.agrees(nn.layer_norm(axis, 1e-5, bias), arrays, ["scale"], 5)


@pytest.mark.parametrize(("axis", "log"), [*itertools.product((0, 1, -1), (False, True))])
@pytest.mark.parametrize("shape", [(7,), (3, 5, 17), (2, 3, 4, 1)])
def test_softmax(onednn: Any, shape: tuple[int, ...], axis: int, log: bool) -> None:
    if axis < len(shape):
        x = numbers(*shape) * 10
        onednn.agrees(nn.softmax_over(axis, log), {"y": unwritten(shape, "float32"), "x": x}, factor=5)


def test_resizing_is_the_hosts_or_is_refused(onednn: Any) -> None:
    taken = set()
    for coordinates, mode, nearest, (shape, scales) in itertools.product(
        ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"),
        ("nearest", "linear", "cubic"),
        ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"),
        (((2, 3, 4, 5), (1, 1, 2, 2)), ((2, 4, 5, 3), (1, 2, 3, 1)), ((1, 5, 6, 3), (1, 0.4, 1.5, 1))),
    ):
        y = unwritten(tuple(math.floor(n * s) for n, s in zip(shape, scales, strict=True)), "float32")
        arrays = {"y": y, "x": numbers(*shape)}
        operation = nn.resize(mode, coordinates, nearest, scales)
        if onednn.refused(operation, arrays) is None:
            taken.add((coordinates, mode, nearest, scales))
            onednn.agrees(operation, arrays)
    for scales in ((1, 1, 2, 2), (1, 2, 3, 1)):
        assert ("asymmetric", "nearest", "floor", scales) in taken
        assert ("half_pixel", "linear", "floor", scales) in taken
    assert ("asymmetric", "linear", "floor", (1, 1, 2, 2)) not in taken


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("axis", [0, 1, 3])
def test_arrays_one_after_another(onednn: Any, axis: int, dtype: str) -> None:
    parts = {}
    for index, extent in enumerate((3, 1, 4)):
        shape = [2, 3, 4, 5]
        shape[axis] = extent
        parts[f"x{index}"] = (numbers(*shape, seed=index) * 100).astype(dtype)
    y = unwritten(np.concatenate(list(parts.values()), axis).shape, dtype)
    operation, arrays = concat(axis, 3), {"y": y, **parts}
    assert onednn.refused(operation, arrays) is None
    np.testing.assert_array_equal(onednn(operation, arrays), on_host(operation, arrays))


@given(st.permutations(range(5)), st.lists(st.integers(1, 4), min_size=5, max_size=5))
@settings(max_examples=examples(50), deadline=None)
def test_axes_in_another_order(onednn: Any, permutation: list[int], shape: list[int]) -> None:
    x = np.arange(math.prod(shape), dtype="int32").reshape(shape)
    operation = transpose(tuple(permutation))
    arrays = {"y": unwritten(x.transpose(permutation).shape, "int32"), "x": x}
    if refused := onednn.refused(operation, arrays):  # up to 8 lines of at least 16 elements
        assert "few lines" in refused
    else:
        np.testing.assert_array_equal(onednn(operation, arrays), x.transpose(permutation))


def test_transposes_of_few_long_lines_are_refused(onednn: Any) -> None:
    for shape, is_taken in (((3, 16), False), ((8, 40), False), ((9, 16), True), ((8, 15), True)):
        arrays = {"y": unwritten(shape[::-1], "int32"), "x": np.zeros(shape, "int32")}
        assert (onednn.refused(transpose((1, 0)), arrays) is None) == is_taken


@given(st.permutations(range(5)), st.lists(st.integers(1, 4), min_size=5, max_size=5))
def test_merged_axes_have_the_same_transpose(permutation: list[int], shape: list[int]) -> None:
    x = np.arange(math.prod(shape)).reshape(shape)
    few, order = merged(tuple(shape), tuple(permutation))
    assert sorted(order) == list(range(len(few)))
    np.testing.assert_array_equal(x.reshape(few).transpose(order).ravel(), x.transpose(permutation).ravel())


def test_axes_that_stay_adjacent_are_merged() -> None:
    assert merged((2, 56, 56, 64), (0, 3, 1, 2)) == ((2, 3136, 64), (0, 2, 1))
    assert merged((1, 56, 56, 64), (0, 3, 1, 2)) == ((3136, 64), (1, 0))
    assert merged((4, 5), (0, 1)) == ((20,), (0,))


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("axes", [(2,), (1, 2), (0, 1, 2)])
def test_reductions(onednn: Any, mode: str, axes: tuple[int, ...]) -> None:
    x = numbers(3, 4, 17)
    for keepdims in (False, True):
        y = unwritten(x.sum(axis=axes, keepdims=keepdims).shape, "float32")
        onednn.agrees(reduce(mode, axes, keepdims), {"y": y, "x": x})


def test_unsupported_reductions_are_refused(onednn: Any) -> None:
    x = numbers(3, 4, 17)
    cases = (
        ("prod", (2,), "no prod"),
        ("max", (2,), "passes over NaN"),
        ("sum", (0,), "last axes"),
        ("sum", (0, 2), "last axes"),
    )
    for mode, axes, why in cases:
        y = unwritten(x.sum(axis=axes).shape, "float32")
        assert why in str(onednn.refused(reduce(mode, axes), {"y": y, "x": x}))
