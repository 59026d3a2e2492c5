# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers in OpenCL C: a work-group computes all steps of one sequence, its state in local memory."""

from __future__ import annotations

from functools import partial
from typing import Final

from syclsched.kernels.common import Activation, ceil_div
from syclsched.kernels.groups import ceil_power_of_two, head, implementation, most_items
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.opencl_types import empty_kernel, sum_dtype
from syclsched.model.operation import DeviceLimits, Implementation, Launch, OpenCLSource, Signature

_WRITTEN: Final = ("y", "h", "c", "sum0", "sum1", "sum2", "sum3")
#: More hidden units need more local memory than some devices have, and are left to others.
_MOST_HIDDEN: Final = 2048
#: In a group of fewer work-items than a vector has, up to 16, Intel's compiler for CPUs reads the state of the step
#: before the last.
LEAST_ITEMS: Final = 16


def recurrent(
    parameters: tuple[str, ...], cell: str, activations: tuple[Activation, ...], reverse: bool, coupled: bool
) -> Implementation:
    """Return the implementation of `syclsched.kernels.nn.recurrence.recurrent`."""
    source = partial(
        _source, parameters=parameters, cell=cell, activations=activations, reverse=reverse, coupled=coupled
    )
    return implementation(source, _launch, refuses=_refuses, device_kinds=())


def _refuses(signature: Signature) -> str | None:
    hidden = signature.shapes["y"][-1]
    return f"more than {_MOST_HIDDEN} hidden units" if hidden > _MOST_HIDDEN else None


def _items(signature: Signature, limits: DeviceLimits) -> int:
    """Return the work-items of a group; each computes one hidden unit, or several."""
    hidden = signature.shapes["y"][-1]
    return min(most_items(limits, 1), max(LEAST_ITEMS, ceil_power_of_two(hidden)))


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    items = _items(signature, limits)
    return Launch((max(1, signature.shapes["y"][1]) * items,), (items,))


def _source(
    signature: Signature,
    limits: DeviceLimits,
    *,
    parameters: tuple[str, ...],
    cell: str,
    activations: tuple[Activation, ...],
    reverse: bool,
    coupled: bool,
) -> OpenCLSource:
    given = ", ".join(_declared(name, signature) for name in parameters)
    steps, batch, hidden = signature.shapes["y"]
    features, dtype = signature.shapes["x"][2], signature.dtypes["y"]
    if not size((batch, hidden)):
        return empty_kernel("recurrent", given)
    items, kind = _items(signature, limits), sum_dtype(dtype)
    units, named = ceil_div(hidden, items), set(parameters)
    functions = "\n".join(
        f"A f{number}(A u) {{ {act.opencl(each, 'u', kind)} return u; }}" for number, each in enumerate(activations)
    )
    has_cell = cell == "lstm"
    start = "READ(h0, at)" if "h0" in named else "0"
    start_cell = "READ(c0, at)" if "c0" in named else "0"
    elements = max(map(size, signature.shapes.values()))
    source = f"""{head(dtype, kind, elements)}
#define EACH_UNIT for (int u = 0, j = lane; u < {units}; ++u, j += {items}) if (j < {hidden})
{functions}
__kernel __attribute__((reqd_work_group_size({items}, 1, 1))) void recurrent({given}) {{
  __local A state[{hidden}];{f" __local A kept[{hidden}];" if cell == "gru" else ""}
  const int lane = get_local_id(0), row = get_group_id(0);
  A next[{units}];{f" A cell[{units}];" if has_cell else ""}{f" A gate[{units}];" if cell == "gru" else ""}
  EACH_UNIT {{
    const I at = (I)row * {hidden} + j;
    state[j] = {start};{f" cell[u] = {start_cell};" if has_cell else ""}
  }}
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = 0; step < {steps}; ++step) {{
    const int t = {f"{steps - 1} - step" if reverse else "step"};
    const I from = ((I)t * {batch} + row) * {features}, to = ((I)t * {batch} + row) * {hidden};
    {"const int within = t < lengths[row];" if "lengths" in named else ""}
{_step(cell, hidden, features, coupled, named)}
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH_UNIT {{
      {"if (within)" if "lengths" in named else ""} state[j] = next[u];
      WRITE(y, to + j, {"within ? next[u] : 0" if "lengths" in named else "next[u]"});
    }}
    barrier(CLK_LOCAL_MEM_FENCE);
  }}
  EACH_UNIT {{
    const I at = (I)row * {hidden} + j;
    {"WRITE(h, at, state[j]);" if "h" in named else ""} {"WRITE(c, at, cell[u]);" if "c" in named else ""}
  }}
}}
"""
    return OpenCLSource(source, "recurrent")


