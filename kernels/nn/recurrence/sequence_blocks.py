# SPDX-License-Identifier: Apache-2.0
"""Blocks of sequences of recurrent layers, as kernels for CPUs compute them: a work-item computes all steps of a block.

A block has as many sequences as have their sums with some vectors of columns in registers, so that a work-item reads
the weights once for each block and step. The last block of sequences or columns starts where it still fits, and
computes some of its predecessor's numbers again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from syclsched.kernels.common import OPENCL_C, REAL_DTYPES, ceil_div
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.model.operation import DeviceLimits, Implementation, Launch, OpenCLSource, Signature, Tailored

#: Types of the lengths of sequences.
LENGTHS: Final = ("int32", "int64")
#: Most bytes of a work-item's arrays: runtimes limit private memory.
PRIVATE_BYTES: Final = 96 << 10

_Source = Callable[[Signature, RegisterBlock], OpenCLSource]


@dataclass(frozen=True, slots=True)
class SequenceBlocks:
    """The blocks of sequences of a recurrent layer, or of its gradient."""

    states: str  # the array with a state for each step, sequence and hidden unit
    #: Returns the bytes that a sequence takes in a work-item's arrays.
    line_bytes: Callable[[Signature], int]

    def implementation(
        self, name: str, source: _Source, efficiency: float, refuses: Callable[[Signature], str | None] | None = None
    ) -> Implementation:
        """Return an implementation for CPUs whose work-items compute a block each."""
        refusal = partial(self._refuses, others=refuses)
        requires = replace(OPENCL_C, dtypes=(*REAL_DTYPES, *LENGTHS), device_kinds=("cpu",), refuses=refusal)
        return Implementation(
            name,
            "opencl-c",
            partial(self._load, source=source),
            self._launch,
            requires,
            efficiency=efficiency,
            revision="2",
        )

    def _refuses(self, signature: Signature, *, others: Callable[[Signature], str | None] | None) -> str | None:
        if others is not None and (refusal := others(signature)) is not None:
            return refusal
        if not size(signature.shapes[self.states]):
            return "nothing is computed"
        fits = self.line_bytes(signature) <= PRIVATE_BYTES
        hidden = signature.shapes[self.states][2]
        return None if fits else f"{hidden} hidden units are too many for the memory of a work-item"

    def _load(self, signature: Signature, *, source: _Source) -> Tailored:
        return Tailored(lambda limits: source(signature, self._block(signature, limits)))

    def _launch(self, signature: Signature, limits: DeviceLimits) -> Launch:
        batch = signature.shapes[self.states][1]
        return Launch((ceil_div(batch, self._block(signature, limits).rows),), (1,))

    def _block(self, signature: Signature, limits: DeviceLimits) -> RegisterBlock:
        """Return the sequences and vectors of a work-item."""
        _, batch, hidden = signature.shapes[self.states]
        each = ceil_div(batch, limits.compute_units)
        block = RegisterBlock.of(each, hidden, signature.dtypes[self.states])
        most = min(block.rows, max(1, PRIVATE_BYTES // self.line_bytes(signature)))
        return replace(block, rows=ceil_div(each, ceil_div(each, most)))


def each_unit(block: RegisterBlock, hidden: int, body: Callable[[str], str]) -> str:
    """Return code for all hidden units of a sequence: in vectors, and the rest one by one.

    The body is given the suffix of functions: ``v`` of vectors, ``s`` of scalars. It uses ``V`` (a type), ``LD``,
    ``ST``, and the index ``j`` of the unit.
    """
    whole = hidden - hidden % block.width
    return f"""#define V AV
#define LD LOADV
#define ST STOREV
      for (int j = 0; j < {whole}; j += {block.width}) {{ {body("v")} }}
#undef V
#undef LD
#undef ST
#define V A
#define LD(p) (*(p))
#define ST(p, v) *(p) = (v)
      for (int j = {whole}; j < {hidden}; ++j) {{ {body("s")} }}
#undef V
#undef LD
#undef ST"""


def products(
    block: RegisterBlock,
    columns: tuple[int, int],
    terms: list[tuple[str, str, tuple[int, int]]],
    start: str,
    store: Callable[[int, str, str], str],
) -> str:
    """Return code that computes sums of products for all sequences of a block.

    ``columns`` are the first column, and that behind the last. ``terms`` are factors: a number for the sequence
    ``{row}`` and the term ``k``, the address of a vector of weights from column ``j`` on, and the range of ``k``.
    ``start`` is the first value of a vector of sums, for columns from ``{j}`` on; ``store`` returns the statement that
    stores one, given its sequence, its first column and its name.
    """
    rows, vectors = range(block.rows), range(block.vectors)
    sums = [(row, number, f"j + {number * block.width}", f"s{row}_{number}") for row in rows for number in vectors]
    loops = "\n".join(
        f"""        for (int k = {begin}; k < {end}; ++k) {{
          {panels.step(block, [number.format(row=row) for row in rows], weights)}
        }}"""
        for number, weights, (begin, end) in terms
    )
    return f"""      for (int j0 = {columns[0]}; j0 < {columns[1]}; j0 += {block.columns}) {{
        const int j = min(j0, {columns[1] - block.columns});
        AV {", ".join(f"{name} = {start.format(j=j)}" for _, _, j, name in sums)};
{loops}
        {" ".join(store(row, j, name) for row, _, j, name in sums)}
      }}"""
