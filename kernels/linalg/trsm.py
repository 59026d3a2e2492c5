# SPDX-License-Identifier: Apache-2.0
"""`trsm`: solve X L^T = A in place of A, with L lower triangular; L's strict upper part is not read."""

from __future__ import annotations

from functools import cache
from typing import Any

from syclsched.kernel_compiler import kernel_api as kapi
from syclsched.kernel_compiler.python_kernel import PythonKernel
from syclsched.kernels.common import (
    ITEM_BYTES,
    OPENCL_C,
    PYTHON_KERNEL,
    REAL_DTYPES,
    ceil_div,
    line_launch,
)
from syclsched.kernels.linalg import blas
from syclsched.kernels.linalg.microkernel import COLUMNS, dot_block, preamble, row_pointers
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

#: Rows that an OpenCL C work-item solves at once: the lanes of a short vector.
ROWS = 4
#: Columns that a Python kernel's work-item solves at once; each strided load of X is reused for all of them.
NUMBA_COLUMNS = 4


def substitute(columns: int) -> str:
    """Return code that solves for a block's columns ``x<j>`` (lanes are rows), with L in ``b<j>``."""
    lines = []
    for j in range(columns):
        lines += [f"x{j} -= x{p} * b{j}[j0 + {p}];" for p in range(j)]
        lines.append(f"x{j} /= b{j}[j0 + {j}];")
    return "\n    ".join(lines)


def columns_of_block(columns: int) -> str:
    """Return code that loads A minus the inner products into columns ``x<j>``, whose lanes are the four rows."""
    return "\n    ".join(
        f"T4 x{j} = (T4)(a0[j0 + {j}], a1[j0 + {j}], a2[j0 + {j}], a3[j0 + {j}])"
        f" - fold(p0_{j}, p1_{j}, p2_{j}, p3_{j});"
        for j in range(columns)
    )


def store_block(columns: int, row_exists: str) -> str:
    """Return code that stores the columns ``x<j>``; ``row_exists`` is a C condition on ``{row}``."""
    lines = []
    for i in range(ROWS):
        if columns == COLUMNS:
            store = f"vstore4((T4)({', '.join(f'x{j}.s{i}' for j in range(4))}), 0, a{i} + j0);"
        else:
            store = " ".join(f"a{i}[j0 + {j}] = x{j}.s{i};" for j in range(columns))
        lines.append(f"if ({row_exists.format(row=i)}) {{ {store} }}")
    return "\n    ".join(lines)


def _opencl_source(dtype: str, m: int, n: int) -> OpenCLSource:
    """Return the left-looking kernel for X (m, n): one work-item for each block of four rows."""

    def block(columns: int) -> str:
        return f"""
    {row_pointers("b", "l", "j0", columns, n, n)}
    {dot_block(ROWS, columns, "j0")}
    {columns_of_block(columns)}
    {substitute(columns)}
    {store_block(columns, f"i0 + {{row}} < {m}")}"""

    whole = n // COLUMNS * COLUMNS
    rest = f"{{ const size_t j0 = {whole}; {block(n - whole)} }}" if n > whole else ""
    source = f"""{preamble(dtype)}
WHOLE_VECTORS
__kernel void trsm(__global T* a, __global const T* l) {{
  const size_t i0 = get_global_id(0) * {ROWS};
  if (i0 >= {m}) return;
  {row_pointers("a", "a", "i0", ROWS, m, n)}
  for (size_t j0 = 0; j0 + {COLUMNS} <= {n}; j0 += {COLUMNS}) {{
    {block(COLUMNS)}
  }}
  {rest}
}}
"""
    return OpenCLSource(source, "trsm")


@cache
def _numba_kernel(dtype: str) -> Any:
    import numpy

    real = numpy.dtype(dtype).type

    def trsm(item: Any, a: Any, l: Any) -> None:  # noqa: E741
        i = item.get_global_id(0)
        n = a.shape[1]
        if i < a.shape[0]:
            x = kapi.PrivateArray(NUMBA_COLUMNS, real)
            for j0 in range(0, n, NUMBA_COLUMNS):
                for q in range(NUMBA_COLUMNS):
                    x[q] = a[i, min(j0 + q, n - 1)]
                for k in range(j0):
                    value = a[i, k]
                    for q in range(NUMBA_COLUMNS):
                        x[q] -= value * l[min(j0 + q, n - 1), k]
                for q in range(NUMBA_COLUMNS):
                    if j0 + q < n:
                        for p in range(q):
                            x[q] -= x[p] * l[j0 + q, j0 + p]
                        x[q] /= l[j0 + q, j0 + q]
                        a[i, j0 + q] = x[q]

    return PythonKernel(trsm)


def _check(signature: Signature) -> str | None:
    a, triangle = signature.shapes["a"], signature.shapes["l"]
    if triangle != (a[1], a[1]):
        return f"X L^T = A needs A (m, n) and L (n, n), not {a} and {triangle}"
    return None


def _work(signature: Signature) -> Work:
    m, n = signature.shapes["a"]
    dtype = signature.dtypes["a"]
    return Work(float(m * n * n), float((2 * m * n + n * (n + 1) // 2) * ITEM_BYTES[dtype]), dtype, float(m))


def _load_opencl(signature: Signature) -> Any:
    m, n = signature.shapes["a"]
    return _opencl_source(signature.dtypes["a"], m, n)


def _launch_opencl(signature: Signature, limits: DeviceLimits) -> Launch:
    return Launch((ceil_div(signature.shapes["a"][0], ROWS),), (1,))


def _load_numba(signature: Signature) -> Any:
    return _numba_kernel(signature.dtypes["a"])


def _launch_numba(signature: Signature, limits: DeviceLimits) -> Launch:
    return line_launch(limits, signature.shapes["a"][0])


def _host(*, a: Any, l: Any) -> None:  # noqa: E741
    blas.solve_for_transpose(a, l)


TRSM = Operation(
    name="trsm",
    parameters=(
        Parameter("a", AccessMode.UPDATE, ndim=2, dtypes=REAL_DTYPES),
        Parameter("l", AccessMode.READ, ndim=2, like="a"),
    ),
    implementations=(
        Implementation("opencl-c", "opencl-c", _load_opencl, _launch_opencl, OPENCL_C, efficiency=0.25),
        Implementation("python", "python", _load_numba, _launch_numba, PYTHON_KERNEL, efficiency=0.05),
        blas.implementation("trsm", _host, efficiency=0.3),
    ),
    work=_work,
    check=_check,
    recipe=("trsm", {}),
)
