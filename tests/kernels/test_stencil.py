# SPDX-License-Identifier: Apache-2.0
"""The heat step, block by block, compared with one step on the whole domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syclsched import kernels

pytestmark = pytest.mark.sycl
NAMES = [each.name for each in kernels.get("heat_step").implementations]


def whole_step(u: Any, r: float) -> Any:
    p = np.pad(u, 1)
    return u + r * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "columns"), [((4, 4, 4), (4, 4)), ((1, 3), (5, 1, 7))])
@pytest.mark.parametrize("name", NAMES)
def test_blocks_make_up_the_whole(
    run: Any, name: str, rows: tuple[int, ...], columns: tuple[int, ...], dtype: str
) -> None:
    r = 0.2
    u = np.random.default_rng(7).standard_normal((sum(rows), sum(columns))).astype(dtype)
    wanted = whole_step(u.astype("float64"), r)
    i_ends, j_ends = np.cumsum((0, *rows)), np.cumsum((0, *columns))

    def block(array: Any, i: int, j: int, m: int, n: int) -> Any:
        if 0 <= i < len(rows) and 0 <= j < len(columns):
            return np.ascontiguousarray(array[i_ends[i] : i_ends[i + 1], j_ends[j] : j_ends[j + 1]])
        return np.zeros((m, n), dtype)

    for i, m in enumerate(rows):
        for j, n in enumerate(columns):
            arrays = {
                "out": np.full((m, n), np.nan, dtype),
                "center": block(u, i, j, m, n),
                "north": block(u, i - 1, j, m, n),
                "south": block(u, i + 1, j, m, n),
                "west": block(u, i, j - 1, m, n),
                "east": block(u, i, j + 1, m, n),
            }
            got = run(kernels.get("heat_step"), name, arrays, coefficient=r)["out"]
            tolerance = 1e-5 if dtype == "float32" else 1e-13
            np.testing.assert_allclose(got, block(wanted, i, j, m, n), rtol=0, atol=tolerance)
