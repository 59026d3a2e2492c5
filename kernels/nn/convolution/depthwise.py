# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution, which is bound by memory bandwidth.

Channels last, a work-item computes neighbouring pixels of a line, a few vectors of channels at a time, and reads each
number once for all of its pixels; at the ends of lines it computes one pixel. Channels first, it computes a vector of
neighbouring pixels of one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from syclsched.kernels.common import ceil_div
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

#: Neighbouring pixels that a work-item computes together, and vectors of their channels, as many as fit into registers.
#: Where registers are short, it is one vector.
_PIXELS: Final = 4
_VECTORS: Final = 2
#: Positions of a kernel along a line up to which pixels are computed together: the code repeats for each position.
_MOST_POSITIONS: Final = 8


@dataclass(frozen=True, slots=True)
class _Line:
    """The units of a line of results: single pixels, then blocks that see no pixel beyond an end, then single ones."""

    first: int  # single pixels before the blocks
    blocks: int
    units: int

    @classmethod
    def of(cls, signature: Signature, window: Window) -> _Line:
        """Return the units of a signature with channels last."""
        inputs, outputs = signature.shapes["x"][-2], signature.shapes["y"][-2]
        positions, stride, before = signature.shapes["w"][-1], window.strides[-1], window.begins[-1]
        first = min(outputs, max(0, ceil_div(before, stride)))
        reach = (positions - 1) * window.dilations[-1] - before
        end = min(outputs, (inputs - 1 - reach) // stride + 1)
        blocks = max(0, end - first) // _PIXELS if positions <= _MOST_POSITIONS else 0
        return cls(first, blocks, outputs - blocks * (_PIXELS - 1))


def _block(signature: Signature, last: bool) -> RegisterBlock:
    """Return the results of one pixel, or of a vector of pixels, that a work-item computes at once."""
    length = signature.shapes["y"][-1]
    width = RegisterBlock.of(1, length, signature.dtypes["y"]).width
    is_wide = last and _VECTORS * width <= length and not panels.has_small_registers()
    return RegisterBlock(1, _VECTORS if is_wide else 1, width)


def launch(signature: Signature, limits: DeviceLimits, *, window: Window, last: bool) -> Launch:
    """Return the index space."""
    y = signature.shapes["y"]
    if last:
        return panels.launch(limits, size(y[:-2]) * _Line.of(signature, window).units)
    return panels.launch(limits, size(y[:-1]) * panels.block_count(y[-1], _block(signature, last).columns), most=256)


def packed(w: Any, *, last: bool) -> Any:
    """Return weights (C, 1, *kernel) as (positions, C) in one line for channels last; unchanged for channels first."""
    return panels.one_line(w.reshape(w.shape[0], -1).T, w.ndim) if last else w


@dataclass(frozen=True, slots=True)
class _Depthwise:
    """Code generator of a depthwise convolution."""

    w: KernelWriter
    window: Window
    dtype: str  # of the sums
    block: RegisterBlock
    x: ImageLayout
    y: ImageLayout
    kernel: tuple[int, ...]
    activate: Callable[[str], str]
    bias: bool
    residual: str

    def write_channels_last(self) -> None:
        """Emit the kernel for channels last."""
        w, y = self.w, self.y
        line = _Line.of(w.signature, self.window)
        first, blocks, units = (w.number(name, getattr(line, name)) for name in ("first", "blocks", "units"))
        pieces, item = count_blocks(w, y.channels, self.block.columns), w.index(w.item)
        space = (y.images, *y.extents[:-1], units)
        with w.if_block(f"{item} < {product(w, space)}"):
            image, *outer, unit = unravel_index(w, item, space)
            before = w.index(w.select(f"({unit} < {first})", "0", f"({unit} - {first})"))
            passed = w.index(w.select(f"({before} < {blocks})", before, blocks))
            pixel = w.index(f"{unit} + {passed} * {_PIXELS - 1}")
            is_block = w.all_of(f"({unit} >= {first})", f"({before} < {blocks})")
            with w.loop("0", pieces) as number:
                channel = BlockStart.of(w, number, self.block.columns, y.channels, w.signature.shapes["y"][-1])
                with w.if_block(is_block):
                    self._write_pixels(image, [*outer, pixel], channel, _PIXELS)
                with w.if_block(w.negate(is_block)):
                    self._write_pixels(image, [*outer, pixel], channel, 1)

    def write_channels_first(self) -> None:
        """Emit the kernel for channels first."""
        w, x, y = self.w, self.x, self.y
        pieces, item = count_blocks(w, y.extents[-1], self.block.columns), w.index(w.item)
        space = (y.images, y.channels, *y.extents[:-1], pieces)
        with w.if_block(f"{item} < {product(w, space)}"):
            image, channel, *outer, number = unravel_index(w, item, space)
            start = BlockStart.of(w, number, self.block.columns, y.extents[-1], w.signature.shapes["y"][-1])
            sums = BlockSums.zeros(w, self.dtype, self.block)
            with ExitStack() as loops:
                seen, place = self._seen(loops, outer)
                k = loops.enter_context(w.loop("0", str(self.kernel[-1])))
                at = w.index(self._first_seen(start.at) + f" + {k} * {self.window.dilations[-1]}")
                where = w.index(x.offset(image, [*seen, at], channel))
                weight = w.read("w", f"{channel} * {size(self.kernel)} + {place} * {self.kernel[-1]} + {k}")
                _add_pixels(w, sums, where, at, x.extents[-1], self.window.strides[-1], weight)
            biases = [w.read("b", channel)] if self.bias else []
            self._store(sums, w.index(y.offset(image, [*outer, start.at], channel)), biases, start)

    def _write_pixels(self, image: str, pixel: list[str], channel: BlockStart, pixels: int) -> None:
        """Emit the results of neighbouring pixels from one on, which see no pixel beyond an end, or of one pixel."""
        w, x, window = self.w, self.x, self.window
        sums = BlockSums.zeros(w, self.dtype, RegisterBlock(pixels, self.block.vectors, self.block.width))
        with ExitStack() as loops:
            if pixels == 1:
                seen, place = self._seen(loops, pixel)
                numbers = sums.read_columns("x", w.index(x.offset(image, seen, channel.at)))
                self._add(sums.names[0], numbers, self._weights(sums, place, channel.at))
            else:
                seen, place = self._seen(loops, pixel[:-1])
                where = w.index(x.offset(image, [*seen, w.index(self._first_seen(pixel[-1]))], channel.at))
                count, step = self.kernel[-1], window.dilations[-1]
                weights = [self._weights(sums, f"({place} * {count} + {k})", channel.at) for k in range(count)]
                starts = [row * window.strides[-1] for row in range(pixels)]
                for column in sorted({start + k * step for start in starts for k in range(count)}):
                    numbers = sums.read_columns("x", w.index(f"{where} + {column} * {x.strides[-1]}"))
                    for names, start in zip(sums.names, starts, strict=True):
                        k, rest = divmod(column - start, step)
                        if not rest and 0 <= k < count:
                            self._add(names, numbers, weights[k])
        biases = sums.read_columns("b", channel.at) if self.bias else []
        self._store(sums, w.index(self.y.offset(image, pixel, channel.at)), biases, channel)

    def _seen(self, loops: ExitStack, outputs: Sequence[str]) -> tuple[list[str], str]:
        """Open loops over the positions of the kernel that exist; return their places in x, and their number.

        They are along the axes of ``outputs``, the first ones.
        """
        w, window, seen, place = self.w, self.window, [], "0"
        for axis, (output, count) in enumerate(zip(outputs, self.kernel, strict=False)):
            k = loops.enter_context(w.loop("0", str(count)))
            at = f"{output} * {window.strides[axis]} - {window.begins[axis]}"
            seen.append(w.index(f"{at} + {k} * {window.dilations[axis]}"))
            loops.enter_context(w.if_block(w.all_of(f"({seen[-1]} >= 0)", f"({seen[-1]} < {self.x.extents[axis]})")))
            place = f"({place} * {count} + {k})"
        return seen, place

    def _first_seen(self, output: str) -> str:
        """Return the place along the last axis that a result sees first."""
        return f"{output} * {self.window.strides[-1]} - {self.window.begins[-1]}"

    def _weights(self, sums: BlockSums, place: str, channel: str) -> list[str]:
        """Emit the weights of a block's channels at a position of the kernel, and return their names."""
        w, places = self.w, size(self.kernel)
        if "w" in w.signature.constants:
            return sums.read_columns("w", w.index(f"{place} * {self.y.channels} + {channel}"))
        return sums.read_columns("w", w.index(f"{channel} * {places} + {place}"), str(places))

    def _add(self, names: list[str], numbers: list[str], weights: list[str]) -> None:
        """Emit the addition of a pixel's numbers times weights to the sums of another."""
        with self.w.vectors_of(self.block.width):
            for name, number, weight in zip(names, numbers, weights, strict=True):
                self.w.assign(name, self.dtype, self.w.multiply_add(number, weight, name))

    def _store(self, sums: BlockSums, to: str, biases: list[str], columns: BlockStart) -> None:
        """Emit the stores of finished sums, given the first one's offset and the biases of their vectors."""
        w, t = self.w, self.dtype

        def finish(s: str, at: str, row: int, column: int) -> str:
            if biases:
                s = w.value(t, f"{s} + {biases[column // self.block.width]}")
            if self.residual:
                s = w.value(t, f"{s} + {w.read(self.residual, at)}")
            return self.activate(s)

        sums.store(to, (self.y.strides[-1], "1"), finish, BlockStart("0"), columns, once=self.residual == "y")


def write(w: KernelWriter, *, window: Window, last: bool, activation: Activation, bias: bool, residual: str) -> None:
    """Emit the kernel."""
    x, y = (ImageLayout.of(w, name, last) for name in "xy")
    block, kernel = _block(w.signature, last), w.signature.shapes["w"][2:]
    dtype = compute_dtype(w.signature.dtypes["y"])
    activate = act.emitter(w, activation, dtype)
    made = _Depthwise(w, window, dtype, block, x, y, kernel, activate, bias, residual)
    if last:
        made.write_channels_last()
    else:
        made.write_channels_first()


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
