# SPDX-License-Identifier: Apache-2.0
"""Exponentials of single-precision numbers of at most 0, as softmax needs them: a third of the work of any number's.

``exp(x) = 2^k exp(r)`` with whole ``k`` and ``|r| <= ln(2) / 2``. The exponential of r is 1 + r + r^2 P(r), P a
polynomial with the least relative error (3e-9, found by reweighted least squares); rounding included the result is
right within one unit in the last place. What would be below the least normal number is 0, as of minus infinity; NaN
stays NaN. Numbers of up to 89 are taken, too; the result is infinite from 88.4 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from syclsched.kernels import straight_line
from syclsched.kernels.straight_line import Words

#: The least number whose exponential is not 0.
LEAST: Final = -87.3
#: Numbers below are taken for this one: its power of two has no exponent, and is 0.
_NOTHING: Final = -88.0
LOG2_E: Final = 1.4426950408889634
#: Added to a number, it leaves the nearest whole one, and the bias of an exponent, in the last bits: 1.5 * 2^23 + 127.
ROUNDING: Final = 12583039.0
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


def power(o: Words, x: Any) -> Any:
    """Write the exponential of a number."""
    more, scale = powers(o, o.choose("<", x, _NOTHING, _NOTHING, x), LN2)
    return o.binary("*", o.binary("+", more, 1.0), scale)


def powers(o: Words, x: Any, ln2: Sequence[float]) -> tuple[Any, Any]:
    """Write the exponential of r, less 1, and 2 to the power of k; ln(2) is given in parts."""
    z = o.fma(x, LOG2_E, ROUNDING)
    k, r = o.binary("-", z, ROUNDING), x
    for part in ln2:
        r = o.fma(k, -part, r)
    return o.fma(o.polynomial(POLYNOMIAL, r), o.binary("*", r, r), r), o.two_to(z)


def opencl(name: str, width: int) -> str:
    """Return `power` in OpenCL C, of vectors of ``width`` floats (1: of numbers)."""
    return straight_line.opencl(power, name, width)
