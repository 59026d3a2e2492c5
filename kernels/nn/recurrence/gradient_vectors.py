# SPDX-License-Identifier: Apache-2.0
"""Gradients of recurrent layers in OpenCL C for CPUs: a work-item computes all steps of some sequences in vectors.

The recurrent weights are read once for each block of sequences whose sums fit into registers. The last block of
sequences or hidden units starts where it still fits, and computes some of its predecessor's numbers again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from syclsched.kernels.common import ITEM_BYTES, OPENCL_C, REAL_DTYPES, ceil_div
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.opencl_types import header
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.nn.recurrence.gradient_steps import PHASES, WRITTEN, first_part, reset_part
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Requirements,
    Signature,
    Tailored,
)

#: Most sequences of a register block: more sums do not fit into 16 registers of 32 bytes.
_BLOCK_ROWS: Final = 4
#: Most bytes of a work-item's arrays: runtimes limit private memory.
_PRIVATE_BYTES: Final = 96 << 10
#: Arrays of a work-item with an element for each of its sequences and hidden units.
_ARRAYS: Final = 3


def recurrent_gradient(parameters: tuple[str, ...], cell: str, reverse: bool) -> Implementation:
    """Return the implementation of `syclsched.kernels.nn.recurrence.recurrent_gradient`."""
    return Implementation(
        "opencl-c",
        "opencl-c",
        partial(_load, parameters=parameters, cell=cell, reverse=reverse),
        _launch,
        Requirements(
            dtypes=REAL_DTYPES,
            backends=OPENCL_C.backends,
            device_kinds=("cpu",),
            packages=OPENCL_C.packages,
            refuses=_refuses,
        ),
        efficiency=0.4,
    )


def _line_bytes(signature: Signature) -> int:
    return _ARRAYS * signature.shapes["dy"][2] * ITEM_BYTES[signature.dtypes["d"]]


def _refuses(signature: Signature) -> str | None:
    if not size(signature.shapes["dy"]):
        return "nothing is computed"
    hidden = signature.shapes["dy"][2]
    fits = _line_bytes(signature) <= _PRIVATE_BYTES
    return None if fits else f"{hidden} hidden units are too many for the memory of a work-item"


def _rows(signature: Signature, units: int) -> int:
    """Return the sequences of a work-item."""
    return min(ceil_div(signature.shapes["dy"][1], units), _PRIVATE_BYTES // _line_bytes(signature))


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    return Launch((ceil_div(signature.shapes["dy"][1], _rows(signature, limits.compute_units)),), (1,))


def _load(signature: Signature, *, parameters: tuple[str, ...], cell: str, reverse: bool) -> Tailored:
    def source(limits: DeviceLimits) -> OpenCLSource:
        return _BackwardLoop(signature, _rows(signature, limits.compute_units), parameters, cell, reverse).source()

    return Tailored(source)


@dataclass(frozen=True, slots=True)
class _BackwardLoop:
    """Code of one kernel."""

    signature: Signature
    rows: int
    parameters: tuple[str, ...]
    cell: str
    reverse: bool

    def source(self) -> OpenCLSource:
        """Return the kernel."""
        given = ", ".join(f"__global {'' if p in WRITTEN else 'const '}T* restrict {p}" for p in self.parameters)
        steps, batch, hidden = self.signature.shapes["dy"]
        dtype, columns, is_lstm = self.signature.dtypes["d"], self._columns, self.cell == "lstm"
        array = f"[{self.rows}][{hidden}]"
        row_of = f"((long)t * {batch} + first + row)"
        keeps = "keep" in self.parameters
        begin = first_part(self.cell, hidden, keeps=keeps, state="LD(&state[row][j])", carried="LD(&carried[row][j])")
        begin += f" ST(&bases[row][j], base);{' ST(&carried[row][j], c);' if is_lstm else ''}"
        reset = f"{reset_part(hidden, 'LD(&state[row][j])', 'LD(&bases[row][j])')} ST(&bases[row][j], kept);"
        phases = PHASES[self.cell]
        parts = [self._each_element(begin, row_of)]
        for number, gates in enumerate(phases):
            is_last = number == len(phases) - 1
            parts.append(self._product(gates, has_base=is_last))
            if not is_last:
                parts.append(self._each_element(reset, row_of))
        block, body = self._block, "\n".join(parts)
        source = f"""{header(dtype)}{panels.preamble(block, dtype)}
