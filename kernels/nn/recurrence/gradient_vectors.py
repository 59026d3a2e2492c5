# SPDX-License-Identifier: Apache-2.0
"""Gradients of recurrent layers in OpenCL C for CPUs: a work-item computes all steps of a block of sequences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from syclsched.kernels.common import ITEM_BYTES
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.opencl_types import header
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.nn.recurrence.gradient_steps import PHASES, WRITTEN, first_part, reset_part
from syclsched.kernels.nn.recurrence.sequence_blocks import SequenceBlocks, each_unit, products
from syclsched.model.operation import Implementation, OpenCLSource, Signature

#: Arrays of a work-item with an element for each of its sequences and hidden units.
_ARRAYS: Final = 3


def recurrent_gradient(parameters: tuple[str, ...], cell: str, reverse: bool) -> Implementation:
    """Return the implementation of `syclsched.kernels.nn.recurrence.recurrent_gradient`."""
    source = partial(_source, parameters=parameters, cell=cell, reverse=reverse)
    return SequenceBlocks("dy", _line_bytes).implementation("opencl-c", source, 0.4)


def _source(signature: Signature, block: RegisterBlock, **known: Any) -> OpenCLSource:
    return _BackwardLoop(signature, block, **known).source()


def _line_bytes(signature: Signature) -> int:
    return _ARRAYS * signature.shapes["dy"][2] * ITEM_BYTES[signature.dtypes["dy"]]


@dataclass(frozen=True, slots=True)
class _BackwardLoop:
    """Code of one kernel."""

    signature: Signature
    block: RegisterBlock
    parameters: tuple[str, ...]
    cell: str
    reverse: bool

    def source(self) -> OpenCLSource:
        """Return the kernel."""
        given = ", ".join(f"__global {'' if p in WRITTEN else 'const '}T* restrict {p}" for p in self.parameters)
        steps, batch, hidden = self.signature.shapes["dy"]
        dtype, columns, is_lstm = self.signature.dtypes["d"], self._columns, self.cell == "lstm"
        array = f"[{self.block.rows}][{hidden}]"
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
        body = "\n".join(parts)
        source = f"""{header(dtype)}{panels.preamble(self.block, dtype)}
WHOLE_VECTORS __kernel void recurrent_gradient({given}) {{
  A state{array}, bases{array}{f", carried{array}" if is_lstm else ""};
  const long first = min((long)get_global_id(0) * {self.block.rows}, (long){batch - self.block.rows});
  for (int row = 0; row < {self.block.rows}; ++row)
    for (int j = 0; j < {hidden}; ++j) {{
      const long at = (first + row) * {hidden} + j;
      state[row][j] = dh[at];{" carried[row][j] = dc[at];" if is_lstm else ""}
    }}
  for (int step = 0; step < {steps}; ++step) {{
    const int t = {"step" if self.reverse else f"{steps - 1} - step"};
    __global const T* rows = d + ((long)t * {batch} + first) * {columns};
{body}
  }}
  for (int row = 0; row < {self.block.rows}; ++row)
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

    def _each_element(self, body: str, row_of: str) -> str:
        """Return code for all elements of all rows."""
        hidden = self.signature.shapes["dy"][2]
        g = f"__global T* g = d + {row_of} * {self._columns};"
        gx = f" __global T* gx = dx + {row_of} * {self._columns};" if "dx" in self.parameters else ""
        return f"""    for (int row = 0; row < {self.block.rows}; ++row) {{
      const long at = {row_of} * {hidden};
      {g}{gx}
{each_unit(self.block, hidden, lambda _: body)}
    }}"""

    def _product(self, gates: tuple[int, int], *, has_base: bool) -> str:
        """Return code that sets the state to the product of some gates' gradients with the weights, and its base."""
        hidden = self.signature.shapes["dy"][2]

        def store(row: int, column: str, name: str) -> str:
            place = f"[{row}][{column}]"
            return f"STOREV(&state{place}, {name}{f' + LOADV(&bases{place})' if has_base else ''});"

        values, weights = f"rows[{{row}} * {self._columns} + k]", f"r + (long)k * {hidden} + j"
        terms = [(values, weights, (gates[0] * hidden, gates[1] * hidden))]
        return products(self.block, (0, hidden), terms, "(AV)0", store)
