# SPDX-License-Identifier: Apache-2.0
"""`reduce`: sums, means, products, extrema, norms and log-sum-exp over any axes."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import NUMBA_DTYPES, with_recipe
from syclsched.kernels.onednn.operations import reduction
from syclsched.kernels.tensor.operation_factory import (
    array_bytes,
    axis_error,
    elements,
    input_parameter,
    make_operation,
    output_parameter,
    shape_error,
)
from syclsched.kernels.tensor.reductions import reduce_groups
from syclsched.kernels.tensor.reductions.reduction_kernels import (
    extremum_start,
    reduction_launch,
    reduction_takes_extents,
    write_reduction,
)
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.model.operation import Operation, Shape, Signature, Split, Work

#: Reduction modes.
MODES = ("sum", "mean", "max", "min", "prod", "l1", "l2", "sumsquare", "logsum", "logsumexp")


@with_recipe
@cache
def reduce(mode: str, axes: tuple[int, ...], keepdims: bool = False) -> Operation:
    """Return the operation that reduces ``x`` along axes to ``y`` of the same dtype."""
    if mode not in MODES:
        raise ArgumentError(f"there is no reduction {mode!r}", hint=f"There are: {', '.join(MODES)}")
    if list(axes) != sorted({axis for axis in axes if axis >= 0}):
        raise ArgumentError(f"axes are counted from the front and ascend, not {axes}", where="reduce")
    parameters = (output_parameter(), input_parameter(like="y"))
    return make_operation(
        f"reduce {mode} axes {','.join(map(str, axes))}{' keepdims' if keepdims else ''}",
        parameters,
        partial(_host, mode=mode, axes=axes, keepdims=keepdims),
        partial(_check, mode=mode, axes=axes, keepdims=keepdims),
        work=_work,
        split=None if 0 in axes else Split(("y", "x"), inexact=("onednn", "numpy")),
        kernels=(
            reduction.reduce(mode=mode, axes=axes),
            reduce_groups.reduce(mode, axes),
            *generated_implementations(
                parameters,
                partial(write_reduction, mode=mode, axes=axes),
                partial(reduction_launch, mode=mode, axes=axes),
                revision="6",
                takes_extents=partial(reduction_takes_extents, mode=mode, axes=axes),
                numba_dtypes=tuple(name for name in NUMBA_DTYPES if name != "bool"),
            ),
        ),
    )


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """Return the shape of a reduction's result."""
    if keepdims:
        return tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    return tuple(n for axis, n in enumerate(shape) if axis not in axes)


def _check(signature: Signature, *, mode: str, axes: tuple[int, ...], keepdims: bool) -> str | None:
    x = signature.shapes["x"]
    if axes and axes[-1] >= len(x):
        return axis_error(axes[-1], len(x))
    if signature.dtypes["x"] == "bool" and mode not in ("max", "min"):
        return f"there is no {mode} of bool"
    return shape_error(signature, reduced_shape(x, axes, keepdims), f"{mode} of {x} along {axes}")


def _work(signature: Signature) -> Work:
    moved = array_bytes(signature, "x") + array_bytes(signature, "y")
    count = elements(signature, "x")
    # Reductions of no elements have results, too, which cost at least one work-item.
    return Work(float(count), float(moved), signature.dtypes["y"], float(max(count, 1)))


def _host(*, mode: str, axes: tuple[int, ...], keepdims: bool, y: Any, x: Any) -> None:
    import numpy as np

    if not y.size:
        return
    half = x.dtype == np.float16
    if half:
        x = x.astype(np.float32)
    dtype = x.dtype
    with np.errstate(all="ignore"):
        if mode in ("max", "min"):
            result = (np.max if mode == "max" else np.min)(
                x, axis=axes, keepdims=keepdims, initial=extremum_start(mode, dtype)
            )
        elif mode == "logsumexp":
            largest = np.max(x, axis=axes, keepdims=True, initial=extremum_start("max", dtype))
            largest = np.where(np.isfinite(largest), largest, 0).astype(dtype)
            result = np.log(np.sum(np.exp(x - largest), axis=axes, keepdims=True)) + largest
            result = result.reshape(y.shape)
        elif mode == "prod":
            result = np.prod(x, axis=axes, keepdims=keepdims, dtype=dtype)
        else:
            if mode in ("l2", "sumsquare"):
                x = x * x
            elif mode == "l1":
                x = np.abs(x)
            result = np.sum(x, axis=axes, keepdims=keepdims, dtype=dtype)
            if mode == "mean":
                result = _mean_of(result, math.prod(x.shape[axis] for axis in axes))
            elif mode == "l2":
                result = np.sqrt(result)
            elif mode == "logsum":
                result = np.log(result)
    y[...] = np.asarray(result).astype(y.dtype, copy=False)


def _mean_of(total: Any, count: int) -> Any:
    """Return totals divided by a count; integers are truncated, and 0 for a count of 0."""
    import numpy as np

    if total.dtype.kind == "f":
        return total / total.dtype.type(count)
    return np.trunc(total / max(count, 1)).astype(total.dtype)
