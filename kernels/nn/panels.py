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
from functools import cache
from typing import Any, Final

from syclsched.kernels.common import C_TYPES, ITEM_BYTES, VECTOR_AT_ANY, ceil_div
from syclsched.kernels.nn.opencl_types import sum_dtype
from syclsched.model.operation import DeviceLimits, Launch

#: Bytes of a vector: one AVX-512 register; compilers split it where registers are shorter.
VECTOR_BYTES: Final = 64
#: Most rows of a block: with two vectors each, 28 sums leave registers for the operands.
ROWS: Final = 14
#: Fewest sums of blocks of one vector: an addition takes four cycles, in which processors begin eight.
_FEWEST_SUMS: Final = 8
#: Most rows of such blocks even of lines that have ends to be checked.
_MOST_NARROW_ROWS: Final = 9
#: Share of the work of the usual block below which a block of one vector is taken: it loads more for each sum.
_LESS: Final = 0.96
#: Bytes of a vector of processors with 16 registers of that size.
_SMALL_VECTOR_BYTES: Final = 32
#: Their blocks of rows by vectors, and the time that each takes for a term (4 x 2 takes one for each sum): larger ones
#: spill sums to memory, and more rows evict each other from the near cache. Measured on a Zen 3.
_SMALL_BLOCKS: Final = {
    (4, 2): 8.0,
    (2, 4): 9.4,
    (3, 3): 10.0,
    (3, 2): 7.9,
    (2, 2): 7.8,
    (6, 2): 14.5,
    (5, 2): 11.5,
    (8, 1): 10.5,
    (6, 1): 8.5,
    (4, 1): 6.5,
    (12, 1): 14.5,
}
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

    @staticmethod
    def widest(dtype: str) -> int:
        """Return the elements of a vector that fills a register of the host."""
        return (_SMALL_VECTOR_BYTES if has_small_registers() else VECTOR_BYTES) // ITEM_BYTES[sum_dtype(dtype)]

    @classmethod
    def of(cls, rows: int, columns: int, dtype: str, most: int = ROWS) -> RegisterBlock:
        """Return an efficient block of at most ``most`` rows for lines of ``rows`` pixels and ``columns`` columns."""
        full = VECTOR_BYTES // ITEM_BYTES[sum_dtype(dtype)]
        if has_small_registers() and rows > 1:
            return cls.of_small_registers(rows, columns, dtype, most)
        # The greatest of the heights with the least redundant work.
        tall = min(range(1, min(rows, most) + 1), key=lambda r: (ceil_div(rows, r) * (r + 3), -r))
        wanted = 2 if tall > 6 else 4 if tall > 3 or tall == 1 else 8  # one row: more blocks to share
        width = full
        while width > columns:
            width //= 2
        vectors = 1
        while vectors * 2 <= wanted and vectors * 2 * width <= columns:
            vectors *= 2
        usual = cls(tall, vectors, width)
        if rows < _FEWEST_SUMS or vectors == 1:
            return usual
        # Lines of an odd number of vectors are recomputed less by blocks of one vector.
        tallest = min(rows, max(most, _MOST_NARROW_ROWS))
        narrow = min(
            (cls(tall, 1, width) for tall in range(_FEWEST_SUMS, tallest + 1)),
            key=lambda block: block._work(rows, columns),
        )
        return narrow if narrow._work(rows, columns) < _LESS * usual._work(rows, columns) else usual

    def _work(self, rows: int, columns: int) -> int:
        """Return the instructions for each term of all sums: one for each sum, and one for each vector's weights."""
        blocks = ceil_div(rows, self.rows) * ceil_div(columns, self.columns)
        return blocks * (self.rows + 1) * self.vectors

    @classmethod
    def of_small_registers(cls, rows: int, columns: int, dtype: str, most: int = ROWS) -> RegisterBlock:
        """Return the block with the least work for the host, a processor with few and short registers."""
        width = cls.widest(dtype)
        while width > columns:
            width //= 2

        def work(block: tuple[int, int]) -> float:
            tall, vectors = block
            return ceil_div(rows, tall) * ceil_div(columns, vectors * width) * _SMALL_BLOCKS[block]

        fitting = [(tall, v) for tall, v in _SMALL_BLOCKS if tall <= min(rows, most) and v * width <= columns]
        return cls(*(min(fitting, key=work) if fitting else (min(rows, most), 1)), width)


