# SPDX-License-Identifier: Apache-2.0
"""Exponentials of single-precision numbers divided by a power of two, for sums with a running maximum.

``exp(x) / 2^k = 2^(x / ln(2) - k)`` for any integer ``k``. With ``k`` near the maximum divided by ln(2), sums of these
exponentials neither overflow nor need the maximum subtracted from x, and a sum is rescaled exactly when ``k`` grows.
Adding one exponential to a sum takes 12 instructions, a third fewer than with `syclsched.kernels.vectors.exponential`.
``2^f`` with ``|f| <= 1/2`` is a polynomial of degree 5 with constant term 1 and minimal relative error (9e-8, by
reweighted least squares).

Accurate while the maximum is between `LEAST` and `MOST`. Beyond that range rounding is too coarse, and callers use
another algorithm. Results below 2^-126.5 of the maximum are 0, as for minus infinity; NaN stays NaN.
"""

from __future__ import annotations

from typing import Any, Final

from syclsched.kernels.vectors.exponential import LOG2_E, ROUNDING
from syclsched.kernels.vectors.straight_line import FloatOps

#: Valid range of the maximum.
LEAST: Final = -65536.0
MOST: Final = 65536.0
LN2: Final = 0.6931471805599453
#: ln(2) in two parts; the product of the first part and k is (almost) exact. Their sum is 1e-8 (relative) above ln(2)
#: so that its inverse equals the single-precision log2(e) used here.
LN2_PARTS: Final = (0.693359375, -2.12185186683e-4)
#: Coefficients of 2^f, constant term first.
POLYNOMIAL: Final = (
    1.0,
    0.6931470036506653,
    0.24022242426872253,
    0.05550733581185341,
    0.009671512991189957,
    0.001326472731307149,
)


def exponent(o: FloatOps, top: Any) -> Any:
    """Emit the exponent k for numbers whose maximum is ``top``."""
    return o.binary("-", o.fma(top, LOG2_E, ROUNDING), ROUNDING)


def scaling(o: FloatOps, before: Any, now: Any) -> Any:
    """Emit the factor that converts a sum divided by 2^before to one divided by 2^now; now >= before."""
    apart = o.binary("-", before, now)
    return o.two_to(o.binary("+", o.choose(">", apart, -127.0, apart, -127.0), ROUNDING))


def power_over(o: FloatOps, x: Any, k: Any) -> Any:
    """Emit the exponential of a number, divided by 2^k."""
    return o.binary("*", *_factors(o, x, k))


def add_power(o: FloatOps, total: Any, x: Any, k: Any) -> Any:
    """Emit a sum plus `power_over` of a number."""
    return o.fma(*_factors(o, x, k), total)


def _factors(o: FloatOps, x: Any, k: Any) -> tuple[Any, Any]:
    least, shift = o.fma(k, LN2, -127 * LN2), o.binary("-", ROUNDING, k)
    x = o.choose("<", x, least, least, x)
    z = o.fma(x, LOG2_E, shift)
    f = o.fma(x, LOG2_E, o.binary("-", shift, z))
    # Horner's rule needs the fewest instructions; independent ones hide its latency.
    power: Any = POLYNOMIAL[-1]
    for coefficient in POLYNOMIAL[-2::-1]:
        power = o.fma(power, f, coefficient)
    return power, o.two_to(z)


#: Function name -> function.
FUNCTIONS: Final = {each.__name__: each for each in (exponent, scaling, power_over, add_power)}
