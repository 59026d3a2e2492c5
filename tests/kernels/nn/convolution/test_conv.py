# SPDX-License-Identifier: Apache-2.0
"""Convolutions and transposed convolutions, compared with onnx's reference implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.grouped import GPUS
from support.onnx_nodes import node
from support.operations import (
    NO_SHRINKING,
    UNCHECKED,
    close,
    implementations,
    last,
    numbers,
    on_host,
    placed_in,
    quick,
    unwritten,
)

from syclsched.errors import ArgumentError
from syclsched.kernels import groups, nn
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Operation, Signature

Case = tuple[Operation, dict[str, np.ndarray], np.ndarray, str]


@st.composite
def convolutions(draw: st.DrawFn, *, dtypes: tuple[str, ...] = ("float32", "float64"), most: int = 9) -> Case:
    """Draw an operation, its arrays and its expected result."""
    dtype = draw(st.sampled_from(dtypes))
    ndim = draw(st.sampled_from([1, 2, 2, 2, 3]))

    def each(low: int, high: int, count: int = ndim) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    groups, inside, outside = draw(
        st.sampled_from([(1, 3, 5), (1, 17, 33), (2, 4, 3), (4, 1, 1), (19, 1, 1), (3, 1, 2), (1, 1, 1), (1, 64, 40)])
    )
    kernel, strides, dilations, pads = each(1, 3), each(1, 3), each(1, 2), each(0, 2, 2 * ndim)
    spatial = tuple(
        max(size, (k - 1) * d + 1 - a - b)
        for size, k, d, a, b in zip(each(1, most), kernel, dilations, pads[:ndim], pads[ndim:], strict=True)
    )
    bias, residual, channels_last = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    activation = draw(st.sampled_from([(), (("relu",),), (("clip", -0.5, 0.75),), (("silu",),)]))
    x = numbers(draw(st.integers(1, 2)), groups * inside, *spatial, dtype=dtype)
    w = numbers(groups * outside, inside, *kernel, dtype=dtype)
    b = numbers(groups * outside, dtype=dtype) if bias else None
    wanted = node("Conv", x, w, b, strides=strides, dilations=dilations, pads=pads, group=groups).astype(dtype)
    arrays = {"x": x, "w": w}
    if b is not None:
        arrays["b"] = b
    if residual:
        arrays["r"] = numbers(*wanted.shape, dtype=dtype, seed=1)
        wanted = wanted + arrays["r"]
    wanted = nn.activation.numpy(nn.activation.checked(activation), wanted)
    if channels_last:
        wanted, arrays = last(wanted), {k: last(v) if k in "xr" else v for k, v in arrays.items()}
    in_place = residual and draw(st.booleans())
    operation = nn.conv(ndim, strides, pads, dilations, groups, channels_last, activation, bias, residual, in_place)
    arrays = {"y": unwritten(wanted.shape, dtype), **arrays}
    return operation, placed_in(arrays) if in_place else arrays, wanted, dtype


@st.composite
def transposes(draw: st.DrawFn) -> Case:
    """Draw a transposed convolution, its arrays and its expected result."""
    dtype = draw(st.sampled_from(["float32", "float64"]))
    ndim = draw(st.sampled_from([1, 2, 2, 3]))

    def each(low: int, high: int, count: int = ndim) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    groups, inside, outside = draw(st.sampled_from([(1, 3, 5), (2, 2, 3), (3, 1, 1), (1, 17, 2)]))
    kernel, strides, dilations = each(1, 3), each(1, 3), each(1, 2)
    extra = tuple(draw(st.integers(0, s - 1)) for s in strides)
    pads = tuple(draw(st.integers(0, (k - 1) * d)) // 2 for k, d in zip(kernel * 2, dilations * 2, strict=True))
    spatial = each(1, 4)
    bias, channels_last = draw(st.booleans()), draw(st.booleans())
    x = numbers(draw(st.integers(1, 2)), groups * inside, *spatial, dtype=dtype)
    w = numbers(groups * inside, outside, *kernel, dtype=dtype)
    b = numbers(groups * outside, dtype=dtype) if bias else None
    wanted = _transposed(x, w, b, groups, strides, pads, dilations, extra)
    arrays = {"x": x, "w": w} | ({} if b is None else {"b": b})
    if channels_last:
        wanted, arrays["x"] = last(wanted), last(x)
    operation = nn.conv_transpose(ndim, strides, pads, dilations, groups, channels_last, (), bias, extra)
    return operation, {"y": unwritten(wanted.shape, dtype), **arrays}, wanted, dtype


def _transposed(x: Any, w: Any, b: Any, groups: int, strides: Any, pads: Any, dilations: Any, extra: Any) -> np.ndarray:
    """Return the transposed convolution by its definition: add every product to its place, one by one."""
    ndim = x.ndim - 2
    sizes = [
        (n - 1) * s + (k - 1) * d + 1 + e - p - q
        for n, s, k, d, e, p, q in zip(
            x.shape[2:], strides, w.shape[2:], dilations, extra, pads[:ndim], pads[ndim:], strict=True
        )
    ]
    y = np.zeros((x.shape[0], w.shape[1] * groups, *sizes))
    inside, outside = w.shape[0] // groups, w.shape[1]
    for place in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*w.shape[2:]):
            to = [i * s + k * d - p for i, s, k, d, p in zip(place, strides, tap, dilations, pads[:ndim], strict=True)]
            if all(0 <= t < n for t, n in zip(to, sizes, strict=True)):
                for g in range(groups):
                    rows, columns = slice(g * inside, (g + 1) * inside), slice(g * outside, (g + 1) * outside)
                    y[(slice(None), columns, *to)] += x[(slice(None), rows, *place)] @ w[(rows, slice(None), *tap)]
    return y if b is None else y + b.reshape(-1, *[1] * ndim)


@given(convolutions())
@settings(max_examples=examples(60), deadline=None)
def test_the_host_convolves(case: Case) -> None:
    operation, arrays, wanted, dtype = case
    close(on_host(operation, arrays), wanted, dtype)


@pytest.mark.sycl
@given(case=convolutions(most=20), limits=st.sampled_from(GPUS))
@settings(max_examples=examples(12), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_work_groups_convolve_in_local_memory(run: Any, case: Case, limits: DeviceLimits) -> None:
    operation, arrays, wanted, dtype = case
    for constants in ((), ("w",)):
        close(run(operation, groups.NAME, arrays, constants, limits)["y"], wanted, dtype)


@given(transposes())
@settings(max_examples=examples(40), deadline=None)
def test_the_host_transposes(case: Case) -> None:
    operation, arrays, wanted, dtype = case
    close(on_host(operation, arrays), wanted, dtype)


@pytest.mark.parametrize(("batch", "channels"), [(0, 3), (2, 0)])
def test_nothing_in_gives_nothing_or_the_bias(batch: int, channels: int) -> None:
    x, w, b = numbers(batch, 5, 5, channels), numbers(4, channels, 3, 3), numbers(4)
    y = unwritten((batch, 3, 3, 4), "float32")
    got = on_host(nn.conv(2, bias=True, channels_last=True), {"y": y, "x": x, "w": w, "b": b})
    np.testing.assert_array_equal(got, np.broadcast_to(b, y.shape))


def test_equal_attributes_give_one_operation() -> None:
    assert nn.conv(2) is nn.conv(2, (1, 1), [0, 0, 0, 0], (1, 1))
    assert nn.conv(2, activation=(("clip",),)) is nn.conv(2, activation=(("clip", -np.inf, np.inf),))
    assert nn.conv(2, (2, 2)).name != nn.conv(2, (2, 1)).name


def test_attributes_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ArgumentError, match="strides"):
        nn.conv(2, (1, 1, 1))
    with pytest.raises(ArgumentError, match="at least 1"):
        nn.conv(2, (0, 1))
    with pytest.raises(ArgumentError, match="no activation 'rleu'"):
        nn.conv(2, activation=(("rleu",),))
    with pytest.raises(ArgumentError, match="takes 1"):
        nn.conv(2, activation=(("scale", 1.0, 2.0),))
    with pytest.raises(ArgumentError, match="there is none"):
        nn.conv(2, in_place=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w": (8, 5, 3, 3)}, "channels of x"),
        ({"y": (1, 8, 8, 8)}, r"is \(1, 8, 6, 6\)"),
        ({"b": (7,)}, r"b of w"),
        ({"x": (4, 8, 8)}, "4 axes"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    import re

    shapes = {"y": (1, 8, 6, 6), "x": (1, 4, 8, 8), "w": (8, 4, 3, 3), "b": (8,)}
    operation = nn.conv(2, bias=True)
    assert operation.check is not None
    assert operation.check(Signature(shapes, dict.fromkeys(shapes, "float32"))) is None
    told = operation.check(Signature({**shapes, **change}, dict.fromkeys(shapes, "float32")))
    assert re.search(message, str(told))


def test_work_counts_products_and_every_array_once() -> None:
    shapes = {"y": (1, 8, 6, 6), "x": (1, 4, 8, 8), "w": (8, 4, 3, 3)}
    work = nn.conv(2).work(Signature(shapes, dict.fromkeys(shapes, "float32")))
    assert work.flops == 2 * 8 * 36 * 4 * 9
    assert work.bytes == 4 * (8 * 36 + 4 * 64 + 8 * 36)


def test_a_residual_in_place_is_one_array_less_and_the_same_work() -> None:
    two, one = nn.conv(2, residual=True), nn.conv(2, residual=True, in_place=True)
    assert [p.name for p in one.arrays] == [p.name for p in two.arrays if p.name != "r"]
    assert [p.mode for p in one.arrays if p.mode.writes] == [AccessMode.UPDATE]
    shapes = {"y": (1, 8, 6, 6), "x": (1, 4, 8, 8), "w": (8, 4, 3, 3), "r": (1, 8, 6, 6)}
    dtypes = dict.fromkeys(shapes, "float32")
    assert one.work(Signature({n: s for n, s in shapes.items() if n != "r"}, dtypes)) == two.work(
        Signature(shapes, dtypes)
    )


@pytest.mark.sycl
@pytest.mark.parametrize("name", quick(nn.conv(2)))
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(("groups", "channels", "size"), [(1, 70, 29), (1, 33, 15), (2, 38, 17), (37, 37, 19)])
def test_overlapping_blocks_add_the_residual_once(
    run: Any, name: str, channels_last: bool, groups: int, channels: int, size: int
) -> None:
    """The last block of a line is moved back to fit: it overlaps the block before."""
    operation = nn.conv(2, pads=(1, 1, 1, 1), groups=groups, channels_last=channels_last, residual=True, in_place=True)
    x, y = numbers(2, channels, size, size), numbers(2, channels, size, size, seed=1)
    arrays = {"y": last(y), "x": last(x)} if channels_last else {"y": y, "x": x}
    arrays["w"] = numbers(channels, channels // groups, 3, 3)
    wanted = on_host(operation, arrays)
    for constants in ((), ("w",)):
        close(run(operation, name, arrays, constants=constants)["y"], wanted, "float32")


ON_DEVICES = settings(max_examples=examples(12), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)


@pytest.mark.sycl
@pytest.mark.parametrize("name", quick(nn.conv(2)))
@given(case=convolutions())
@ON_DEVICES
def test_devices_convolve(run: Any, name: str, case: Case) -> None:
    operation, arrays, wanted, dtype = case
    close(run(operation, name, arrays)["y"], wanted, dtype)


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize("name", quick(nn.conv(2)))
@given(case=convolutions(most=30))
@ON_DEVICES
def test_devices_convolve_with_constant_weights(run: Any, name: str, case: Case) -> None:
    operation, arrays, wanted, dtype = case
    close(run(operation, name, arrays, constants=("w",))["y"], wanted, dtype)


@pytest.mark.sycl
@given(case=convolutions(most=16), known=st.booleans())
@settings(ON_DEVICES, max_examples=3)
def test_devices_convolve_in_numba_dpex(run: Any, case: Case, known: bool) -> None:
    operation, arrays, wanted, dtype = case
    close(run(operation, "python", arrays, constants=("w",) if known else ())["y"], wanted, dtype)


@pytest.mark.sycl
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("channels", [16, 70, 96, 133])
def test_depthwise_in_vectors_of_channels(run: Any, channels: int, in_place: bool) -> None:
    operation = nn.conv(2, (2, 1), (1, 0, 1, 2), (1, 2), channels, True, (("elu", 1.0),), True, True, in_place)
    w = numbers(channels, 1, 3, 2)
    arrays = {"y": unwritten((2, 4, 6, channels), "float32"), "x": numbers(2, 7, 6, channels), "w": w}
    arrays |= {"b": numbers(channels, seed=1), "r": numbers(2, 4, 6, channels, seed=2)}
    arrays = placed_in(arrays) if in_place else arrays
    wanted = on_host(operation, arrays)
    close(run(operation, "python", arrays, constants=("w",))["y"], wanted, "float32")


@pytest.mark.sycl
@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("name", ["opencl-c", "python"])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "pads"),
    [
        (13, 3, 1, 1, (1, 1)),
        (14, 3, 2, 1, (0, 2)),
        (17, 5, 1, 2, (4, 3)),
        (6, 3, 3, 1, (2, 0)),
        (4, 3, 1, 1, (3, 3)),
        (12, 9, 1, 1, (4, 4)),
        (9, 2, 1, 3, (0, 0)),
    ],
    ids=["as before", "strides", "dilations", "strides of the kernel", "more pads", "a large kernel", "no pads"],
)
def test_depthwise_in_blocks_of_pixels(
    run: Any, name: str, is_packed: bool, size: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int]
) -> None:
    """Lines with pixels at the ends, whole blocks, and pixels that are left."""
    begin, end = pads
    operation = nn.conv(2, (1, stride), (1, begin, 1, end), (1, dilation), 40, True, (("clip", -0.5, 0.75),), True)
    arrays = {"x": numbers(2, 3, size, 40), "w": numbers(40, 1, 3, kernel), "b": numbers(40, seed=1)}
    outputs = (size + begin + end - (kernel - 1) * dilation - 1) // stride + 1
    arrays = {"y": unwritten((2, 3, outputs, 40), "float32"), **arrays}
    wanted = on_host(operation, arrays)
    close(run(operation, name, arrays, constants=("w",) if is_packed else ())["y"], wanted, "float32")


@pytest.mark.sycl
@pytest.mark.parametrize("name", implementations(nn.conv_transpose(2)))
@given(case=transposes())
@ON_DEVICES
def test_devices_transpose(run: Any, name: str, case: Case) -> None:
    operation, arrays, wanted, dtype = case
    close(run(operation, name, arrays)["y"], wanted, dtype)


def test_counters_of_loops_hold_every_index_of_large_arrays() -> None:
    (operation,) = (each for each in nn.conv(2).implementations if each.name == "opencl-c")

    def source(channels: int) -> str:
        x, w = (1, channels, 1 << 10, 1 << 10), (2, channels, 1, 1)
        shapes = {"y": (1, 2, 1 << 10, 1 << 10), "x": x, "w": w}
        return operation.load(Signature(shapes, dict.fromkeys(shapes, "float32"), {})).source

    assert "for (int " in source(1 << 9)
    assert "for (int " not in source(1 << 11)  # 2 ** 31 elements
