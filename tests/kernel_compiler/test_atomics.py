# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.launching import launch

from syclsched.errors import KernelCompilationError
from syclsched.kernel_compiler import KernelOptions
from syclsched.kernel_compiler.kernel_api import (
    AddressSpace,
    AtomicRef,
    LocalAccessor,
    MemoryOrder,
    MemoryScope,
    atomic_fence,
    group_barrier,
)

pytestmark = pytest.mark.sycl

_NUMBERS = ("int32", "uint32", "int64", "uint64", "float32", "float64")
_WHOLE = _NUMBERS[:4]


def _sums(item: Any, x: Any, out: Any) -> None:
    i = item.get_id(0)
    AtomicRef(out, 0).fetch_add(x[i])
    AtomicRef(out, 1, MemoryOrder.ACQ_REL).fetch_sub(x[i])
    AtomicRef(out, 2, MemoryOrder.RELAXED, MemoryScope.SYSTEM).fetch_min(x[i])
    AtomicRef(out, 3, MemoryOrder.SEQ_CST, MemoryScope.DEVICE, AddressSpace.GLOBAL).fetch_max(x[i])


@pytest.mark.parametrize("dtype", _NUMBERS)
@settings(max_examples=examples(6))
@given(numbers=st.lists(st.integers(0, 1000), min_size=1, max_size=70))
def test_arithmetic(dtype: str, numbers: list[int]) -> None:
    x = np.array(numbers, dtype)
    out = np.array([0, x.sum(), 500, 500], dtype)
    launch(_sums, x.shape, x, out)
    assert out.tolist() == [x.sum(), 0, min(500, x.min()), max(500, x.max())]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_instructions_for_floating_point_numbers(dtype: str) -> None:
    x = np.arange(1, 40).astype(dtype)
    emulated, native = np.array([0, 0, 50, 0], dtype), np.array([0, 0, 50, 0], dtype)
    options = KernelOptions(float_atomics=frozenset(f"{word} {dtype}" for word in ("add", "min", "max")))
    loops = launch(_sums, x.shape, x, emulated)
    instructions = launch(_sums, x.shape, x, native, options=options)
    assert loops.spirv.count(b"SPV_EXT_shader_atomic_float_add") == 0
    assert instructions.spirv.count(b"SPV_EXT_shader_atomic_float_add") == 1
    assert emulated.tolist() == native.tolist() == [x.sum(), -x.sum(), 1, 39]


def _bits(item: Any, x: Any, out: Any, before: Any) -> None:
    i = item.get_id(0)
    AtomicRef(out, 0).fetch_or(x[i])
    AtomicRef(out, 1).fetch_and(x[i])
    before[i] = AtomicRef(out, 2).fetch_xor(x[i])


@pytest.mark.parametrize("dtype", _WHOLE)
def test_bits(dtype: str) -> None:
    x = np.array([3, 5, 17, 66, 127], dtype)
    out, before = np.array([0, 127, 0], dtype), np.zeros(5, dtype)
    launch(_bits, (5,), x, out, before)
    assert out.tolist() == [np.bitwise_or.reduce(x), np.bitwise_and.reduce(x), np.bitwise_xor.reduce(x)]
    assert 0 in before.tolist()


def _exchanges(item: Any, x: Any, out: Any, expected: Any) -> None:
    i = item.get_id(0)
    total = AtomicRef(out, 0)
    expected[i] = total.load()
    while not total.compare_exchange(expected, expected[i] + x[i], i):
        pass
    AtomicRef(out, 1).store(x[0])
    expected[i] = AtomicRef(out, (2,)).exchange(x[i])
    atomic_fence(MemoryOrder.ACQ_REL, MemoryScope.DEVICE)


@pytest.mark.parametrize("dtype", _NUMBERS)
def test_exchange(dtype: str) -> None:
    x = np.arange(1, 38).astype(dtype)
    out, expected = np.zeros(3, dtype), np.zeros(37, dtype)
    launch(_exchanges, (37,), x, out, expected)
    assert out[:2].tolist() == [x.sum(), 1]
    # Every number was stored once, and each but the last was returned once.
    assert sorted([*expected.tolist(), out[2].item()]) == [0, *x.tolist()]


def _in_local_memory(item: Any, x: Any, shared: Any, out: Any) -> None:
    if item.get_local_id(0) == 0:
        shared[0] = 0
    group_barrier(item.get_group())
    AtomicRef(shared, 0, memory_scope=MemoryScope.WORK_GROUP, address_space=AddressSpace.LOCAL).fetch_add(
        x[item.get_global_id(0)]
    )
    group_barrier(item.get_group())
    if item.get_local_id(0) == 0:
        out[item.get_group().get_group_id(0)] = shared[0]


@pytest.mark.parametrize("dtype", _NUMBERS)
def test_local_memory(dtype: str) -> None:
    x = np.arange(32).astype(dtype)
    out = np.zeros(4, dtype)
    launch(_in_local_memory, (32,), x, LocalAccessor(1, dtype), out, local_range=(8,))
    assert out.tolist() == x.reshape(4, 8).sum(axis=1).tolist()


def _minimum(item: Any, x: Any, out: Any) -> None:
    AtomicRef(out, 0).fetch_min(x[item.get_id(0)])


def test_minimum_of_nan_is_the_number() -> None:
    out = np.array([2.0])
    launch(_minimum, (3,), np.array([np.nan, 1.5, np.nan]), out)
    assert out[0] == 1.5


def _wrong_space(item: Any, x: Any) -> None:
    AtomicRef(x, 0, address_space=AddressSpace.LOCAL).fetch_add(1)


def _wrong_bits(item: Any, x: Any) -> None:
    AtomicRef(x, 0).fetch_and(1)


def _wrong_order(item: Any, x: Any, order: Any) -> None:
    AtomicRef(x, 0, order).fetch_add(1)


@pytest.mark.parametrize(
    ("kernel", "arguments", "reason"),
    [
        (_wrong_space, (np.zeros(1, np.int32),), "AtomicRef to LOCAL memory, but the array is GLOBAL"),
        (_wrong_bits, (np.zeros(1, np.float32),), "atomic operations on bits take integers"),
        (_wrong_order, (np.zeros(1, np.int32), 1), "memory_order must be a constant of MemoryOrder"),
        (_minimum, (np.zeros(1, np.int16), np.zeros(1, np.int16)), "an array of 32 or 64-bit numbers"),
    ],
)
def test_refusals(kernel: Any, arguments: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(KernelCompilationError, match=reason):
        launch(kernel, (1,), *arguments)
