# SPDX-License-Identifier: Apache-2.0
"""Inference operations: `dense` is Y = act(X W + b) for a batch X, `softmax` normalises rows to probabilities."""

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
    block_launch,
    ceil_div,
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
    Split,
    Work,
)

#: Values of the scalar ``activation`` of `dense`.
IDENTITY, RELU = 0, 1
#: Rows of Y that a work-item accumulates; each load of W is reused for all of them.
ROWS = 8


@cache
def _dense_numba(dtype: str) -> Any:
    import numpy

    real = numpy.dtype(dtype).type

    def dense(item: Any, y: Any, x: Any, w: Any, b: Any, activation: Any) -> None:
        m, n = y.shape[0], y.shape[1]
        width = item.get_local_range(0)
        groups = (n + width - 1) // width
        group = item.get_group().get_group_id(0)
        i0 = group // groups * ROWS
        j = group % groups * width + item.get_local_id(0)
        if j < n:
            sums = kapi.PrivateArray(ROWS, real)
            for i in range(ROWS):
                sums[i] = b[j]
            for k in range(w.shape[0]):
                weight = w[k, j]
                for i in range(ROWS):
                    sums[i] += x[min(i0 + i, m - 1), k] * weight
            for i in range(ROWS):
                if i0 + i < m:
                    if activation == RELU and sums[i] < 0:
                        sums[i] = 0
                    y[i0 + i, j] = sums[i]

    return PythonKernel(dense)


def _dense_opencl(dtype: str, m: int, n: int, depth: int) -> OpenCLSource:
    rows = range(ROWS)
    newline = "\n  "
    source = f"""{element_type(dtype)}
__kernel void dense(__global T* restrict y, __global const T* restrict x, __global const T* restrict w,
                    __global const T* restrict b, long activation) {{
  const int width = get_local_size(0), groups = ({n} + width - 1) / width, group = get_group_id(0);
  const int i0 = group / groups * {ROWS}, j = group % groups * width + get_local_id(0);
  if (j >= {n}) return;
  {newline.join(f"__global const T* x{i} = x + (size_t)min(i0 + {i}, {m - 1}) * {depth};" for i in rows)}
  T {", ".join(f"s{i} = b[j]" for i in rows)};
  for (int k = 0; k < {depth}; ++k) {{
    const T v = w[(size_t)k * {n} + j];
    {" ".join(f"s{i} = fma(x{i}[k], v, s{i});" for i in rows)}
  }}
  {
        newline.join(
            f"if (i0 + {i} < {m}) y[(size_t)(i0 + {i}) * {n} + j] = activation == {RELU} && s{i} < 0 ? 0 : s{i};"
            for i in rows
        )
    }
}}
"""
    return OpenCLSource(source, "dense")


def _dense_check(signature: Signature) -> str | None:
    y, x, w, b = (signature.shapes[name] for name in ("y", "x", "w", "b"))
    if y != (x[0], w[1]) or x[1] != w[0] or b != (w[1],):
        return f"Y = act(X W + b) needs Y (m, n), X (m, k), W (k, n), b (n,), not {y}, {x}, {w}, {b}"
    if signature.scalars.get("activation") not in (IDENTITY, RELU):
        return f"activation is {IDENTITY} (identity) or {RELU} (relu), not {signature.scalars.get('activation')}"
    return None


def _dense_work(signature: Signature) -> Work:
    (m, n), k = signature.shapes["y"], signature.shapes["x"][1]
    dtype = signature.dtypes["y"]
    return Work(2.0 * m * n * k, float((m * n + m * k + k * n + n) * ITEM_BYTES[dtype]), dtype, float(m * n))


def _dense_grain(signature: Signature) -> int:
    return ROWS


def _load_dense_numba(signature: Signature) -> Any:
    return _dense_numba(signature.dtypes["y"])


def _load_dense_opencl(signature: Signature) -> Any:
    (m, n), depth = signature.shapes["y"], signature.shapes["x"][1]
    return _dense_opencl(signature.dtypes["y"], m, n, depth)


def _launch_dense(signature: Signature, limits: DeviceLimits) -> Launch:
    m, n = signature.shapes["y"]
    return block_launch(limits, ceil_div(m, ROWS), n)


