# SPDX-License-Identifier: Apache-2.0
"""`conv_weights`: gradient of a convolution by its weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, numpy_implementation, with_recipe
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.block_sums import BlockStart, BlockSums
from syclsched.kernels.nn.convolution.conv_parameters import label
from syclsched.kernels.nn.convolution.image_layout import ImageLayout
from syclsched.kernels.nn.geometry import arranged, channels, last, size, spatial
from syclsched.kernels.nn.gradients.window_ranges import seen_windows
from syclsched.kernels.nn.opencl_types import FLOATS, sum_dtype
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.onednn.operations import conv as onednn
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import unravel_index
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.kernels.windows import Convolution, Window
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Launch, Operation, Parameter, Signature, Work

#: Most input channels of a block: with more, compilers run out of registers.
_ROWS = 7


def _check(signature: Signature, *, window: Window, groups: int, last_: bool) -> str | None:
    y, x, dy = (signature.shapes[name] for name in ("y", "x", "dy"))
    if not len(y) == len(x) == len(dy) == window.ndim + 2:
        return f"y {y}, x {x} and dy {dy} have {window.ndim + 2} axes each"
    if y[1] * groups != channels(x, last_) or y[0] % groups:
        return f"y {y} does not fit the {channels(x, last_)} channels of x {x} in {groups} groups"
    wanted = arranged(x[0], window.extents(spatial(x, last_), y[2:]), y[0], last_)
    if dy != wanted:
        return f"dy of x {x} and weights {y} is {wanted}, not {dy}"
    return None


def _work(signature: Signature) -> Work:
    y, dtype = signature.shapes["y"], signature.dtypes["y"]
    moved = sum(map(size, signature.shapes.values())) * ITEM_BYTES[dtype]
    return Work(2.0 * size(signature.shapes["dy"]) * size(y[1:]), float(moved), dtype, float(max(1, size(y))))


def _host(*, y: Any, x: Any, dy: Any, window: Window, groups: int, last_: bool) -> None:
    import numpy as np

    kernel, dtype = y.shape[2:], sum_dtype(str(y.dtype))
    given = last(dy, last_)
    outputs, pixels = given.shape[1:-1], math.prod(given.shape[:-1])
    padded = window.padded(last(x, last_), kernel, outputs, 0).astype(dtype, copy=False)
    outside, inside = y.shape[0] // groups, y.shape[1]
    columns = given.reshape(pixels, groups, outside).transpose(1, 2, 0).astype(dtype, copy=False)
    for place, cut in window.places(kernel, outputs):
        rows = padded[(slice(None), *cut)].reshape(pixels, groups, inside).transpose(1, 0, 2)
        y[(..., *place)] = np.matmul(columns, rows).reshape(groups * outside, inside)


def _block(signature: Signature, groups: int) -> RegisterBlock:
    y = signature.shapes["y"]
    return RegisterBlock.of(y[1], y[0] // groups, signature.dtypes["y"], _ROWS)


def _space(signature: Signature, groups: int) -> tuple[int, ...]:
    """Return the index space: kernel positions, groups, blocks of input channels, blocks of output channels."""
    outside, inside, *kernel = signature.shapes["y"]
    block = _block(signature, groups)
    rows, columns = (panels.block_count(inside, block.rows), panels.block_count(outside // groups, block.columns))
    return (*kernel, groups, rows, columns)


def _launch(signature: Signature, limits: DeviceLimits, *, groups: int) -> Launch:
    if not size(signature.shapes["y"]):
        return Launch((1,), (1,))
    return panels.launch(limits, size(_space(signature, groups)))


def _write(w: KernelWriter, *, window: Window, groups: int, last_: bool) -> None:
    """Emit the kernel: a work-item sums the products of some input and output channels at a kernel position.

    Each image has sums of its own, which are then added, so that rounding errors stay small.
    """
    signature, t = w.signature, compute_dtype(w.signature.dtypes["y"])
    if not size(signature.shapes["y"]):
        return
    outside, inside, *kernel = signature.shapes["y"]
    outside //= groups
    block, space = _block(signature, groups), tuple(map(str, _space(signature, groups)))
    x, dy = (ImageLayout.of(w, name, last_) for name in ("x", "dy"))
    item = w.index(w.item)
    with w.if_block(f"{item} < {size(_space(signature, groups))}"):
        *taps, group, row, column = unravel_index(w, item, space)
        rows = BlockStart.of(w, row, block.rows, str(inside), inside)
        columns = BlockStart.of(w, column, block.columns, str(outside), outside)
        channel_in = w.index(f"{group} * {inside} + {rows.at}")
        channel_out = w.index(f"{group} * {outside} + {columns.at}")
        extents = zip(spatial(signature.shapes["x"], last_), spatial(signature.shapes["dy"], last_), strict=True)
        ranges = [
            seen_windows(w, window, axis, tap, *each)
            for axis, (tap, each) in enumerate(zip(taps, extents, strict=True))
        ]
        total = BlockSums.zeros(w, t, block)
        with w.loop("0", dy.images) as image:
            sums = BlockSums.zeros(w, t, block)
            with ExitStack() as loops:
                outputs = [loops.enter_context(w.loop(begin, end)) for begin, end in ranges]
                inputs = [
                    w.index(f"{o} * {window.strides[axis]} - {window.begins[axis]} + {k} * {window.dilations[axis]}")
                    for axis, (o, k) in enumerate(zip(outputs, taps, strict=True))
                ]
                start = w.index(x.offset(image, inputs, channel_in))
                values = [w.load("x", f"{start} + {r} * {x.channel}") for r in range(block.rows)]
                sums.add(values, "dy", w.index(dy.offset(image, outputs, channel_out)), dy.channel)
            with w.vectors_of(block.width):
                for all_names, names in zip(total.names, sums.names, strict=True):
                    for whole, part in zip(all_names, names, strict=True):
                        w.assign(whole, t, f"{whole} + {part}")
        place, positions = "0", size(kernel)
        for tap, extent in zip(taps, kernel, strict=True):
            place = f"({place} * {extent} + {tap})"
        to = w.index(f"({channel_out} * {inside} + {rows.at}) * {positions} + {place}")
        total.store(to, (str(positions), str(inside * positions)), lambda s, *_: s, rows, columns)


@cache
def _conv_weights(convolution: Convolution) -> Operation:
    window, groups = convolution.window, convolution.groups
    attributes = {"window": window, "groups": groups, "last_": convolution.channels_last}
    axes = window.ndim + 2
    parameters = (
        Parameter("y", AccessMode.WRITE, ndim=axes, dtypes=FLOATS),
        Parameter("x", AccessMode.READ, ndim=axes, like="y"),
        Parameter("dy", AccessMode.READ, ndim=axes, like="y"),
    )
    opencl, _ = generated_implementations(
        parameters, partial(_write, **attributes), partial(_launch, groups=groups), efficiency=0.4
    )
    return Operation(
        name=label("conv_weights", convolution, bias=False),
        parameters=parameters,
        implementations=(
            onednn.conv_weights(convolution),
            opencl,
            numpy_implementation(partial(_host, **attributes), efficiency=0.15),
        ),
        work=_work,
        check=partial(_check, **attributes),
    )


@with_recipe
def conv_weights(
    ndim: int,
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    groups: int = 1,
    channels_last: bool = False,
) -> Operation:
    """Return the operation that computes the gradient y (O, I / groups, *kernel) of a convolution's weights.

    ``x`` is what the convolution reads, ``dy`` the gradient of its result. Sums have a fixed order.
    """
    window = Window.of(ndim, strides, pads, dilations)
    return _conv_weights(Convolution(window, int(groups), bool(channels_last), ()))
