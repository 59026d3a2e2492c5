# SPDX-License-Identifier: Apache-2.0
"""Numbers to the power of -1/2 and -3/4, against double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syclsched.kernels import inverse_root
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
POWERS = {"inverse_root": -0.5, "inverse_three_quarters": -0.75}


def operation(name: str) -> Operation:
    """Return what makes powers."""

    def opencl(_: Signature) -> OpenCLSource:
        call = f"long i = get_global_id(0); vstore{WIDTH}({name}(vload{WIDTH}(i, x)), i, y);"
        body = f"__kernel void powers(__global float* y, __global const float* x) {{ {call} }}"
        return OpenCLSource(inverse_root.opencl(WIDTH) + body, "powers")

    def numba_dpex(signature: Signature) -> Any:
        text = f"def powers(item, y, x):\n    i = item.get_global_id(0) * {WIDTH}\n"
        return dpex.compiled(text + f"    store_vector(y, i, v{name}(load_vector(x, i)))\n", "powers", "float32")

    def launch(signature: Signature, _: DeviceLimits) -> Launch:
        return Launch((signature.shapes["y"][0] // WIDTH,), (1,))

    return Operation(
        name="powers",
        parameters=(Parameter("y", AccessMode.WRITE), Parameter("x", AccessMode.READ, like="y")),
        implementations=(
            Implementation("opencl-c", "opencl-c", opencl, launch),
            Implementation("numba-dpex", "numba-dpex", numba_dpex, launch),
        ),
        work=lambda signature: Work(1.0, 1.0, "float32", 1.0),
    )


WAYS = [(name, "opencl-c") for name in POWERS] + [("inverse_three_quarters", "numba-dpex")]


@pytest.mark.sycl
@pytest.mark.parametrize(("name", "language"), WAYS)
def test_right_within_some_units_in_the_last_place(run: Any, name: str, language: str) -> None:
    x = np.geomspace(1e-30, 3e38, WIDTH << 12).astype("float32")
    x[: WIDTH << 8] = np.linspace(1, 4, WIDTH << 8)
    got = run(operation(name), language, {"y": np.zeros_like(x), "x": x})["y"]
    exact = x.astype("float64") ** POWERS[name]
    assert np.max(np.abs(got - exact) / np.spacing(exact.astype("float32"))) < 5


@pytest.mark.sycl
@pytest.mark.parametrize(("name", "language"), WAYS)
def test_nothing_of_infinity_and_nan_of_what_is_no_number(run: Any, name: str, language: str) -> None:
    x = np.ones(WIDTH, "float32")
    x[:4] = np.inf, np.nan, -1, -np.inf
    got = run(operation(name), language, {"y": np.zeros_like(x), "x": x})["y"]
    assert got[0] == 0
    assert np.isnan(got[1:4]).all()
    assert got[4:] == pytest.approx(1)
