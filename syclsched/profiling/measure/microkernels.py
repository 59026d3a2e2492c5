# SPDX-License-Identifier: Apache-2.0
"""Microbenchmark kernels in OpenCL C: empty, FMA chain, triad; as operations, compiled like those of any task.

The driver compiles each of them in some hundredths of a second, where numba-dpex takes seconds to be imported and a
second for each kernel.
"""

from __future__ import annotations

import itertools
import time
from functools import cache, partial
from typing import Any

import numpy as np

from syclsched.kernels.common import C_TYPES, extension_pragma
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

#: Independent accumulators per work-item: more than a latency of 4 to 10 cycles times 2 issue ports needs.
ACCUMULATORS = 12

#: Work-items of an empty kernel: as few as one vector of the widest CPU.
EMPTY_ITEMS = 16

_GROUP = 64
_fresh_names = itertools.count()


@cache
def empty_operation() -> Operation:
    """Return an empty kernel, which costs only its launch."""
    return Operation(
        name="empty",
        parameters=(Parameter("x", AccessMode.UPDATE, ndim=1),),
        implementations=(Implementation("opencl-c", "opencl-c", load=_load_empty, launch=_launch_empty),),
        work=lambda signature: Work(0.0, 0.0, parallelism=EMPTY_ITEMS),
    )


def fresh_operation() -> Operation:
    """Return a small kernel that was never compiled before, for the time of a first launch.

    Drivers cache compiled code, so every call creates new code.
    """
    name = f"first_launch_{next(_fresh_names) + 1}"
    return Operation(
        name=name,
        parameters=(Parameter("x", AccessMode.UPDATE, ndim=1, dtypes=("float32",)),),
        implementations=(
            Implementation("opencl-c", "opencl-c", load=partial(_load_fresh, name=name), launch=_launch_empty),
        ),
        work=lambda signature: Work(2.0 * signature.shapes["x"][0], signature.nbytes),
    )


@cache
def fma_operation(dtype: str) -> Operation:
    """Return chains of fused multiply-adds: ``y[i] = sum_j f^n((j + 1) x[i])``, ``f(v) = v c[0] + c[1]``."""
    return Operation(
        name=f"fma_{dtype}",
        parameters=(
            Parameter("x", AccessMode.READ, ndim=1, dtypes=(dtype,)),
            Parameter("c", AccessMode.READ, ndim=1, dtypes=(dtype,)),
            Parameter("y", AccessMode.WRITE, ndim=1, dtypes=(dtype,)),
            Parameter("n"),
        ),
        implementations=(Implementation("opencl-c", "opencl-c", load=_load_fma, launch=_launch_groups),),
        work=_fma_work,
    )


def fma_flops(items: int, iterations: int) -> float:
    """Return the operations of an FMA chain launch: two for each multiply-add."""
    return 2.0 * ACCUMULATORS * items * iterations


def fma_reference(x: np.ndarray[Any, Any], c: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    """Return the expected result of the FMA chain; exact for small integers."""
    total = np.zeros_like(x)
    for j in range(ACCUMULATORS):
        value = x * x.dtype.type(j + 1)
        for _ in range(n):
            value = value * c[0] + c[1]
        total = total + value
    return total


@cache
def triad_operation(dtype: str) -> Operation:
    """Return the STREAM triad ``a[i] = b[i] + s c[i]``, one work-item per element (McCalpin, STREAM)."""
    return Operation(
        name=f"triad_{dtype}",
        parameters=(
            Parameter("a", AccessMode.WRITE, ndim=1, dtypes=(dtype,)),
            Parameter("b", AccessMode.READ, ndim=1, dtypes=(dtype,)),
            Parameter("c", AccessMode.READ, ndim=1, dtypes=(dtype,)),
            Parameter("s", like="a"),
        ),
        implementations=(Implementation("opencl-c", "opencl-c", load=_load_triad, launch=_launch_each),),
        work=lambda signature: Work(2.0 * signature.shapes["a"][0], signature.nbytes),
    )


# --- launches -----------------------------------------------------------------------------------------


def _launch_empty(signature: Signature, limits: DeviceLimits) -> Launch:
    return Launch((EMPTY_ITEMS,))


def _launch_each(signature: Signature, limits: DeviceLimits) -> Launch:
    return Launch(signature.shapes["a"])


def _launch_groups(signature: Signature, limits: DeviceLimits) -> Launch:
    return Launch(signature.shapes["x"], (min(_GROUP, limits.max_work_group_size),))


def _fma_work(signature: Signature) -> Work:
    items = signature.shapes["x"][0]
    flops = fma_flops(items, int(signature.scalars["n"]))
    return Work(flops, signature.nbytes, signature.dtypes["x"], items)


# --- kernels ------------------------------------------------------------------------------------------


def _load_empty(_: Signature) -> OpenCLSource:
    return OpenCLSource("kernel void empty(global float* x) {}\n", "empty")


def _load_fresh(_: Signature, *, name: str) -> OpenCLSource:
    # The time makes the code new to caches on disk, too.
    constant = f"{time.time_ns() % 1_000_000_007}.0f"
    body = f"size_t i = get_global_id(0); x[i] = x[i] * {constant} + {constant};"
    return OpenCLSource(f"kernel void {name}(global float* x) {{ {body} }}\n", name)


def _load_triad(signature: Signature) -> OpenCLSource:
    head, c_type = extension_pragma(signature.dtypes["a"]), C_TYPES[signature.dtypes["a"]]
    arrays = f"global {c_type}* a, global const {c_type}* b, global const {c_type}* c"
    body = "size_t i = get_global_id(0); a[i] = b[i] + s * c[i];"
    return OpenCLSource(f"{head}kernel void triad({arrays}, {c_type} s) {{ {body} }}\n", "triad")


def _load_fma(signature: Signature) -> OpenCLSource:
    dtype = signature.dtypes["x"]
    # Without `fma` a compiler may keep two instructions, which reach half of the device's peak or less.
    step = "v{j} = v{j} * m + b;" if np.dtype(dtype).kind in "iu" else "v{j} = fma(v{j}, m, b);"
    start = " ".join(f"T v{j} = v * (T){j + 1};" for j in range(ACCUMULATORS))
    steps = " ".join(step.format(j=j) for j in range(ACCUMULATORS))
    total = " + ".join(f"v{j}" for j in range(ACCUMULATORS))
    source = f"""{extension_pragma(dtype)}typedef {C_TYPES[dtype]} T;
kernel void fma_chain(global const T* x, global const T* c, global T* y, long n) {{
    size_t i = get_global_id(0);
    T m = c[0], b = c[1], v = x[i];
    {start}
    for (long r = 0; r < n; ++r) {{ {steps} }}
    y[i] = {total};
}}
"""
    return OpenCLSource(source, "fma_chain")
