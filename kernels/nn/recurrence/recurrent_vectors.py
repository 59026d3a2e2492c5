# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers in OpenCL C for CPUs: a work-item computes all steps of a few sequences in vectors of hidden units.

The products with the inputs are computed for several steps at once, the weights of one vector of hidden units after
another, so that these stay in the first cache. The products with the state follow step by step. As many gates as have
their sums in registers are computed at once. Weights are packed once, those of a gate and a vector in one line. The
numbers of steps and of sequences are arguments, so that sequences of all lengths share the code.

The direction is stored as one more element behind the packed weights: both directions have the same code, and their
launches can be joined, so that two cores compute them. Where sequences have lengths, a work-item computes one of them,
no further than its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from syclsched.kernels.common import ITEM_BYTES, OPENCL_C, REAL_DTYPES, Activation, ceil_div
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.opencl_types import header
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.nn.recurrence.sequence_blocks import LENGTHS, PRIVATE_BYTES
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Requirements,
    Signature,
    Tailored,
)

#: Most sequences of a work-item.
_MOST_ROWS: Final = 4
#: Sums that fit into vector registers of 64 bytes beside the operands, and into those of processors without AVX-512.
_SUMS, _FEW_SUMS = 16, 6
#: Bytes of the products with inputs that are kept, of the steps computed at once.
_KEPT_BYTES: Final = 16 << 10
_MOST_STEPS: Final = 16
#: Cell -> gates computed from the state, phase by phase.
_PHASES: Final = {"rnn": ((0,),), "lstm": ((0, 1, 2, 3),), "gru": ((0, 1), (2,)), "gru_linear": ((0, 1, 2),)}


def recurrent(
    parameters: tuple[str, ...], cell: str, activations: tuple[Activation, ...], reverse: bool, coupled: bool
) -> Implementation:
    """Return the implementation of `syclsched.kernels.nn.recurrence.recurrent`."""
    known = partial(_Loop, parameters=parameters, cell=cell, activations=activations)
    return Implementation(
        "opencl-c",
        "opencl-c",
        partial(_load, known=known),
        _launch,
        Requirements(
            dtypes=(*REAL_DTYPES, *LENGTHS),
            backends=OPENCL_C.backends,
            device_kinds=("cpu",),
            packages=OPENCL_C.packages,
            refuses=partial(_refuses, cell=cell, coupled=coupled),
        ),
        efficiency=0.6,
        prepare=partial(_prepare, cell=cell, reverse=reverse),
        form=lambda signature, queue: ("recurrent", cell, reverse, _width(signature)),
        revision="4",
    )


def _refuses(signature: Signature, *, cell: str, coupled: bool) -> str | None:
    if coupled or {"p", "sum0"} & signature.shapes.keys():
        return "no peepholes, coupled gates or sums"
    if not {"w", "r"} <= signature.constants:
        return "the weights must be constant"
    steps, batch, hidden = signature.shapes["y"]
    if not steps * batch * hidden * signature.shapes["x"][2]:
        return "nothing is computed"
    fits = _private_bytes(signature, 1) <= PRIVATE_BYTES
    return None if fits else f"{hidden} hidden units are too many for the memory of a work-item"


@dataclass(frozen=True, slots=True)
class _Tiling:
    """Sizes of a work-item's part."""

    rows: int  # sequences of a work-item
    groups: int  # work-items
    steps: int  # whose products with inputs are computed at once
    width: int  # hidden units of a vector
    blocks: int  # vectors of hidden units


def _width(signature: Signature) -> int:
    _, _, hidden = signature.shapes["y"]
    return RegisterBlock.of(1, hidden, signature.dtypes["y"]).width


def _private_bytes(signature: Signature, rows: int) -> int:
    """Return the bytes of a work-item's arrays at most: states and cells of its sequences, biases, products."""
    hidden = ceil_div(signature.shapes["y"][2], _width(signature)) * _width(signature)
    biases = signature.shapes["b"][0] // signature.shapes["y"][2]
    items = 4 * rows * hidden + biases * hidden + rows * signature.shapes["r"][1]
    return _KEPT_BYTES + items * ITEM_BYTES[signature.dtypes["y"]]


