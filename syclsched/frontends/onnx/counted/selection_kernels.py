# SPDX-License-Identifier: Apache-2.0
"""Selections in OpenCL C for CPUs: one work-item goes through all candidates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from syclsched.kernels.common import C_TYPES
from syclsched.model.operation import OpenCLSource, Signature

#: Source of the body of a kernel, given its signature and the attributes of its node.
_Body = Callable[..., str]


def has_kernel(operator: str, signature: Signature) -> bool:
    """Return whether a kernel computes a selection; half precision and lengths of inputs are left to the host."""
    return operator in _BODIES and "float16" not in signature.dtypes.values()


def selection_source(operator: str, signature: Signature, parameters: tuple[str, ...], attributes: Any) -> OpenCLSource:
    """Return the kernel of a selection."""
    arguments = ", ".join(
        f"__global {'' if name.startswith('y') or name == 'length' else 'const '}{C_TYPES[signature.dtypes[name]]}* "
        f"restrict {name}"
        for name in parameters
    )
    body = _BODIES[operator](signature, **attributes)
    return OpenCLSource(f"__kernel void select_({arguments}) {{\n{body}}}\n", "select_")


def _nonzero(signature: Signature) -> str:
    shape = signature.shapes["x0"]
    size = math.prod(shape)
    stores, rest = [], "i"
    for axis in reversed(range(len(shape))):
        stores.append(f"y0[{axis} * {size}L + n] = {rest}{f' % {shape[axis]}' if axis else ''};")
        rest = f"{rest} / {shape[axis]}"
    return f"""  long n = 0;
  for (long i = 0; i < {size}; ++i)
    if (x0[i] != 0) {{ {" ".join(stores)} ++n; }}
  for (long i = n; i < {size}; ++i)
    for (int axis = 0; axis < {len(shape)}; ++axis) y0[axis * {size}L + i] = 0;
  length[0] = n;
"""


def _non_max_suppression(signature: Signature, *, centered: bool) -> str:
    (batches, count, _), kinds, given = signature.shapes["x0"], signature.shapes["x1"][1], signature.shapes
    most = "(x2[0] < 0 ? 0 : x2[0])" if "x2" in given else "0"
    limit, least = "x3[0]" if "x3" in given else "0.0f", "x4[0]" if "x4" in given else None
    corners = (
        "const float ax = at[0] - at[2] / 2, bx = at[0] + at[2] / 2, ay = at[1] - at[3] / 2, by = at[1] + at[3] / 2;"
        if centered
        else "const float ax = fmin(at[0], at[2]), bx = fmax(at[0], at[2]), "
        "ay = fmin(at[1], at[3]), by = fmax(at[1], at[3]);"
    )
    # The candidates are in the places of results not yet made: (score's place, box) would need memory of its own. They
    # are a heap, the best at its top: few of many are taken, and each of these is compared with those taken before.
    return f"""  long n = 0;
  for (int batch = 0; batch < {batches}; ++batch)
    for (int kind = 0; kind < {kinds}; ++kind) {{
      __global const float* score = x1 + ((long)batch * {kinds} + kind) * {count};
      int left = 0;
      for (int i = 0; i < {count}; ++i)
        if ({f"score[i] > {least}" if least else "true"}) y1[left++] = i;
      for (int top = left / 2 - 1; top >= 0; --top) {{{_sifted("y1[top]", "top")}      }}
      for (const long first = n; left > 0 && n - first < {most};) {{
        const int box = y1[0];
        --left;
        if (left > 0) {{{_sifted("y1[left]", "0")}        }}
        float px, qx, py, qy;
        {{
          __global const float* at = x0 + ((long)batch * {count} + box) * 4;
          {corners}
          px = ax; qx = bx; py = ay; qy = by;
        }}
        const float area = (qx - px) * (qy - py);
        bool fits = true;
        for (long i = first; i < n && fits; ++i) {{
          __global const float* at = x0 + ((long)batch * {count} + y0[3 * i + 2]) * 4;
          {corners}
          const float other = (bx - ax) * (by - ay);
          const float shared = fmax(fmin(qx, bx) - fmax(px, ax), 0.0f) * fmax(fmin(qy, by) - fmax(py, ay), 0.0f);
          const float joined = area + other - shared;
          const bool real = area > 0 && other > 0 && joined > 0;
          fits = !(real && shared > {limit} * joined);
        }}
        if (fits) {{ y0[3 * n] = batch; y0[3 * n + 1] = kind; y0[3 * n + 2] = box; ++n; }}
      }}
    }}
  for (long i = 3 * n; i < {math.prod(given["y0"])}; ++i) y0[i] = 0;
  length[0] = n;
"""


def _sifted(candidate: str, place: str) -> str:
    """Return statements that put a candidate into the heap below a place that is free; equal scores go by number."""
    return f"""
        const int put = {candidate};
        const float own = score[put];
        int here = {place};
        for (int next = 2 * here + 1; next < left; next = 2 * here + 1) {{
          int down = y1[next];
          float best = score[down];
          if (next + 1 < left) {{
            const int right = y1[next + 1];
            const float a = score[right];
            if (a > best || (a == best && right < down)) {{ ++next; down = right; best = a; }}
          }}
          if (!(best > own || (best == own && down < put))) break;
          y1[here] = down;
          here = next;
        }}
        y1[here] = put;
"""


_BODIES: Final[dict[str, _Body]] = {"NonZero": _nonzero, "NonMaxSuppression": _non_max_suppression}
