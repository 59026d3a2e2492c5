# SPDX-License-Identifier: Apache-2.0
"""Channels-first pooling in OpenCL C: a work-item computes lines of windows of a channel, one after another.

Windows are first reduced along all axes but the last, in vectors of neighbouring source elements; then along the last
axis, by lane shuffles of a few such vectors. Windows of 3 by 3 thus read 3 elements each instead of 9.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from syclsched.kernels.common import Ints, ceil_div
from syclsched.kernels.nn import lane_shuffles
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.opencl_types import literal, sum_dtype
from syclsched.kernels.nn.rows_opencl import RowCode
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.kernels.windows import Window
from syclsched.model.operation import Signature

#: Target number of work-items.
_TARGET_ITEMS = 256


@dataclass(frozen=True, slots=True)
class PooledLines:
    """Code generator for channels-first pooling along lines."""

    signature: Signature  # with arrays y and x
    window: Window
    kernel: Ints
    line: list[lane_shuffles.ShuffledVector]  # the vectors of a line

    @classmethod
    def of(cls, signature: Signature, window: Window, kernel: Ints) -> PooledLines | None:
        """Return the generator, or None if a vector of windows needs too many source vectors."""
        y, x = signature.shapes["y"][-1], signature.shapes["x"][-1]
        begins = range(-window.begins[-1], y * window.strides[-1] - window.begins[-1], window.strides[-1])
        seen = [range(begin, begin + kernel[-1] * window.dilations[-1], window.dilations[-1]) for begin in begins]
        places = [[place if place < x else -1 for place in line] for line in seen]
        width, reading = (RowCode(each, signature.dtypes["y"]).block.width for each in (y, x))
        line = lane_shuffles.shuffled_vectors(places, [[1.0] * kernel[-1]] * y, x, width, reading)
        cost = size(kernel[:-1])
        if not line or lane_shuffles.code(line, signature.dtypes["y"], (width, reading), "", "", cost) is None:
            return None
        return cls(signature, window, kernel, line)

    @property
    def width(self) -> int:
        """Lanes of a result vector."""
        return self._rows("y").block.width

    @property
    def head(self) -> str:
        """Type definitions of elements, result vectors and source vectors."""
        reading = self._rows("x").block.width
        return self._rows("y").head + lane_shuffles.reader(self.signature.dtypes["x"], reading)

    def _rows(self, name: str) -> RowCode:
        return RowCode(self.signature.shapes[name][-1], self.signature.dtypes[name])

    @property
    def _each(self) -> int:
        """Lines per work-item."""
        y = self.signature.shapes["y"]
        lines = size(y[2:-1])
        return ceil_div(lines, max(1, min(lines, _TARGET_ITEMS // size(y[:2]))))

    @property
    def items(self) -> int:
        """Total number of work-items."""
        y = self.signature.shapes["y"]
        return size(y[:2]) * ceil_div(size(y[2:-1]), self._each)

    def place(self, axis: int) -> tuple[str, int]:
        """Return the expression of a window's index along an axis, and how many windows a vector covers."""
        return ("{0}", self.width) if axis == len(self.kernel) - 1 else (f"o{axis}", 1)

    def code(self, join: str, nothing: str, finish: str, given: ExtentArguments) -> tuple[str, str]:
        """Return functions and the statements of work-item ``i``."""
        y, x = self.signature.shapes["y"][2:], self.signature.shapes["x"][2:]
        dtype, window, outer = self.signature.dtypes["y"], self.window, range(len(y) - 1)
        block = self.width, self._rows("x").block.width
        join, wide = join.replace("{kind}", "AR"), join.replace("{kind}", "AV")
        steps = [window.dilations[axis] * size(x[axis + 1 :]) for axis in outer]
        choices = [*itertools.product(*(range(self.kernel[axis]) for axis in outer))]
        offsets = [sum(k * step for k, step in zip(choice, steps, strict=True)) for choice in choices]
        whole = f"LOADR(x0 + {{0}} + {offsets[0]})"
        for offset in offsets[1:]:
            whole = join.format(whole, f"LOADR(x0 + {{0}} + {offset})")
        # At an edge, only the existing elements.
        edge = f"seen(x0 + {{0}}{''.join(f', low{axis}, high{axis}' for axis in outer)})"
        store = f"{finish} WRITEV(__global, to_line + {{0}}, u);"
        codes = [lane_shuffles.code(self.line, dtype, block, load, store, 1, wide, nothing) for load in (whole, edge)]
        lines, parts = size(y[:-1]), ceil_div(size(y[:-1]), self._each)
        out = [f"const int part = i % {parts} * {self._each};"]
        out.append(f"x += i / {parts} * {size(x)}; y += i / {parts} * {size(y)};")
        out.append(f"for (int line = part; line < min(part + {self._each}, {lines}); ++line) {{ int rest = line;")
        out.append(f"__global T* const to_line = y + line * {y[-1]}; __global const T* x0 = x;")
        for axis in reversed(outer):
            out.append(f"const int o{axis} = rest % {y[axis]}; rest /= {y[axis]};")
            moves = window.strides[axis], window.begins[axis], window.dilations[axis]
            out.append(seen_along(axis, *moves, self.kernel[axis], x[axis]))
            out.append(f"x0 += b{axis} * {size(x[axis + 1 :])};")
        inside = " && ".join([*(f"low{axis} == 0 && high{axis} == {self.kernel[axis]}" for axis in outer), "1"])
        out.append(f"if ({inside}) {{ {codes[0]} }} else {{ {codes[1]} }} }}")
        return self._seen(steps, join, nothing), "\n  ".join(out)

    def _seen(self, steps: list[int], join: str, nothing: str) -> str:
        """Return the function that reduces windows along all axes but the last, at one position of the last."""
        outer = range(len(steps))
        loops = "".join(f"for (int k{axis} = low{axis}; k{axis} < high{axis}; ++k{axis}) " for axis in outer)
        where = " + ".join(["p", *(f"k{axis} * {step}" for axis, step in enumerate(steps))])
        given = "".join(f", int low{axis}, int high{axis}" for axis in outer)
        total = join.format("s", f"LOADR({where})")
        return f"inline AR seen(__global const T* p{given}) {{ AR s = (AR){nothing}; {loops}s = {total}; return s; }}\n"


