# SPDX-License-Identifier: Apache-2.0
"""Blocks of sequences of recurrent layers, as kernels for CPUs compute them: a work-item computes all steps of a block.

A block has as many sequences as have their sums with some vectors of columns in registers, so that a work-item reads
the weights once for each block and step. The last block of sequences or columns starts where it still fits, and
computes some of its predecessor's numbers again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from syclsched.kernels.common import OPENCL_C, REAL_DTYPES, ceil_div
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.model.operation import DeviceLimits, Implementation, Launch, OpenCLSource, Signature, Tailored

#: Most bytes of a work-item's arrays: runtimes limit private memory.
PRIVATE_BYTES: Final = 96 << 10

_Block = Callable[[Signature, DeviceLimits], RegisterBlock]
_Source = Callable[[Signature, RegisterBlock], OpenCLSource]


def implementation(
    name: str,
    block: _Block,
    source: _Source,
    refuses: Callable[[Signature], str | None],
    efficiency: float,
) -> Implementation:
    """Return an implementation for CPUs whose work-items compute a block of the sequences each."""
    requires = replace(OPENCL_C, dtypes=REAL_DTYPES, device_kinds=("cpu",), refuses=refuses)
    load, launch = partial(_load, block=block, source=source), partial(_launch, block=block)
    return Implementation(name, "opencl-c", load, launch, requires, efficiency=efficiency)


def _load(signature: Signature, *, block: _Block, source: _Source) -> Tailored:
    return Tailored(lambda limits: source(signature, block(signature, limits)))


def _launch(signature: Signature, limits: DeviceLimits, *, block: _Block) -> Launch:
    _, batch, _ = next(iter(signature.shapes.values()))
    return Launch((ceil_div(batch, block(signature, limits).rows),), (1,))


def sequence_block(batch: int, hidden: int, dtype: str, units: int, line_bytes: int) -> RegisterBlock:
    """Return the block of a work-item, given the bytes that a sequence takes in its arrays."""
    each = ceil_div(batch, units)
    block = RegisterBlock.of(each, hidden, dtype)
    most = min(block.rows, max(1, PRIVATE_BYTES // line_bytes))
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

    Parameters
    ----------
    block : RegisterBlock
        Sequences and vectors.
    columns : tuple of int
        The first column, and that behind the last.
    terms : list of tuple
        Factors: a number for the sequence ``{row}`` and the term ``k``, the address of a vector of weights from column
        ``j`` on, and the range of ``k``.
    start : str
        First value of a vector of sums, for columns from ``{j}`` on.
    store : Callable
        Returns the statement that stores a vector of sums, given its sequence, its first column and its name.
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
