# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.launching import launch

from syclsched.kernel_compiler import KernelOptions

pytestmark = pytest.mark.sycl

#: Functions of a table: each has its own column of the results.
_TABLES: dict[str, tuple[Callable[..., Any], ...]] = {
    "trigonometric": (
        lambda x: math.sin(x),
        lambda x: math.cos(x),
        lambda x: math.tan(x),
        lambda x: math.asin(x / 4),
        lambda x: math.acos(x / 4),
        lambda x: math.atan(x),
        lambda x: math.atan2(x, 0.5),
        lambda x: math.hypot(x, 3.0),
        lambda x: math.degrees(x),
        lambda x: math.radians(x),
    ),
    "exponential": (
        lambda x: math.exp(x),
        lambda x: math.expm1(x),
        lambda x: math.log(x),
        lambda x: math.log1p(x),
        lambda x: math.log10(x),
        lambda x: math.log2(x),
        lambda x: math.sinh(x),
        lambda x: math.cosh(x),
        lambda x: math.tanh(x),
        lambda x: math.asinh(x),
        lambda x: math.acosh(x + 1),
        lambda x: math.atanh(x / 4),
        lambda x: math.pow(x, 1.5),
        lambda x: math.sqrt(x),
        lambda x: math.erf(x),
        lambda x: math.erfc(x),
        lambda x: math.gamma(x),
        lambda x: math.lgamma(x + 2),
    ),
    "rounding": (
        lambda x: math.floor(-x),
        lambda x: math.ceil(x),
        lambda x: math.trunc(-x),
        lambda x: math.fabs(-x),
        lambda x: math.fmod(x, 0.75),
        lambda x: math.copysign(x, -1.0),
        lambda x: math.ldexp(x, 3),
        lambda x: math.frexp(x)[0] + math.frexp(x)[1],
        lambda x: math.isnan(x) + 2 * math.isinf(x / (x - x)) + 4 * math.isfinite(x),
        lambda x: round(x),
        lambda x: abs(-x) + max(x, 1.0) - min(x, 2.0),
        lambda x: x % 0.75 + x // 0.75 + divmod(-x, 0.7)[1],
        lambda x: x**3 + x**-1 + x**0.5,
        lambda x: int(x * 10) + float(3) + bool(x),
    ),
    "NumPy": (
        lambda x: np.sin(x) + np.arctan2(x, 2.0),
        lambda x: np.exp(x) - np.log(x),
        lambda x: np.sqrt(x) + np.square(x),
        lambda x: np.floor(x) + np.ceil(x) + np.rint(x),
        lambda x: np.maximum(x, 1.5) - np.minimum(x, 0.5),
        lambda x: np.abs(-x) + np.sign(x) + np.power(x, 2.5),
        lambda x: np.tanh(x) + np.arcsinh(x) + np.expm1(x) + np.log1p(x),
        lambda x: np.isnan(x) + np.fmod(x, 0.75) + np.hypot(x, 2.0),
    ),
}


def _kernel_of(function: Callable[..., Any]) -> Callable[..., Any]:
    source = "def kernel(item, x, y):\n    i = item.get_id(0)\n    y[i] = f(x[i])\n"
    scope: dict[str, Any] = {"f": _device_function(function)}
    exec(source, scope)
    return scope["kernel"]  # type: ignore[no-any-return]


def _device_function(function: Callable[..., Any]) -> Any:
    from syclsched.kernel_compiler import device_function

    return device_function(function)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("table", _TABLES)
def test_functions(table: str, dtype: str) -> None:
    x = np.array([0.25, 0.5, 0.8, 1.3, 2.2, 3.7], dtype)
    with np.errstate(all="ignore"):
        for number, function in enumerate(_TABLES[table]):
            y = np.zeros(x.size)
            launch(_kernel_of(function), x.shape, x, y)
            wanted = [function(np.float64(each)) if table == "NumPy" else _reference(function, each) for each in x]
            tolerance = 4e-6 if dtype == "float32" else 1e-13
            np.testing.assert_allclose(y, wanted, rtol=tolerance, err_msg=f"{table} {number}")


def _reference(function: Callable[..., Any], x: Any) -> Any:
    try:
        return function(float(x))
    except ZeroDivisionError:  # Python's floats raise where NumPy's give infinity
        return function(np.float64(x))


def _complex(item: Any, x: Any, y: Any) -> None:
    i = item.get_id(0)
    z = x[i]
    y[i, 0] = z * z.conjugate() / (z + 1j)
    y[i, 1] = cmath.exp(z) + cmath.sqrt(z)
    y[i, 2] = complex(abs(z), cmath.phase(z)) - z.real
    y[i, 3] = cmath.log(z) * cmath.sin(z)
    y[i, 4] = z**2 if z != 1 else z**1.5 - np.power(z, z)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers(dtype: str) -> None:
    x = np.array([0.5 + 0.3j, -1.2 + 2j, 1, 0.1 - 0.7j], dtype)
    y = np.zeros((4, 5), dtype)
    launch(_complex, (4,), x, y)
    z = x.astype(complex)
    wanted = [
        z * z.conj() / (z + 1j),
        np.exp(z) + np.sqrt(z),
        abs(z) + 1j * np.angle(z) - z.real,
        np.log(z) * np.sin(z),
        np.where(z == 1, z**1.5 - z**z, z**2),
    ]
    np.testing.assert_allclose(y, np.transpose(wanted), rtol=1e-5 if dtype == "complex64" else 1e-12, atol=1e-6)