def seen_along(axis: int, step: int | str, before: int | str, apart: int, reach: int | str, extent: int | str) -> str:
    """Return code that computes a window's start along an axis and the range of its positions within the array.

    ``step`` and ``before`` are stride and padding, ``apart`` the dilation, and ``reach`` the positions of a window.
    """
    begin = f"const int b{axis} = o{axis} * {step} - {before};"
    low = f"const int low{axis} = max(0, ({apart - 1} - b{axis}) / {apart});"
    return f"{begin} {low} const int high{axis} = min({reach}, ({extent} + {apart - 1} - b{axis}) / {apart});"


def reciprocals(
    axis: int, counts: list[int], dtype: str, at: str, width: int, given: ExtentArguments, *, in_array: bool
) -> tuple[str, str]:
    """Return a table of reciprocals, and the expression that reads it at ``at``.

    A single value needs no table, nor do counts of the positions within the array, which `seen_along` finds.
    """
    values = [1 / count if count else math.nan for count in counts]
    inverses = [literal(value, sum_dtype(dtype)) for value in values]
    if len(set(counts)) == 1:
        return "", given.real(f"share_{axis}", values[0]) if sum_dtype(dtype) == "float32" else inverses[0]
    if in_array and width == 1:
        return "", f"((A)1 / (A)max(0, high{axis} - low{axis}))"
    table = f"__constant A share{axis}[] = {{{', '.join(inverses)}}};\n"
    return table, f"vload{width}(0, share{axis} + {at})" if width > 1 else f"share{axis}[{at}]"