def _tiled(signature: Signature, units: int) -> _Tiling:
    _, batch, hidden = signature.shapes["y"]
    wanted = 1 if "lengths" in signature.shapes else min(_MOST_ROWS, ceil_div(batch, units))
    fitting = (each for each in range(wanted, 1, -1) if _private_bytes(signature, each) <= PRIVATE_BYTES)
    rows = next((each for each in fitting if batch % each == 0), 1)
    width = _width(signature)
    blocks = ceil_div(hidden, width)
    gates = signature.shapes["r"][1] // hidden
    line = rows * gates * blocks * width * ITEM_BYTES[signature.dtypes["y"]]
    return _Tiling(rows, batch // rows, max(1, min(_MOST_STEPS, _KEPT_BYTES // line)), width, blocks)


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    return Launch((_tiled(signature, limits.compute_units).groups,), (1,))


def _prepare(
    signature: Signature, queue: Any, constants: Mapping[str, Any], *, cell: str, reverse: bool
) -> Mapping[str, Any]:
    """Return the constants with the matrices packed: by phase, block of hidden units, gate, row and unit."""
    import numpy as np

    hidden, width = signature.shapes["y"][2], _width(signature)
    phases = _PHASES[cell]
    every = tuple(gate for phase in phases for gate in phase)
    packed = {}
    for name, parts in (("w", (every,)), ("r", phases)):
        rows = constants[name].shape[0]
        columns = constants[name].reshape(rows, len(every), hidden)
        padded = np.pad(columns, ((0, 0), (0, 0), (0, -hidden % width))).reshape(rows, len(every), -1, width)
        pieces = [padded[:, part].transpose(2, 1, 0, 3).ravel() for part in parts]
        packed[name] = np.concatenate([*pieces, np.array([reverse], columns.dtype)]).reshape(1, -1)
    return {**constants, **packed}


def _load(signature: Signature, *, known: Any) -> Tailored:
    return Tailored(lambda limits: known(signature=signature, tiled=_tiled(signature, limits.compute_units)).source())


@dataclass(frozen=True, slots=True)
class _Loop:
    """Code of one kernel."""

    signature: Signature
    tiled: _Tiling
    parameters: tuple[str, ...]
    cell: str
    activations: tuple[Activation, ...]

    def source(self) -> OpenCLSource:
        """Return the kernel."""
        tiled, dtype, extents = self.tiled, self.signature.dtypes["y"], ExtentArguments()
        shape = self.signature.shapes["y"]
        steps, batch, hidden = extents("steps", shape[0]), extents("batch", shape[1]), shape[2]
        given = ", ".join(map(self._declared, self.parameters))
        end = "end" if "lengths" in self.parameters else steps
        lines = tiled.blocks * tiled.width
        functions = "\n".join(
            f"inline AV f{number}(AV u) {{ {act.opencl(each, 'u', dtype, 'AV')} return u; }}"
            for number, each in enumerate(self.activations)
        )
        has_cell, extra = self.cell == "lstm", self.cell == "gru"
        block = RegisterBlock(tiled.rows, 1, tiled.width)
        packed = self._hidden * self._gates * lines
        time = f"backwards ? {end} - 1 - (from + step) : from + step"
        beyond = f"y[((long)t * {batch} + first) * {hidden} + j]"
        source = f"""{header(dtype)}{panels.preamble(block, dtype)}
#define EACH_ROW for (int row = 0; row < {tiled.rows}; ++row)
{functions}
WHOLE_VECTORS __kernel void recurrent({given}{extents.declared}) {{
  A state[2][{tiled.rows}][{lines}];{f" A cell[{tiled.rows}][{lines}];" if has_cell else ""}
  {f"A kept[{tiled.rows}][{lines}], gate[{tiled.rows}][{lines}];" if extra else ""}
  A products[{tiled.steps}][{tiled.rows}][{tiled.blocks}][{self._gates}][{tiled.width}];
  A bias[{self._biases}][{lines}];
  const long first = (long)get_global_id(0) * {tiled.rows};
  const int backwards = r[{packed}] != 0;
  for (int g = 0; g < {self._biases}; ++g)
    for (int j = 0; j < {lines}; ++j) bias[g][j] = j < {hidden} ? b[g * {hidden} + j] : 0;
  EACH_ROW for (int j = 0; j < {lines}; ++j) {{
    state[0][row][j] = {self._start("h0")};
    {f"cell[row][j] = {self._start('c0')};" if has_cell else ""}
  }}
  int now = 0;
  {f"const int end = clamp((long)lengths[first], 0L, (long){steps});" if "lengths" in self.parameters else ""}
  for (int from = 0; from < {end}; from += {tiled.steps}) {{
    const int count = min({tiled.steps}, {end} - from);
    for (int block = 0; block < {tiled.blocks}; ++block) {{
{self._inputs(f"x + ((long)({time}) * {batch} + first + {{row}}) * {self._features}")}
    }}
    for (int step = 0; step < count; ++step) {{
{self._step()}
      now = 1 - now;
      EACH_ROW {{
        __global T* out = y + ((long)({time}) * {batch} + first + row) * {hidden};
        for (int j = 0; j < {hidden}; ++j) out[j] = state[now][row][j];
      }}
    }}
  }}
  {f"for (int t = end; t < {steps}; ++t) for (int j = 0; j < {hidden}; ++j) {beyond} = 0;" if end == "end" else ""}
  EACH_ROW for (int j = 0; j < {hidden}; ++j) {{
    {f"h[(first + row) * {hidden} + j] = state[now][row][j];" if "h" in self.parameters else ""}
    {f"c[(first + row) * {hidden} + j] = cell[row][j];" if "c" in self.parameters else ""}
  }}
}}
"""
        return OpenCLSource(source, "recurrent", extents=extents.values)

    def _declared(self, parameter: str) -> str:
        if parameter == "lengths":
            return (
                f"__global const {'long' if self.signature.dtypes[parameter] == 'int64' else 'int'}* restrict lengths"
            )
        return f"__global {'' if parameter in ('y', 'h', 'c') else 'const '}T* restrict {parameter}"

    @property
    def _hidden(self) -> int:
        return self.signature.shapes["y"][2]

    @property
    def _features(self) -> int:
        return self.signature.shapes["x"][2]

    @property
    def _gates(self) -> int:
        return self.signature.shapes["r"][1] // self._hidden

    @property
    def _biases(self) -> int:
        return self.signature.shapes["b"][0] // self._hidden

    def _start(self, name: str) -> str:
        if name not in self.parameters:
            return "0"
        return f"j < {self._hidden} ? {name}[(first + row) * {self._hidden} + j] : 0"

    def _parts(self, phase: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return a phase's gates in parts whose sums fit into registers."""
        most = max(1, (_FEW_SUMS if panels.has_small_registers() else _SUMS) // self.tiled.rows)
        size = ceil_div(len(phase), ceil_div(len(phase), most))
        return [phase[at : at + size] for at in range(0, len(phase), size)]

    def _inputs(self, start: str) -> str:
        """Return code that computes the products of all steps' inputs with the weights of a block, and adds biases.

        ``start`` is the address of a row's input of a step.
        """
        tiled, found = self.tiled, []
        line, rows = self._features * tiled.width, range(tiled.rows)
        inputs = " ".join(f"__global const T* in{row} = {start.format(row=row)};" for row in rows)
        for part in self._parts(tuple(range(self._gates))):
            sums = ", ".join(f"s{g}_{r} = LOADV(&bias[{g}][block * {tiled.width}])" for g in part for r in rows)
            loads = " ".join(f"const AV w{g} = LOADV(at + {g * line});" for g in part)
            updates = " ".join(
                f"{{ const AV v = (AV)(in{r}[k]); {' '.join(f's{g}_{r} = fma(v, w{g}, s{g}_{r});' for g in part)} }}"
                for r in rows
            )
            stores = " ".join(f"STOREV(&products[step][{r}][block][{g}][0], s{g}_{r});" for r in rows for g in part)
            found.append(f"""      for (int step = 0; step < count; ++step) {{
        {inputs}
        __global const T* at = w + (long)block * {self._gates * line};
        AV {sums};
        for (int k = 0; k < {self._features}; ++k, at += {tiled.width}) {{ {loads} {updates} }}
        {stores}
      }}""")
        return "\n".join(found)

    def _step(self) -> str:
        """Return code that computes the next state."""
        found, passed = [], 0
        phases = _PHASES[self.cell]
        for number, phase in enumerate(phases):
            body = self._finished(number)
            line = self._hidden * self.tiled.width
            found.append(f"""      for (int block = 0; block < {self.tiled.blocks}; ++block) {{
        const int at = block * {self.tiled.width};
        AV {self._starts(phase)};
        __global const T* weights = r + {passed} + (long)block * {len(phase) * line};""")
            for part in self._parts(phase):
                terms = self._sums(number, [(gate, phase.index(gate) * line) for gate in part])
                found += [f"        for (int k = 0; k < {self._hidden}; ++k) {{", f"          {terms}", "        }"]
            found.append(f"{body}\n      }}")
            passed += self.tiled.blocks * len(phase) * line
        return "\n".join(found)

    def _starts(self, phase: tuple[int, ...]) -> str:
        """Return the declarations of a phase's sums."""
        sums = []
        for gate in phase:
            for row in range(self.tiled.rows):
                start = f"LOADV(&products[step][{row}][block][{gate}][0])"
                if self.cell == "gru_linear" and gate == 2:  # its reset gate applies to this part alone
                    start = "LOADV(&bias[3][at])"
                sums.append(f"s{gate}_{row} = {start}")
        return ", ".join(sums)

    def _sums(self, number: int, gates: list[tuple[int, int]]) -> str:
        """Return the code that adds one term to the sums of some gates of a phase, given where their weights begin."""
        vector = "kept[{row}][k]" if number else "state[now][{row}][k]"
        found = [f"const AV w{gate} = LOADV(weights + {at} + k * {self.tiled.width});" for gate, at in gates]
        for row in range(self.tiled.rows):
            found.append(f"const AV v{row} = (AV)({vector.format(row=row)});")
            found += [f"s{gate}_{row} = fma(v{row}, w{gate}, s{gate}_{row});" for gate, _ in gates]
        return " ".join(found)

    def _finished(self, number: int) -> str:
        """Return code that computes the states of a block of hidden units from a phase's sums."""
        return "\n".join(f"        {{ {self._finished_row(number, row)} }}" for row in range(self.tiled.rows))

    def _finished_row(self, number: int, row: int) -> str:
        s = [f"s{gate}_{row}" for gate in range(self._gates)]
        old, new = f"LOADV(&state[now][{row}][at])", f"&state[1 - now][{row}][at]"
        if self.cell == "rnn":
            return f"STOREV({new}, f0({s[0]}));"
        if self.cell == "lstm":
            return (
                f"const AV next = f0({s[1]}) * LOADV(&cell[{row}][at]) + f0({s[0]}) * f1({s[2]}); "
                f"STOREV(&cell[{row}][at], next); STOREV({new}, f0({s[3]}) * f2(next));"
            )
        if self.cell == "gru_linear":
            part = f"LOADV(&products[step][{row}][block][2][0])"
            return (
                f"const AV update = f0({s[0]}), made = f1({part} + f0({s[1]}) * {s[2]}); "
                f"STOREV({new}, (1 - update) * made + update * {old});"
            )
        if number == 0:
            return f"STOREV(&gate[{row}][at], f0({s[0]})); STOREV(&kept[{row}][at], f0({s[1]}) * {old});"
        update = f"LOADV(&gate[{row}][at])"
        return f"const AV update = {update}; STOREV({new}, (1 - update) * f1({s[2]}) + update * {old});"