def _dense_host(*, y: Any, x: Any, w: Any, b: Any, activation: int) -> None:
    import numpy as np

    np.matmul(x, w, out=y)
    y += b
    if activation == RELU:
        np.maximum(y, 0, out=y)


@cache
def _softmax_numba() -> Any:
    import math

    def softmax(item: Any, y: Any, x: Any) -> None:
        i = item.get_global_id(0)
        if i < x.shape[0]:
            largest = x[i, 0]
            for j in range(1, x.shape[1]):
                largest = max(largest, x[i, j])
            total = x[i, 0] - x[i, 0]
            for j in range(x.shape[1]):
                y[i, j] = math.exp(x[i, j] - largest)
                total += y[i, j]
            for j in range(x.shape[1]):
                y[i, j] /= total

    return PythonKernel(softmax)


def _softmax_opencl(dtype: str, m: int, n: int) -> OpenCLSource:
    source = f"""{element_type(dtype)}
__kernel void softmax(__global T* restrict y, __global const T* restrict x) {{
  const size_t i = get_global_id(0);
  if (i >= {m}) return;
  x += i * {n}; y += i * {n};
  T largest = x[0], total = 0;
  for (int j = 1; j < {n}; ++j) largest = max(largest, x[j]);
  for (int j = 0; j < {n}; ++j) {{ y[j] = exp(x[j] - largest); total += y[j]; }}
  for (int j = 0; j < {n}; ++j) y[j] /= total;
}}
"""
    return OpenCLSource(source, "softmax")


def _softmax_check(signature: Signature) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    return None if y == x else f"softmax keeps the shape: Y {y} against X {x}"


def _softmax_work(signature: Signature) -> Work:
    m, n = signature.shapes["x"]
    dtype = signature.dtypes["x"]
    # Per element: maximum, subtraction, exponential (counted as one), sum and division.
    return Work(5.0 * m * n, 2.0 * m * n * ITEM_BYTES[dtype], dtype, float(m))


def _load_softmax_numba(signature: Signature) -> Any:
    return _softmax_numba()


def _load_softmax_opencl(signature: Signature) -> Any:
    return _softmax_opencl(signature.dtypes["x"], *signature.shapes["x"])


def _launch_softmax(signature: Signature, limits: DeviceLimits) -> Launch:
    return line_launch(limits, signature.shapes["x"][0])


def _softmax_host(*, y: Any, x: Any) -> None:
    import numpy as np

    np.exp(x - x.max(axis=1, keepdims=True), out=y)
    y /= y.sum(axis=1, keepdims=True)


DENSE = Operation(
    name="dense",
    parameters=(
        Parameter("y", AccessMode.WRITE, ndim=2, dtypes=REAL_DTYPES),
        Parameter("x", AccessMode.READ, ndim=2, like="y"),
        Parameter("w", AccessMode.READ, ndim=2, like="y"),
        Parameter("b", AccessMode.READ, ndim=1, like="y"),
        Parameter("activation", dtype="int64"),
    ),
    implementations=(
        Implementation("opencl-c", "opencl-c", _load_dense_opencl, _launch_dense, OPENCL_C, efficiency=0.35),
        Implementation("python", "python", _load_dense_numba, _launch_dense, PYTHON_KERNEL, efficiency=0.3),
        numpy_implementation(_dense_host, efficiency=0.4),
    ),
    work=_dense_work,
    check=_dense_check,
    split=Split(rows=("y", "x"), grain=_dense_grain, inexact=("numpy",)),
    recipe=("dense", {}),
)

SOFTMAX = Operation(
    name="softmax",
    parameters=(
        Parameter("y", AccessMode.WRITE, ndim=2, dtypes=REAL_DTYPES),
        Parameter("x", AccessMode.READ, ndim=2, like="y"),
    ),
    implementations=(
        Implementation("opencl-c", "opencl-c", _load_softmax_opencl, _launch_softmax, OPENCL_C, efficiency=0.1),
        Implementation("python", "python", _load_softmax_numba, _launch_softmax, PYTHON_KERNEL, efficiency=0.1),
        numpy_implementation(_softmax_host, efficiency=0.1),
    ),
    work=_softmax_work,
    check=_softmax_check,
    split=Split(rows=("y", "x")),
    recipe=("softmax", {}),
)
