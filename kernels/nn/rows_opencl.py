# SPDX-License-Identifier: Apache-2.0
"""OpenCL C fragments over rows of contiguous elements: a work-item processes a row, a vector at a time.

The remainder after the last whole vector is covered by a vector that ends with the row. Sums count only its new
elements; stores write some elements twice, with the same values.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.kernels.nn.opencl_types import BYTES, TYPES, header, literal, sum_dtype
from syclsched.kernels.nn.panels import RegisterBlock, preamble


@dataclass(frozen=True, slots=True)
class RowCode:
    """Code generator for rows of a given length and dtype."""

    length: int  # elements of a row, at least 1
    dtype: str  # NumPy dtype name

    @property
    def block(self) -> RegisterBlock:
        """The vectors, as a block."""
        width = 64 // max(4, BYTES[sum_dtype(self.dtype)])
        while width > self.length:
            width //= 2
        return RegisterBlock(1, 1, width)

    @property
    def head(self) -> str:
        """Types, ``LOADV``, ``STOREV``, and ``total`` of a vector."""
        width, halves = self.block.width, []
        while width > 1:
            width //= 2
            halves.append((f"A{width}" if width > 1 else "A", f"v{width}", f"v{2 * width}" if halves else "v"))
        total = "".join(f"const {kind} {half} = {whole}.lo + {whole}.hi; " for kind, half, whole in halves)
        end = f"return {halves[-1][1] if halves else 'v'};"
        kinds = "".join(f"typedef {_c(self.dtype)}{n} A{n};\n" for n in (2, 4, 8, 16))
        return f"{header(self.dtype)}{preamble(self.block, self.dtype)}{kinds}inline A total(AV v) {{ {total}{end} }}\n"

    def along(self, statements: str, at: str = "j") -> str:
        """Return a loop of statements over a row's vectors; some elements may be processed twice."""
        width, rest = self.block.width, self.length % self.block.width
        code = f"for (int {at} = 0; {at} + {width} <= {self.length}; {at} += {width}) {{ {statements} }}"
        if rest:
            code += f" {{ const int {at} = {self.length - width}; {statements} }}"
        return code

    def summed(self, into: str, statements: str, value: str) -> str:
        """Return code that sums ``value`` over all elements, after statements that may be repeated."""
        width, rest = self.block.width, self.length % self.block.width
        code = self._accumulated(f"sum_{into}", "(AV)0", statements, f"{{0}} += {value};", "{0} += {1};")
        if rest:
            fresh = ", ".join(literal(float(lane >= width - rest), sum_dtype(self.dtype)) for lane in range(width))
            code += f" {{ const int j = {self.length - width}; {statements} sum_{into} += (AV)({fresh}) * ({value}); }}"
        return f"{code} const A {into} = total(sum_{into});"

    def _accumulated(self, name: str, start: str, statements: str, change: str, combine: str) -> str:
        """Return code that accumulates all whole vectors, in several independent accumulators."""
        width = self.block.width
        whole = self.length // width
        count = _ACCUMULATORS if whole >= 2 * _ACCUMULATORS else 1
        names = [name, *(f"{name}_{number}" for number in range(1, count))]
        code = f"AV {', '.join(f'{each} = {start}' for each in names)};"
        end = whole // count * count * width
        code += f" for (int first = 0; first < {end}; first += {count * width}) {{"
        for number, each in enumerate(names):
            code += f" {{ const int j = first + {number * width}; {statements} {change.format(each)} }}"
        code += " }"
        for at in range(end, whole * width, width):
            code += f" {{ const int j = {at}; {statements} {change.format(name)} }}"
        return code + "".join(f" {combine.format(name, each)}" for each in names[1:])


#: Independent accumulators: about as many as the latency of an addition in cycles.
_ACCUMULATORS = 4


def _c(dtype: str) -> str:
    return TYPES[sum_dtype(dtype)]
