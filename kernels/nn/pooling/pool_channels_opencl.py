# SPDX-License-Identifier: Apache-2.0
"""Channels-last pooling in OpenCL C: a work-item computes some windows of a line for a few vectors of channels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from syclsched.kernels.common import Ints, ceil_div
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.pooling.pool_lines_opencl import seen_along
from syclsched.kernels.nn.rows_opencl import RowCode
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.kernels.windows import Window

#: Most vectors of channels per work-item; target number of work-items; most unrolled reads of an interior window.
_MOST_VECTORS, _TARGET_ITEMS, _MOST_UNROLLED = 4, 256, 64


@dataclass(frozen=True, slots=True)
class PooledChannels:
    """Code generator for channels-last pooling; channels first become images with one channel."""

    #: Shapes (images, *spatial, channels).
    y: Ints
    x: Ints
    dtype: str
    window: Window
    kernel: Ints

    @property
    def _arrays(self) -> tuple[tuple[str, Ints], ...]:
        return ("y", self.y), ("x", self.x)

    @property
    def width(self) -> int:
        """Lanes of a vector."""
        return RowCode(self.y[-1], self.dtype).block.width

    @property
    def head(self) -> str:
        """Type definitions of elements and vectors."""
        return f"{RowCode(self.y[-1], self.dtype).head}typedef AV AR;\n"

    @property
    def _vectors(self) -> int:
        return max(count for count in (1, 2, _MOST_VECTORS) if count * self.width <= self.y[-1] or count == 1)

    @property
    def _pieces(self) -> int:
        return ceil_div(self.y[-1], self._vectors * self.width)

    @property
    def _each(self) -> int:
        """Windows of a line per work-item."""
        wanted = _TARGET_ITEMS // (size(self.y[:-2]) * self._pieces)
        return ceil_div(self.y[-2], max(1, min(self.y[-2], wanted)))

    @property
    def items(self) -> int:
        """Total number of work-items."""
        return size(self.y[:-2]) * ceil_div(self.y[-2], self._each) * self._pieces

    def place(self, axis: int) -> tuple[str, int]:
        """Return the expression of a window's index along an axis, and how many windows a vector covers."""
        return f"o{axis}", 1

    def code(self, join: str, nothing: str, finish: str, given: ExtentArguments) -> tuple[str, str]:
        """Return functions and the statements of work-item ``i``; see `pool_lines_opencl.Lines.code`."""
        last, join = len(self.kernel) - 1, join.replace("{kind}", "AV")
        y, x = ([given(f"{name}_{axis}", shape[axis + 1]) for axis in range(last + 1)] for name, shape in self._arrays)
        count, each = given("channels", self.y[-1]), given("each", self._each)
        pieces, parts = given("pieces", self._pieces), given("parts", ceil_div(self.y[-2], self._each))
        block, vectors = self._vectors * self.width, range(self._vectors)
        number = "uint" if self.items < 1 << 32 else "size_t"  # divisions of 64 bits take longer
        strides = ["(size_t)" + " * ".join([*x[axis + 1 :], count]) for axis in range(last + 1)]
        axes, window, is_unrolled = range(last + 1), self.window, size(self.kernel) * self._vectors <= _MOST_UNROLLED

        def seen(axis: int) -> str:
            step, before = given(f"step_{axis}", window.strides[axis]), given(f"before_{axis}", window.begins[axis])
            reach = self.kernel[axis] if is_unrolled else given(f"reach_{axis}", self.kernel[axis])
            return seen_along(axis, step, before, window.dilations[axis], reach, x[axis])

        def read(at: str) -> str:
            loads = [f"READV(__global, p + {at} + {k * self.width})" for k in vectors]
            return " ".join(f"s{k} = {join.format(f's{k}', loads[k])};" for k in vectors)

        out = [f"const long stride{axis} = {stride};" for axis, stride in enumerate(strides)]
        out.append(f"const int c = min((int)(({number})i % {pieces}) * {block}, {count} - {block});")
        out.append(f"{number} rest = ({number})i / {pieces}; const int part = rest % {parts} * {each};")
        out.append(f"rest /= {parts}; y += (size_t)rest * {y[-1]} * {count} + c;")
        for axis in reversed(range(last)):
            out.append(f"const int o{axis} = rest % {y[axis]}; rest /= {y[axis]};")
            out.append(seen(axis))
            out.append(f"x += b{axis} * stride{axis};")
        out.append(f"x += (size_t)rest * {x[0]} * stride0 + c;")
        out.append(f"for (int o{last} = part; o{last} < min(part + {each}, {y[-1]}); ++o{last}) {{")
        out.append(seen(last))
        out.append(f"__global const T* p = x + b{last} * {count};")
        out.append(f"AV {', '.join(f's{k} = (AV){nothing}' for k in vectors)};")

        def place(choice: Sequence[int | str]) -> str:
            return " + ".join(f"{k} * {window.dilations[axis]} * stride{axis}" for axis, k in enumerate(choice))

        loops = "".join(f"for (int k{axis} = low{axis}; k{axis} < high{axis}; ++k{axis}) " for axis in axes)
        taps = f"{loops} {{ {read(place([f'k{axis}' for axis in axes]))} }}"
        if is_unrolled:
            inside = " && ".join(f"low{axis} == 0 && high{axis} == {self.kernel[axis]}" for axis in axes)
            reads = [read(place(choice)) for choice in itertools.product(*map(range, self.kernel))]
            taps = f"if ({inside}) {{ {' '.join(reads)} }} else {taps}"
        out.append(taps)
        for k in vectors:
            store = f"WRITEV(__global, y + o{last} * {count} + {k * self.width}, u);"
            out.append(f"{{ const AV v = s{k}; {finish.format('0')} {store} }}")
        return "", "\n  ".join([*out, "}"])
