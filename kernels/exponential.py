# SPDX-License-Identifier: Apache-2.0
"""Exponentials of single-precision numbers of at most 0, as softmax needs them: a third of the work of any number's.

``exp(x) = 2^k exp(r)`` with whole ``k`` and ``|r| <= ln(2) / 2``. The exponential of r is 1 + r + r^2 P(r), P a
polynomial with the least relative error (3e-9, found by reweighted least squares); rounding included the result is
right within one unit in the last place. What would be below 2e-38 is 0, as of minus infinity; NaN stays NaN.
"""

from __future__ import annotations

from typing import Final

#: The least number whose exponential is not 0.
LEAST: Final = -87.0
LOG2_E: Final = 1.4426950408889634
#: Added to a number, it leaves the nearest whole one in the last bits: 1.5 * 2^23.
ROUNDING: Final = 12582912.0
#: ln(2) in two parts: products of the first with whole numbers are exact.
LN2: Final = (0.693359375, -2.12194440e-4)
#: P, from the constant term on.
POLYNOMIAL: Final = (
    0.4999999403953552,
    0.1666652113199234,
    0.04166838899254799,
    0.008368716575205326,
    0.0013814597623422742,
)


def opencl(name: str, width: int) -> str:
    """Return a function in OpenCL C, of vectors of ``width`` floats (1: of numbers)."""
    suffix = "" if width == 1 else str(width)
    kind = f"float{suffix}"
    terms = f"({kind}){POLYNOMIAL[-1]!r}f"
    for each in POLYNOMIAL[-2::-1]:
        terms = f"fma({terms}, r, ({kind}){each!r}f)"
    return f"""inline {kind} {name}({kind} x) {{
  const {kind} t = x < {LEAST!r}f ? ({kind}){LEAST!r}f : x;
  const {kind} z = fma(t, ({kind}){LOG2_E!r}f, ({kind}){ROUNDING!r}f), k = z - {ROUNDING!r}f;
  const {kind} r = fma(k, ({kind}){-LN2[1]!r}f, fma(k, ({kind}){-LN2[0]!r}f, t));
  const {kind} p = fma({terms}, r * r, r) + 1.0f;
  return x < {LEAST!r}f ? ({kind})0.0f : p * as_{kind}((as_int{suffix}(z) + 127) << 23);
}}
"""
