# SPDX-License-Identifier: Apache-2.0
"""`pool_gradient`: gradient of maximum and average pooling.

A work-item computes elements of the gradient by gathering from all windows that cover them, in a fixed order. The
gradient of a maximum goes to the first of the largest elements; of windows with NaN, to the last NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import ITEM_BYTES, Ints, ceil_div, line_launch, numpy_implementation
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.block_sums import BlockStart
from syclsched.kernels.nn.geometry import last, size
from syclsched.kernels.nn.gradients.window_ranges import covering_windows, inner_positions
from syclsched.kernels.nn.opencl_types import FLOATS, sum_dtype
from syclsched.kernels.nn.pooling.pool import check_windows, counts
from syclsched.kernels.onednn.operations import pool as onednn
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import contiguous_strides, unravel_index
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.kernels.windows import Window, times
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Implementation, Launch, Operation, Parameter, Signature, Work


def _check(signature: Signature, *, window: Window, kernel: Ints, last_: bool) -> str | None:
    y, x, dy = (signature.shapes[name] for name in ("y", "x", "dy"))
    if y != x:
        return f"y is as x {x}, not {y}"
    return check_windows(dy, x, window=window, kernel=kernel, last_=last_)


def _work(signature: Signature, *, mode: str, kernel: Ints) -> Work:
    shapes, dtype = signature.shapes, signature.dtypes["y"]
    read = ("y", "x", "dy") if mode == "max" else ("y", "dy")
    moved = sum(size(shapes[name]) for name in read) * ITEM_BYTES[dtype]
    return Work(float(size(shapes["dy"]) * size(kernel)), float(moved), dtype, float(max(1, size(shapes["y"]))))


def _host(
    *, y: Any, x: Any, dy: Any, mode: str, window: Window, kernel: Ints, last_: bool, count_include_pad: bool
) -> None:
    import numpy as np

    source, given = last(x, last_), last(dy, last_).astype(sum_dtype(str(y.dtype)))
    outputs = given.shape[1:-1]
    if mode == "max":
        padded = window.padded(source, kernel, outputs, -np.inf)
        exists = window.padded(np.ones((1, *source.shape[1:-1], 1), bool), kernel, outputs, False)
        best, chosen = np.full(given.shape, -np.inf, y.dtype), np.full(given.shape, -1)
        for number, (_, cut) in enumerate(window.places(kernel, outputs)):
            seen = padded[(slice(None), *cut)]
            taken = (seen > best) | np.isnan(seen) | ((chosen < 0) & exists[(slice(None), *cut)])
            best, chosen = np.where(taken, seen, best), np.where(taken, number, chosen)
    else:
        for axis, line in enumerate(counts(window, kernel, source.shape[1:-1], outputs, pads=count_include_pad)):
            shape = [1] * given.ndim
            shape[axis + 1] = -1
            # A window within pads alone has no elements.
            given /= np.maximum(line, 1).astype(given.dtype).reshape(shape)
    total = np.zeros_like(window.padded(np.broadcast_to(given.dtype.type(0), source.shape), kernel, outputs, 0))
    for number, (_, cut) in enumerate(window.places(kernel, outputs)):
        total[(slice(None), *cut)] += np.where(chosen == number, given, 0) if mode == "max" else given
    target = last(y, last_)
    target[...] = 0
    # Negative pads have cropped the array.
    kept = [(max(0, -begin), min(n, whole - begin)) for n, begin, whole in _extents(source, window, total)]
    inside = tuple(slice(low, high) for low, high in kept)
    moved = tuple(slice(low + b, high + b) for (low, high), b in zip(kept, window.begins, strict=True))
    target[(slice(None), *inside)] = total[(slice(None), *moved)]


def _extents(source: Any, window: Window, padded: Any) -> list[tuple[int, int, int]]:
    """Return the extent, the pad at the beginning and the padded extent of every axis."""
    return list(zip(source.shape[1:-1], window.begins, padded.shape[1:-1], strict=True))


@dataclass(frozen=True, slots=True)
class _PoolGradient:
    """Shapes (images, *spatial, channels); channels first are images with one channel."""

    x: Ints
    dy: Ints
    width: int  # channels of a work-item

    @classmethod
    def of(cls, signature: Signature, last_: bool) -> _PoolGradient:
        """Return the shapes of a signature."""
        x, dy, dtype = signature.shapes["x"], signature.shapes["dy"], signature.dtypes["y"]
        if not last_:
            x, dy = ((size(shape[:2]), *shape[2:], 1) for shape in (x, dy))
        width = panels.VECTOR_BYTES // ITEM_BYTES[sum_dtype(dtype)]
        while width > max(1, x[-1]):
            width //= 2
        return cls(x, dy, width)

    @property
    def space(self) -> Ints:
        """The index space: every place, and vectors of channels."""
        return (*self.x[:-1], ceil_div(self.x[-1], self.width))


def _launch(signature: Signature, limits: DeviceLimits, *, last_: bool) -> Launch:
    shapes = _PoolGradient.of(signature, last_)
    if shapes.width == 1:
        return line_launch(limits, max(1, size(shapes.space)))
    return panels.launch(limits, max(1, size(shapes.space)), _MOST_ITEMS)


#: Work-items of a group, where each computes a vector.
_MOST_ITEMS = 64


def _write(w: KernelWriter, *, mode: str, window: Window, kernel: Ints, last_: bool, count_include_pad: bool) -> None:
    """Emit the kernel."""
    shapes, t = _PoolGradient.of(w.signature, last_), compute_dtype(w.signature.dtypes["y"])
    if not size(shapes.x):
        return
    inputs, outputs, count = shapes.x[1:-1], shapes.dy[1:-1], shapes.x[-1]
    x_strides, dy_strides = contiguous_strides(shapes.x), contiguous_strides(shapes.dy)
    item = w.index(w.item)
    w.keep_items_apart()  # each has loops of its own length: as lanes they took two to four times as long
    with w.if_block(f"{item} < {size(shapes.space)}"), w.vectors_of(shapes.width):
        image, *places, panel = unravel_index(w, item, tuple(map(str, shapes.space)))
        column = BlockStart.of(w, panel, shapes.width, str(count), count).at
        at = w.index(_offset((image, *places, column), x_strides))
        zero = w.spread(t, w.constant(0.0, t))
        total = w.variable(t, zero)
        own = w.read("x", at) if mode == "max" else ""
        with ExitStack() as loops:
            numbers, begins = [], []
            for axis, place in enumerate(places):
                low, high = covering_windows(w, window, axis, place, kernel[axis], outputs[axis])
                o = loops.enter_context(w.loop(low, high))
                begin = w.index(f"{o} * {window.strides[axis]} - {window.begins[axis]}")
                if window.dilations[axis] > 1:
                    loops.enter_context(w.if_block(f"({place} - {begin}) % {window.dilations[axis]} == 0"))
                numbers.append(o)
                begins.append(begin)
            given = w.read("dy", w.index(_offset((image, *numbers, column), dy_strides)))
            if mode == "max":
                won = w.variable(t, given)
                ranges = [
                    inner_positions(w, window, axis, begin, kernel[axis], (0, inputs[axis]))
                    for axis, begin in enumerate(begins)
                ]
                with ExitStack() as inner:
                    seen = []
                    for axis, each in enumerate(ranges):
                        k = inner.enter_context(w.loop(*each))
                        seen.append(w.index(f"{begins[axis]} + {k} * {window.dilations[axis]}"))
                    other = w.index(_offset((image, *seen, column), x_strides))
                    _drop_if_larger(w, t, won, own, at, other)
                w.assign(total, t, f"{total} + {won}")
            else:
                pads = window if count_include_pad else Window(window.strides, (0,) * len(window.pads), ())
                members = [
                    inner_positions(
                        w, window, axis, begin, kernel[axis], (-pads.begins[axis], inputs[axis] + pads.ends[axis])
                    )
                    for axis, begin in enumerate(begins)
                ]
                seen_count = w.index(" * ".join(f"({high} - {low})" for low, high in members))
                with w.vectors_of(1):
                    share = w.value(t, f"{w.constant(1.0, t)} / {w.cast(t, seen_count, 'int32')}")
                w.assign(total, t, w.add_multiple(t, share, given, total))
        w.write("y", at, total)


def _offset(places: Sequence[str], strides: Sequence[int]) -> str:
    return " + ".join(f"{place} * {step}" for place, step in zip(places, strides, strict=True))


def _drop_if_larger(w: KernelWriter, t: str, won: str, own: str, at: str, other: str) -> None:
    """Emit that a window gives nothing to ``own`` if it chooses another element, as a comparison in order does."""
    zero = w.spread(t, w.constant(0.0, t))
    with w.if_block(f"{other} < {at}"):
        value = w.read("x", other)
        is_chosen = w.any_of(f"({value} >= {own})", w.all_of(f"({value} != {value})", f"({own} == {own})"))
        w.assign(won, t, w.select(is_chosen, zero, won))
    with w.if_block(f"{other} > {at}"):
        value = w.read("x", other)
        w.assign(won, t, w.select(w.any_of(f"({value} > {own})", f"({value} != {value})"), zero, won))


@cache
def _pool_gradient(mode: str, kernel: Ints, window: Window, count_include_pad: bool, channels_last: bool) -> Operation:
    names = [
        f"{mode}_pool_gradient",
        times(kernel),
        window.label(),
        "pads" if count_include_pad else "",
        "last" if channels_last else "",
    ]
    axes = len(kernel) + 2
    parameters = (
        Parameter("y", AccessMode.WRITE, ndim=axes, dtypes=FLOATS),
        Parameter("x", AccessMode.READ, ndim=axes, like="y"),
        Parameter("dy", AccessMode.READ, ndim=axes, like="y"),
    )
    attributes = {"window": window, "kernel": kernel, "last_": channels_last}
    how = {"mode": mode, "count_include_pad": count_include_pad, **attributes}
    opencl, _ = generated_implementations(
        parameters, partial(_write, **how), partial(_launch, last_=channels_last), efficiency=0.3
    )
    library: tuple[Implementation, ...] = ()
    if mode == "average":  # of a maximum, oneDNN's needs data that its own forward pass writes
        pooling = onednn.pool_gradient(kernel, window, count_include_pad=count_include_pad, channels_last=channels_last)
        library = (pooling,)
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=parameters,
        implementations=(*library, opencl, numpy_implementation(partial(_host, **how), efficiency=0.1)),
        work=partial(_work, mode=mode, kernel=kernel),
        check=partial(_check, **attributes),
    )


def pool_gradient(
    mode: str,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    count_include_pad: bool = False,
    channels_last: bool = False,
) -> Operation:
    """Return the operation that computes the gradient y of pooling by its input x, given that of its result, dy."""
    if mode not in ("max", "average"):
        raise ArgumentError(f"mode is max or average, not {mode!r}", where="mode")
    sizes = tuple(map(int, kernel))
    window = Window.of(len(sizes), strides, pads, dilations)
    return _pool_gradient(mode, sizes, window, bool(count_include_pad) and mode == "average", bool(channels_last))
