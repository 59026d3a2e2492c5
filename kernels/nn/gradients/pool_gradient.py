# SPDX-License-Identifier: Apache-2.0
"""`pool_gradient`: gradient of maximum and average pooling.

A work-item computes elements of its own from all windows that cover them, in a fixed order. The gradient of a maximum
goes to the first of the largest elements; of windows with NaN, to the last NaN.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import ITEM_BYTES, Ints, ceil_div, numpy_implementation
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
from syclsched.kernels.tensor.writing.lines import least
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
    def of(cls, signature: Signature, mode: str, last_: bool) -> _PoolGradient:
        """Return the shapes of a signature.

        Gradients of maxima are added to what is there, so that no two work-items may have the same channels.
        """
        x, dy, dtype = signature.shapes["x"], signature.shapes["dy"], signature.dtypes["y"]
        if not last_:
            x, dy = ((size(shape[:2]), *shape[2:], 1) for shape in (x, dy))
        width = panels.VECTOR_BYTES // ITEM_BYTES[sum_dtype(dtype)]
        while width > max(1, x[-1]) or (mode == "max" and x[-1] % width):
            width //= 2
        return cls(x, dy, width)

    @property
    def panels(self) -> int:
        """Vectors of channels."""
        return ceil_div(self.x[-1], self.width)

    @property
    def rows(self) -> int:
        """Places along the first spatial axis of a work-item that computes the gradient of maxima."""
        wanted = ceil_div(_TARGET_ITEMS, max(1, self.x[0] * self.panels))
        return ceil_div(self.x[1], min(self.x[1], wanted))

    def space(self, mode: str) -> Ints:
        """Return the index space: every place, or parts of the first axis, and vectors of channels."""
        places = (ceil_div(self.x[1], self.rows),) if mode == "max" else self.x[1:-1]
        return (self.x[0], *places, self.panels)


#: Work-items wanted where each computes many places, and most of a group.
_TARGET_ITEMS, _MOST_ITEMS = 256, 64
#: Most positions of a window that are compared without loops.
_MOST_UNROLLED = 16


def _launch(signature: Signature, limits: DeviceLimits, *, mode: str, last_: bool) -> Launch:
    if not size(signature.shapes["y"]):
        return Launch((1,), (1,))
    return panels.launch(limits, size(_PoolGradient.of(signature, mode, last_).space(mode)), _MOST_ITEMS)


def _write(w: KernelWriter, *, mode: str, window: Window, kernel: Ints, last_: bool, count_include_pad: bool) -> None:
    """Emit the kernel."""
    shapes = _PoolGradient.of(w.signature, mode, last_)
    if not size(shapes.x):
        return
    space, item = shapes.space(mode), w.index(w.item)
    w.keep_items_apart()  # each has loops of its own length: as lanes they took two to four times as long
    with w.if_block(f"{item} < {size(space)}"), w.vectors_of(shapes.width):
        image, *places, panel = unravel_index(w, item, tuple(map(str, space)))
        count = shapes.x[-1]
        column = BlockStart.of(w, panel, shapes.width, str(count), count).at
        if mode == "max":
            _write_max(w, shapes, window, kernel, (image, places[0], column))
        else:
            _write_average(w, shapes, window, kernel, (image, *places, column), count_include_pad)


def _write_max(
    w: KernelWriter, shapes: _PoolGradient, window: Window, kernel: Ints, item: tuple[str, str, str]
) -> None:
    """Emit the gradient of maxima: a work-item adds the contributions of all windows to some rows of its own."""
    image, part, column = item
    t = compute_dtype(w.signature.dtypes["y"])
    whole = {"float32": "int32", "float64": "int64"}[t]  # as wide, so that vectors of it select
    inputs, outputs, dilations = shapes.x[1:-1], shapes.dy[1:-1], window.dilations
    x_strides, dy_strides = contiguous_strides(shapes.x), contiguous_strides(shapes.dy)
    top = w.index(f"{part} * {shapes.rows}")
    bottom = least(w, w.index(f"{top} + {shapes.rows}"), str(inputs[0]))
    zero = w.spread(t, w.constant(0.0, t))

    def each(ranges: Sequence[tuple[str, str]], loops: ExitStack) -> list[str]:
        return [loops.enter_context(w.loop(*bounds)) for bounds in ranges]

    def tap_number(taps: Sequence[str]) -> str:
        number = "0"
        for tap, extent in zip(taps, kernel, strict=True):
            number = f"({number} * {extent} + {tap})"
        return w.value(whole, w.spread(whole, w.cast(whole, number, "int64")))

    with ExitStack() as loops:
        places = each([(top, bottom), *(("0", str(extent)) for extent in inputs[1:])], loops)
        w.write("y", w.index(_offset((image, *places, column), x_strides)), zero)
    first = covering_windows(w, window, 0, (top, f"{bottom} - 1"), kernel[0], outputs[0])
    with ExitStack() as loops:
        numbers = each([first, *(("0", str(extent)) for extent in outputs[1:])], loops)
        begins = [w.index(f"{o} * {window.strides[axis]} - {window.begins[axis]}") for axis, o in enumerate(numbers)]

        given = w.read("dy", w.index(_offset((image, *numbers, column), dy_strides)))

        def offset(taps: Sequence[str]) -> str:
            seen = [f"({begin} + {k} * {d})" for begin, k, d in zip(begins, taps, dilations, strict=True)]
            return w.index(_offset((image, *seen, column), x_strides))

        def compare(taps: Sequence[str], best: str, chosen: str) -> None:
            value = w.read("x", offset(taps))
            taken = w.any_of(f"({value} > {best})", f"({value} != {value})")
            w.assign(chosen, whole, w.select(taken, tap_number(taps), chosen))
            w.assign(best, t, w.select(taken, value, best))

        def give(taps: Sequence[str], chosen: str) -> None:
            at = offset(taps)
            share = w.select(f"({chosen} == {tap_number(taps)})", given, zero)
            w.write("y", at, w.value(t, f"{w.read('y', at)} + {share}"))

        def start(taps: Sequence[str]) -> tuple[str, str]:
            return w.variable(t, w.read("x", offset(taps))), w.variable(whole, tap_number(taps))

        bounds = [(top, bottom), *(("0", str(extent)) for extent in inputs[1:])]
        inside = [
            f"({begin} >= {low}) & ({begin} + {reach} <= {high})"
            for begin, (low, high), reach in zip(begins, bounds, window.reach(kernel), strict=True)
        ]
        is_inside = w.value("bool", " & ".join(inside)) if size(kernel) <= _MOST_UNROLLED else ""
        if is_inside:
            with w.if_block(is_inside):
                first_tap, *others = [tuple(map(str, taps)) for taps in itertools.product(*map(range, kernel))]
                best, chosen = start(first_tap)
                for taps in others:
                    compare(taps, best, chosen)
                for taps in (first_tap, *others):
                    give(taps, chosen)
            loops.enter_context(w.if_block(w.negate(is_inside)))

        def inner(axis: int, limits: tuple[str, str]) -> tuple[str, str]:
            return inner_positions(w, window, axis, begins[axis], kernel[axis], limits)

        ranges = [inner(axis, ("0", str(extent))) for axis, extent in enumerate(inputs)]
        loops.enter_context(w.if_block(w.all_of(*(f"({low} < {high})" for low, high in ranges))))
        best, chosen = start([low for low, _ in ranges])
        with ExitStack() as inmost:
            compare(each(ranges, inmost), best, chosen)
        with ExitStack() as inmost:
            give(each([inner(0, (top, bottom)), *ranges[1:]], inmost), chosen)


def _write_average(
    w: KernelWriter, shapes: _PoolGradient, window: Window, kernel: Ints, item: tuple[str, ...], include: bool
) -> None:
    """Emit the gradient of averages: a work-item gathers from all windows that cover its place."""
    image, *places, column = item
    t = compute_dtype(w.signature.dtypes["y"])
    inputs, outputs = shapes.x[1:-1], shapes.dy[1:-1]
    total = w.variable(t, w.spread(t, w.constant(0.0, t)))
    with ExitStack() as loops:
        numbers, counts_of = [], []
        for axis, place in enumerate(places):
            low, high = covering_windows(w, window, axis, (place, place), kernel[axis], outputs[axis])
            o = loops.enter_context(w.loop(low, high))
            begin = w.index(f"{o} * {window.strides[axis]} - {window.begins[axis]}")
            if window.dilations[axis] > 1:
                loops.enter_context(w.if_block(f"({place} - {begin}) % {window.dilations[axis]} == 0"))
            numbers.append(o)
            bounds = (-window.begins[axis], inputs[axis] + window.ends[axis]) if include else (0, inputs[axis])
            first, last_one = inner_positions(w, window, axis, begin, kernel[axis], (str(bounds[0]), str(bounds[1])))
            counts_of.append(f"({last_one} - {first})")
        given = w.read("dy", w.index(_offset((image, *numbers, column), contiguous_strides(shapes.dy))))
        members = w.index(" * ".join(counts_of))
        with w.vectors_of(1):
            share = w.value(t, f"{w.constant(1.0, t)} / {w.cast(t, members, 'int32')}")
        w.assign(total, t, w.add_multiple(t, share, given, total))
    w.write("y", w.index(_offset((image, *places, column), contiguous_strides(shapes.x))), total)


def _offset(places: Sequence[str], strides: Sequence[int]) -> str:
    return " + ".join(f"{place} * {step}" for place, step in zip(places, strides, strict=True))


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
        parameters, partial(_write, **how), partial(_launch, mode=mode, last_=channels_last), efficiency=0.3
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