WHOLE_VECTORS __kernel void recurrent_gradient({given}) {{
  A state{array}, bases{array}{f", carried{array}" if is_lstm else ""};
  const long first = min((long)get_global_id(0) * {self.rows}, (long){batch - self.rows});
  for (int row = 0; row < {self.rows}; ++row)
    for (int j = 0; j < {hidden}; ++j) {{
      const long at = (first + row) * {hidden} + j;
      state[row][j] = dh[at];{" carried[row][j] = dc[at];" if is_lstm else ""}
    }}
  for (int step = 0; step < {steps}; ++step) {{
    const int t = {"step" if self.reverse else f"{steps - 1} - step"};
    __global const T* rows = d + ((long)t * {batch} + first) * {columns};
{body}
  }}
  for (int row = 0; row < {self.rows}; ++row)
    for (int j = 0; j < {hidden}; ++j) {{
      const long at = (first + row) * {hidden} + j;
      dh0[at] = state[row][j];{" dc0[at] = carried[row][j];" if is_lstm else ""}
    }}
}}
"""
        return OpenCLSource(source, "recurrent_gradient")

    @property
    def _columns(self) -> int:
        return self.signature.shapes["r"][0]

    @property
    def _block(self) -> RegisterBlock:
        """The sums that stay in registers: the fewer sequences, the more hidden units."""
        hidden = self.signature.shapes["dy"][2]
        rows = min(self.rows, _BLOCK_ROWS)
        width = RegisterBlock.of(1, hidden, self.signature.dtypes["d"]).width
        vectors = max(1, min(_BLOCK_ROWS // rows, hidden // width))
        return RegisterBlock(rows, vectors, width)

    def _each_element(self, body: str, row_of: str) -> str:
        """Return code for all elements of a row: in vectors, and the rest one by one."""
        hidden, width = self.signature.shapes["dy"][2], self._block.width
        whole = hidden - hidden % width
        g = f"__global T* g = d + {row_of} * {self._columns};"
        gx = f" __global T* gx = dx + {row_of} * {self._columns};" if "dx" in self.parameters else ""
        return f"""    for (int row = 0; row < {self.rows}; ++row) {{
      const long at = {row_of} * {hidden};
      {g}{gx}
#define V AV
#define LD LOADV
#define ST STOREV
      for (int j = 0; j < {whole}; j += {width}) {{ {body} }}
#undef V
#undef LD
#undef ST
#define V A
#define LD(p) (*(p))
#define ST(p, v) *(p) = (v)
      for (int j = {whole}; j < {hidden}; ++j) {{ {body} }}
#undef V
#undef LD
#undef ST
    }}"""

    def _product(self, gates: tuple[int, int], *, has_base: bool) -> str:
        """Return code that sets the state to the product of some gates' gradients with the weights, and its base."""
        block, hidden = self._block, self.signature.shapes["dy"][2]
        values = [f"from[{row * self._columns} + k]" for row in range(block.rows)]
        stores = []
        for row in range(block.rows):
            for number in range(block.vectors):
                place = f"[row + {row}][j + {number * block.width}]"
                base = f" + LOADV(&bases{place})" if has_base else ""
                stores.append(f"STOREV(&state{place}, s{row}_{number}{base});")
        return f"""    for (int j0 = 0; j0 < {hidden}; j0 += {block.columns})
      for (int row0 = 0; row0 < {self.rows}; row0 += {block.rows}) {{
        const int j = min(j0, {hidden - block.columns}), row = min(row0, {self.rows - block.rows});
        __global const T* from = rows + row * {self._columns};
        {panels.declare(block)}
        for (int k = {gates[0] * hidden}; k < {gates[1] * hidden}; ++k) {{
          {panels.step(block, values, f"r + (long)k * {hidden} + j")}
        }}
        {" ".join(stores)}
      }}"""
