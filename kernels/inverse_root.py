# SPDX-License-Identifier: Apache-2.0
"""Single-precision numbers to the power of -1/2 and -3/4, without the processor's division and square root.

Those take as long as twenty multiplications. An approximation is an instruction, and a step of Newton's method doubles
its digits: of y near x^(-1/n), y' = y + y (1 - x y^n) / n. The result is right within some units in the last place; of
infinity it is 0, of 0 and less NaN.
"""

from __future__ import annotations

from typing import Any

from syclsched.kernels import straight_line
from syclsched.kernels.straight_line import Words

#: The largest number.
_MOST = 3.4028234663852886e38


def inverse_root(o: Words, x: Any) -> Any:
    """Write a number to the power of -1/2."""
    y = o.near_inverse_root(x)
    return _better(o, x, y, y, 0.5)


def inverse_three_quarters(o: Words, x: Any) -> Any:
    """Write a number to the power of -3/4: with r, its root's inverse, r r / sqrt(r)."""
    r = o.near_inverse_root(x)
    y = o.binary("*", r, o.binary("*", r, o.near_inverse_root(r)))
    return _better(o, x, y, o.binary("*", o.binary("*", x, y), y), 0.25)


def _better(o: Words, x: Any, y: Any, root: Any, share: float) -> Any:
    """Write y after a step of Newton's method, given another x^(-1/2) that is as near; 0 where x is infinite."""
    # Nothing on the way is larger or smaller than x and its inverse.
    error = o.fma(o.binary("*", root, o.binary("*", root, x)), -1.0, 1.0)
    return o.choose(">", x, _MOST, 0.0, o.fma(o.binary("*", y, share), error, y))


def opencl(width: int) -> str:
    """Return both in OpenCL C, under their names, of vectors of ``width`` floats (1: of numbers)."""
    both = inverse_root, inverse_three_quarters
    return "".join(straight_line.opencl(function, function.__name__, width) for function in both)
