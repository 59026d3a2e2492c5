# SPDX-License-Identifier: Apache-2.0
"""`reduce_whole`: a reduction of a whole array on all compute units, in two kernels.

The work-groups of one kernel cannot synchronise, so a single result would be computed by one group on one compute
unit. Here each work-item of a first kernel reduces a part into an array provided by the caller, and a second kernel
reduces the parts.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels import groups
from syclsched.kernels.common import with_recipe
from syclsched.kernels.tensor.operation_factory import (
    array_bytes,
    elements,
    input_parameter,
    make_operation,
    output_parameter,
)
from syclsched.kernels.tensor.reductions import reduce_groups
from syclsched.kernels.tensor.reductions.reduce import reduce
from syclsched.kernels.tensor.reductions.reduction_kernels import write_parts
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.model.operation import DeviceLimits, Launch, Operation, OperationStep, Shape, Signature, Work
from syclsched.model.sequence import sequence_operation

#: Modes of both kernels, by mode. Partial means are divided by the number of all elements.
_STEPS = {
    "mean": ("mean", "sum"),
    "l1": ("l1", "sum"),
    "sumsquare": ("sumsquare", "sum"),
    "logsum": ("sum", "logsum"),
    **{mode: (mode, mode) for mode in ("sum", "max", "min", "prod", "l2", "logsumexp")},
}
#: Modes that can be computed from partial results.
MODES = tuple(_STEPS)
#: Number of parts: balances well over many compute units.
PARTS = 64
#: With fewer elements, one work-item is faster than starting a second kernel.
_MIN_ELEMENTS = 1 << 17


@with_recipe
@cache
def reduce_whole(mode: str) -> Operation:
    """Return the operation that reduces all of ``x`` to the scalar ``y``, with partial results in ``parts``."""
    if mode not in _STEPS:
        raise ArgumentError(f"there is no mode {mode!r}", where="reduce_whole", hint=f"There are: {', '.join(MODES)}")
    of_parts, of_all = _STEPS[mode]
    first = OperationStep(_parts(of_parts), (("y", "parts"), ("x", "x")))
    second = OperationStep(reduce(of_all, (0,)), (("y", "y"), ("x", "parts")))
    names = (groups.NAME, "opencl-c", "python", "numpy")
    return sequence_operation((first, second), [(name, name) for name in names])


def reduce_whole_is_faster(mode: str, shape: Shape, axes: tuple[int, ...], dtype: str) -> bool:
    """Return whether `reduce_whole` supports a reduction and is faster than `reduce`."""
    return (
        mode in _STEPS
        and dtype not in ("bool", "float16")
        and not (mode == "mean" and not dtype.startswith("float"))
        and len(axes) == len(shape)
        and math.prod(shape) >= _MIN_ELEMENTS
    )


@cache
def _parts(mode: str) -> Operation:
    parameters = (output_parameter(dtypes=_DTYPES), input_parameter(like="y"))
    return make_operation(
        f"reduce {mode} of parts",
        parameters,
        partial(_host, mode=mode),
        partial(_check, mode=mode),
        work=_work,
        kernels=(
            reduce_groups.reduce_parts(mode),
            *generated_implementations(parameters, partial(write_parts, mode=mode), _launch, revision="2"),
        ),
    )


_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")


def _check(signature: Signature, *, mode: str) -> str | None:
    y = signature.shapes["y"]
    if mode == "mean" and not signature.dtypes["x"].startswith("float"):
        return "the mean of integers cannot be computed from the means of parts"
    return None if len(y) == 1 and y[0] else f"parts are one axis with at least one element, not {y}"


def _work(signature: Signature) -> Work:
    moved = array_bytes(signature, "x") + array_bytes(signature, "y")
    return Work(
        float(elements(signature, "x")), float(moved), signature.dtypes["y"], float(max(elements(signature), 1))
    )


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    # One work-item per group: they are few, and each uses vectors itself.
    return Launch((elements(signature),), (1,))


def _host(*, mode: str, y: Any, x: Any) -> None:
    flat, count = x.reshape(-1), y.size
    each = flat.size // count
    host: Any = reduce("sum" if mode == "mean" else mode, (1,)).implementation("numpy").load(Signature({}, {}))
    host(y=y[:-1], x=flat[: (count - 1) * each].reshape(count - 1, each))
    host(y=y[-1:], x=flat[(count - 1) * each :].reshape(1, -1))
    if mode == "mean":
        y /= y.dtype.type(flat.size)
