# SPDX-License-Identifier: Apache-2.0
"""Channels-last pooling in OpenCL C: a work-item computes some windows of a line for a few vectors of channels."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from syclsched.kernels.common import Ints, ceil_div
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.pooling.pool_lines_opencl import seen_along
from syclsched.kernels.nn.rows_opencl import RowCode
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

    def code(self, join: str, nothing: str, finish: str) -> tuple[str, str]:
        """Return functions and the statements of work-item ``i``; see `pool_lines_opencl.Lines.code`."""
        y, x, count = self.y[1:-1], self.x[1:-1], self.y[-1]
        last, join = len(y) - 1, join.replace("{kind}", "AV")
        block, parts = self._vectors * self.width, ceil_div(y[-1], self._each)
        steps = [self.window.dilations[axis] * size(x[axis + 1 :]) * count for axis in range(len(x))]
        vectors = range(self._vectors)

        def read(at: str) -> str:
            loads = [f"READV(__global, p + {at} + {k * self.width})" for k in vectors]
            return " ".join(f"s{k} = {join.format(f's{k}', loads[k])};" for k in vectors)

        out = [f"const int c = min((int)(i % {self._pieces}) * {block}, {count - block});"]
        out.append(f"const int part = i / {self._pieces} % {parts} * {self._each};")
        out.append(f"size_t rest = i / {self._pieces * parts}; y += rest * {y[-1] * count} + c;")
        for axis in reversed(range(last)):
            out.append(f"const int o{axis} = rest % {y[axis]}; rest /= {y[axis]};")
            out.append(seen_along(axis, self.window, self.kernel, x[axis]))
            out.append(f"x += b{axis} * {size(x[axis + 1 :]) * count};")
        out.append(f"x += rest * {size(self.x[1:])} + c;")
        out.append(f"for (int o{last} = part; o{last} < min(part + {self._each}, {y[-1]}); ++o{last}) {{")
        out.append(seen_along(last, self.window, self.kernel, x[-1]))
        out.append(f"__global const T* p = x + b{last} * {count};")
        out.append(f"AV {', '.join(f's{k} = (AV){nothing}' for k in vectors)};")
        places = " + ".join(f"k{axis} * {step}" for axis, step in enumerate(steps))
        loops = "".join(
            f"for (int k{axis} = low{axis}; k{axis} < high{axis}; ++k{axis}) " for axis in range(len(steps))
        )
        each = f"{loops} {{ {read(places)} }}"
        if size(self.kernel) * self._vectors <= _MOST_UNROLLED:
            choices = itertools.product(*map(range, self.kernel))
            taps = [sum(k * step for k, step in zip(choice, steps, strict=True)) for choice in choices]
            inside = " && ".join(f"low{a} == 0 && high{a} == {self.kernel[a]}" for a in range(len(steps)))
            each = f"if ({inside}) {{ {' '.join(read(str(at)) for at in taps)} }} else {each}"
        out.append(each)
        for k in vectors:
            store = f"WRITEV(__global, y + o{last} * {count} + {k * self.width}, u);"
            out.append(f"{{ const AV v = s{k}; {finish.format('0')} {store} }}")
        return "", "\n  ".join([*out, "}"])
