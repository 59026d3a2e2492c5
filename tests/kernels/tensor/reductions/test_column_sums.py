# SPDX-License-Identifier: Apache-2.0
"""Sums and moments of columns in parts of the rows, compared with NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import NO_SHRINKING, UNCHECKED, close, described, implementations, numbers, unwritten

from syclsched.errors import ArgumentError
from syclsched.kernels.tensor.reductions.column_sums import column_moments, column_sums, parts_of
from syclsched.model.operation import Operation

Case = tuple[Operation, dict[str, np.ndarray], dict[str, np.ndarray]]

#: As in the gradient of a batch normalisation: the gradient behind a rectifier, and its product with the deviation
#: from the mean.
_PASSED = ("where", ("greater", 0, ("const", 0.0)), 1, ("const", 0.0))
GRADIENT = (_PASSED, ("mul", _PASSED, ("sub", 2, 3)))


def case_of(shape: tuple[int, ...], parts: int, dtype: str) -> Case:
    """Return two sums over four arrays, the last of which has an element for each column."""
    x = [numbers(*shape, dtype=dtype, seed=seed) for seed in range(3)] + [numbers(shape[-1], dtype=dtype)]
    sums = (parts, *(1,) * (len(shape) - 2), shape[-1])
    arrays = {f"x{i}": each for i, each in enumerate(x)} | {name: unwritten(sums, dtype) for name in ("y0", "y1")}
    wide = [each.astype("float64") for each in x]
    passed = np.where(wide[0] > 0, wide[1], 0.0)
    wanted = {
        "y0": passed.reshape(parts, -1, shape[-1]).sum(axis=1).reshape(sums),
        "y1": (passed * (wide[2] - wide[3])).reshape(parts, -1, shape[-1]).mean(axis=1).reshape(sums),
    }
    return column_sums(GRADIENT, 4, (False, True)), arrays, wanted


def moments_of(shape: tuple[int, ...], parts: int, dtype: str, offset: float = 0.0) -> Case:
    x = (numbers(*shape, dtype="float64") + offset).astype(dtype)
    sums = (parts, *(1,) * (len(shape) - 2), shape[-1])
    rows = x.astype("float64").reshape(parts, -1, shape[-1])
    wanted = {"mean": rows.mean(axis=1).reshape(sums), "variance": rows.var(axis=1).reshape(sums)}
    arrays = {"mean": unwritten(sums, dtype), "variance": unwritten(sums, dtype), "x": x}
    return column_moments(), arrays, wanted


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw sums or moments of a few rows and columns, of arrays of two to four axes."""
    parts, each = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    shape = (*draw(st.sampled_from([(), (1,), (2,), (3, 2)])), parts * each, draw(st.sampled_from([1, 3, 16, 40])))
    make = draw(st.sampled_from([case_of, moments_of]))
    return make(shape, parts, draw(st.sampled_from(["float32", "float64"])))


def check(made: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    for name, each in wanted.items():
        close(made[name], each, str(made[name].dtype), 4.0)


@given(cases())
@settings(max_examples=examples(60), deadline=None)
def test_the_host(case: Case) -> None:
    operation, arrays, wanted = case
    made = {name: each.copy() for name, each in arrays.items()}
    host = next(each for each in operation.implementations if each.kind == "host")
    host.load(described(operation, made))(**made)
    check(made, wanted)


@pytest.mark.sycl
@pytest.mark.parametrize("name", implementations(column_moments()))
@given(case=cases())
@settings(max_examples=examples(30), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices(run: Any, name: str, case: Case) -> None:
    operation, arrays, wanted = case
    check(run(operation, name, arrays), wanted)


@pytest.mark.sycl
def test_a_variance_keeps_its_digits_far_from_zero(run: Any) -> None:
    operation, arrays, wanted = moments_of((4, 1024, 20), 4, "float32", offset=1e4)
    made = run(operation, "opencl-c", arrays)
    np.testing.assert_allclose(made["variance"], wanted["variance"], rtol=1e-3)
    np.testing.assert_allclose(made["mean"], wanted["mean"], rtol=1e-6)


@pytest.mark.sycl
def test_a_column_that_is_not_finite_shows_it(run: Any) -> None:
    operation, arrays, _ = moments_of((64, 4), 2, "float32")
    arrays["x"][40, 1] = np.nan
    made = run(operation, "opencl-c", arrays)
    assert np.isnan(made["mean"]).tolist() == np.isnan(made["variance"]).tolist()
    assert np.isnan(made["variance"]).tolist() == [[False] * 4, [False, True, False, False]]


@pytest.mark.parametrize(("rows", "parts"), [(0, 1), (1 << 13, 1), (1 << 14, 64), (3 * 7 * 11 * 137, 33), (40009, 1)])
def test_parts_are_of_equal_length(rows: int, parts: int) -> None:
    assert parts_of(rows, 64) == parts  # the last number of rows is a prime


def test_shapes_that_do_not_fit_are_refused() -> None:
    operation, arrays, _ = case_of((3, 4, 6), 2, "float32")
    for name, shape in {"y0": (5, 1, 6), "x1": (3, 4, 5), "x3": (5,), "y1": (3, 1, 6)}.items():
        with pytest.raises(AssertionError, match=r"not|has"):
            described(operation, {**arrays, name: np.zeros(shape, "float32")})
    with pytest.raises((AssertionError, ArgumentError), match="int64"):
        described(column_sums((0,), 1, (False,)), {"y0": np.zeros((1, 6), "float32"), "x0": np.zeros((4, 6), "int64")})


def test_constants_that_compare_equal_have_operations_of_their_own() -> None:
    x, y = np.ones((4, 3), "float32"), unwritten((1, 3), "float32")
    for number in (0.0, -0.0):
        operation = column_sums((("div", 0, ("const", number)),), 1, (False,))
        host = next(each for each in operation.implementations if each.kind == "host")
        with np.errstate(divide="ignore"):
            host.load(described(operation, {"y0": y, "x0": x}))(y0=y, x0=x)
        np.testing.assert_array_equal(y, np.full((1, 3), np.copysign(np.inf, number)))
