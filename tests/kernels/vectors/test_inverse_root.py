# SPDX-License-Identifier: Apache-2.0
"""Powers of -1/2 and -3/4, compared with double precision."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.vectors import WIDTH, on_vectors

from syclsched.kernels.vectors import inverse_root, straight_line
from syclsched.kernels.vectors.straight_line import FloatOps

POWERS = {"inverse_root": -0.5, "inverse_three_quarters": -0.75}
#: Units in the last place, with every instruction set.
LIMIT = 5
#: Largest relative error of an approximation, by instruction set.
ERRORS = {"SSE and AVX": 1.5 * 2.0**-12, "AVX-512": 2.0**-14}
OPERATIONS = {
    name: on_vectors(
        ["y"],
        ["x"],
        (
            straight_line.opencl(inverse_root.FUNCTIONS[name], name, WIDTH),
            f"vstore{WIDTH}({name}(vload{WIDTH}(i, x)), i, y);",
        ),
        [f"store_vector(y, i, v{name}(load_vector(x, i)))"],
    )
    for name in POWERS
}
WAYS = [(name, language) for name in POWERS for language in ("opencl-c", "python")]


class InexactOps(FloatOps):
    """Operations on float32 arrays whose approximate inverse roots have given relative errors."""

    def __init__(self, *errors: float) -> None:
        self._errors = iter(errors)

    def binary(self, symbol: str, a: Any, b: Any) -> Any:
        operation = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[symbol]
        return operation(np.float32(a), np.float32(b))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return np.float32(np.float64(a) * np.float64(b) + np.float64(c))

    def choose(self, symbol: str, a: Any, b: Any, yes: Any, no: Any) -> Any:
        return np.where(a < b if symbol == "<" else a > b, np.float32(yes), np.float32(no))

    def two_to(self, z: Any) -> Any:
        return (z.view(np.int32) << 23).view(np.float32)

    def magnitude(self, x: Any) -> Any:
        return np.abs(x)

    def signed(self, x: Any, sign: Any) -> Any:
        return np.copysign(x, sign)

    def near_inverse_root(self, x: Any) -> Any:
        return np.float32(np.float64(x) ** -0.5 * (1 + next(self._errors)))


def numbers() -> Any:
    x = np.geomspace(1e-30, 3e38, WIDTH << 12).astype("float32")
    x[: WIDTH << 8] = np.linspace(1, 4, WIDTH << 8)
    return x


def error_in_last_places(got: Any, x: Any, power: float) -> float:
    exact = x.astype("float64") ** power
    return float(np.max(np.abs(got - exact) / np.spacing(exact.astype("float32"))))


@pytest.mark.parametrize("name", POWERS)
@pytest.mark.parametrize("instructions", ERRORS)
@pytest.mark.parametrize("signs", list(itertools.product([-1, 0, 1], repeat=2)))
def test_results_are_exact_enough_for_any_approximation_error(
    name: str, instructions: str, signs: tuple[int, int]
) -> None:
    x, errors = numbers(), [sign * ERRORS[instructions] for sign in signs]
    got = inverse_root.FUNCTIONS[name](InexactOps(*errors), x)
    assert error_in_last_places(got, x, POWERS[name]) < LIMIT


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize(("name", "language"), WAYS)
def test_right_within_some_units_in_the_last_place(run: Any, name: str, language: str) -> None:
    x = numbers()
    got = run(OPERATIONS[name], language, {"y": np.zeros_like(x), "x": x})["y"]
    assert error_in_last_places(got, x, POWERS[name]) < LIMIT


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize(("name", "language"), WAYS)
def test_infinity_gives_0_and_invalid_numbers_give_nan(run: Any, name: str, language: str) -> None:
    x = np.ones(WIDTH, "float32")
    x[:4] = np.inf, np.nan, -1, -np.inf
    got = run(OPERATIONS[name], language, {"y": np.zeros_like(x), "x": x})["y"]
    assert got[0] == 0
    assert np.isnan(got[1:4]).all()
    assert got[4:] == pytest.approx(1)
