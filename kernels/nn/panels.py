# SPDX-License-Identifier: Apache-2.0
"""Register-blocked sums of products: the OpenCL C that convolutions and matrix products share.

A work-item computes a block of ``rows`` by ``columns`` results: rows are pixels or matrix rows, columns are output
channels or matrix columns. For every term of the sums it loads the columns' weights once, as vectors, and broadcasts
each row's number: rows + vectors loads for rows * vectors fused multiply-adds. (Register blocking as in Goto and van de
Geijn, "Anatomy of high-performance matrix multiplication", 2008.) The last block of a line starts where it still fits
and recomputes part of its predecessor, so there is no remainder code; both write the same numbers. Only where sums are
added to existing values, each element is stored by the first block that computes it.

Constant weights are packed once into panels: the weights of one block of columns contiguously, in summation order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from syclsched.kernels.common import C_TYPES, ITEM_BYTES, ceil_div
from syclsched.kernels.nn.opencl_types import sum_dtype
from syclsched.model.operation import DeviceLimits, Launch
from syclsched.processor_flags import read_flags

#: Bytes of a vector: one AVX-512 register; compilers split it where registers are shorter.
VECTOR_BYTES: Final = 64
#: Most rows of a block: with two vectors each, 28 sums leave registers for the operands.
ROWS: Final = 14
#: The same with 16 registers of half that length: 12 of them are sums, of one vector each.
ROWS_OF_SHORT: Final = 6
#: Target number of work-groups per compute unit: blocks are large, so the tail effect matters.
GROUPS: Final = 16


@dataclass(frozen=True, slots=True)
class RegisterBlock:
    """The results of one work-item."""

    rows: int
    vectors: int  # of columns
    width: int  # elements of a vector

    @property
    def columns(self) -> int:
        """Columns of the block."""
        return self.vectors * self.width

    @classmethod
    def of(cls, rows: int, columns: int, dtype: str, most: int = ROWS) -> RegisterBlock:
        """Return an efficient block of at most ``most`` rows for lines of ``rows`` pixels and ``columns`` columns."""
        full = VECTOR_BYTES // ITEM_BYTES[sum_dtype(dtype)]
        is_short = has_short_registers()
        most = min(rows, most, ROWS_OF_SHORT) if is_short else min(rows, most)
        # The greatest of the heights with the least redundant work.
        tall = min(range(1, most + 1), key=lambda r: (ceil_div(rows, r) * (r + 3), -r))
        if is_short:
            wanted = 1 if tall > 2 else 2 if tall == 2 else 8
        else:
            wanted = 2 if tall > 6 else 4 if tall > 3 else 8
        width = full
        while width > columns:
            width //= 2
        vectors = 1
        while vectors * 2 <= wanted and vectors * 2 * width <= columns:
            vectors *= 2
        return cls(tall, vectors, width)


@lru_cache(maxsize=1)
def has_short_registers() -> bool:
    """Return whether the host's x86 processors have AVX2 but not AVX-512: 16 vector registers of 32 bytes.

    Sums that do not fit into registers are stored and loaded for every term: a convolution took twice as long.
    """
    flags = read_flags()
    return "avx2" in flags and "avx512f" not in flags


def block_count(extent: int, step: int) -> int:
    """Return how many blocks of ``step`` cover ``extent``."""
    return ceil_div(extent, step)


def launch(limits: DeviceLimits, items: int, most: int = 16) -> Launch:
    """Return an index space for blocks, in groups of at most ``most`` and small enough for load balance."""
    size = 1
    while size * 2 <= min(limits.max_work_group_size, most) and items >= GROUPS * limits.compute_units * size * 2:
        size *= 2
    return Launch((max(1, ceil_div(items, size)) * size,), (size,))


def vector(kind: str, width: int) -> str:
    """Return an OpenCL C vector type; the scalar itself for a width of 1."""
    return kind if width == 1 else f"{kind}{width}"


def preamble(block: RegisterBlock, dtype: str) -> str:
    """Return ``AV`` (a vector of sums), ``LOADV``, ``STOREV`` and the hint that keeps vectors whole."""
    total, width = C_TYPES[sum_dtype(dtype)], block.width
    av = vector(total, width)
    suffix = "" if width == 1 else str(width)
    load = f"vload{width}(0, p)" if width > 1 else "*(p)"
    store = f"vstore{width}(v, 0, p)" if width > 1 else "*(p) = (v)"
    if dtype == "float16":
        load, store = f"vload_half{suffix}(0, p)", f"vstore_half{suffix}(v, 0, p)"
    # With a scalar hint the compiler could split the vectors to vectorise across work-items.
    hint = f"__attribute__((vec_type_hint({av})))" if width > 1 else ""
    return f"typedef {av} AV;\n#define LOADV(p) {load}\n#define STOREV(p, v) {store}\n#define WHOLE_VECTORS {hint}\n"


def declare(block: RegisterBlock) -> str:
    """Return the declaration of the sums, all zero."""
    names = (f"s{r}_{j} = (AV)0" for r in range(block.rows) for j in range(block.vectors))
    return f"AV {', '.join(names)};"


def step(block: RegisterBlock, values: list[str], weights: str) -> str:
    """Return code that adds one term to all sums."""
    lines = [f"const AV w{j} = LOADV({weights} + {j * block.width});" for j in range(block.vectors)]
    for r, value in enumerate(values):
        updates = " ".join(f"s{r}_{j} = fma((AV)v, w{j}, s{r}_{j});" for j in range(block.vectors))
        lines.append(f"{{ const A v = {value}; {updates} }}")
    return "\n      ".join(lines)


def packed(weights: Any, columns: int, block: RegisterBlock, ndim: int) -> Any:
    """Return weights (groups, columns, terms) as panels (groups, panels, terms, columns of a block) in one line."""
    import numpy as np

    count = block_count(columns, block.columns)
    begins = [min(panel * block.columns, columns - block.columns) for panel in range(count)]
    pieces = [weights[:, begin : begin + block.columns].transpose(0, 2, 1) for begin in begins]
    return one_line(np.stack(pieces, axis=1), ndim)


def one_line(array: Any, ndim: int) -> Any:
    """Return all elements along the last of so many axes: Python kernels are compiled for the unpacked array's axes."""
    return array.reshape(*(1,) * (ndim - 1), -1)
