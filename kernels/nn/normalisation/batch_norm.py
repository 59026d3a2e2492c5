# SPDX-License-Identifier: Apache-2.0
"""`batch_norm`: normalisation of every channel by a known mean and variance, for inference."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ceil_div, line_launch, numpy_implementation, with_recipe
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import channels, last, size
from syclsched.kernels.nn.line_operations import number, work
from syclsched.kernels.nn.opencl_types import FLOATS, sum_dtype
from syclsched.kernels.onednn.operations import normalization as onednn
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.kernel_writer import LANES, KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.lines import Line, launch_lines, product, write_lines
from syclsched.kernels.tensor.writing.row_column_blocks import rows_launch, write_rows
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Launch, Operation, Parameter, Signature, Split

NAMES = ("scale", "bias", "mean", "variance")
#: Most vectors of channels per work-item, channels last; their factors are computed once.
_MOST_VECTORS = 4


def _check(signature: Signature, *, last_: bool) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if len(x) < 2:
        return f"x has a batch and channels, not {x}"
    if y != x:
        return f"batch_norm keeps the shape: y {y} against x {x}"
    for name in NAMES:
        if signature.shapes[name] != (channels(x, last_),):
            return f"{name} has one element for each channel of x {x}, not {signature.shapes[name]}"
    return None


def _host(
    *,
    y: Any,
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    epsilon: float,
    last_: bool,
    activation: Activation,
) -> None:
    import numpy as np

    dtype = np.dtype(sum_dtype(str(y.dtype)))
    source = last(x, last_).astype(dtype, copy=False)
    # A negative variance gives NaN without a warning.
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = scale.astype(dtype, copy=False) / np.sqrt(variance.astype(dtype, copy=False) + dtype.type(epsilon))
    last(y, last_)[...] = act.numpy(activation, (source - mean.astype(dtype, copy=False)) * factor + bias)


def _arrangement(signature: Signature, last_: bool) -> tuple[int, int, int]:
    """Return x's number of elements before the channels, of channels, and after them."""
    x = signature.shapes["x"]
    count = channels(x, last_)
    pixels = size(x) // max(1, count)
    return (pixels, count, 1) if last_ or x[0] == pixels else (x[0], count, pixels // max(1, x[0]))


def _write(w: KernelWriter, *, epsilon: float, last_: bool, activation: Activation) -> None:
    before, count, behind = _arrangement(w.signature, last_)
    if not before * count * behind:
        return
    t, extents = compute_dtype(w.signature.dtypes["y"]), w.extents("x")
    every, pixels = (extents[-1], extents[:-1]) if last_ else (extents[1], extents[:1])

    def factor(c: str) -> str:
        root = w.call("sqrt", w.value(t, f"{w.read('variance', c)} + {w.constant(epsilon, t)}"))
        return f"{w.read('scale', c)} / {root}"

    def finish(at: str, mean: str, factor: str, bias: str) -> None:
        value = w.value(t, f"({w.read('x', at)} - {mean}) * {factor} + {bias}")
        w.write("y", at, act.emit(w, activation, t, value))

    if behind > 1:
        length = product(w, extents[2:])

        def line(number: str) -> None:
            c = w.index(f"{number} - {w.div(number, every)} * {every}")
            known = w.read("mean", c), w.value(t, factor(c)), w.read("bias", c)
            base = w.index(f"{number} * {length}")
            Line.of(w, t, length, behind).each(lambda k: finish(f"{base} + {k}", *known))

        write_lines(w, product(w, extents[:2]), behind, line)
    elif count >= LANES:
        _write_vectors(w, product(w, pixels), every, _vectors(count), t, factor, finish)
    elif _repeats(w.signature, count):
        _write_periods(w, product(w, extents), count, t, factor, finish)
    else:
        i = w.index(w.item)
        with w.if_block(f"{i} < {product(w, extents)}"):
            c = w.index(f"{i} - {w.div(i, every)} * {every}")
            finish(i, w.read("mean", c), w.value(t, factor(c)), w.read("bias", c))


def _write_vectors(
    w: KernelWriter,
    pixels: str,
    every: str,
    vectors: int,
    t: str,
    factor: Callable[[str], str],
    finish: Callable[[str, str, str, str], None],
) -> None:
    """Emit the kernel of contiguous channels: a work-item computes a few vectors of them for many pixels."""
    width = vectors * LANES
    pieces = w.index(w.div(f"({every} + {width - 1})", str(width)))
    part = w.index(w.div(w.item, pieces))
    begin, most = w.index(f"({w.item} - {part} * {pieces}) * {width}"), w.index(f"{every} - {width}")
    # The last vectors may overlap their predecessors.
    c = w.index(w.select(f"({begin} < {most})", begin, most))
    parts = w.index(w.div(w.items, pieces))
    each = w.index(w.div(f"({pixels} - 1 + {parts})", parts))
    end = w.index(f"({part} + 1) * {each}")
    means, factors, biases = (w.vector_group(t, w.constant(0.0, t), vectors) for _ in range(3))

    def load(pick: Callable[[str], str], lane: str) -> None:
        place = w.index(f"{c} + {lane}")
        for name, value in ((means, w.read("mean", place)), (factors, factor(place)), (biases, w.read("bias", place))):
            w.assign(pick(name), t, value)

    w.each_vector(vectors, load)
    with w.loop(f"{part} * {each}", w.index(w.select(f"({end} < {pixels})", end, pixels))) as p:
        at = w.index(f"{p} * {every} + {c}")
        w.each_vector(vectors, lambda pick, lane: finish(f"{at} + {lane}", pick(means), pick(factors), pick(biases)))


def _write_periods(
    w: KernelWriter,
    elements: str,
    count: int,
    t: str,
    factor: Callable[[str], str],
    finish: Callable[[str, str, str, str], None],
) -> None:
    """Emit the kernel of fewer channels than a vector has lanes: as many vectors as the channels repeat after."""
    width = math.lcm(count, LANES)
    parts = [w.private(t, width) for _ in range(3)]
    with w.loop("0", str(width)) as k:
        c = w.index(f"{k} - {w.div(k, str(count))} * {count}")
        for part, value in zip(parts, (w.read("mean", c), factor(c), w.read("bias", c)), strict=True):
            w.assign(f"{part}[{k}]", t, value)

    def piece(number: str) -> None:
        begin, most = w.index(f"{number} * {width}"), w.index(f"{elements} - {width}")
        at = w.index(w.select(f"({begin} < {most})", begin, most))
        w.each_vector(
            width // LANES,
            lambda pick, lane: finish(f"{at} + {lane}", *(w.value(t, w.load_vector(part, lane)) for part in parts)),
        )

    write_rows(w, w.index(w.div(f"({elements} + {width - 1})", str(width))), piece)


def _repeats(signature: Signature, count: int) -> bool:
    """Return whether an image has enough elements for `_write_periods`; the same for any number of images."""
    return size(signature.shapes["x"][1:]) >= math.lcm(count, LANES)


def _vectors(count: int) -> int:
    return min(_MOST_VECTORS, count // LANES)


def _launch(signature: Signature, limits: DeviceLimits, *, last_: bool) -> Launch:
    before, count, behind = _arrangement(signature, last_)
    if behind > 1 or not before * count:
        return launch_lines(before * count, behind, limits)
    if count >= LANES:
        (parts,) = rows_launch(before, count, limits).global_range
        return Launch((parts * ceil_div(count, _vectors(count) * LANES),), (1,))
    if _repeats(signature, count):
        width = math.lcm(count, LANES)
        return rows_launch(ceil_div(before * count, width), width, limits)
    return line_launch(limits, before * count)


@cache
def _batch_norm(epsilon: float, channels_last: bool, activation: Activation) -> Operation:
    attributes = {"epsilon": epsilon, "last_": channels_last, "activation": activation}
    parameters = (
        Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
        Parameter("x", AccessMode.READ, like="y"),
        *(Parameter(name, AccessMode.READ, ndim=1, like="y") for name in NAMES),
    )
    names = ["batch_norm", number(epsilon), "last" if channels_last else "", act.label(activation)]
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=parameters,
        implementations=(
            onednn.batch_norm(epsilon=epsilon, channels_last=channels_last, activation=activation),
            *generated_implementations(
                parameters,
                partial(_write, **attributes),
                partial(_launch, last_=channels_last),
                efficiency=0.6,
                revision="3",
            ),
            numpy_implementation(partial(_host, **attributes), efficiency=0.2),
        ),
        work=partial(work, flops=3.0 + act.cost(activation)),
        check=partial(_check, last_=channels_last),
        split=Split(rows=("y", "x")),
    )


@with_recipe
def batch_norm(epsilon: float = 1e-5, channels_last: bool = False, activation: Activation = ()) -> Operation:
    """Return y = activation((x - mean) / sqrt(variance + epsilon) * scale + bias), for every channel."""
    return _batch_norm(float(epsilon), bool(channels_last), act.checked(activation))
