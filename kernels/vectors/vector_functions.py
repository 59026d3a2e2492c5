# SPDX-License-Identifier: Apache-2.0
"""Vector functions for Python kernels, in reference Python; `kernel_vectors` registers them with compilers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from syclsched.kernels.common import VECTOR_ITEMS

#: Lanes of a vector.
LANES = VECTOR_ITEMS


def splat(value: Any) -> Any:
    """Return a vector with one value in all lanes."""
    return [value] * LANES


def places(zero: Any) -> Any:
    """Return the vector 0, 1, 2, ... of a number's dtype."""
    return list(range(LANES))


def load_vector(array: Any, place: Any) -> Any:
    """Return the `LANES` elements from offset ``place`` (not negative) of a C-contiguous array of any rank."""
    return array.ravel()[place : place + LANES]


def load(array: Any, place: Any) -> Any:
    """Return the element at offset ``place``; see `load_vector`."""
    return array.ravel()[place]


def store(array: Any, place: Any, value: Any) -> None:
    """Store a value, converted to the array's dtype, at offset ``place``."""
    array.ravel()[place] = value


def load_strided(array: Any, place: Any, stride: Any) -> Any:
    """Return `LANES` elements with a stride from offset ``place`` on; see `load_vector`."""
    return array.ravel()[place : place + (LANES - 1) * stride + 1 : stride]


def store_strided(array: Any, place: Any, stride: Any, vector: Any) -> None:
    """Store a vector with a stride from offset ``place`` on."""
    array.ravel()[place : place + (len(vector) - 1) * stride + 1 : stride] = vector


def load_second(array: Any, place: Any) -> Any:
    """Return every second element from offset ``place`` on; see `load_vector`."""
    return array.ravel()[place : place + 2 * LANES - 1 : 2]


def store_vector(array: Any, place: Any, vector: Any) -> None:
    """Store a vector, converted to the array's dtype, from offset ``place`` on."""
    array.ravel()[place : place + LANES] = vector


def turn(y: Any, to: Any, y_apart: Any, x: Any, start: Any, x_apart: Any) -> None:
    """Transpose a `LANES` x `LANES` square of ``x`` into ``y``; offsets and row strides are in elements."""
    for row in range(LANES):
        for column in range(LANES):
            y.ravel()[to + column * y_apart + row] = x.ravel()[start + row * x_apart + column]


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """Select, in each lane, one of two values."""
    return [a if c else b for c, a, b in zip(condition, yes, no, strict=True)]


def unordered(a: Any, b: Any) -> Any:
    """Return, in each lane, whether either value is NaN."""
    return [x != x or y != y for x, y in zip(a, b, strict=True)]


def quotient(a: Any, b: Any) -> Any:
    """Return integer quotients, rounded towards 0."""
    return [int(x / y) for x, y in zip(a, b, strict=True)]


def bits(x: Any) -> Any:
    """Return the bits of a float32 as an uint32."""
    return np.float32(x).view(np.uint32)


def of_bits(x: Any) -> Any:
    """Return the float32 with the bits of an uint32."""
    return np.uint32(x).view(np.float32)


def total(vector: Any) -> Any:
    """Return the sum of a vector's lanes, added in pairs."""
    return sum(vector)


def largest(vector: Any) -> Any:
    """Return the maximum of a vector's lanes; none may be NaN."""
    return max(vector)


def low(vector: Any) -> Any:
    """Return the first half of a vector; the first number of two."""
    return vector[: len(vector) // 2]


def high(vector: Any) -> Any:
    """Return the second half of a vector; the second number of two."""
    return vector[len(vector) // 2 :]


def vexp(x: Any) -> Any:
    """Return exponentials."""
    return [math.exp(each) for each in x]


def vpower(x: Any) -> Any:
    """Return exponentials of numbers of at most 0 (vector or scalar); see `syclsched.kernels.vectors.exponential`."""
    return vexp(x) if isinstance(x, list) else math.exp(x)


def vexponent(top: Any) -> Any:
    """Return the exponents of the powers of two that exponentials are divided by; see `scaled_exponential`."""
    return _each(lambda x: round(x / math.log(2)), top)


def vscaling(before: Any, now: Any) -> Any:
    """Return the factors that convert sums divided by 2^before to sums divided by 2^now."""
    return _each(lambda a, b: 2 ** (a - b), before, now)


def vpower_over(x: Any, k: Any) -> Any:
    """Return exponentials divided by 2^k."""
    return _each(lambda a, b: math.exp(a - b * math.log(2)), x, k)


def vadd_power(total: Any, x: Any, k: Any) -> Any:
    """Return sums plus exponentials divided by 2^k."""
    return _each(lambda a, b, c: a + math.exp(b - c * math.log(2)), total, x, k)


def _each(function: Callable[..., float], *given: Any) -> Any:
    return [*map(function, *given)] if isinstance(given[0], list) else function(*given)


def vlog(x: Any) -> Any:
    """Return natural logarithms."""
    return [math.log(each) for each in x]


def vsqrt(x: Any) -> Any:
    """Return square roots."""
    return [math.sqrt(each) for each in x]


def vfabs(x: Any) -> Any:
    """Return absolute values."""
    return [math.fabs(each) for each in x]


def vtanh(x: Any) -> Any:
    """Return hyperbolic tangents."""
    return [math.tanh(each) for each in x]


def verf(x: Any) -> Any:
    """Return the error function (vector or scalar); see `syclsched.kernels.vectors.error_function`."""
    return [math.erf(each) for each in x] if isinstance(x, list) else math.erf(x)


def vinverse_root(x: Any) -> Any:
    """Return x^(-1/2) in single precision (vector or scalar); see `syclsched.kernels.vectors.inverse_root`."""
    return _each(lambda each: each**-0.5, x)


def vinverse_three_quarters(x: Any) -> Any:
    """Return x^(-3/4) in single precision (vector or scalar); see `syclsched.kernels.vectors.inverse_root`."""
    return _each(lambda each: each**-0.75, x)


def vexpm1(x: Any) -> Any:
    """Return exponentials minus 1."""
    return [math.expm1(each) for each in x]


def vlog1p(x: Any) -> Any:
    """Return logarithms of 1 + x."""
    return [math.log1p(each) for each in x]


def vfma(a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c`` (vectors or scalars), rounded once."""
    return _each(lambda x, y, z: x * y + z, a, b, c)


def _narrow(lanes: int) -> tuple[Callable[..., Any], ...]:
    """Return `splat`, `load_vector` and `load_strided` of fewer lanes; the names end with their number."""

    def splat(value: Any) -> Any:
        return [value] * lanes

    def load_vector(array: Any, place: Any) -> Any:
        return array.ravel()[place : place + lanes]

    def load_strided(array: Any, place: Any, stride: Any) -> Any:
        return array.ravel()[place : place + (lanes - 1) * stride + 1 : stride]

    for function in (made := (splat, load_vector, load_strided)):
        function.__name__ += str(lanes)
    return made


#: Number of lanes -> its functions `splat`, `load_vector` and `load_strided`.
BY_LANES = {LANES: (splat, load_vector, load_strided), **{lanes: _narrow(lanes) for lanes in (2, 4, 8)}}
