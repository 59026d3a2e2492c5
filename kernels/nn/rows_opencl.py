# SPDX-License-Identifier: Apache-2.0
"""OpenCL C fragments over rows of contiguous elements: a work-item processes a row, a vector at a time.

The remainder after the last whole vector is covered by a vector that ends with the row, so that stores write some
elements twice, with the same values.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.kernels.common import C_TYPES, ITEM_BYTES
from syclsched.kernels.nn.opencl_types import header, sum_dtype
from syclsched.kernels.nn.panels import RegisterBlock, preamble


@dataclass(frozen=True, slots=True)
class RowCode:
    """Code generator for rows of a given length and dtype."""

    length: int  # elements of a row, at least 1
    dtype: str  # NumPy dtype name

    @property
    def block(self) -> RegisterBlock:
        """The vectors, as a block."""
        width = 64 // max(4, ITEM_BYTES[sum_dtype(self.dtype)])
        while width > self.length:
            width //= 2
        return RegisterBlock(1, 1, width)

    @property
    def head(self) -> str:
        """Types, ``LOADV`` and ``STOREV``."""
        kinds = "".join(f"typedef {C_TYPES[sum_dtype(self.dtype)]}{n} A{n};\n" for n in (2, 4, 8, 16))
        return header(self.dtype) + preamble(self.block, self.dtype) + kinds

    def along(self, statements: str, at: str = "j") -> str:
        """Return a loop of statements over a row's vectors; some elements may be processed twice."""
        width, rest = self.block.width, self.length % self.block.width
        code = f"for (int {at} = 0; {at} + {width} <= {self.length}; {at} += {width}) {{ {statements} }}"
        if rest:
            code += f" {{ const int {at} = {self.length - width}; {statements} }}"
        return code
