# SPDX-License-Identifier: Apache-2.0
"""Powers -1/2 and -3/4 of single-precision numbers, without hardware division and square root.

Division and square root take as long as twenty multiplications. An approximation is one instruction, and a step of
Newton's method doubles its digits: for y near x^(-1/n), y' = y + y (1 - x y^n) / n. The result is accurate within 5
units in the last place (-3/4 within 12 where approximations have 12 bits); of infinity it is 0, of 0 and negative
numbers NaN.
"""

from __future__ import annotations

from typing import Any, Final

from syclsched.kernels.vectors.straight_line import FloatOps

#: The largest finite number.
_LARGEST = 3.4028234663852886e38


def inverse_root(o: FloatOps, x: Any) -> Any:
    """Emit a number to the power of -1/2."""
    y = o.near_inverse_root(x)
    return _newton_step(o, x, y, y, 0.5)


def inverse_three_quarters(o: FloatOps, x: Any) -> Any:
    """Emit a number to the power of -3/4 as r r / sqrt(r), where r is its inverse square root."""
    r = o.near_inverse_root(x)
    y = o.binary("*", r, o.binary("*", r, o.near_inverse_root(r)))
    return _newton_step(o, x, y, o.binary("*", o.binary("*", x, y), y), 0.25)


def _newton_step(o: FloatOps, x: Any, y: Any, root: Any, share: float) -> Any:
    """Emit y after a Newton step, given another approximation ``root`` of x^(-1/2); 0 where x is infinite."""
    # All intermediate values lie between x and its inverse: no overflow, no underflow.
    error = o.fma(o.binary("*", root, o.binary("*", root, x)), -1.0, 1.0)
    return o.choose(">", x, _LARGEST, 0.0, o.fma(o.binary("*", y, share), error, y))


#: Function name -> function.
FUNCTIONS: Final = {each.__name__: each for each in (inverse_root, inverse_three_quarters)}
