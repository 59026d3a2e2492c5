# SPDX-License-Identifier: Apache-2.0
"""Table look-ups for long element-wise expressions of bytes, whose 256 results are arguments of the kernel."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, Final

from syclsched.kernels.common import C_TYPES, GROUPS_PER_UNIT, OPENCL_C, ceil_div
from syclsched.kernels.tensor.writing.expression import Expression, axes_of, count_operators, infer_dtypes
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Signature,
    Tailored,
)

NAME: Final = "opencl-c-table"
#: Operators of an expression that take longer than a look-up: more than quantising again takes.
_LEAST_OPERATORS: Final = 10
#: Elements of a work-item, at least.
_ITEM: Final = 1024


def implementation(expression: Expression) -> Implementation:
    """Return the implementation of an element-wise operation of one input."""
    return Implementation(
        NAME,
        "opencl-c",
        partial(_load, expression=expression),
        _launch,
        replace(
            OPENCL_C,
            device_kinds=("cpu",),
            dtypes=("uint8", "int8"),
            refuses=partial(_refuses, expression=expression),
        ),
        efficiency=1.5,
    )


def _refuses(signature: Signature, *, expression: Expression) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x0"]
    if axes_of(expression) or count_operators(expression) < _LEAST_OPERATORS:
        return "it is for long expressions of bytes"
    return None if 0 < prod(y) == prod(x) else "the input has the result's shape"


def _tiling(signature: Signature, limits: DeviceLimits) -> tuple[int, int]:
    """Return the elements of a work-item and the work-items."""
    count = prod(signature.shapes["y"])
    taken = max(_ITEM, ceil_div(count, GROUPS_PER_UNIT * limits.compute_units))
    return taken, ceil_div(count, taken)


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    return Launch((_tiling(signature, limits)[1],), (1,))


def _load(signature: Signature, *, expression: Expression) -> Any:
    return Tailored(partial(_source, signature, expression=expression))


def _source(signature: Signature, limits: DeviceLimits, *, expression: Expression) -> OpenCLSource:
    import numpy as np

    from syclsched.kernels.tensor.writing.expression_evaluator import evaluate_typed

    dtype, made = (signature.dtypes[name] for name in ("x0", "y"))
    x = np.arange(256, dtype=np.uint8).view(dtype)
    results = evaluate_typed(infer_dtypes(expression, (dtype,), made), [x], x.shape).astype(made)
    taken, _ = _tiling(signature, limits)
    given = ExtentArguments()
    count, each = given("elements", prod(signature.shapes["y"])), given("each", taken)
    words = [given(f"results_{n}", int(word)) for n, word in enumerate(results.view(np.int32))]
    code = f"""__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void look_up(
    __global {C_TYPES[made]}* restrict y, __global const uchar* restrict x{given.declared}) {{
  const int words[] = {{{", ".join(words)}}};
  const {C_TYPES[made]}* const results = (const {C_TYPES[made]}*)words;
  const long first = (long)get_global_id(0) * {each}, end = min(first + {each}, (long){count});
  for (long i = first; i < end; ++i) y[i] = results[x[i]];
}}
"""
    return OpenCLSource(code, "look_up", extents=given.values)
