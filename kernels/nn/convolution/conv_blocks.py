# SPDX-License-Identifier: Apache-2.0
"""Direct convolution for both layouts: register blocks of neighbouring pixels by output channels.

A block's pixels lie in one line of the last spatial axis. In the common case that all of them are within the array at
every kernel position, they are read with a constant stride. At the edges elements are bounds-checked.

Depthwise convolutions have no sums over channels; see `syclsched.kernels.nn.convolution.depthwise`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from syclsched.kernels.common import Ints
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.block_sums import BlockStart, BlockSums, count_blocks
from syclsched.kernels.nn.convolution import depthwise
from syclsched.kernels.nn.convolution.image_layout import ImageLayout
from syclsched.kernels.nn.geometry import size, spatial
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.tensor.writing.iteration_space import unravel_index
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.lines import product
from syclsched.kernels.windows import Window
from syclsched.model.operation import AS_GIVEN, DeviceLimits, Launch, Signature

#: Most pixels of a block. With twice as many, as in matrix products, compilers run out of registers and more blocks
#: lie at the edges of an image: 3x3 took 1.4 to 1.7 times as long.
PIXELS: Final = 7
#: Convolutions of so many input channels take as long, or up to 2 % longer, if no loop over positions and channels is
#: unrolled since their lengths are arguments; those of 3 channels up to 20 %.
LONG_CHANNELS: Final = 16


def is_depthwise(signature: Signature, groups: int) -> bool:
    """Return whether each output channel sees only its own input channel."""
    w = signature.shapes["w"]
    return w[1] == 1 and w[0] == groups and groups > 1


def _is_pointwise(signature: Signature, window: Window) -> bool:
    """Return whether every pixel sees only itself, so that all spatial axes can be merged."""
    kernel = signature.shapes["w"][2:]
    return size(kernel) == 1 and not any(window.pads) and size(window.strides) == 1


def takes_extents(signature: Signature, *, window: Window, groups: int, last_: bool) -> bool:
    """Return whether the kernel takes extents as arguments; with channels last maybe not the number of channels."""
    return last_ or (not is_depthwise(signature, groups) and _has_long_sums(signature, window, groups))


def _has_long_sums(signature: Signature, window: Window, groups: int) -> bool:
    """Return whether no loop over positions or channels is so short that compilers should unroll it.

    Such loops take up to a quarter longer if their lengths are not known.
    """
    return signature.shapes["w"][1] >= LONG_CHANNELS or (groups == 1 and _is_pointwise(signature, window))


def geometry(signature: Signature, window: Window, last: bool) -> tuple[int, Ints, Ints, Ints, Window]:
    """Return batch, extents of input, output and kernel, and the window, with as few axes as possible."""
    y, x, w = (signature.shapes[name] for name in ("y", "x", "w"))
    if _is_pointwise(signature, window):
        pixels = size(spatial(x, last))
        one = Window((1,), (0, 0), (1,))
        # With channels last, the batch merges with the pixels.
        return (1, (x[0] * pixels,), (x[0] * pixels,), (1,), one) if last else (x[0], (pixels,), (pixels,), (1,), one)
    return x[0], spatial(x, last), spatial(y, last), w[2:], window


def _block(signature: Signature, window: Window, groups: int, last: bool) -> RegisterBlock:
    _, _, outputs, _, _ = geometry(signature, window, last)
    return RegisterBlock.of(outputs[-1], signature.shapes["w"][0] // groups, signature.dtypes["y"], PIXELS)


def launch(signature: Signature, limits: DeviceLimits, *, window: Window, groups: int, last_: bool) -> Launch:
    """Return the index space."""
    if not size(signature.shapes["y"]):
        return Launch((1,), (1,))
    if is_depthwise(signature, groups):
        return depthwise.launch(signature, limits, window=window, last=last_)
    batch, _, outputs, _, _ = geometry(signature, window, last_)
    block = _block(signature, window, groups, last_)
    lines = batch * math.prod(outputs[:-1]) * panels.block_count(outputs[-1], block.rows)
    count = panels.block_count(signature.shapes["w"][0] // groups, block.columns)
    return panels.launch(limits, lines * groups * count)


def prepare(
    signature: Signature, queue: Any, constants: Mapping[str, Any], *, window: Window, groups: int, last_: bool
) -> Mapping[str, Any]:
    """Return the constants with the weights packed into panels."""
    if "w" not in constants or not size(signature.shapes["y"]):
        return constants
    w = constants["w"]
    if is_depthwise(signature, groups):
        return {**constants, "w": depthwise.packed(w, last=last_)}
    outside, inside = w.shape[0] // groups, w.shape[1]
    # (groups, O, C, positions) -> (groups, O, positions, C): the order of summation.
    terms = w.reshape(groups, outside, inside, -1).transpose(0, 1, 3, 2).reshape(groups, outside, -1)
    return {**constants, "w": panels.packed(terms, outside, _block(signature, window, groups, last_), w.ndim)}


def form(signature: Signature, queue: Any, *, window: Window, groups: int, last_: bool) -> Hashable:
    """Return what identifies the layout of the constants that `prepare` returns."""
    if "w" not in signature.constants or not size(signature.shapes["y"]):
        return AS_GIVEN
    if is_depthwise(signature, groups):
        return "depthwise", last_
    block = _block(signature, window, groups, last_)
    return "conv", groups, block.vectors, block.width


def write(
    w: KernelWriter,
    *,
    window: Window,
    groups: int,
    last_: bool,
    activation: Activation,
    bias: bool,
    residual: str,
) -> None:
    """Emit the kernel."""
    if not size(w.signature.shapes["y"]):
        return
    if is_depthwise(w.signature, groups):
        depthwise.write(w, window=window, last=last_, activation=activation, bias=bias, residual=residual)
        return
    conv = _DirectConvolution.of(w, window, groups, last_)
    block, t, y = conv.block, conv.dtype, conv.y
    activate = act.emitter(w, activation, t)
    count, blocks = count_blocks(w, conv.outside, block.columns), count_blocks(w, y.extents[-1], block.rows)
    item, space = w.index(w.item), (conv.groups, count, y.images, *y.extents[:-1], blocks)
    with w.if_block(f"{item} < {product(w, space)}"):
        group, panel, image, *outer, number = unravel_index(w, item, space)
        columns = BlockStart.of(w, panel, block.columns, conv.outside, w.signature.shapes["w"][0] // groups)
        rows = BlockStart.of(w, number, block.rows, y.extents[-1], conv.outputs[-1])
        channel = w.index(f"{group} * {conv.outside} + {columns.at}")
        if conv.is_packed:
            weights = f"({group} * {count} + {panel}) * {block.columns} * {conv.positions} * {conv.inside}"
        else:
            weights = f"{channel} * {conv.positions} * {conv.inside}"
        sums = BlockSums.zeros(w, t, block)
        start = w.index(conv.x.offset(image, (), f"{group} * {conv.inside}"))
        conv.write_sums(sums, start, (*outer, rows.at), w.index(weights))

        biases = sums.read_columns("b", channel) if bias else []

        def finish(x: str, at: str, row: int, column: int) -> str:
            if bias:
                x = w.value(t, f"{x} + {biases[column // block.width]}")
            if residual:
                x = w.value(t, f"{x} + {w.read(residual, at, y.channel)}")
            return activate(x)

        to = w.index(y.offset(image, (*outer, rows.at), channel))
        sums.store(to, (y.strides[-1], y.channel), finish, rows, columns, once=residual == "y")


@dataclass(frozen=True, slots=True)
class _DirectConvolution:
    """Code generator for a direct convolution."""

    w: KernelWriter
    window: Window
    block: RegisterBlock
    dtype: str  # of the sums
    #: Extents along the spatial axes when the kernel is generated; `geometry` has merged as many as possible.
    inputs: Ints
    outputs: Ints
    kernel: Ints
    #: Text of the same, and of the number of positions.
    taps: tuple[str, ...]
    positions: str
    x: ImageLayout
    y: ImageLayout
    groups: str
    #: Input and output channels of a group.
    inside: str
    outside: str
    is_packed: bool  # whether the weights are packed into panels
    is_dense: bool  # whether a line of kernel positions with its channels is contiguous in the array

    @classmethod
    def of(cls, w: KernelWriter, window: Window, groups: int, last: bool) -> _DirectConvolution:
        """Return the convolution of a writer's signature."""
        signature = w.signature
        block = _block(signature, window, groups, last)
        merged = _is_pointwise(signature, window)
        _, inputs, outputs, kernel, window = geometry(signature, window, last)
        is_short = not _has_long_sums(signature, window, groups)
        x = ImageLayout.of(w, "x", last, merged=merged, contained=is_short)
        # Groups of few channels have few outputs, too: loops over them are as short.
        y = ImageLayout.of(w, "y", last, merged=merged, contained=is_short and groups > 1)
        count = str(groups) if is_short or groups == 1 else w.number("groups", groups)
        taps = tuple(str(n) if is_short or n == 1 else w.number(f"w_{axis}", n) for axis, n in enumerate(kernel))
        return cls(
            w,
            window,
            block,
            compute_dtype(signature.dtypes["y"]),
            inputs,
            outputs,
            kernel,
            taps,
            product(w, taps),
            x,
            y,
            groups=count,
            inside=w.index(w.div(x.channels, count)),
            outside=w.index(w.div(y.channels, count)),
            is_packed="w" in signature.constants,
            # With several groups, a pixel's channels are not contiguous with the next pixel's.
            is_dense=last and window.dilations[-1] == 1 and groups == 1,
        )

    @property
    def span(self) -> int:
        """Offset of the last kernel position along the last axis from the first."""
        return (self.kernel[-1] - 1) * self.window.dilations[-1]

    def write_sums(self, sums: BlockSums, start: str, outputs: tuple[str, ...], weights: str) -> None:
        """Emit the sums of a block that starts at a pixel, given the offsets of its group's channels and weights."""
        w, window, place = self.w, self.window, "0"
        begin = w.index(f"{outputs[-1]} * {window.strides[-1]} - {window.begins[-1]}")
        apart = [w.index(f"{row * window.strides[-1]} * {self.x.strides[-1]}") for row in range(self.block.rows)]
        with ExitStack() as loops:
            for axis, (output, extent) in enumerate(zip(outputs[:-1], self.x.extents, strict=False)):
                k = loops.enter_context(self._loop(self.taps[axis]))
                at = window.strides[axis], window.begins[axis], window.dilations[axis]
                seen = w.index(f"{output} * {at[0]} - {at[1]} + {k} * {at[2]}")
                loops.enter_context(w.if_block(w.all_of(f"({seen} >= 0)", f"({seen} < {extent})")))
                start, place = f"{start} + {seen} * {self.x.strides[axis]}", f"({place} * {self.taps[axis]} + {k})"
            line, first = w.index(start), w.index(f"{place} * {self.taps[-1]}")
            self._write_line(sums, (line, first), begin, weights, apart)

    def _write_line(self, sums: BlockSums, line: tuple[str, str], begin: str, weights: str, apart: list[str]) -> None:
        """Emit the terms of one line of the kernel, bounds-checked where pixels may need it."""
        w, window, extent = self.w, self.window, self.x.extents[-1]
        (row, first), shift = line, window.strides[-1]
        reach = (self.outputs[-1] - 1) * shift + self.span - window.begins[-1]
        inside = w.all_of(f"({begin} >= 0)", f"({begin} + {(self.block.rows - 1) * shift + self.span} < {extent})")
        always = window.begins[-1] <= 0 and reach < self.inputs[-1]

        def terms(at: str, position: str, count: str, checks: Mapping[int, str]) -> None:
            """Emit the terms of neighbouring channels, from a pixel on."""
            p = w.index(f"{row} + {at} * {self.x.strides[-1]}")
            columns, positions = self.block.columns, self.positions
            wk = w.index(f"{weights} + {position}" + (f" * {self.inside} * {columns}" if self.is_packed else ""))
            with self._loop(count) as c:
                here = w.index(f"{p} + {c} * {self.x.channel}")
                values = [w.load("x", f"{here} + {each}") for each in apart]
                zero = w.constant(0.0, self.dtype)
                values = [w.select(checks[r], v, zero) if r in checks else v for r, v in enumerate(values)]
                if self.is_packed:
                    sums.add(values, "w", w.index(f"{wk} + {c} * {columns}"))
                else:
                    sums.add(values, "w", w.index(f"{wk} + {c} * {positions}"), f"({self.inside} * {positions})")

        with w.if_block(inside) if not always else ExitStack():
            if self.is_dense and self.is_packed:
                # Kernel positions along the last axis and channels form one contiguous run, also in the weights.
                terms(begin, first, f"{self.taps[-1]} * {self.inside}", {})
            else:
                with self._loop(self.taps[-1]) as k:
                    at = w.index(f"{begin} + {k} * {window.dilations[-1]}")
                    terms(at, f"({first} + {k})", self.inside, {})
        if always:
            return
        with w.if_block(w.negate(inside)), self._loop(self.taps[-1]) as k:
            at = w.index(f"{begin} + {k} * {window.dilations[-1]}")
            checks = {}
            for r in self._checked_rows():
                where = w.index(f"{at} + {r * shift}")
                checks[r] = w.value("bool", w.all_of(f"({where} >= 0)", f"({where} < {extent})"))
            terms(at, f"({first} + {k})", self.inside, checks)

    def _loop(self, count: str) -> Any:
        # With a counter of 32 bits, 3x3 takes up to 5 % less time in OpenCL C; matrix products would take more.
        return self.w.loop("0", count, short=True)

    def _checked_rows(self) -> list[int]:
        """Return the pixels of a block that may be beyond the array: only the first and the last ones."""
        rows, shift, extent = self.block.rows, self.window.strides[-1], self.inputs[-1]
        count = panels.block_count(self.outputs[-1], rows)
        starts = {min(b * rows, self.outputs[-1] - rows) for b in range(count)}
        begins = {start * shift - self.window.begins[-1] for start in starts}
        offsets = range(0, self.span + 1, self.window.dilations[-1])
        return [
            r for r in range(rows) if any(not 0 <= begin + r * shift + k < extent for begin in begins for k in offsets)
        ]
