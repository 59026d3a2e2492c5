# SPDX-License-Identifier: Apache-2.0
"""Gradients of recurrent layers in OpenCL C: a work-group computes all steps of one sequence."""

from __future__ import annotations

from functools import partial

from syclsched.kernels.common import ceil_div
from syclsched.kernels.groups import ceil_power_of_two, head, implementation, most_items
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.opencl_types import empty_kernel
from syclsched.kernels.nn.recurrence.gradient_steps import PHASES, WRITTEN, first_part, reset_part
from syclsched.kernels.nn.recurrence.recurrent_groups import LEAST_ITEMS
from syclsched.model.operation import DeviceLimits, Implementation, Launch, OpenCLSource, Signature


def recurrent_gradient(parameters: tuple[str, ...], cell: str, reverse: bool) -> Implementation:
    """Return the implementation of `syclsched.kernels.nn.recurrence.recurrent_gradient`."""
    source = partial(_source, parameters=parameters, cell=cell, reverse=reverse)
    return implementation(source, _launch, device_kinds=())


def _items(signature: Signature, limits: DeviceLimits) -> int:
    """Return the work-items of a group; each computes one hidden unit, or several."""
    return min(most_items(limits, 1), max(LEAST_ITEMS, ceil_power_of_two(signature.shapes["dy"][2])))


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    items = _items(signature, limits)
    return Launch((max(1, signature.shapes["dy"][1]) * items,), (items,))


def _source(
    signature: Signature, limits: DeviceLimits, *, parameters: tuple[str, ...], cell: str, reverse: bool
) -> OpenCLSource:
    given = ", ".join(f"__global {'' if name in WRITTEN else 'const '}T* {name}" for name in parameters)
    steps, batch, hidden = signature.shapes["dy"]
    columns, dtype = signature.shapes["r"][0], signature.dtypes["d"]
    if not size((batch, hidden)):
        return empty_kernel("recurrent_gradient", given)
    items = _items(signature, limits)
    units, is_lstm = ceil_div(hidden, items), cell == "lstm"
    body = first_part(cell, hidden, keeps="keep" in parameters, state="state[u]", carried="carried[u]")
    elements = max(map(size, signature.shapes.values()))
    products = []
    for number, (begin, end) in enumerate(PHASES[cell]):
        start, after = "state[u]", "state[u] = sum;"
        if number < len(PHASES[cell]) - 1:
            start, after = "0", f"{reset_part(hidden, 'sum', 'state[u]')} state[u] = kept;"
        products.append(f"""    barrier(CLK_GLOBAL_MEM_FENCE);
    EACH_UNIT {{
      A sum = {start};
      for (int k = {begin * hidden}; k < {end * hidden}; ++k) sum = fma(g[k], r[(I)k * {hidden} + j], sum);
      {after}
    }}""")
    phases = "\n".join(products)
    source = f"""{head(dtype, dtype, elements)}
#define V A
#define LD(p) (*(p))
#define ST(p, v) *(p) = (v)
#define EACH_UNIT for (int u = 0, j = lane; u < {units}; ++u, j += {items}) if (j < {hidden})
__kernel __attribute__((reqd_work_group_size({items}, 1, 1))) void recurrent_gradient({given}) {{
  const int lane = get_local_id(0), row = get_group_id(0);
  const I first = (I)row * {hidden};
  A state[{units}];{f" A carried[{units}];" if is_lstm else ""}
  EACH_UNIT {{ state[u] = dh[first + j];{" carried[u] = dc[first + j];" if is_lstm else ""} }}
  for (int step = 0; step < {steps}; ++step) {{
    const int t = {"step" if reverse else f"{steps - 1} - step"};
    const I at = ((I)t * {batch} + row) * {hidden};
    __global T* g = d + ((I)t * {batch} + row) * {columns};
    {f"__global T* gx = dx + ((I)t * {batch} + row) * {columns};" if "dx" in parameters else ""}
    EACH_UNIT {{ {body} state[u] = base;{" carried[u] = c;" if is_lstm else ""} }}
{phases}
  }}
  EACH_UNIT {{ dh0[first + j] = state[u];{" dc0[first + j] = carried[u];" if is_lstm else ""} }}
}}
"""
    return OpenCLSource(source, "recurrent_gradient")
