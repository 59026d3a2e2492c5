# SPDX-License-Identifier: Apache-2.0
"""Exponentials divided by a common power of two, in both languages, compared with double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.vectors import WIDTH, on_vectors

from syclsched.kernels.vectors import scaled_exponential, straight_line

LANGUAGES = ["opencl-c", "python"]
POWERS = on_vectors(
    ["y", "z", "s", "top"],
    ["x", "before"],
    (
        "".join(straight_line.opencl(each, name, WIDTH) for name, each in scaled_exponential.FUNCTIONS.items()),
        f"float16 t = vload{WIDTH}(i, top), b = vload{WIDTH}(i, before);\n"
        f"float16 v = vload{WIDTH}(i, x), k = exponent(t);\n"
        f"vstore{WIDTH}(power_over(v, k), i, y); vstore{WIDTH}(add_power(b, v, k), i, z);\n"
        f"vstore{WIDTH}(scaling(exponent(b), k), i, s); vstore{WIDTH}(k, i, top);\n",
    ),
    [
        "v, b = load_vector(x, i), load_vector(before, i)",
        "k = vexponent(load_vector(top, i))",
        "store_vector(y, i, vpower_over(v, k))",
        "store_vector(z, i, vadd_power(b, v, k))",
        "store_vector(s, i, vscaling(vexponent(b), k))",
        "store_vector(top, i, k)",
    ],
)


def tried(run: Any, language: str, x: Any, top: Any, before: Any = 0.0) -> dict[str, Any]:
    x = np.asarray(x, "float32")
    given = {name: np.zeros_like(x) for name in ("y", "z", "s")}
    given |= {"top": np.full_like(x, top), "x": x, "before": np.full_like(x, before)}
    return dict(run(POWERS, language, given))


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("top", [0.0, 88.6, -700.25, 65535.0, -65535.0])
def test_right_within_three_units_in_the_last_place(run: Any, language: str, top: float) -> None:
    x = np.linspace(top - 87.0, top, WIDTH << 8, dtype="float32")
    got = tried(run, language, x, top)
    k = got["top"].astype("float64")
    assert (k == np.rint(k)).all()
    assert np.abs(k * np.log(2) - top).max() < 0.4
    # Compared with the used log2(e), as its error is the same in all powers of a sum.
    exact = np.exp2(x.astype("float64") * float(np.float32(1 / np.log(2))) - k)
    assert np.max(np.abs(got["y"] - exact) / np.spacing(exact.astype("float32"))) < 3
    np.testing.assert_array_equal(got["z"], got["y"])


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
def test_sums_are_scaled_exactly(run: Any, language: str) -> None:
    got = tried(run, language, np.full(WIDTH, -np.inf), top=[10.0, 50.0, 97.0, 200.0] * (WIDTH // 4), before=10.0)
    apart = np.rint(np.array([0.0, 40.0, 87.0]) / np.log(2))
    assert np.abs(np.log2(got["s"][:3]) + apart).max() <= 1
    assert (np.log2(got["s"][:3]) % 1 == 0).all()
    assert got["s"][3] == 0
    assert (got["z"] == 10).all()


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
def test_very_negative_numbers_give_0_and_nan_gives_nan(run: Any, language: str) -> None:
    x = np.full(WIDTH, 5.0, "float32")
    x[:4] = -np.inf, -84.0, -3e38, -1e9
    # Payloads whose bits would be taken for an exponent.
    x[4:7] = np.array([0x7FC00001, 0xFFC000FF, 0x7F800001], "uint32").view("float32")
    got = tried(run, language, x, top=5.0, before=1.0)
    assert got["y"][:4].tolist() == [0, 0, 0, 0]
    assert got["z"][:4].tolist() == [1, 1, 1, 1]
    assert np.isnan(got["y"][4:7]).all()
    assert np.isnan(got["z"][4:7]).all()
    assert (got["y"][7:] > 0.5).all()
