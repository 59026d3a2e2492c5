# SPDX-License-Identifier: Apache-2.0
"""Known answers: correct, and a single wrong element is detected."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.devices.trust import known_answers as ka

FLOATS = [dtype for dtype in ka.DTYPES if dtype.is_float]
INTEGERS = [dtype for dtype in ka.DTYPES if not dtype.is_float]


class Item:
    """A work-item's index, for running the kernels as plain Python."""

    def __init__(self, index: int) -> None:
        self.index = index

    def get_id(self, _: int) -> int:
        return self.index


@pytest.mark.parametrize("dtype", ka.DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("length", ka.LENGTHS)
def test_the_kernels_as_plain_python_give_the_answers(dtype: ka.Dtype, length: int) -> None:
    answers = [ka.expected(kind, dtype, length) for kind in ka.KINDS]
    out = np.zeros(sum(each.size for each in answers), dtype=dtype.name)
    given = np.concatenate([ka.inputs(kind, dtype, length) for kind in (ka.FORMULA, ka.REDUCTION)])
    for index in range(length):
        ka.python_function(dtype)(Item(index), out, given)
    for kind, answer in zip(ka.KINDS, answers, strict=True):
        part, out = out[: answer.size], out[answer.size :]
        assert ka.mismatch(part, answer, dtype.tolerance if kind == ka.FORMULA else 0.0) is None
    assert out.size == 0


@pytest.mark.parametrize("dtype", ka.DTYPES, ids=lambda dtype: dtype.name)
def test_sums_are_exact_in_any_order(dtype: ka.Dtype) -> None:
    for length in ka.LENGTHS:
        values = ka.inputs(ka.REDUCTION, dtype, length)
        exact = math.fsum(values.tolist())
        assert float(ka.opencl_group_totals(values).sum()) == float(ka.strided_totals(values, 16).sum()) == exact


def test_integer_answers_fit_their_type() -> None:
    for dtype in INTEGERS:
        values = [int(x) for x in ka.inputs(ka.FORMULA, dtype, max(ka.LENGTHS))]
        answer = [x * x * 5 + (x ^ 21) - (x >> 2) for x in values]
        assert ka.expected(ka.FORMULA, dtype, max(ka.LENGTHS)).tolist() == answer
    assert max(answer) > 2**32  # Of int64: a device that computes with 32 bits is detected.


@given(st.sampled_from(ka.DTYPES), st.sampled_from(ka.KINDS), st.sampled_from(ka.LENGTHS), st.data())
def test_one_wrong_value_anywhere_is_detected(dtype: ka.Dtype, kind: str, length: int, data: Any) -> None:
    answer = ka.expected(kind, dtype, length)
    place = data.draw(st.integers(0, answer.size - 1))
    wrong = answer.astype(dtype.name)
    wrong[place] += 1
    assert ka.mismatch(wrong, answer, dtype.tolerance) is not None


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_nan_is_wrong_with_any_tolerance(dtype: ka.Dtype) -> None:
    answer = ka.expected(ka.FORMULA, dtype, 17)
    broken = answer.astype(dtype.name)
    broken[3] = np.nan
    assert "1 of 17 values are wrong (at 3: nan" in str(ka.mismatch(broken, answer, dtype.tolerance))


def test_shapes_are_compared_and_wrong_values_counted() -> None:
    assert ka.mismatch(np.zeros(3), np.zeros(4), 0.0) == "shape (3,) instead of (4,)"
    assert ka.mismatch(np.array([0, 9, 9]), np.arange(3), 0.0) == "2 of 3 values are wrong (at 1: 9 instead of 1)"


def test_the_opencl_program_has_a_kernel_for_everything() -> None:
    source = ka.opencl_source(ka.DTYPES)
    for dtype in ka.DTYPES:
        assert f"{ka.opencl_kernel(dtype)}(" in source
    assert f"{ka.OPENCL_GROUPS}(" in source
    assert "double" not in ka.opencl_source(tuple(INTEGERS))
