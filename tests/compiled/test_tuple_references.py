# SPDX-License-Identifier: Apache-2.0
"""Named tuples passed to compiled functions by reference: fields of every kind, nesting, and reference counts."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError

from syclsched.compiled import compiled, lean


class Inner(NamedTuple):
    values: Any
    flags: Any


class Outer(NamedTuple):
    count: Any
    share: Any
    wanted: Any
    inner: Any
    matrix: Any
    pair: Any


def outer() -> Outer:
    inner = Inner(np.arange(4.0), np.array([True, False]))
    return Outer(3, 0.25, True, inner, np.arange(6, dtype=np.int32).reshape(2, 3), (np.array([7]), np.array([8])))


@lean
def total(inner: Inner) -> float:
    found = 0.0
    for value in inner.values:
        found += value
    return found


@lean
def summary(value: Outer) -> float:
    found = value.count + value.share + total(value.inner) + value.matrix[1, 2] + value.pair[1][0]
    if value.wanted and value.inner.flags[0] and not value.inner.flags[1]:
        found += 100
    value.inner.values[0] = 50.0  # the caller's array
    return found  # type: ignore[no-any-return]


@compiled
def chosen(value: Outer, second: bool) -> Any:
    return value.inner.values if second else value.pair[0] * 2.0


@compiled
def made(values: Any) -> Inner:
    return Inner(values + 1.0, values > 1.0)


@compiled
def with_made(values: Any) -> float:
    return total(made(values))


@lean
def misspelt(value: Inner) -> Any:
    return value.valeus  # type: ignore[attr-defined]


@lean
def has_matrix(value: Outer) -> bool:
    return value.matrix is not None


def test_fields_of_every_kind_are_read_and_arrays_are_the_callers() -> None:
    value = outer()
    assert summary(value) == 3 + 0.25 + 6.0 + 5 + 8 + 100
    assert value.inner.values[0] == 50.0


def test_an_array_field_that_is_returned_is_the_callers() -> None:
    value = outer()
    assert np.shares_memory(chosen(value, True), value.inner.values)
    assert chosen(value, False).tolist() == [14.0]


def test_a_tuple_made_in_compiled_code_is_passed_by_value() -> None:
    assert made(np.arange(3.0)).values.tolist() == [1.0, 2.0, 3.0]
    assert made(np.arange(3.0)).flags.tolist() == [False, False, True]
    assert with_made(np.arange(3.0)) == 6.0
    assert total(made(np.arange(3.0))) == 6.0


def test_a_field_that_is_none_is_another_type() -> None:
    assert has_matrix(outer())
    assert not has_matrix(outer()._replace(matrix=None))


def test_a_field_that_does_not_exist_is_named() -> None:
    with pytest.raises(TypingError, match="valeus"):
        misspelt(outer().inner)


@pytest.mark.parametrize("function", [summary, lambda value: chosen(value, True)], ids=["lean", "compiled"])
def test_no_reference_to_an_array_is_kept(function: Any) -> None:
    value = outer()
    function(value)
    before = sys.getrefcount(value.inner.values), sys.getrefcount(value.matrix)
    for _ in range(10):
        function(value)
    assert (sys.getrefcount(value.inner.values), sys.getrefcount(value.matrix)) == before
