# SPDX-License-Identifier: Apache-2.0
"""Exponential of single-precision numbers of at most 0, as softmax needs it, at a third of the general cost.

``exp(x) = 2^k exp(r)`` with integer ``k`` and ``|r| <= ln(2) / 2``. The exponential of r is 1 + r + r^2 P(r), where the
polynomial P has minimal relative error (3e-9, found by reweighted least squares). The total error is at most one unit
in the last place. Results below the least normal number are 0, as for minus infinity; NaN stays NaN. Inputs up to 89
are valid, too; the result is infinite from 88.4 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from syclsched.kernels.vectors.straight_line import FloatOps

#: The least number whose exponential is not flushed to 0.
LEAST: Final = -87.3
#: Smaller numbers are clamped to this one; its biased exponent is 0, so the result is 0.
_UNDERFLOW: Final = -88.0
LOG2_E: Final = 1.4426950408889634
#: Adding it (1.5 * 2^23 + 127) leaves the nearest integer plus the exponent bias in the low bits.
ROUNDING: Final = 12583039.0
#: ln(2) in two parts; the product of the first part and an integer is exact.
LN2: Final = (0.693359375, -2.12194440e-4)
#: Coefficients of P, constant term first.
POLYNOMIAL: Final = (
    0.4999999403953552,
    0.1666652113199234,
    0.04166838899254799,
    0.008368716575205326,
    0.0013814597623422742,
)


def power(o: FloatOps, x: Any) -> Any:
    """Emit the exponential of a number."""
    more, scale = powers(o, o.choose("<", x, _UNDERFLOW, _UNDERFLOW, x), LN2)
    return o.binary("*", o.binary("+", more, 1.0), scale)


def powers(o: FloatOps, x: Any, ln2: Sequence[float]) -> tuple[Any, Any]:
    """Emit exp(r) - 1 and 2^k; ``ln2`` is ln(2) as a sum of parts."""
    z = o.fma(x, LOG2_E, ROUNDING)
    k, r = o.binary("-", z, ROUNDING), x
    for part in ln2:
        r = o.fma(k, -part, r)
    return o.fma(o.polynomial(POLYNOMIAL, r), o.binary("*", r, r), r), o.two_to(z)