def _declared(name: str, signature: Signature) -> str:
    if name == "lengths":
        return f"__global const {'long' if signature.dtypes[name] == 'int64' else 'int'}* restrict lengths"
    return f"__global {'' if name in _WRITTEN else 'const '}T* restrict {name}"


def _product(sums: dict[str, int], vector: str, weights: str, length: int, columns: int, hidden: int) -> str:
    """Return code that adds the product of a vector with some gates' columns of a matrix to their sums."""
    each = " ".join(
        f"{name} = fma(v, READ({weights}, (I)k * {columns} + {gate * hidden} + j), {name});"
        for name, gate in sums.items()
    )
    return f"for (int k = 0; k < {length}; ++k) {{ const A v = {vector}; {each} }}"


def _step(cell: str, hidden: int, features: int, coupled: bool, named: set[str]) -> str:
    """Return code that computes the next state of each unit."""
    gates = {"rnn": 1, "lstm": 4}.get(cell, 3)
    columns = gates * hidden
    names = {f"s{gate}": gate for gate in range(gates)}
    sums = "A " + ", ".join(f"{name} = READ(b, {gate * hidden} + j)" for name, gate in names.items()) + ";"

    def times(sums: dict[str, int], vector: str, weights: str) -> str:
        length = features if weights == "w" else hidden
        return _product(sums, vector, weights, length, columns, hidden)

    def kept(*gates: int) -> str:
        return " ".join(f"WRITE(sum{gate}, to + j, s{gate});" for gate in gates if f"sum{gate}" in named)

    inputs = times(names, "READ(x, from + k)", "w")
    if cell == "rnn":
        body = f"{sums} {inputs} {times(names, 'state[k]', 'r')} {kept(0)} next[u] = f0(s0);"
    elif cell == "lstm":
        peep = [f" + READ(p, {number * hidden} + j) * {what}" for number, what in enumerate(("old", "old", "now"))]
        peep = peep if "p" in named else [""] * 3
        body = f"""{sums} {inputs} {times(names, "state[k]", "r")} {kept(0, 1, 2, 3)}
      const A old = cell[u], in = f0(s0{peep[0]});
      const A now = {"(1 - in)" if coupled else f"f0(s1{peep[1]})"} * old + in * f1(s2);
      next[u] = f0(s3{peep[2]}) * f2(now);
      {"if (within)" if "lengths" in named else ""} cell[u] = now;"""
    elif cell == "gru_linear":
        body = f"""{sums} A s3 = READ(b, {3 * hidden} + j); {inputs}
      {times({"s0": 0, "s1": 1, "s3": 2}, "state[k]", "r")} {kept(0, 1, 2, 3)}
      const A update = f0(s0), made = f1(s2 + f0(s1) * s3);
      next[u] = (1 - update) * made + update * state[j];"""
    else:
        return f"""    EACH_UNIT {{
      {sums} {inputs} {times({"s0": 0, "s1": 1}, "state[k]", "r")} {kept(0, 1)}
      gate[u] = f0(s0); next[u] = s2; kept[j] = f0(s1) * state[j];
    }}
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH_UNIT {{
      A s2 = next[u]; {times({"s2": 2}, "kept[k]", "r")} {kept(2)}
      next[u] = (1 - gate[u]) * f1(s2) + gate[u] * state[j];
    }}"""
    return f"    EACH_UNIT {{\n      {body}\n    }}"
