# SPDX-License-Identifier: Apache-2.0
"""Extents that kernels take as arguments, and operations of several shapes with one code."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from syclsched.kernels import nn
from syclsched.kernels.common import Activation
from syclsched.kernels.tensor.concat import concat
from syclsched.kernels.tensor.elementwise import elementwise
from syclsched.kernels.tensor.gather import gather
from syclsched.kernels.tensor.pad import pad
from syclsched.kernels.tensor.reductions.arg import arg
from syclsched.kernels.tensor.reductions.reduce import reduce
from syclsched.kernels.tensor.reductions.scan import scan_sum
from syclsched.kernels.tensor.strided_slice import slice_of
from syclsched.kernels.tensor.transpose import transpose
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.kernels.windows import Window
from syclsched.model.operation import OpenCLSource, Operation, Signature


def test_numbers_are_parameters_in_the_order_of_their_first_use() -> None:
    given = ExtentArguments()
    assert [given("rows", 7), given("columns", 8), given("rows", 7)] == ["rows", "columns", "rows"]
    assert given.declared == ", const int rows, const int columns"
    assert given.values == (7, 8)


def test_a_number_that_no_argument_holds_is_a_constant() -> None:
    given = ExtentArguments()
    assert given("most", (1 << 31) - 1) == "most"
    assert given("more", 1 << 31) == "(2147483648L)"
    assert given("least", -(1 << 31)) == "least"
    assert given("less", -(1 << 31) - 1) == "(-2147483649L)"
    assert given.values == ((1 << 31) - 1, -(1 << 31))


def code(operation: Operation, name: str = "opencl-c", **shapes: tuple[int, ...]) -> OpenCLSource:
    dtypes = dict.fromkeys(shapes, "float32") | dict.fromkeys({"indices"} & shapes.keys(), "int64")
    dtypes |= {"y": "int64"} if operation.name.startswith("arg") else {}
    signature = Signature(shapes, dtypes, {}, frozenset({"w"} & shapes.keys()))
    assert operation.check(signature) is None
    found = operation.implementation(name).load(signature)
    assert isinstance(found, OpenCLSource)
    return found


def conv(
    size: int,
    inside: int,
    outside: int,
    kernel: int,
    name: str = "opencl-c",
    *,
    groups: int = 1,
    stride: int = 1,
    pad: int | None = None,
) -> OpenCLSource:
    window = Window((stride, stride), (kernel // 2 if pad is None else pad,) * 4, (1, 1))
    operation = nn.conv(2, window.strides, window.pads, channels_last=True, groups=groups)
    x, w = (1, size, size, inside), (outside, inside // groups, kernel, kernel)
    y = (1, *window.extents((size, size), (kernel, kernel)), outside)
    return code(operation, name, y=y, x=x, w=w)


def multiplied(rows: int, terms: int, columns: int) -> OpenCLSource:
    return code(nn.matmul(), y=(rows, columns), a=(rows, terms), b=(terms, columns))


def pooled(size: int, channels: int, kind: str = "max", kernel: int = 3, stride: int = 1, pad: int = 1) -> OpenCLSource:
    window = Window((stride, stride), (pad,) * 4, (1, 1))
    y = (1, *window.extents((size, size), (kernel, kernel)), channels)
    operation = nn.pool(kind, (kernel, kernel), window.strides, window.pads, channels_last=True)
    return code(operation, y=y, x=(1, size, size, channels))


def normalised(size: int, channels: int) -> OpenCLSource:
    shape = (1, size, size, channels)
    return code(nn.lrn(channels_last=True), y=shape, x=shape)


def concatenated(*widths: int, rows: int = 5) -> OpenCLSource:
    parts = {f"x{n}": (rows, width) for n, width in enumerate(widths)}
    return code(concat(1, len(widths)), y=(rows, sum(widths)), **parts)


def joined(rows: int, *widths: int) -> OpenCLSource:
    parts, whole = {f"x{n}": (rows, width) for n, width in enumerate(widths)}, (sum(widths),)
    return code(nn.join(len(widths)), y=(rows, *whole), **parts, scale=whole, shift=whole)


def multiplied_by_line(rows: int, columns: int) -> OpenCLSource:
    """Return the code of products of lines with one line."""
    return code(elementwise(("mul", 0, 1), 2), y=(rows, columns), x0=(rows, columns), x1=(columns,))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (conv(14, 64, 128, 1), conv(28, 96, 64, 1)),
        (conv(28, 96, 128, 3, "opencl-c-winograd"), conv(27, 128, 192, 3, "opencl-c-winograd")),
        (conv(28, 64, 128, 3, stride=2), conv(14, 128, 192, 3, stride=2)),
        (conv(56, 64, 128, 1, stride=2), conv(28, 512, 256, 1, stride=2)),
        (conv(16, 64, 64, 5, pad=0), conv(14, 128, 256, 3, pad=0)),
        (conv(14, 272, 272, 1, groups=4), conv(28, 320, 320, 1, groups=8)),
        (conv(224, 3, 32, 3, stride=2), conv(112, 3, 64, 3, stride=2)),
        (conv(56, 24, 112, 1, groups=4), conv(28, 24, 112, 1, groups=4)),
        (conv(14, 64, 64, 3, groups=64), conv(27, 144, 144, 3, groups=144)),
        (multiplied(1, 1024, 1000), multiplied(1, 512, 1000)),
        (multiplied(128, 512, 2048), multiplied(128, 512, 512)),
        (pooled(28, 192), pooled(14, 480)),
        (pooled(56, 64, stride=2), pooled(27, 256, stride=1, pad=0)),
        (pooled(14, 512, "average"), pooled(28, 256, "average")),
        (pooled(7, 1024, "average", 7, pad=0), pooled(13, 512, "average", 13, pad=0)),
        (normalised(55, 64), normalised(27, 192)),
        (concatenated(64, 32), concatenated(128, 96)),
        (concatenated(112, 24), concatenated(128, 64)),
        (joined(100, 128, 32), joined(30, 256, 32)),
        (multiplied_by_line(196, 480), multiplied_by_line(3136, 96)),
    ],
    ids=[
        *("1x1", "minimal filtering", "3x3 with strides", "1x1 with strides", "no pads", "groups"),
        *("few channels", "groups of few", "depthwise", "row", "product"),
        *("pool", "strides and pads", "average beside pads"),
        *("average of all", "local response normalisation", "concat", "parts of vectors", "join", "broadcast"),
    ],
)
def test_shapes_share_code(one: OpenCLSource, other: OpenCLSource) -> None:
    assert one.source == other.source
    assert one.extents != other.extents


#: Operations on texts of a length, with 16 numbers for each place of it.
ON_TEXTS: dict[str, Callable[[int], OpenCLSource]] = {
    "slice": lambda n: code(slice_of((0, 1, 0), (1, 1, 1)), y=(2, n - 1, 16), x=(2, n, 16)),
    "backwards": lambda n: code(slice_of((0, n - 1, 0), (1, -1, 1)), y=(2, n, 16), x=(2, n, 16)),
    "pad": lambda n: code(pad((0, n % 7 + 2, 0, 0, 3, 0)), y=(2, n + n % 7 + 5, 16), x=(2, n, 16)),
    "concat": lambda n: code(concat(2, 2), y=(1, n, 20), x0=(1, n, 16), x1=(1, n, 4)),
    "concat of short lines": lambda n: code(concat(2, 2), y=(9, n, 20), x0=(9, n, 16), x1=(9, n, 4)),
    "gather": lambda n: code(gather(1), y=(2, 3, 16), x=(2, n, 16), indices=(3,)),
    "last place": lambda n: code(gather(1), y=(2, 16), x=(2, n, 16), indices=()),
    "transpose": lambda n: code(transpose((1, 0, 2)), y=(n, 2, 16), x=(2, n, 16)),
    "mean along the length": lambda n: code(reduce("mean", (1,)), y=(2, 16), x=(2, n, 16)),
    "maximum along the length": lambda n: code(reduce("max", (1,)), y=(2, 16), x=(2, n, 16)),
    "mean of few": lambda n: code(reduce("mean", (1,)), y=(2, 5), x=(2, n, 5)),
    "logarithm of a sum": lambda n: code(reduce("logsumexp", (1,)), y=(2, 16), x=(2, n, 16)),
    "mean of each place": lambda n: code(reduce("mean", (2,)), y=(2, n), x=(2, n, 16)),
    "greatest place": lambda n: code(arg("max", 1), y=(2, 16), x=(2, n, 16)),
    "sums so far": lambda n: code(scan_sum(1), y=(2, n, 16), x=(2, n, 16)),
    "sums from behind": lambda n: code(scan_sum(1, reverse=True), y=(2, n, 16), x=(2, n, 16)),
    "groups": lambda n: code(nn.group_norm(4), y=(1, 16, n), x=(1, 16, n), scale=(16,), bias=(16,)),
    "few terms": lambda n: code(nn.matmul(), y=(n, 8), a=(n, 16), b=(16, 8)),
    "scores": lambda n: code(nn.matmul(transpose_b=True), y=(n, 24), a=(n, 16), b=(24, 16)),
    "three axes": lambda n: code(elementwise(("add", 0, 1), 2), y=(3, n, 32), x0=(3, n, 32), x1=(1, n, 1)),
}


@pytest.mark.parametrize("name", ON_TEXTS)
def test_texts_of_all_lengths_share_code(name: str) -> None:
    one, other = ON_TEXTS[name](56), ON_TEXTS[name](112)
    assert one.source == other.source
    assert one.extents != other.extents


def test_large_arrays_of_many_axes_know_their_extents() -> None:
    one, other = (
        code(elementwise(("add", 0, 1), 2), y=(n, 400, 400), x0=(n, 400, 400), x1=(n, 1, 400)) for n in (3, 4)
    )
    assert one.source != other.source and not one.extents


def of_length(length: int, divisor: int, rows: int = 100) -> OpenCLSource:
    """Return the code of an expression of whole numbers that depends on a length, and of a division."""
    expression = ("div", ("sub", 0, ("const", length, "int64")), ("const", divisor, "int64"))
    signature = Signature({"y": (rows,), "x0": (rows,)}, {"y": "int64", "x0": "int64"})
    found = elementwise(expression, 1).implementation("opencl-c").load(signature)
    assert isinstance(found, OpenCLSource)
    return found


def test_whole_numbers_are_arguments_but_for_divisors() -> None:
    one, other = of_length(28, 3), of_length(40, 3, rows=90)
    assert one.source == other.source and one.extents != other.extents
    assert of_length(28, 3).source != of_length(28, 5).source
    # Equal constants are one node, also where only one of its uses is a division.
    assert of_length(3, 3).source.count("number") == 0
    large = 1 << 40
    assert str(large) in of_length(large, 3).source


@pytest.mark.parametrize(
    ("arrays", "found"),
    [
        (67, joined(3, *(80 + 16 * (n % 2) for n in range(64)))),
        (33, concatenated(*[16] * 32)),
        (41, concatenated(*[16] * 40)),
    ],
    ids=["join", "concat", "concat of more"],
)
def test_arguments_fit_into_the_bytes_that_opencl_guarantees(arrays: int, found: OpenCLSource) -> None:
    assert 8 * arrays + 4 * len(found.extents) <= 1024
    assert bool(found.extents) == (arrays != 41)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (conv(14, 8, 64, 3), conv(14, 12, 64, 3)),
        (conv(14, 32, 32, 1, groups=4), conv(14, 48, 32, 1, groups=4)),
        (multiplied(640, 16, 64), multiplied(640, 24, 64)),
        (concatenated(24, 24, rows=500), concatenated(20, 20, rows=500)),
    ],
    ids=["3x3", "groups", "product", "short lines"],
)
def test_short_loops_know_their_lengths(one: OpenCLSource, other: OpenCLSource) -> None:
    assert one.source != other.source


@pytest.mark.parametrize("name", ["opencl-c", "opencl-c-winograd"])
@pytest.mark.parametrize(
    ("one", "other", "is_shared"),
    [
        ((), (("relu",),), True),
        ((("relu",),), (("clip", -1.0, math.inf),), True),
        ((("clip", 0.0, 6.0),), (("clip", -1.0, 1.0),), True),
        ((("relu",),), (("clip", 0.0, 6.0),), False),
        ((), (("clip", 1.0, -1.0),), False),
        ((("relu",),), (("tanh",),), False),
    ],
    ids=["a rectifier", "a lower bound", "two bounds", "one bound and two", "crossed bounds", "no bounds"],
)
def test_bounds_of_results_are_arguments(name: str, one: Activation, other: Activation, is_shared: bool) -> None:
    def with_results(activation: Activation) -> OpenCLSource:
        operation = nn.conv(2, pads=(1,) * 4, channels_last=True, activation=activation)
        return code(operation, name, y=(1, 28, 28, 64), x=(1, 28, 28, 64), w=(64, 64, 3, 3))

    first, second = with_results(one), with_results(other)
    assert (first.source == second.source) == is_shared
    assert first.extents != second.extents


def test_indices_are_divided_in_32_bits_where_these_hold_them() -> None:
    small, large = multiplied(7, 64, 64), multiplied(1 << 20, 64, 1 << 11)
    assert "(uint)" in small.source and "(uint)" not in large.source
