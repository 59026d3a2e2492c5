# SPDX-License-Identifier: Apache-2.0
"""`update`, every implementation, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.operations import close, described, numbers

from syclsched.errors import ArgumentError
from syclsched.kernels.tensor.update import update
from syclsched.model.graph import TaskGraph

#: A parameter and a moment, each from both old values, a gradient, and a scalar.
EXPRESSIONS = (("sub", 0, ("mul", 3, ("add", 1, 2))), ("add", ("mul", 1, ("const", 0.5)), ("mul", 0, 2)))


@pytest.mark.sycl
@pytest.mark.parametrize("name", ["opencl-c", "python"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5,), (3, 37), (2, 3, 16), ()])
def test_update(on_device: Any, name: str, dtype: str, shape: tuple[int, ...]) -> None:
    operation = update(EXPRESSIONS, 2)
    arrays = {
        "y0": numbers(*shape, dtype=dtype),
        "y1": numbers(*shape, dtype=dtype, seed=1),
        "x0": numbers(*shape[-1:], dtype=dtype),
        "x1": np.array(0.25, dtype),
    }
    p, m, g = arrays["y0"].copy(), arrays["y1"].copy(), arrays["x0"]
    want = {"y0": p - 0.25 * (m + g), "y1": 0.5 * m + p * g}
    found = on_device(operation, name, **{each: value.copy() for each, value in arrays.items()})
    operation.implementation("numpy").load(described(operation, arrays))(**arrays)
    for each, value in want.items():
        close(arrays[each], value, dtype)
        close(found[each], value, dtype)


def test_arrays_that_do_not_fit_are_refused() -> None:
    graph = TaskGraph()
    p, m = graph.array("p", (4, 2), "float32"), graph.array("m", (4, 3), "float32")
    g, lr = graph.array("g", (4, 2), "float32"), graph.array("lr", (), "float32")
    with pytest.raises(ArgumentError, match=r"y1 has shape \(4, 3\), and y0 \(4, 2\)"):
        graph.kernel(update(EXPRESSIONS, 2), y0=p, y1=m, x0=g, x1=lr)
