# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers in OpenCL C for CPUs: a work-item computes all steps of a block of sequences, also for training.

Weights are read as they are, so that they may change from call to call, and the sums of the gates can be written: the
layer's gradient needs them. Layers whose weights are constant have `recurrent_vectors`, which packs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from syclsched.kernels.common import ITEM_BYTES, Activation
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.opencl_types import header
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.nn.recurrence.sequence_blocks import SequenceBlocks, each_unit, products
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.model.operation import Implementation, OpenCLSource, Signature

_WRITTEN: Final = ("y", "h", "c", "sum0", "sum1", "sum2", "sum3")


@dataclass(frozen=True, slots=True)
class _Product:
    """Columns of the weights that are multiplied at once."""

    gates: tuple[int, int]  # the first, and that behind the last
    to: int  # the first of the sums
    inputs: bool = True  # whether the inputs are multiplied
    state: str = "state"  # the array that is multiplied by the recurrent weights; "" for none


#: Cell -> products of each phase of a step.
_PHASES: Final = {
    "rnn": ((_Product((0, 1), 0),),),
    "lstm": ((_Product((0, 4), 0),),),
    "gru": ((_Product((0, 2), 0),), (_Product((2, 3), 2, state="kept"),)),
    "gru_linear": ((_Product((0, 2), 0), _Product((2, 3), 2, state=""), _Product((2, 3), 3, inputs=False)),),
}


def recurrent(
    parameters: tuple[str, ...], cell: str, activations: tuple[Activation, ...], reverse: bool, coupled: bool
) -> Implementation:
    """Return the implementation of `syclsched.kernels.nn.recurrence.recurrent`."""
    known: dict[str, Any] = {"cell": cell, "activations": activations, "reverse": reverse, "coupled": coupled}
    source = partial(_source, parameters=parameters, **known)
    return SequenceBlocks("y", _line_bytes).implementation("opencl-c-blocks", source, 0.25, _refuses)


def _source(signature: Signature, block: RegisterBlock, **known: Any) -> OpenCLSource:
    return _Steps(signature, block, **known).source()


def _line_bytes(signature: Signature) -> int:
    """Return the bytes of a sequence's states, cells and sums."""
    hidden = signature.shapes["y"][2]
    return (3 * hidden + signature.shapes["b"][0]) * ITEM_BYTES[signature.dtypes["y"]]


def _refuses(signature: Signature) -> str | None:
    return "no peepholes" if "p" in signature.shapes else None