@cache
def has_small_registers() -> bool:
    """Return whether the host's processor has 16 vector registers of 32 bytes at most, as x86 without AVX-512."""
    from syclsched.processor_flags import read_flags

    flags = read_flags()
    return "sse2" in flags and "avx512f" not in flags


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
    """Return ``AV`` (a vector of sums), ``LOADV``, ``STOREV`` and the hint that keeps vectors whole.

    ``READV`` and ``WRITEV`` do the same and are compiled faster, but need the pointer's address space.
    """
    total, width = C_TYPES[sum_dtype(dtype)], block.width
    av = vector(total, width)
    suffix = "" if width == 1 else str(width)
    load = f"vload{width}(0, p)" if width > 1 else "*(p)"
    store = f"vstore{width}(v, 0, p)" if width > 1 else "*(p) = (v)"
    kind = vector(C_TYPES[dtype], width) + "_at_any" * (width > 1)
    defined = VECTOR_AT_ANY.format(C_TYPES[dtype], width, ITEM_BYTES[dtype]) if width > 1 else ""
    read, write = f"*(space const {kind}*)(p)", f"*(space {kind}*)(p) = (v)"
    if dtype == "float16":
        load, store = f"vload_half{suffix}(0, p)", f"vstore_half{suffix}(v, 0, p)"
        read, write, defined = load, store, ""
    # With a scalar hint the compiler could split the vectors to vectorise across work-items.
    hint = f"__attribute__((vec_type_hint({av})))" if width > 1 else ""
    return f"""typedef {av} AV;
{defined}#define LOADV(p) {load}
#define STOREV(p, v) {store}
#define READV(space, p) {read}
#define WRITEV(space, p, v) {write}
#define WHOLE_VECTORS {hint}
"""


def declare(block: RegisterBlock) -> str:
    """Return the declaration of the sums, all zero."""
    names = (f"s{r}_{j} = (AV)0" for r in range(block.rows) for j in range(block.vectors))
    return f"AV {', '.join(names)};"


def step(block: RegisterBlock, values: list[str], weights: str, space: str = "__global") -> str:
    """Return code that adds one term to all sums; the weights are in memory of an address space."""
    lines = [f"const AV w{j} = READV({space}, {weights} + {j * block.width});" for j in range(block.vectors)]
    for r, value in enumerate(values):
        updates = " ".join(f"s{r}_{j} = fma((AV)v, w{j}, s{r}_{j});" for j in range(block.vectors))
        lines.append(f"{{ const A v = {value}; {updates} }}")
    return "\n      ".join(lines)


def packed(weights: Any, columns: int, block: RegisterBlock, ndim: int, *, streamed: bool = False) -> Any:
    """Return weights (groups, columns, terms) as panels (groups, panels, terms, columns of a block) in one line.

    If ``streamed``, all terms of a vector of columns are neighbours: (groups, panels, vectors, terms, its columns).
    """
    import numpy as np

    groups, _, terms = weights.shape
    count = block_count(columns, block.columns)
    made = np.empty((groups, count, block.vectors, terms, block.width), weights.dtype)
    made = made if streamed else made.reshape(groups, count, terms, block.vectors, block.width).swapaxes(2, 3)
    for panel in range(count):
        begin = min(panel * block.columns, columns - block.columns)
        piece = weights[:, begin : begin + block.columns]
        made[:, panel] = piece.reshape(groups, block.vectors, block.width, terms).swapaxes(2, 3)
    return one_line(made if streamed else made.swapaxes(2, 3), ndim)


def one_line(array: Any, ndim: int) -> Any:
    """Return all elements along the last of several axes: Python kernels are compiled for the unpacked array's axes."""
    return array.reshape(*(1,) * (ndim - 1), -1)
