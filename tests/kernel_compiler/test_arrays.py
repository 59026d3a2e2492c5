# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.launching import launch

from syclsched.kernel_compiler.kernel_api import LocalAccessor, MemoryScope, PrivateArray, group_barrier

pytestmark = pytest.mark.sycl

_REAL = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
_ALL = (*_REAL, "bool", "complex64", "complex128")
TABLE = np.array([3.0, 1.0, 4.0, 1.5])


def _values(shape: tuple[int, ...], dtype: str) -> Any:
    numbers = np.arange(np.prod(shape)).reshape(shape) * 7 % 100
    if dtype == "bool":
        return numbers % 3 == 0
    return (numbers + (1j * (numbers % 5) if dtype.startswith("complex") else 0)).astype(dtype)


def _copy1(item: Any, x: Any, y: Any) -> None:
    i = item.get_id(0)
    y[i] = x[-1 - i]


def _copy2(item: Any, x: Any, y: Any) -> None:
    i = item.get_id(0)
    j = item.get_id(1)
    y[i, j] = x[-1 - i, j]


def _copy3(item: Any, x: Any, y: Any) -> None:
    i = item.get_id(0)
    j = item.get_id(1)
    k = item.get_id(2)
    y[i, j, k] = x[-1 - i, j, k]


_COPIES = {1: _copy1, 2: _copy2, 3: _copy3}


def _laid_out(array: Any, layout: str) -> Any:
    """An array of the same values in another layout."""
    if layout == "A":
        whole = np.zeros([2 * extent + 1 for extent in array.shape], array.dtype)
        view = whole[tuple(slice(1, None, 2) for _ in array.shape)]
        view[...] = array
        return view
    return np.asarray(array, order=layout)


@pytest.mark.parametrize("dtype", _ALL)
@settings(max_examples=examples(6))
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple),
    layouts=st.tuples(st.sampled_from("CFA"), st.sampled_from("CFA")),
)
def test_elements_of_every_layout(dtype: str, shape: tuple[int, ...], layouts: tuple[str, str]) -> None:
    x = _laid_out(_values(shape, dtype), layouts[0])
    y = _laid_out(np.zeros(shape, dtype), layouts[1])
    launch(_COPIES[len(shape)], shape, x, y)
    np.testing.assert_array_equal(y, x[::-1])


def _scale(item: Any, x: Any, factor: Any, y: Any) -> None:
    i = item.get_id(0)
    y[i] = x[i] * factor


@pytest.mark.parametrize("dtype", [*_REAL, "complex64", "complex128"])
def test_scalars(dtype: str) -> None:
    x, factor = _values((11,), dtype) % 11 if dtype in _REAL else _values((11,), dtype), np.dtype(dtype).type(3)
    factor = factor + 2j if dtype.startswith("complex") else factor
    y = np.zeros_like(x)
    launch(_scale, (11,), x, np.dtype(dtype).type(factor), y)
    np.testing.assert_allclose(y, x * factor, rtol=1e-6)


def _views(item: Any, x: Any, y: Any) -> None:
    i = item.get_id(0)
    row = x[i]
    total = 0.0
    for value in row[1::2]:
        total += value
    for line in x[:2, ::-1]:
        total += line[0] * 100
    y[i, 1:-1] = row[2:]
    y[i, ::7] = total
    y[..., 2] = -1.0


def test_views() -> None:
    x = np.random.default_rng(1).random((5, 8))
    y = np.zeros_like(x)
    launch(_views, (5,), x, y)
    wanted = np.zeros_like(x)
    wanted[:, 1:-1] = x[:, 2:]
    wanted[:, ::7] = (x[:, 1::2].sum(axis=1) + 100 * (x[0, -1] + x[1, -1]))[:, None]
    wanted[:, 2] = -1
    np.testing.assert_allclose(y, wanted, rtol=1e-12)


def _rows(item: Any, x: Any, y: Any) -> None:
    if item.get_id(0) == 0:
        y[:, :] = x  # a row, assigned to every row


def test_an_array_of_fewer_dimensions_is_assigned_to_every_row() -> None:
    x, y = np.arange(4.0), np.zeros((3, 4))
    launch(_rows, (1,), x, y)
    np.testing.assert_array_equal(y, np.tile(x, (3, 1)))


def _properties(item: Any, x: Any, y: Any) -> None:
    y[0] = x.shape[0] * 100 + x.shape[1]
    y[1] = x.size
    y[2] = x.ndim
    y[3] = len(x)


def test_properties() -> None:
    y = np.zeros(4, np.int64)
    launch(_properties, (1,), np.zeros((3, 7), np.float32), y)
    assert y.tolist() == [307, 21, 2, 3]


def _private(item: Any, x: Any, y: Any) -> None:
    i = item.get_id(0)
    zeros = PrivateArray((2, 4), np.float32, fill_zeros=True)
    kept = PrivateArray(4, x.dtype)
    for j in range(4):
        kept[j] = x[i, j]
    total = np.float32(0.0)
    for j in range(4):
        total += kept[-1 - j] * np.float32(j + 1) + zeros[1, j]
    y[i] = total


def test_private_arrays() -> None:
    x, y = np.random.default_rng(1).random((9, 4)).astype(np.float32), np.zeros(9, np.float32)
    launch(_private, (9,), x, y)
    np.testing.assert_allclose(y, x[:, ::-1] @ np.arange(1, 5), rtol=1e-5)


def _reversed_groups(item: Any, x: Any, shared: Any, y: Any) -> None:
    i = item.get_local_id(0)
    last = item.get_local_range(0) - 1
    shared[i] = x[item.get_global_id(0)]
    group_barrier(item.get_group())
    y[item.get_global_id(0)] = shared[last - i]
    group_barrier(item.get_group(), MemoryScope.WORK_GROUP)
    group_barrier(item.get_group(), fence_scope=MemoryScope.DEVICE)


@pytest.mark.parametrize("dtype", _ALL)
def test_local_memory(dtype: str) -> None:
    x = _values((24,), dtype)
    y = np.zeros_like(x)
    launch(_reversed_groups, (24,), x, LocalAccessor(8, dtype), y, local_range=(8,))
    np.testing.assert_array_equal(y, x.reshape(3, 8)[:, ::-1].ravel())


def _look_up(item: Any, y: Any) -> None:
    i = item.get_id(0)
    y[i] = TABLE[i % 4] + TABLE.size


def test_arrays_from_outside_are_constants() -> None:
    y = np.zeros(6)
    launch(_look_up, (6,), y)
    assert y.tolist() == [7.0, 5.0, 8.0, 5.5, 7.0, 5.0]