def _whole(item: Any, x: Any, n: Any, y: Any) -> None:
    i = item.get_id(0)
    y[i, 0] = x[i] // n
    y[i, 1] = x[i] % n
    y[i, 2] = x[i] * n - x[i]
    y[i, 3] = (x[i] << 1) | (x[i] >> 2)
    y[i, 4] = (x[i] & n) ^ ~x[i]
    y[i, 5] = (x[i] % 100) ** 2
    y[i, 6] = abs(x[i]) + max(x[i], n) - min(x[i], n)
    y[i, 7] = x[i] > n and x[i] != 5


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@settings(max_examples=examples(10))
@given(data=st.data())
def test_whole_numbers(dtype: str, data: st.DataObject) -> None:
    information = np.iinfo(dtype)
    numbers = st.integers(int(information.min), int(information.max))
    x = np.array(data.draw(st.lists(numbers, min_size=1, max_size=9)), dtype)
    n = np.dtype(dtype).type(data.draw(st.integers(1, 100)))
    y = np.zeros((x.size, 8), dtype)
    launch(_whole, x.shape, x, n, y)
    # numba 0.59 squares numbers by way of float64; those here are small enough to stay exact.
    with np.errstate(over="ignore"):
        wanted = [x // n, x % n, x * n - x, (x << 1) | (x >> 2), (x & n) ^ ~x]
        wanted += [(x % 100).astype(np.int64) ** 2]
        wanted += [abs(x) + np.maximum(x, n) - np.minimum(x, n), (x > n) & (x != 5)]
    for number, column in enumerate(wanted):
        # numba computes with 64 bits and stores the low ones; an absolute value is of 64 bits, too.
        np.testing.assert_array_equal(y[:, number], column.astype(dtype), err_msg=str(number))


def _divide(item: Any, x: Any, y: Any) -> None:
    i = item.get_id(0)
    y[i] = 1.0 / x[i] + x[i] / x[i]


def test_division_by_zero_is_nan_or_infinity() -> None:
    y = np.zeros(2)
    launch(_divide, (2,), np.array([0.0, 2.0]), y)
    assert np.isnan(y[0])
    assert y[1] == 1.5


def _round(item: Any, x: Any, y: Any) -> None:
    i = item.get_id(0)
    y[i, 0] = math.floor(x[i])
    y[i, 1] = math.ceil(x[i])
    y[i, 2] = math.trunc(x[i])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_rounding_functions_keep_nan_and_infinity(dtype: str) -> None:
    numbers = [-3, 0, 7] if dtype == "int32" else [np.nan, np.inf, -np.inf, 1e30, -1.5, 2.5]
    x = np.array(numbers, dtype)
    y = np.zeros((x.size, 3))
    launch(_round, x.shape, x, y)
    np.testing.assert_array_equal(y, np.transpose([np.floor(x), np.ceil(x), np.trunc(x)]))


def _half(item: Any, x: Any, y: Any) -> None:
    i = item.get_id(0)
    y[i, 0] = x[i] + x[0]
    y[i, 1] = x[i] * x[i] - x[i] / x[1]
    y[i, 2] = -x[i] if x[i] > x[0] else abs(x[i])
    y[i, 3] = np.float16(float(x[i]) * 3.0) + int(x[i])


def test_numbers_of_two_bytes_are_rounded_after_each_operation() -> None:
    x = np.random.default_rng(2).standard_normal(37).astype(np.float16)
    y = np.zeros((37, 4), np.float16)
    launch(_half, (37,), x, y)
    wanted = [
        x + x[0],
        x * x - x / x[1],
        np.where(x > x[0], -x, abs(x)),
        (x.astype(float) * 3).astype(np.float16) + x.astype(int),
    ]
    np.testing.assert_array_equal(y, np.transpose(wanted).astype(np.float16))


def _sum(item: Any, x: Any, y: Any) -> None:
    total = np.float32(0)
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    y[item.get_id(0)] = total


def test_fast_mathematics_is_an_option() -> None:
    x, y = np.random.default_rng(1).random(100).astype(np.float32), np.zeros(2, np.float32)
    exact = launch(_sum, (2,), x, y)
    fast = launch(_sum, (2,), x, y, options=KernelOptions(fastmath=True))
    assert exact.spirv != fast.spirv
    np.testing.assert_allclose(y, (x.astype(float) ** 2).sum(), rtol=1e-5)
