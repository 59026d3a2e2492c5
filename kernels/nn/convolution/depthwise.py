# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution, which is bound by memory bandwidth.

Channels last, a work-item computes the channels of a pixel, a few vectors at a time; channels first, a vector of
neighbouring pixels of one line.
"""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from typing import Any

from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.block_sums import BlockStart, BlockSums, count_blocks
from syclsched.kernels.nn.convolution.image_layout import ImageLayout
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.tensor.writing.iteration_space import unravel_index
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.lines import product
from syclsched.kernels.windows import Window
from syclsched.model.operation import DeviceLimits, Launch, Signature

#: Vectors of channels per work-item.
_VECTORS = (1, 2, 4)


def _block(signature: Signature, last: bool) -> RegisterBlock:
    """Return the results that a work-item computes at once, as a row."""
    length, dtype = signature.shapes["y"][-1], signature.dtypes["y"]
    width = RegisterBlock.of(1, length, dtype).width
    fitting = [k for k in _VECTORS if k == 1 or (last and k * width <= length)]
    vectors = min(fitting, key=lambda k: (k * panels.block_count(length, k * width), -k))
    return RegisterBlock(1, vectors, width)


def launch(signature: Signature, limits: DeviceLimits, *, last: bool) -> Launch:
    """Return the index space."""
    y, block = signature.shapes["y"], _block(signature, last)
    vectors = 1 if last else panels.block_count(y[-1], block.columns)
    return panels.launch(limits, size(y[:-1]) * vectors, most=16 if last else 256)


def packed(w: Any, *, last: bool) -> Any:
    """Return weights (C, 1, *kernel) as (positions, C) in one line for channels last; unchanged for channels first."""
    return panels.one_line(w.reshape(w.shape[0], -1).T, w.ndim) if last else w


def write(w: KernelWriter, *, window: Window, last: bool, activation: Activation, bias: bool, residual: str) -> None:
    """Emit the kernel."""
    signature, kernel = w.signature, w.signature.shapes["w"][2:]
    t, block = compute_dtype(signature.dtypes["y"]), _block(signature, last)
    x, y = (ImageLayout.of(w, name, last) for name in "xy")
    extent = y.channels if last else y.extents[-1]
    pieces, item = count_blocks(w, extent, block.columns), w.index(w.item)
    space = (y.images, *y.extents) if last else (y.images, y.channels, *y.extents[:-1], pieces)

    def compute(image: str, outputs: list[str], channel: str, start: BlockStart) -> None:
        """Emit the results of a block, given its first pixel and channel."""
        sums = BlockSums.zeros(w, t, block)
        with ExitStack() as loops:
            seen, place = [], "0"
            for axis, (output, count) in enumerate(zip(outputs, kernel, strict=True)):
                k = loops.enter_context(w.loop("0", str(count)))
                at = f"{output} * {window.strides[axis]} - {window.begins[axis]}"
                seen.append(w.index(f"{at} + {k} * {window.dilations[axis]}"))
                if last or axis < len(kernel) - 1:
                    inside = w.all_of(f"({seen[-1]} >= 0)", f"({seen[-1]} < {x.extents[axis]})")
                    loops.enter_context(w.if_block(inside))
                place = f"({place} * {count} + {k})"
            where = w.index(x.offset(image, seen, channel))
            if last:
                _add_channels(w, sums, where, place, channel, y.channels)
            else:
                weight = w.read("w", f"{channel} * {size(kernel)} + {place}")
                _add_pixels(w, sums, where, seen[-1], x.extents[-1], window.strides[-1], weight)

        def finish(s: str, at: str, row: int, column: int) -> str:
            if bias:
                with w.vectors_of(block.width if last else 1):
                    added = w.read("b", f"{channel} + {column}")
                s = w.value(t, f"{s} + {added}")
            if residual:
                s = w.value(t, f"{s} + {w.read(residual, at)}")
            return act.emit(w, activation, t, s)

        to = w.index(y.offset(image, outputs, channel))
        sums.store(to, ("0", "1"), finish, BlockStart("0"), start, once=residual == "y")

    with w.if_block(f"{item} < {product(w, space)}"):
        image, *places = unravel_index(w, item, space)
        with w.loop("0", pieces) if last else nullcontext(places[-1]) as number:
            start = BlockStart.of(w, number, block.columns, extent, signature.shapes["y"][-1])
            if last:
                compute(image, places, start.at, start)
            else:
                compute(image, [*places[1:-1], start.at], places[0], start)


def _add_channels(w: KernelWriter, sums: BlockSums, where: str, place: str, channel: str, channels: str) -> None:
    """Emit the addition of a pixel's channels times their weights at a kernel position."""
    signature, ((*names,),) = w.signature, sums.names
    places = size(signature.shapes["w"][2:])
    is_packed = "w" in signature.constants
    at = w.index(f"{place} * {channels} + {channel}" if is_packed else f"{channel} * {places} + {place}")
    with w.vectors_of(sums.block.width):
        for j, name in enumerate(names):
            column = j * sums.block.width
            if is_packed:
                weight = w.read("w", f"{at} + {column}")
            else:
                weight = w.read("w", f"{at} + {column * places}", str(places))
            w.assign(name, sums.dtype, w.multiply_add(w.read("x", f"{where} + {column}"), weight, name))


def _add_pixels(w: KernelWriter, sums: BlockSums, where: str, at: str, extent: str, step: int, weight: str) -> None:
    """Emit the addition of neighbouring pixels times a weight, given the first one's offset and its place in a line."""
    t, width, ((total,),) = sums.dtype, sums.block.width, sums.names
    inside = w.all_of(f"({at} >= 0)", f"({at} + {(width - 1) * step} < {extent})")
    with w.if_block(inside), w.vectors_of(width):
        w.assign(total, t, w.add_multiple(t, weight, w.read("x", where, str(step)), total))
    with w.if_block(w.negate(inside)):
        seen = w.private(t, width)
        with w.loop("0", str(width)) as lane:
            here = w.index(f"{at} + {lane} * {step}")
            exists = w.all_of(f"({here} >= 0)", f"({here} < {extent})")
            pixel = w.load("x", f"{where} + {lane} * {step}")
            w.assign(f"{seen}[{lane}]", t, w.select(exists, pixel, w.constant(0.0, t)))
        with w.vectors_of(width):
            pixels = w.load_vector(seen, "0") if width > 1 else f"{seen}[0]"
            w.assign(total, t, w.add_multiple(t, weight, pixels, total))
