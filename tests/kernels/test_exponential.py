# SPDX-License-Identifier: Apache-2.0
"""Exponentials of numbers of at most 0, in both languages, against double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syclsched.kernels import exponential
from syclsched.kernels.nn import dpex
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Operation,
    Parameter,
    Signature,
    Work,
)

WIDTH = 16


def opencl(_: Signature) -> OpenCLSource:
    call = f"long i = get_global_id(0); vstore{WIDTH}(power(vload{WIDTH}(i, x)), i, y);"
    head = exponential.opencl("power", WIDTH)
    return OpenCLSource(
        f"{head}__kernel void powers(__global float* y, __global const float* x) {{ {call} }}",
        "powers",
    )


def numba_dpex(signature: Signature) -> Any:
    text = f"def powers(item, y, x):\n    i = item.get_global_id(0) * {WIDTH}\n"
    return dpex.compiled(text + "    store_vector(y, i, vpower(load_vector(x, i)))\n", "powers", signature.dtypes["y"])


def launch(signature: Signature, _: DeviceLimits) -> Launch:
    return Launch((signature.shapes["y"][0] // WIDTH,), (1,))


POWERS = Operation(
    name="powers",
    parameters=(Parameter("y", AccessMode.WRITE), Parameter("x", AccessMode.READ, like="y")),
    implementations=(
        Implementation("opencl-c", "opencl-c", opencl, launch),
        Implementation("numba-dpex", "numba-dpex", numba_dpex, launch),
    ),
    work=lambda signature: Work(1.0, 1.0, "float32", 1.0),
)


@pytest.mark.sycl
@pytest.mark.parametrize("language", ["opencl-c", "numba-dpex"])
def test_right_within_one_unit_in_the_last_place(run: Any, language: str) -> None:
    x = np.linspace(exponential.LEAST, 0, WIDTH << 12, dtype="float32")
    got = run(POWERS, language, {"y": np.zeros_like(x), "x": x})["y"]
    exact = np.exp(x.astype("float64"))
    assert np.max(np.abs(got - exact) / np.spacing(exact.astype("float32"))) < 1


@pytest.mark.sycl
@pytest.mark.parametrize("language", ["opencl-c", "numba-dpex"])
def test_nothing_of_what_is_far_below_and_nan_of_nan(run: Any, language: str) -> None:
    x = np.zeros(WIDTH, "float32")
    x[:4] = -np.inf, -88, -1e30, -0.0
    # Payloads whose bits would pass for an exponent.
    x[4:7] = np.array([0x7FC00001, 0xFFC000FF, 0x7F800001], "uint32").view("float32")
    got = run(POWERS, language, {"y": np.ones_like(x), "x": x})["y"]
    assert got[:4].tolist() == [0, 0, 0, 1]
    assert np.isnan(got[4:7]).all()
    assert (got[7:] == 1).all()
