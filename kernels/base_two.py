# SPDX-License-Identifier: Apache-2.0
"""Exponentials of many single-precision numbers, all less one of about the largest, in powers of two.

``exp(x) = 2^k 2^(x / ln(2) - k)`` for any whole ``k``: with one near what is largest divided by ln(2), sums of such
powers neither overflow nor need x less the largest number, and a sum is scaled exactly when ``k`` grows. That saves a
third of the instructions of `syclsched.kernels.exponential`: 12 for a power that is added to a sum. ``2^f`` with
``|f| <= 1/2`` is a polynomial of degree 5, 1 at 0, with the least relative error (9e-8, by reweighted least squares).

Right where the largest number is between `LEAST` and `MOST`; beyond, steps are too coarse, and callers go another way.
Powers of less than 2^-126.5 of the largest are 0, as of minus infinity; those of NaN are NaN.
"""

from __future__ import annotations

from typing import Any, Final

from syclsched.kernels.exponential import LOG2_E, ROUNDING
from syclsched.kernels.straight_line import Words

#: Of what is largest.
LEAST: Final = -65536.0
MOST: Final = 65536.0
LN2: Final = 0.6931471805599453
#: ln(2) in two parts: products of the first with such k are exact, or nearly. One part in 10^8 more, so that its
#: inverse is the logarithm to base 2 of e that is reckoned with, in single precision.
LN2_PARTS: Final = (0.693359375, -2.12185186683e-4)
#: Of 2^f, from the constant term on.
POLYNOMIAL: Final = (
    1.0,
    0.6931470036506653,
    0.24022242426872253,
    0.05550733581185341,
    0.009671512991189957,
    0.001326472731307149,
)


def exponent(o: Words, top: Any) -> Any:
    """Write the k of numbers that are at most some number."""
    return o.binary("-", o.fma(top, LOG2_E, ROUNDING), ROUNDING)


def scaling(o: Words, before: Any, now: Any) -> Any:
    """Write what makes a sum of powers less one k a sum of powers less another, which is not smaller."""
    apart = o.binary("-", before, now)
    return o.two_to(o.binary("+", o.choose(">", apart, -127.0, apart, -127.0), ROUNDING))


def power_over(o: Words, x: Any, k: Any) -> Any:
    """Write the exponential of a number, divided by 2^k."""
    return o.binary("*", *_factors(o, x, k))


def add_power(o: Words, total: Any, x: Any, k: Any) -> Any:
    """Write a sum to which `power_over` is added."""
    return o.fma(*_factors(o, x, k), total)


def _factors(o: Words, x: Any, k: Any) -> tuple[Any, Any]:
    least, shift = o.fma(k, LN2, -127 * LN2), o.binary("-", ROUNDING, k)
    x = o.choose("<", x, least, least, x)
    z = o.fma(x, LOG2_E, shift)
    f = o.fma(x, LOG2_E, o.binary("-", shift, z))
    # By Horner's rule, as it is the one with the fewest instructions: there are others to do while one waits.
    power: Any = POLYNOMIAL[-1]
    for coefficient in POLYNOMIAL[-2::-1]:
        power = o.fma(power, f, coefficient)
    return power, o.two_to(z)


#: By name.
FUNCTIONS: Final = {each.__name__: each for each in (exponent, scaling, power_over, add_power)}
