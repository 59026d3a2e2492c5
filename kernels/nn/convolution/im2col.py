# SPDX-License-Identifier: Apache-2.0
"""`im2col`: the elements of every window as a row or column, so that convolution becomes a matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, Ints, numpy_implementation
from syclsched.kernels.nn.convolution import im2col_opencl
from syclsched.kernels.nn.geometry import channels, last, size, spatial
from syclsched.kernels.nn.line_operations import lines_launch
from syclsched.kernels.nn.opencl_types import FLOATS
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import unravel_index
from syclsched.kernels.tensor.writing.kernel_writer import LANES, KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.lines import Line, product
from syclsched.kernels.tensor.writing.row_column_blocks import rows_launch, write_rows
from syclsched.kernels.windows import Window, times
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Launch, Operation, Parameter, Signature, Split, Work


def _check(signature: Signature, *, window: Window, kernel: Ints, last_: bool) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if len(x) != len(kernel) + 2:
        return f"x {x} has {len(kernel) + 2} axes"
    windows, seen = size(window.extents(spatial(x, last_), kernel)), channels(x, last_) * size(kernel)
    wanted = (x[0], windows, seen) if last_ else (x[0], seen, windows)
    return None if y == wanted else f"y of x {x} is {wanted}, not {y}"


def _work(signature: Signature) -> Work:
    dtype = signature.dtypes["y"]
    results = size(signature.shapes["y"])
    return Work(0.0, float((results + size(signature.shapes["x"])) * ITEM_BYTES[dtype]), dtype, float(max(1, results)))


def _host(*, y: Any, x: Any, window: Window, kernel: Ints, last_: bool) -> None:
    source = last(x, last_)
    outputs = window.extents(source.shape[1:-1], kernel)
    count = source.shape[-1]
    padded = window.padded(source, kernel, outputs, 0)
    shape = (x.shape[0], *outputs, *kernel, count) if last_ else (x.shape[0], count, *kernel, *outputs)
    target = y.reshape(shape)
    for place, cut in window.places(kernel, outputs):
        seen = padded[(slice(None), *cut)]
        if last_:
            target[(slice(None),) * (1 + len(kernel)) + place] = seen
        else:
            target[(slice(None), slice(None), *place)] = seen.transpose(0, source.ndim - 1, *range(1, source.ndim - 1))


class _Windows:
    """Code generator for the windows of ``x``: extents, and places of kernel positions."""

    def __init__(self, w: KernelWriter, window: Window, kernel: Ints, last_: bool) -> None:
        extents = w.extents("x")
        self.w, self.window, self.kernel, self.last = w, window, kernel, last_
        self.images, self.channels = extents[0], extents[-1 if last_ else 1]
        self.inputs = extents[1:-1] if last_ else extents[2:]
        self.outputs = [
            w.index(f"{w.div(f'({n} + ({begin + end - reach}))', str(stride))} + 1")
            for n, begin, end, reach, stride in zip(
                self.inputs, window.begins, window.ends, window.reach(kernel), window.strides, strict=True
            )
        ]

    def sources(self, outputs: Sequence[str], taps: Sequence[str]) -> tuple[list[str], str]:
        """Emit the indices along the first axes that windows see at a kernel position; return whether they exist."""
        window, found, inside = self.window, [], []
        for axis, (o, k) in enumerate(zip(outputs, taps, strict=True)):
            place = f"{o} * {window.strides[axis]} - {window.begins[axis]} + {k} * {window.dilations[axis]}"
            found.append(self.w.index(place))
            inside += [f"({found[-1]} >= 0)", f"({found[-1]} < {self.inputs[axis]})"]
        return found, self.w.all_of(*inside)

    def offset(self, start: str, extents: Sequence[str | int], indices: Sequence[str]) -> str:
        """Return the text of an offset in row-major order."""
        for extent, index in zip(extents, indices, strict=True):
            start = f"({start} * {extent} + {index})"
        return start


def _write(w: KernelWriter, *, window: Window, kernel: Ints, last_: bool) -> None:
    x = w.signature.shapes["x"]
    if size(w.signature.shapes["y"]):
        known = channels(x, last_) if last_ else window.extents(spatial(x, last_), kernel)[-1]
        (_write_last if last_ else _write_first)(w, _Windows(w, window, kernel, last_), known)


def _write_last(w: KernelWriter, windows: _Windows, known: int) -> None:
    """Emit the kernel for channels last: a work-item copies the channels of all positions of some windows."""
    t, count, window = compute_dtype(w.signature.dtypes["y"]), windows.channels, windows.window
    *outer, positions = windows.kernel
    line, run = (Line.of(w, t, w.index(f"{n} * {count}"), n * known) for n in (1, positions))
    zero, extent = w.vector_group(t, w.constant(0.0, t)), windows.inputs[-1]

    def copy(line: Line, to: str, start: str) -> None:
        line.each(lambda c: w.write("y", f"{to} + {c}", w.read("x", f"{start} + {c}")))

    def row(number: str) -> None:
        image, *outputs = unravel_index(w, number, (windows.images, *windows.outputs))
        begin = w.index(f"{outputs[-1]} * {window.strides[-1]} - {window.begins[-1]}")
        with ExitStack() as loops:
            taps = [loops.enter_context(w.loop("0", str(n))) for n in outer]
            places, inside = windows.sources(outputs[:-1], taps)
            to = w.index(f"{windows.offset(number, outer, taps)} * {positions} * {count}")
            start = w.index(f"{windows.offset(image, windows.inputs[:-1], places)} * {extent} + {begin}")
            # The positions of a window along the last axis are contiguous, if all exist.
            whole = w.all_of(
                inside, f"({begin} >= 0)", f"({begin} + {positions} <= {extent})", f"({window.dilations[-1]} == 1)"
            )
            with w.if_block(whole):
                copy(run, to, w.index(f"{start} * {count}"))
            with w.if_block(w.negate(whole)), w.loop("0", str(positions)) as k:
                ahead, here = w.index(f"{k} * {window.dilations[-1]}"), w.index(f"{to} + {k} * {count}")
                exists = w.all_of(inside, f"({begin} + {ahead} >= 0)", f"({begin} + {ahead} < {extent})")
                with w.if_block(exists):
                    copy(line, here, w.index(f"({start} + {ahead}) * {count}"))
                with w.if_block(w.negate(exists)):
                    _write_zeros(w, line, here, zero)

    write_rows(w, product(w, (windows.images, *windows.outputs)), row)


def _write_zeros(w: KernelWriter, line: Line, to: str, zero: str) -> None:
    """Emit the zeros of a line, given a vector of zeros."""
    nothing = f"{zero}_0" if line.vectors else w.constant(0.0, line.dtype)
    line.each(lambda k: w.write("y", f"{to} + {k}", nothing))


def _write_first(w: KernelWriter, windows: _Windows, known: int) -> None:
    """Emit the kernel for channels first: a work-item copies all windows at some positions of the kernel."""
    window, t = windows.window, compute_dtype(w.signature.dtypes["y"])
    (*outputs, count), extent, stride = windows.outputs, windows.inputs[-1], window.strides[-1]
    line, zero, lines = Line.of(w, t, count, known), w.vector_group(t, w.constant(0.0, t)), product(w, outputs)
    in_vectors, load = line.vectors and stride <= 2, w.load_vector if stride == 1 else w.load_second

    def row(number: str) -> None:
        image, *taps = unravel_index(w, number, (product(w, (windows.images, windows.channels)), *windows.kernel))
        # Windows from low to high see an element along the last axis.
        ahead = w.index(f"{window.begins[-1]} - {taps[-1]} * {window.dilations[-1]}")
        first, past = (
            w.index(w.div(f"({each})", str(stride)))
            for each in (f"{ahead} + {stride - 1}", f"{extent} - 1 + {ahead} + {stride}")
        )
        low = _clamped(w, first, "0", count)
        high = _clamped(w, past, low, count)
        in_line = w.index(f"{high} - {low}")

        def copy(start: str, to: str) -> None:
            """Emit the copy of the elements in the windows of a line."""
            if in_vectors:
                with w.if_block(f"{in_line} >= {LANES}"), w.loop(low, high, str(LANES)) as place:
                    o = w.index(w.select(f"({place} < {high} - {LANES})", place, f"{high} - {LANES}"))
                    source = w.index(f"{start} + {o} * {stride}")
                    w.each_vector(1, lambda *_: w.write("y", f"{to} + {o}", w.value(t, load("x", source))))
            narrow = w.if_block(f"{in_line} < {LANES}") if in_vectors else nullcontext()
            with narrow, w.loop(low, high) as o:
                w.write("y", f"{to} + {o}", w.read("x", f"{start} + {o} * {stride}"))
            for begin, end in (("0", low), (high, count)):
                with w.loop(begin, end) as o:
                    w.write("y", f"{to} + {o}", w.constant(0.0, t))

        with w.loop("0", lines) as each:
            to = w.index(f"({number} * {lines} + {each}) * {count}")
            places, inside = windows.sources(unravel_index(w, each, tuple(outputs)), taps[:-1])
            with w.if_block(inside):
                copy(w.index(f"{windows.offset(image, windows.inputs[:-1], places)} * {extent} - {ahead}"), to)
            with w.if_block(w.negate(inside)):
                _write_zeros(w, line, to, zero)

    write_rows(w, product(w, (windows.images, windows.channels, *map(str, windows.kernel))), row)


def _clamped(w: KernelWriter, index: str, low: str, high: str) -> str:
    """Emit an index clamped to a range, and return its name."""
    below = w.index(w.select(f"({index} < {high})", index, high))
    return w.index(w.select(f"({below} > {low})", below, low))


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    y = signature.shapes["y"]
    return rows_launch(max(size(y[:-1]), 1), y[-1], limits)


@cache
def _im2col(kernel: Ints, window: Window, channels_last: bool) -> Operation:
    names = ["im2col", times(kernel), window.label(), "last" if channels_last else ""]
    attributes = {"window": window, "kernel": kernel, "last_": channels_last}
    parameters = (
        Parameter("y", AccessMode.WRITE, ndim=3, dtypes=FLOATS),
        Parameter("x", AccessMode.READ, ndim=len(kernel) + 2, like="y"),
    )
    opencl, numba = generated_implementations(
        parameters, partial(_write, **attributes), _launch, efficiency=0.4, revision="3"
    )
    if not channels_last:
        # Lane shuffles are up to three times faster on lines shorter than a vector.
        known = {"window": window, "kernel": kernel}
        launch = partial(lines_launch, count=partial(im2col_opencl.count, **known))
        opencl = replace(opencl, load=partial(im2col_opencl.load, **known), launch=launch, revision="2")
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=parameters,
        implementations=(
            opencl,
            numba,
            numpy_implementation(partial(_host, **attributes), efficiency=0.2),
        ),
        work=_work,
        check=partial(_check, **attributes),
        split=Split(rows=("y", "x")),
    )


def im2col(
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    channels_last: bool = False,
) -> Operation:
    """Return the operation that writes the elements of each window."""
    sizes = tuple(map(int, kernel))
    return _im2col(sizes, Window.of(len(sizes), strides, pads, dilations), bool(channels_last))
