# SPDX-License-Identifier: Apache-2.0
"""Programs written for numba-dpex with a different import: on its compiler where installed, and on the package's."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.compilers import COMPILERS

from syclsched import dpex
from syclsched.dpex import kernel_api as kapi
from syclsched.errors import ArgumentError, KernelCompilationError

pytestmark = pytest.mark.sycl

FLOATS = ["float32", "float64"]


@pytest.fixture(params=COMPILERS)
def kernel(request: pytest.FixtureRequest) -> Any:
    """`dpex.kernel` with one of the compilers."""
    return dpex.kernel(compiler=request.param)


@pytest.fixture(scope="module")
def xp() -> Any:
    """The module dpnp, on the CPU device."""
    from syclsched import oneapi

    oneapi.load()
    import dpctl
    import dpnp

    if not dpctl.get_devices(device_type="cpu"):
        pytest.skip("no CPU device here")
    return dpnp


def on_cpu(xp: Any, values: Any) -> Any:
    """Return a dpnp array on the CPU device."""
    return xp.asarray(values, device="cpu")


# --- programs like numba-dpex's examples --------------------------------------------------------------


def test_sum_of_two_vectors(xp: Any, kernel: Any) -> None:
    @kernel
    def add(item, a, b, c):  # type: ignore[no-untyped-def]
        i = item.get_id(0)
        c[i] = a[i] + b[i]

    rng = np.random.default_rng(0)
    x, y = rng.random(1001), rng.random(1001)
    c = on_cpu(xp, np.zeros(1001))
    dpex.call_kernel(add, dpex.Range(1001), on_cpu(xp, x), on_cpu(xp, y), c)
    np.testing.assert_array_equal(xp.asnumpy(c), x + y)


def test_index_space_dimensions_equal_array_dimensions(xp: Any, kernel: Any) -> None:
    @kernel
    def number2(item, c):  # type: ignore[no-untyped-def]
        i = item.get_id(0)
        j = item.get_id(1)
        c[i, j] = i * 100 + j + 10000 * item.get_range(0) + 1000000 * item.get_range(1)

    @kernel
    def number3(item, c):  # type: ignore[no-untyped-def]
        i, j, k = item.get_global_id(0), item.get_global_id(1), item.get_global_id(2)
        c[i, j, k] = i * 10000 + j * 100 + k + 1000000 * item.get_local_id(0) + item.get_group().get_group_id(2)

    c = on_cpu(xp, np.zeros((3, 5), "int64"))
    dpex.call_kernel(number2, dpex.Range(3, 5), c)
    i, j = np.indices((3, 5))
    np.testing.assert_array_equal(xp.asnumpy(c), i * 100 + j + 30000 + 5000000)
    c = on_cpu(xp, np.zeros((2, 3, 8), "int64"))
    dpex.call_kernel(number3, dpex.NdRange((2, 3, 8), (2, 1, 4)), c)
    i, j, k = np.indices((2, 3, 8))
    np.testing.assert_array_equal(xp.asnumpy(c), i * 10000 + j * 100 + k + 1000000 * (i % 2) + k // 4)


@pytest.mark.parametrize("dtype", FLOATS)
def test_distances_of_pairs(xp: Any, kernel: Any, dtype: str) -> None:
    @kernel
    def distance(nditem: kapi.NdItem, x, d):  # type: ignore[no-untyped-def]
        i = nditem.get_global_id(0)
        for j in range(x.shape[0]):
            total = x[i, 0] - x[i, 0]
            for k in range(x.shape[1]):
                apart = x[i, k] - x[j, k]
                total += apart * apart
            d[i, j] = math.sqrt(total)

    x = np.random.default_rng(1).random((12, 3)).astype(dtype)
    d = on_cpu(xp, np.zeros((12, 12), dtype))
    dpex.call_kernel(distance, dpex.NdRange(dpex.Range(12), dpex.Range(4)), on_cpu(xp, x), d)
    wanted = np.sqrt(((x[:, None] - x) ** 2).sum(2))
    np.testing.assert_allclose(xp.asnumpy(d), wanted, rtol=1e-5 if dtype == "float32" else 1e-13)


def test_private_memory_and_rows_of_arrays(xp: Any, kernel: Any) -> None:
    from numba import float32

    @kernel
    def polynomial(nditem: kapi.NdItem, x, y, coefficients):  # type: ignore[no-untyped-def]
        c = kapi.PrivateArray(4, dtype=float32)
        row = nditem.get_group().get_group_id(0)
        for k in range(4):
            c[k] = coefficients[row][k]
        for i in range(nditem.get_global_id(0) * 2, (nditem.get_global_id(0) + 1) * 2, 1):
            y[i] = ((c[0] * x[i] + c[1]) * x[i] + c[2]) * x[i] + c[3]

    table = np.arange(12, dtype="float32").reshape(3, 4)
    x = np.linspace(0, 1, 24, dtype="float32")
    y = on_cpu(xp, np.zeros(24, "float32"))
    dpex.call_kernel(polynomial, dpex.NdRange((12,), (4,)), on_cpu(xp, x), y, on_cpu(xp, table))
    wanted = [np.polyval(table[i // 8], x[i]) for i in range(24)]
    np.testing.assert_allclose(xp.asnumpy(y), wanted, rtol=1e-6)


def test_tree_reduction_in_local_memory(xp: Any) -> None:
    @dpex.kernel
    def partial_sums(nditem: kapi.NdItem, a, count, sums, slm):  # type: ignore[no-untyped-def]
        local, place = nditem.get_local_id(0), nditem.get_global_id(0)
        group = nditem.get_group()
        slm[local] = 0
        if place < count:
            slm[local] = a[place]
        stride = nditem.get_local_range(0) // 2
        while stride > 0:
            kapi.group_barrier(group)
            if local < stride:
                slm[local] += slm[local + stride]
            stride >>= 1
        if local == 0:
            sums[group.get_group_id(0)] = slm[0]

    a = np.arange(200, dtype="int32")
    sums = on_cpu(xp, np.zeros(4, "int32"))
    slm = kapi.LocalAccessor(64, a.dtype)
    dpex.call_kernel(partial_sums, dpex.NdRange((256,), (64,)), on_cpu(xp, a), 200, sums, slm)
    np.testing.assert_array_equal(xp.asnumpy(sums), [a[k : k + 64].sum() for k in range(0, 256, 64)])


def test_product_of_matrices_by_tiles_in_local_memory(xp: Any) -> None:
    side, real = 2, np.float32

    @dpex.kernel
    def product(nditem: kapi.NdItem, x, y, x_slm, y_slm, result):  # type: ignore[no-untyped-def]
        i, j = nditem.get_global_id(0), nditem.get_global_id(1)
        li, lj = nditem.get_local_id(0), nditem.get_local_id(1)
        depth = x.shape[1]
        total = real(0)
        for block in range((depth + side - 1) // side):
            x_slm[li, lj] = real(0)
            y_slm[li, lj] = real(0)
            if (i < x.shape[0]) and (lj + side * block < depth):
                x_slm[li, lj] = x[i, lj + side * block]
            if (j < y.shape[1]) and (li + side * block < depth):
                y_slm[li, lj] = y[li + side * block, j]
            kapi.group_barrier(nditem.get_group())
            for k in range(side):
                total += x_slm[li, k] * y_slm[k, lj]
            kapi.group_barrier(nditem.get_group())
        if (i < x.shape[0]) and (j < y.shape[1]):
            result[i, j] = total

    x, y = np.arange(15, dtype="float32").reshape(5, 3), np.arange(21, dtype="float32").reshape(3, 7)
    result = on_cpu(xp, np.zeros((5, 7), "float32"))
    slm = [kapi.LocalAccessor((side, side), real) for _ in range(2)]
    dpex.call_kernel(product, dpex.NdRange((6, 8), (side, side)), on_cpu(xp, x), on_cpu(xp, y), *slm, result)
    np.testing.assert_array_equal(xp.asnumpy(result), x @ y)


def test_options_by_black_and_scholes(xp: Any, kernel: Any) -> None:
    @kernel
    def options(item: kapi.Item, price, strike, t, rate, volatility, call, put):  # type: ignore[no-untyped-def]
        i = item.get_id(0)
        p, s = price[i], strike[i]
        a, b = math.log(p / s), t[i] * -rate
        z = t[i] * volatility * volatility * 2.0
        y = 1.0 / math.sqrt(z)
        d1 = 0.5 + 0.5 * math.erf((a - b + 0.25 * z) * y)
        d2 = 0.5 + 0.5 * math.erf((a - b - 0.25 * z) * y)
        e = math.exp(b) * s
        call[i] = p * d1 - e * d2
        put[i] = call[i] - p + e

    rng = np.random.default_rng(7)
    price, strike, t = rng.uniform(10, 50, 99), rng.uniform(10, 50, 99), rng.uniform(1, 2, 99)
    call, put = on_cpu(xp, np.zeros(99)), on_cpu(xp, np.zeros(99))
    dpex.call_kernel(options, dpex.Range(99), *(on_cpu(xp, v) for v in (price, strike, t)), 0.1, 0.2, call, put)

    def share(sign: int) -> Any:
        w = np.log(price / strike) + 0.1 * t + sign * 0.02 * t
        return np.array([0.5 + 0.5 * math.erf(v) for v in w / np.sqrt(0.08 * t)])

    wanted = price * share(1) - np.exp(-0.1 * t) * strike * share(-1)
    np.testing.assert_allclose(xp.asnumpy(call), wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(xp.asnumpy(put), wanted - price + np.exp(-0.1 * t) * strike, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_atomic_sum(xp: Any, kernel: Any, dtype: str) -> None:
    @kernel
    def total(item: kapi.Item, a, result):  # type: ignore[no-untyped-def]
        kapi.AtomicRef(result, 0).fetch_add(a[item.get_id(0)])

    a = on_cpu(xp, np.arange(1000).astype(dtype))
    result = on_cpu(xp, np.zeros(1, dtype))
    dpex.call_kernel(total, dpex.Range(1000), a, result)
    assert xp.asnumpy(result)[0] == 499500


@dpex.device_func
def plus_one(a):  # type: ignore[no-untyped-def]
    return a + 1


@dpex.device_func
def plus_two(a):  # type: ignore[no-untyped-def]
    return plus_one(plus_one(a))


@dpex.device_func()
def increment_and_sum(nditem: kapi.NdItem, a):  # type: ignore[no-untyped-def]
    i = nditem.get_global_id(0)
    a[i] = plus_two(a[i])
    kapi.group_barrier(nditem.get_group(), kapi.MemoryScope.DEVICE)
    if i == 0:
        for k in range(1, a.size):
            a[0] += a[k]


def test_device_functions_call_each_other(xp: Any, kernel: Any) -> None:
    @kernel
    def whole(nditem: kapi.NdItem, a):  # type: ignore[no-untyped-def]
        increment_and_sum(nditem, a)

    a = on_cpu(xp, np.ones(100, "int32"))
    dpex.call_kernel(whole, dpex.NdRange((100,), (100,)), a)
    np.testing.assert_array_equal(xp.asnumpy(a), [300, *[3] * 99])
    assert plus_two(1) == 3


def test_launches_depend_on_events_and_return_two(xp: Any, kernel: Any) -> None:
    @kernel
    def step(item, x, k):  # type: ignore[no-untyped-def]
        i = item.get_id(0)
        x[i] = x[i] * x.dtype.type(2) + x.dtype.type(k)

    x = on_cpu(xp, np.zeros(500))
    events: tuple[Any, ...] = ()
    hosts = []
    for k in range(10):
        host_event, event = dpex.call_kernel_async(step, dpex.Range(500), events, x, k)
        events = (event,)
        hosts.append(host_event)
    events[0].wait()
    assert xp.asnumpy(x).tolist() == [sum(k * 2 ** (9 - k) for k in range(10))] * 500
    for each in hosts:
        each.wait()


# --- arguments ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        *FLOATS,
        "complex64",
        "complex128",
        "bool",
    ],
)
def test_elements_and_scalars_of_every_dtype(xp: Any, dtype: str) -> None:
    @dpex.kernel(compiler="own")
    def choose(item, x, y, scalar, out):  # type: ignore[no-untyped-def]
        i = item.get_id(0)
        out[i] = x[i] if i % 3 == 0 else (y[i] if i % 3 == 1 else scalar)

    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 2 if dtype == "bool" else 100, 50).astype(dtype) for _ in range(2))
    scalar = np.dtype(dtype).type(1)
    out = on_cpu(xp, np.zeros(50, dtype))
    dpex.call_kernel(choose, dpex.Range(50), on_cpu(xp, x), on_cpu(xp, y), scalar, out)
    number = np.arange(50) % 3
    np.testing.assert_array_equal(xp.asnumpy(out), np.where(number == 0, x, np.where(number == 1, y, scalar)))


@dpex.kernel(compiler="own")
def copy_2d(item, x, y):  # type: ignore[no-untyped-def]
    y[item.get_id(0), item.get_id(1)] = x[item.get_id(0), item.get_id(1)]


@given(
    rows=st.slices(7),
    columns=st.slices(9),
    transposed=st.booleans(),
    dtype=st.sampled_from(["int16", "float32", "complex64"]),
)
def test_arrays_with_any_strides(xp: Any, rows: slice, columns: slice, transposed: bool, dtype: str) -> None:
    whole = np.arange(63).astype(dtype).reshape(7, 9)
    device = on_cpu(xp, whole)
    view, given_ = whole[rows, columns], device[rows, columns]
    if transposed:
        view, given_ = view.T, given_.T
    out = xp.empty(view.shape, dtype=dtype, device="cpu")
    if view.size:
        dpex.call_kernel(copy_2d, dpex.Range(*view.shape), given_, out)
        np.testing.assert_array_equal(xp.asnumpy(out), view)
        dpex.call_kernel(copy_2d, dpex.Range(*view.shape), out, given_)
        np.testing.assert_array_equal(xp.asnumpy(device), whole)


def test_an_empty_index_space_runs_nothing(xp: Any) -> None:
    out = on_cpu(xp, np.ones((1, 1), "float32"))
    dpex.call_kernel(copy_2d, dpex.Range(0), out, out)
    host_event, event = dpex.call_kernel_async(copy_2d, dpex.Range(0), (), out, out)
    event.wait()
    host_event.wait()
    assert xp.asnumpy(out) == 1


def test_arrays_of_dpctl_are_taken_as_well(xp: Any, kernel: Any) -> None:
    from syclsched.oneapi.dpctl_interface import usm_arrays

    @kernel
    def double(item, x):  # type: ignore[no-untyped-def]
        x[item.get_id(0)] *= 2

    tensor = usm_arrays()
    x = tensor.asarray(np.arange(9), device="cpu")
    dpex.call_kernel(double, dpex.Range(9), x)
    np.testing.assert_array_equal(tensor.asnumpy(x), np.arange(9) * 2)


# --- errors -------------------------------------------------------------------------------------------


def test_invalid_launches_are_refused(xp: Any) -> None:
    out = on_cpu(xp, np.ones((1, 1), "float32"))
    with pytest.raises(ArgumentError, match=r"kernel 'copy_2d'.*takes 2 arguments after the item, and is given 1"):
        dpex.call_kernel(copy_2d, dpex.Range(1, 1), out)
    with pytest.raises(ArgumentError, match="no array"):
        dpex.call_kernel(copy_2d, dpex.Range(1, 1), 1, 2)
    with pytest.raises(ArgumentError, match=r"argument 2: a numpy\.ndarray cannot be passed"):
        dpex.call_kernel(copy_2d, dpex.Range(1, 1), out, np.ones((1, 1)))
    with pytest.raises(ArgumentError, match="a Range or an NdRange, not tuple"):
        dpex.call_kernel(copy_2d, (1, 1), out, out)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="function is no kernel"):
        dpex.call_kernel(lambda item, x: None, dpex.Range(1), out)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="cannot be called like a function"):
        copy_2d(None, out, out)
    with pytest.raises(ArgumentError, match="Leave signatures out"):
        dpex.kernel(("item", "float32"))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="compiler='own'"):
        dpex.call_kernel(replace(copy_2d, compiler="numba-dpex"), dpex.Range(1), out, kapi.LocalAccessor(3, np.float32))
    with pytest.raises(AttributeError, match=r"numba_dpex\.dpjit"):
        _ = dpex.dpjit


def test_arrays_of_two_queues_are_refused(xp: Any) -> None:
    import dpctl

    queues = [dpctl.SyclQueue("cpu", property=p) for p in ([], "in_order")]
    x, y = (xp.ones((2, 2), dtype="float32", sycl_queue=queue) for queue in queues)
    with pytest.raises(ArgumentError, match="different queues"):
        dpex.call_kernel(copy_2d, dpex.Range(2, 2), x, y)


def test_an_error_names_the_line_and_the_kernel(xp: Any) -> None:
    @dpex.kernel(compiler="own")
    def broken(item, x):  # type: ignore[no-untyped-def]
        i = item.get_id(0)
        x[i] = x.no_such_attribute

    line = broken.function.__code__.co_firstlineno + 3
    with pytest.raises(
        KernelCompilationError, match=rf"kernel 'broken', .*test_dpex\.py, line {line}.*no_such_attribute"
    ):
        dpex.call_kernel(broken, dpex.Range(1), on_cpu(xp, np.ones(1)))
