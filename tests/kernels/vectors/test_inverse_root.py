# SPDX-License-Identifier: Apache-2.0
"""Numbers to the power of -1/2 and -3/4, against double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.vectors import WIDTH, on_vectors

from syclsched.kernels.vectors import inverse_root, straight_line

POWERS = {"inverse_root": -0.5, "inverse_three_quarters": -0.75}
#: Units in the last place. Approximations have 14 bits with AVX-512 and 12 with AVX2, where -3/4 is met within 9.
LIMITS = {"inverse_root": 5, "inverse_three_quarters": 12}
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
WAYS = [(name, language) for name in POWERS for language in ("opencl-c", "numba-dpex")]


@pytest.mark.sycl
@pytest.mark.parametrize(("name", "language"), WAYS)
def test_right_within_some_units_in_the_last_place(run: Any, name: str, language: str) -> None:
    x = np.geomspace(1e-30, 3e38, WIDTH << 12).astype("float32")
    x[: WIDTH << 8] = np.linspace(1, 4, WIDTH << 8)
    got = run(OPERATIONS[name], language, {"y": np.zeros_like(x), "x": x})["y"]
    exact = x.astype("float64") ** POWERS[name]
    assert np.max(np.abs(got - exact) / np.spacing(exact.astype("float32"))) < LIMITS[name]


@pytest.mark.sycl
@pytest.mark.parametrize(("name", "language"), WAYS)
def test_nothing_of_infinity_and_nan_of_what_is_no_number(run: Any, name: str, language: str) -> None:
    x = np.ones(WIDTH, "float32")
    x[:4] = np.inf, np.nan, -1, -np.inf
    got = run(OPERATIONS[name], language, {"y": np.zeros_like(x), "x": x})["y"]
    assert got[0] == 0
    assert np.isnan(got[1:4]).all()
    assert got[4:] == pytest.approx(1)
