# SPDX-License-Identifier: Apache-2.0
"""`heat_step`: one explicit step of the 2-D heat equation on a block, given its four neighbouring blocks.

new = u + r (u_north + u_south + u_west + u_east - 4 u), the five-point stencil, r = alpha dt / h^2, stable to r = 1/4.
Only the row or column of a neighbour that touches the block is read. At the edge of the domain, any block of the right
size replaces the neighbour: one shared block of zeros gives a zero boundary.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from syclsched.kernel_compiler.python_kernel import PythonKernel
from syclsched.kernels.common import (
    ITEM_BYTES,
    OPENCL_C,
    PYTHON_KERNEL,
    REAL_DTYPES,
    element_type,
    line_launch,
    numpy_implementation,
)
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

NEIGHBOURS = ("north", "south", "west", "east")


@cache
def _numba_kernel() -> Any:

    def heat_step(
        item: Any, out: Any, center: Any, north: Any, south: Any, west: Any, east: Any, coefficient: Any
    ) -> None:
        m, n = center.shape[0], center.shape[1]
        index = item.get_global_id(0)
        if index < m * n:
            i = index // n
            j = index % n
            above = center[i - 1, j] if i > 0 else north[north.shape[0] - 1, j]
            below = center[i + 1, j] if i < m - 1 else south[0, j]
            left = center[i, j - 1] if j > 0 else west[i, west.shape[1] - 1]
            right = center[i, j + 1] if j < n - 1 else east[i, 0]
            here = center[i, j]
            out[i, j] = here + coefficient * ((above + below) + (left + right) - (here + here + here + here))

    return PythonKernel(heat_step)


def _opencl_source(signature: Signature) -> OpenCLSource:
    dtype = signature.dtypes["center"]
    m, n = signature.shapes["center"]
    north_rows, west_columns = signature.shapes["north"][0], signature.shapes["west"][1]
    east_columns = signature.shapes["east"][1]
    source = f"""{element_type(dtype)}
__kernel void heat_step(__global T* restrict out, __global const T* restrict center, __global const T* restrict north,
                        __global const T* restrict south, __global const T* restrict west,
                        __global const T* restrict east, T coefficient) {{
  const int index = get_global_id(0);
  if (index >= {m * n}) return;
  const int i = index / {n}, j = index % {n};
  const T above = i > 0 ? center[index - {n}] : north[{(north_rows - 1) * n} + j];
  const T below = i < {m - 1} ? center[index + {n}] : south[j];
  const T left = j > 0 ? center[index - 1] : west[i * {west_columns} + {west_columns - 1}];
  const T right = j < {n - 1} ? center[index + 1] : east[i * {east_columns}];
  const T here = center[index];
  out[index] = here + coefficient * ((above + below) + (left + right) - (here + here + here + here));
}}
"""
    return OpenCLSource(source, "heat_step")


def _check(signature: Signature) -> str | None:
    shapes = signature.shapes
    m, n = shapes["center"]
    if shapes["out"] != (m, n):
        return f"out has shape {shapes['out']}, center {(m, n)}: they must agree"
    for name in NEIGHBOURS:
        axis = 1 if name in ("north", "south") else 0
        if shapes[name][axis] != (m, n)[axis] or shapes[name][1 - axis] < 1:
            return f"{name} has shape {shapes[name]}: its {('rows', 'columns')[axis]} must be center's {(m, n)[axis]}"
    return None


def _work(signature: Signature) -> Work:
    m, n = signature.shapes["center"]
    dtype = signature.dtypes["center"]
    # Compulsory traffic: the block in and out, and the edges of its neighbours.
    return Work(9.0 * m * n, float((2 * m * n + 2 * (m + n)) * ITEM_BYTES[dtype]), dtype, float(m * n))


def _load_numba(signature: Signature) -> Any:
    return _numba_kernel()


def _load_opencl(signature: Signature) -> Any:
    return _opencl_source(signature)


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    m, n = signature.shapes["center"]
    return line_launch(limits, m * n)


def _host(*, out: Any, center: Any, north: Any, south: Any, west: Any, east: Any, coefficient: float) -> None:
    import numpy as np

    padded = np.empty((center.shape[0] + 2, center.shape[1] + 2), center.dtype)
    padded[1:-1, 1:-1] = center
    padded[0, 1:-1], padded[-1, 1:-1] = north[-1], south[0]
    padded[1:-1, 0], padded[1:-1, -1] = west[:, -1], east[:, 0]
    change = (padded[:-2, 1:-1] + padded[2:, 1:-1]) + (padded[1:-1, :-2] + padded[1:-1, 2:]) - 4 * center
    out[...] = center + center.dtype.type(coefficient) * change


HEAT_STEP = Operation(
    name="heat_step",
    parameters=(
        Parameter("out", AccessMode.WRITE, ndim=2, dtypes=REAL_DTYPES),
        Parameter("center", AccessMode.READ, ndim=2, like="out"),
        *(Parameter(name, AccessMode.READ, ndim=2, like="out") for name in NEIGHBOURS),
        Parameter("coefficient", like="out"),
    ),
    implementations=(
        Implementation("opencl-c", "opencl-c", _load_opencl, _launch, OPENCL_C, efficiency=0.4),
        Implementation("python", "python", _load_numba, _launch, PYTHON_KERNEL, efficiency=0.3),
        numpy_implementation(_host, efficiency=0.1),
    ),
    work=_work,
    check=_check,
    recipe=("heat_step", {}),
)
