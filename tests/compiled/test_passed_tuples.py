# SPDX-License-Identifier: Apache-2.0
"""Calls of compiled functions by their address."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from syclsched.compiled import lean
from syclsched.compiled.passed_tuples import (
    address_in_compiled_code,
    address_of,
    call_compiled,
    tuple_at,
    type_for_tuple_at,
)


class Two(NamedTuple):
    """Two arrays."""

    first: Any
    second: Any


KIND = type_for_tuple_at(Two(np.zeros(2), np.zeros((2, 3), np.int64)))


@lean
def fill(address: int) -> int:
    two = tuple_at(address, KIND)
    if two.first[0] > 5.0:
        raise ValueError("too large")
    two.second[1, 2] = int(two.first[0])
    return 1


@lean
def call(two: Two, address: int) -> int:
    return call_compiled(address, address_of(two))  # type: ignore[no-any-return]


def test_the_called_function_has_the_callers_arrays() -> None:
    two = Two(np.array([3.0, 1.0]), np.zeros((2, 3), np.int64))
    assert call(two, address_in_compiled_code(fill)) == 1
    assert two.second.tolist() == [[0, 0, 0], [0, 0, 3]]


def test_an_error_of_the_called_function_is_raised() -> None:
    two = Two(np.array([7.0, 1.0]), np.zeros((2, 3), np.int64))
    with pytest.raises(ValueError, match="too large"):
        call(two, address_in_compiled_code(fill))
    assert not two.second.any()
