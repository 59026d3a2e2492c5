# SPDX-License-Identifier: Apache-2.0
"""Microbenchmark kernels: empty, FMA chain, triad; as operations, compiled like those of any task."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

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
        implementations=(_dpex(lambda _: _empty_kernel(), _launch_empty),),
        work=lambda signature: Work(0.0, 0.0, parallelism=EMPTY_ITEMS),
    )


def fresh_operation() -> Operation:
    """Return a small kernel that was never compiled before, for the time of a first launch.

    Numba and the device's compiler both cache compiled code, so every call creates new code.
    """
    serial = next(_fresh_names) + 1

    def load(_: Signature) -> Any:
        import numba_dpex

        constant = float(serial)

        def first_launch(item: Any, x: Any) -> None:
            i = item.get_id(0)
            x[i] = x[i] * constant + constant

        return numba_dpex.kernel(first_launch)

    return Operation(
        name=f"first_launch_{serial}",
        parameters=(Parameter("x", AccessMode.UPDATE, ndim=1),),
        implementations=(_dpex(load, _launch_empty),),
        work=lambda signature: Work(2.0 * signature.shapes["x"][0], signature.nbytes),
    )


@cache
def fma_operation(dtype: str) -> Operation:
    """Return chains of fused multiply-adds: ``y[i] = sum_j f^n((j + 1) x[i])``, ``f(v) = v c[0] + c[1]``."""
    if dtype == "float16":
        implementation = Implementation("opencl-c", "opencl-c", load=_load_fma_half, launch=_launch_groups)
    else:
        implementation = _dpex(_load_fma, _launch_groups)
    return Operation(
        name=f"fma_{dtype}",
        parameters=(
            Parameter("x", AccessMode.READ, ndim=1, dtypes=(dtype,)),
            Parameter("c", AccessMode.READ, ndim=1, dtypes=(dtype,)),
            Parameter("y", AccessMode.WRITE, ndim=1, dtypes=(dtype,)),
            Parameter("n"),
        ),
        implementations=(implementation,),
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
        implementations=(_dpex(lambda _: _triad_kernel(), _launch_each),),
        work=lambda signature: Work(2.0 * signature.shapes["a"][0], signature.nbytes),
    )


# --- launches -----------------------------------------------------------------------------------------


def _dpex(load: Callable[[Signature], Any], launch: Callable[[Signature, DeviceLimits], Launch]) -> Implementation:
    return Implementation("numba-dpex", "numba-dpex", load=load, launch=launch)


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


@cache
def _empty_kernel() -> Any:
    import numba_dpex

    def empty(item: Any, x: Any) -> None:
        pass

    return numba_dpex.kernel(empty)


@cache
def _triad_kernel() -> Any:
    import numba_dpex

    def triad(item: Any, a: Any, b: Any, c: Any, s: Any) -> None:
        i = item.get_id(0)
        a[i] = b[i] + s * c[i]

    return numba_dpex.kernel(triad)


@cache
def _fused() -> Any:
    """Return ``fused(a, b, c)`` for kernels: LLVM's fma instruction.

    numba-dpex forbids contraction in its SPIR-V, so ``a * b + c`` stays two instructions and reaches half of the
    device's peak or less.
    """
    from numba.core.extending import intrinsic
    from numba_dpex.kernel_api_impl.spirv.target import SPIRV_TARGET_NAME

    @intrinsic(target=SPIRV_TARGET_NAME)  # type: ignore[untyped-decorator]
    def fused(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fma(*arguments)

        return a(a, a, a), generate

    return fused


@cache
def _fma_kernel(integer: bool) -> Any:
    import numba
    import numba_dpex

    # Numba does integer arithmetic in 64 bits; narrowing after every step lets LLVM do it in 32.
    narrow = numba.int32

    def step_integer(v: Any, m: Any, b: Any) -> Any:
        return narrow(v * m + b)

    fused = _fused()
    step = numba_dpex.device_func(step_integer) if integer else fused

    def fma_chain(item: Any, x: Any, c: Any, y: Any, n: Any) -> None:
        i = item.get_global_id(0)
        m, b, v = c[0], c[1], x[i]
        v0, v1, v2, v3 = v, v + v, v + v + v, v + v + v + v
        v4, v5, v6, v7 = v3 + v, v3 + v1, v3 + v2, v3 + v3
        v8, v9, v10, v11 = v7 + v, v7 + v1, v7 + v2, v7 + v3
        for _ in range(n):
            v0, v1, v2, v3 = step(v0, m, b), step(v1, m, b), step(v2, m, b), step(v3, m, b)
            v4, v5, v6, v7 = step(v4, m, b), step(v5, m, b), step(v6, m, b), step(v7, m, b)
            v8, v9, v10, v11 = step(v8, m, b), step(v9, m, b), step(v10, m, b), step(v11, m, b)
        y[i] = v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7 + v8 + v9 + v10 + v11

    return numba_dpex.kernel(fma_chain)


def _load_fma(signature: Signature) -> Any:
    return _fma_kernel(np.dtype(signature.dtypes["x"]).kind in "iu")


def _load_fma_half(_: Signature) -> OpenCLSource:
    start = " ".join(f"half v{j} = v * (half){j + 1};" for j in range(ACCUMULATORS))
    steps = " ".join(f"v{j} = fma(v{j}, m, b);" for j in range(ACCUMULATORS))
    total = " + ".join(f"v{j}" for j in range(ACCUMULATORS))
    source = f"""
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
kernel void fma_half(global const half* x, global const half* c, global half* y, long n) {{
    size_t i = get_global_id(0);
    half m = c[0], b = c[1], v = x[i];
    {start}
    for (long r = 0; r < n; ++r) {{ {steps} }}
    y[i] = {total};
}}
"""
    return OpenCLSource(source, "fma_half")