@dataclass(frozen=True, slots=True)
class _Steps:
    """Code of one kernel."""

    signature: Signature
    block: RegisterBlock
    parameters: tuple[str, ...]
    cell: str
    activations: tuple[Activation, ...]
    reverse: bool
    coupled: bool

    def source(self) -> OpenCLSource:
        """Return the kernel."""
        shape, extents = self.signature.shapes["y"], ExtentArguments()
        steps, batch, hidden = extents("steps", shape[0]), extents("batch", shape[1]), shape[2]
        dtype, rows, named = self.signature.dtypes["y"], self.block.rows, set(self.parameters)
        functions = "\n".join(
            f"inline {kind} f{number}{suffix}({kind} u) {{ {act.opencl(each, 'u', dtype, kind)} return u; }}"
            for number, each in enumerate(self.activations)
            for kind, suffix in (("AV", "v"), ("A", "s"))
        )
        array, has_cell = f"[{rows}][{hidden}]", self.cell == "lstm"
        more = f", cell{array}" if has_cell else f", kept{array}, gate{array}" if self.cell == "gru" else ""
        phases = "\n".join(self._phase(number, batch) for number in range(len(_PHASES[self.cell])))

        def first(name: str) -> str:
            return f"{name}[(first + row) * {hidden} + j]" if name in named else "0"

        source = f"""{header(dtype)}{panels.preamble(self.block, dtype)}
#define EACH_ROW for (int row = 0; row < {rows}; ++row)
{functions}
WHOLE_VECTORS __kernel void recurrent({", ".join(map(self._declared, self.parameters))}{extents.declared}) {{
  A state{array}, sums[{rows}][{self.signature.shapes["b"][0]}]{more};
  const long first = min((long)get_global_id(0) * {rows}, (long)({batch} - {rows}));
  EACH_ROW for (int j = 0; j < {hidden}; ++j) {{
    state[row][j] = {first("h0")};{f" cell[row][j] = {first('c0')};" if has_cell else ""}
  }}
  for (int step = 0; step < {steps}; ++step) {{
    const int t = {f"{steps} - 1 - step" if self.reverse else "step"};
    __global const T* in = x + ((long)t * {batch} + first) * {self.signature.shapes["x"][2]};
{phases}
  }}
  EACH_ROW for (int j = 0; j < {hidden}; ++j) {{
    {f"{first('h')} = state[row][j];" if "h" in named else ""} {f"{first('c')} = cell[row][j];" if "c" in named else ""}
  }}
}}
"""
        return OpenCLSource(source, "recurrent", extents=extents.values)

    def _declared(self, name: str) -> str:
        if name == "lengths":
            return f"__global const {'long' if self.signature.dtypes[name] == 'int64' else 'int'}* restrict lengths"
        return f"__global {'' if name in _WRITTEN else 'const '}T* restrict {name}"

    def _phase(self, number: int, batch: str) -> str:
        """Return code of the products of a phase, and of the operations on their sums; ``batch`` is a text."""
        hidden = self.signature.shapes["y"][2]
        lengths = "const int within = t < lengths[first + row];" if "lengths" in self.parameters else ""
        found = [self._product(each) for each in _PHASES[self.cell][number]]
        finished = each_unit(self.block, hidden, partial(self._finished, number))
        return "\n".join(
            [
                *found,
                f"    EACH_ROW {{ const long at = ((long)t * {batch} + first + row) * {hidden}; {lengths}",
                finished,
                "    }",
            ]
        )

    def _product(self, product: _Product) -> str:
        features, hidden = self.signature.shapes["x"][2], self.signature.shapes["y"][2]
        begin, end = (gate * hidden for gate in product.gates)
        columns, shift = self.signature.shapes["r"][1], (product.to - product.gates[0]) * hidden
        terms = []
        if product.inputs and features:
            terms.append((f"in[{{row}} * {features} + k]", f"w + (long)k * {columns} + j", (0, features)))
        if product.state:
            terms.append((f"{product.state}[{{row}}][k]", f"r + (long)k * {columns} + j", (0, hidden)))

        def store(row: int, column: str, name: str) -> str:
            return f"STOREV(&sums[{row}][{column} + {shift}], {name});"

        return products(self.block, (begin, end), terms, f"LOADV(b + {{j}} + {shift})", store)

    def _finished(self, number: int, suffix: str) -> str:
        """Return code that computes states from the sums of a phase."""
        hidden = self.signature.shapes["y"][2]
        every = [to for each in _PHASES[self.cell][number] for to in range(each.to, each.to + _count(each))]
        lines = [f"const V s{to} = LD(&sums[row][{to * hidden} + j]);" for to in every]
        lines += [f"ST(sum{to} + at + j, s{to});" for to in every if f"sum{to}" in self.parameters]

        def f(function: int, gate: int) -> str:
            return f"f{function}{suffix}(s{gate})"

        lines.append("const V old = LD(&state[row][j]);")
        if self.cell == "gru" and number == 0:
            return " ".join([*lines, f"ST(&gate[row][j], {f(0, 0)}); ST(&kept[row][j], {f(0, 1)} * old);"])
        if self.cell == "rnn":
            lines.append(f"const V new = {f(0, 0)};")
        elif self.cell == "lstm":
            forget = "(1 - in_gate)" if self.coupled else f(0, 1)
            lines.append(
                f"const V before = LD(&cell[row][j]), in_gate = {f(0, 0)}; "
                f"const V now = {forget} * before + in_gate * {f(1, 2)}; "
                f"ST(&cell[row][j], {self._within('now', 'before')}); const V new = {f(0, 3)} * f2{suffix}(now);"
            )
        elif self.cell == "gru":
            lines.append("const V update = LD(&gate[row][j]);")
            lines.append(f"const V new = (1 - update) * {f(1, 2)} + update * old;")
        else:
            lines.append(f"const V update = {f(0, 0)}, made = f1{suffix}(s2 + {f(0, 1)} * s3);")
            lines.append("const V new = (1 - update) * made + update * old;")
        lines.append(
            f"ST(&state[row][j], {self._within('new', 'old')}); ST(y + at + j, {self._within('new', '(V)0')});"
        )
        return " ".join(lines)

    def _within(self, value: str, beyond: str) -> str:
        """Return a value within the length of a sequence, and another beyond it."""
        return f"(within ? {value} : {beyond})" if "lengths" in self.parameters else value


def _count(product: _Product) -> int:
    return product.gates[1] - product.gates[0]
