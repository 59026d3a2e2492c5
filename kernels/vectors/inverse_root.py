# SPDX-License-Identifier: Apache-2.0
"""Powers -1/2 and -3/4 of single-precision numbers, without hardware division and square root.

Division and square root take as long as twenty multiplications. An approximation is one instruction: with the relative
error 1.5 2^-12 (SSE and AVX) or 2^-14 (AVX-512) at most. For y near x^(-1/n) and e = 1 - x y^n, the power is
y (1 - e)^(-1/n), a series in e. The result is accurate within 5 units in the last place with every instruction set; of
infinity it is 0, of 0 and negative numbers NaN.
"""

from __future__ import annotations

from typing import Any, Final

from syclsched.kernels.vectors.straight_line import FloatOps

#: The largest finite number.
_LARGEST = 3.4028234663852886e38


def inverse_root(o: FloatOps, x: Any) -> Any:
    """Emit a number to the power of -1/2."""
    y = o.near_inverse_root(x)
    return _refined(o, x, y, y, 1 / 2)


def inverse_three_quarters(o: FloatOps, x: Any) -> Any:
    """Emit a number to the power of -3/4 as r r / sqrt(r), where r is its inverse square root."""
    r = o.near_inverse_root(x)
    y = o.binary("*", r, o.binary("*", r, o.near_inverse_root(r)))
    # The error is up to 2.5 times that of one approximation: with one term, 35 units in the last place can be left.
    return _refined(o, x, y, o.binary("*", o.binary("*", x, y), y), 1 / 4, 5 / 32)


def _refined(o: FloatOps, x: Any, y: Any, root: Any, *terms: float) -> Any:
    """Emit y with its error removed, given another approximation ``root`` of x^(-1/2), and terms of the series."""
    # All intermediate values lie between x and its inverse: no overflow, no underflow.
    error = o.fma(o.binary("*", root, o.binary("*", root, x)), -1.0, 1.0)
    share = o.binary("*", y, o.polynomial(terms, error))
    return o.choose(">", x, _LARGEST, 0.0, o.fma(share, error, y))


#: Function name -> function.
FUNCTIONS: Final = {each.__name__: each for each in (inverse_root, inverse_three_quarters)}
