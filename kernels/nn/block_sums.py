# SPDX-License-Identifier: Apache-2.0
"""Register blocks of sums of products in kernels of a `KernelWriter`, for convolutions and matrix products.

See `syclsched.kernels.nn.panels` for blocks and packed weights. Rows' numbers are broadcast, columns are vectors. Each
result is one sum in the order of its terms, whatever the block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.kernels.tensor.writing.lines import least


@dataclass(frozen=True, slots=True)
class BlockStart:
    """First row or column of a block, and how many of the block's first ones its predecessors compute, too."""

    at: str
    repeated: str = ""  # empty if there are certainly none

    @classmethod
    def of(cls, w: KernelWriter, number: str, step: int, extent: str, known: int) -> BlockStart:
        """Emit the start of a block by its number; the last block of a line ends with the line.

        ``known`` is the extent when the kernel is generated.
        """
        wanted = w.index(f"{number} * {step}")
        at = least(w, wanted, f"({extent} - {step})")
        return cls(at, f"({wanted} - {at})" if known % step else "")


def count_blocks(w: KernelWriter, extent: str, step: int) -> str:
    """Emit how many blocks of ``step`` cover an extent, and return its name."""
    return w.index(w.div(f"({extent} + {step - 1})", str(step)))


@dataclass(frozen=True, slots=True)
class BlockSums:
    """Sums of a work-item's block."""

    w: KernelWriter
    dtype: str  # of the sums
    block: RegisterBlock
    names: list[list[str]]  # of the vectors of each row

    @classmethod
    def zeros(cls, w: KernelWriter, dtype: str, block: RegisterBlock) -> BlockSums:
        """Emit the sums, all zero."""
        with w.vectors_of(block.width):
            zero = w.spread(dtype, w.constant(0.0, dtype))
            names = [[w.variable(dtype, zero) for _ in range(block.vectors)] for _ in range(block.rows)]
        return cls(w, dtype, block, names)

    def read_columns(self, array: str, index: str, stride: str = "1", apart: str = "") -> list[str]:
        """Emit the vectors of an array for the block's columns, and return their names.

        ``apart`` is the distance between vectors, by default as many strides as they have elements.
        """
        w, width = self.w, self.block.width
        apart = apart or f"{width} * {stride}"
        with w.vectors_of(width):
            return [w.read(array, f"{index} + {j} * {apart}" if j else index, stride) for j in self._vectors]

    def add(self, values: Sequence[str], array: str, index: str, stride: str = "1", apart: str = "") -> None:
        """Emit the addition of one term to all sums, given the rows' numbers and where the columns' weights are."""
        w, t, width = self.w, self.dtype, self.block.width
        weights = self.read_columns(array, index, stride, apart)
        for value, row in zip(values, self.names, strict=True):
            number = w.loaded(t, value)
            with w.vectors_of(width):
                for name, weight in zip(row, weights, strict=True):
                    w.assign(name, t, w.add_multiple(t, number, weight, name))

    @property
    def _vectors(self) -> range:
        return range(self.block.vectors)

    def store(
        self,
        to: str,
        strides: tuple[str, str],
        finish: Callable[[str, str, int, int], str],
        rows: BlockStart,
        columns: BlockStart,
        *,
        once: bool = False,
    ) -> None:
        """Emit the stores of all sums, given the first one's offset in ``y`` and the strides of rows and columns.

        ``finish`` emits the result from a sum, its offset, its row and its first column. With ``once``, no element is
        stored by two blocks.
        """
        w, width = self.w, self.block.width
        down, along = strides
        for row, names in enumerate(self.names):
            # Every block has at least one new row, so its last row needs no check.
            check = once and rows.repeated and row < self.block.rows - 1
            with w.if_block(f"{row} >= {rows.repeated}") if check else nullcontext():
                for j, name in enumerate(names):
                    column = j * width
                    # Not named: as names, compilers keep the indices of all stores in registers during the sums.
                    at = " + ".join([to, *[f"{row} * {down}"] * (row > 0), *[f"{column} * {along}"] * (j > 0)])
                    with w.vectors_of(width):
                        found = finish(name, at, row, column)
                    self._store(
                        found, at, along, f"({columns.repeated} - {column})" if once and columns.repeated else ""
                    )

    def _store(self, value: str, at: str, along: str, repeated: str) -> None:
        """Emit the store of a vector, without its first elements if these are ``repeated``."""
        w, width = self.w, self.block.width
        with w.if_block(f"{repeated} <= 0") if repeated else nullcontext(), w.vectors_of(width):
            w.write("y", at, value, along)
        if not repeated or width == 1:
            return
        with w.if_block(f"{repeated} > 0"):
            held = w.private(self.dtype, width)
            with w.vectors_of(width):
                w.store_vector(held, "0", value, self.dtype)
            with w.loop(repeated, str(width)) as lane:
                w.write("y", f"{at} + {lane} * {along}", f"{held}[{lane}]")
