# SPDX-License-Identifier: Apache-2.0
"""Transposed convolution, as one convolution for each phase of the output stride.

Pixels of a line with the same remainder modulo the stride see the same kernel positions, and neighbouring elements
there. So a block consists of such pixels, and its sums are those of a convolution.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from syclsched.kernels.common import ceil_div
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.block_sums import BlockStart, BlockSums
from syclsched.kernels.nn.convolution.image_layout import ImageLayout
from syclsched.kernels.nn.geometry import size, spatial
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.tensor.writing.iteration_space import unravel_index
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.lines import least, product
from syclsched.kernels.windows import Window
from syclsched.model.operation import AS_GIVEN, DeviceLimits, Launch, Signature


def _block(signature: Signature, window: Window, last: bool) -> RegisterBlock:
    line = spatial(signature.shapes["y"], last)[-1]
    return RegisterBlock.of(max(1, line // window.strides[-1]), signature.shapes["w"][1], signature.dtypes["y"])


def _phases(signature: Signature, window: Window, last: bool) -> tuple[int, int]:
    """Return the number of remainders along the last axis and the number of blocks for each."""
    line = spatial(signature.shapes["y"], last)[-1]
    step = window.strides[-1]
    return min(step, line), ceil_div(ceil_div(line, step), _block(signature, window, last).rows)


def _items(signature: Signature, window: Window, groups: int, last: bool) -> int:
    y, outside = signature.shapes["y"], signature.shapes["w"][1]
    lines = y[0] * math.prod(spatial(y, last)[:-1]) * math.prod(_phases(signature, window, last))
    return lines * groups * panels.block_count(outside, _block(signature, window, last).columns)


def launch(signature: Signature, limits: DeviceLimits, *, window: Window, groups: int, last_: bool) -> Launch:
    """Return the index space."""
    if not size(signature.shapes["y"]):
        return Launch((1,), (1,))
    return panels.launch(limits, _items(signature, window, groups, last_))


def prepare(
    signature: Signature, queue: Any, constants: Mapping[str, Any], *, window: Window, groups: int, last_: bool
) -> Mapping[str, Any]:
    """Return the constants with the weights packed into panels."""
    if "w" not in constants or not size(signature.shapes["y"]):
        return constants
    w = constants["w"]
    inside, outside = w.shape[0] // groups, w.shape[1]
    terms = w.reshape(groups, inside, outside, size(w.shape[2:])).transpose(0, 2, 3, 1)
    terms = terms.reshape(groups, outside, inside * size(w.shape[2:]))
    return {**constants, "w": panels.packed(terms, outside, _block(signature, window, last_), w.ndim)}


def form(signature: Signature, queue: Any, *, window: Window, groups: int, last_: bool) -> Hashable:
    """Return what identifies the layout of the constants that `prepare` returns."""
    if "w" not in signature.constants or not size(signature.shapes["y"]):
        return AS_GIVEN
    block = _block(signature, window, last_)
    return "conv_transpose", groups, block.vectors, block.width


def write(w: KernelWriter, *, window: Window, groups: int, last_: bool, activation: Activation, bias: bool) -> None:
    """Emit the kernel."""
    signature, t = w.signature, compute_dtype(w.signature.dtypes["y"])
    if not size(signature.shapes["y"]):
        return
    block, kernel, outside = _block(signature, window, last_), signature.shapes["w"][2:], signature.shapes["w"][1]
    x, y = (ImageLayout.of(w, name, last_) for name in "xy")
    inside, step, positions = w.index(w.div(x.channels, str(groups))), window.strides[-1], size(kernel)
    phases, blocks = _phases(signature, window, last_)
    count = panels.block_count(outside, block.columns)
    item = w.index(w.item)
    space = (str(groups), str(count), y.images, *y.extents[:-1], str(phases), str(blocks))
    with w.if_block(f"{item} < {product(w, space)}"):
        group, panel, image, *outer, phase, number = unravel_index(w, item, space)
        columns = BlockStart.of(w, panel, block.columns, str(outside), outside)
        # The number of pixels of the line in this phase, and the first pixel of the block.
        in_phase = w.index(f"{w.div(f'({y.extents[-1]} - 1 - {phase})', str(step))} + 1")
        ox = w.index(f"{phase} + {least(w, f'({number} * {block.rows})', f'({in_phase} - {block.rows})')} * {step}")
        channel = w.index(f"{group} * {outside} + {columns.at}")
        is_packed = "w" in signature.constants
        if is_packed:
            weights = w.index(f"({group} * {count} + {panel}) * {positions * block.columns} * {inside}")
        else:
            weights = w.index(f"({group} * {inside} * {outside} + {columns.at}) * {positions}")
        sums, apart = BlockSums.zeros(w, t, block), [w.index(f"{r} * {x.strides[-1]}") for r in range(block.rows)]
        with ExitStack() as loops:
            seen, place = [], "0"
            for axis, (output, extent) in enumerate(zip([*outer, ox], kernel, strict=True)):
                k = loops.enter_context(w.loop("0", str(extent)))
                at = w.index(f"{output} + {window.begins[axis]} - {k} * {window.dilations[axis]}")
                loops.enter_context(w.if_block(f"{at} % {window.strides[axis]} == 0"))
                seen.append(w.index(w.div(at, str(window.strides[axis]))))
                if axis < len(kernel) - 1:
                    exists = w.all_of(f"({seen[-1]} >= 0)", f"({seen[-1]} < {x.extents[axis]})")
                    loops.enter_context(w.if_block(exists))
                place = f"({place} * {extent} + {k})"
            start, (*_, first) = w.index(x.offset(image, seen, f"{group} * {inside}")), seen
            wk = w.index(f"{weights} + {place}" + (f" * {inside} * {block.columns}" if is_packed else ""))

            def add(checks: Sequence[str]) -> None:
                with w.loop("0", inside) as c:
                    here = w.index(f"{start} + {c} * {x.channel}")
                    values = [w.load("x", f"{here} + {each}") for each in apart]
                    if checks:
                        zero = w.constant(0.0, t)
                        values = [w.select(check, v, zero) for check, v in zip(checks, values, strict=True)]
                    each = str(block.columns) if is_packed else f"{outside * positions}"
                    sums.add(values, "w", w.index(f"{wk} + {c} * {each}"), "1" if is_packed else str(positions))

            whole = w.all_of(f"({first} >= 0)", f"({first} + {block.rows - 1} < {x.extents[-1]})")
            with w.if_block(whole):
                add(())
            partly = w.all_of(w.negate(whole), f"({first} + {block.rows} > 0)", f"({first} < {x.extents[-1]})")
            with w.if_block(partly):
                rows = [w.index(f"{first} + {r}") for r in range(block.rows)]
                add([w.value("bool", w.all_of(f"({row} >= 0)", f"({row} < {x.extents[-1]})")) for row in rows])

        biases = sums.read_columns("b", channel) if bias else []

        def finish(s: str, at: str, row: int, column: int) -> str:
            if bias:
                s = w.value(t, f"{s} + {biases[column // block.width]}")
            return act.emit(w, activation, t, s)

        to = w.index(y.offset(image, [*outer, ox], channel))
        sums.store(to, (f"{step} * {y.strides[-1]}", y.channel), finish, BlockStart("0"), columns)
