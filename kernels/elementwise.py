# SPDX-License-Identifier: Apache-2.0
"""Element-wise operations on arrays of one or two dimensions: `axpy`, `add`, `scale`, `fill`, `copy`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from syclsched.kernels.common import (
    ITEM_BYTES,
    NUMERIC_DTYPES,
    OPENCL_C,
    PYTHON_KERNEL,
    VECTOR_ITEMS,
    ceil_div,
    element_type,
    line_launch,
    numpy_implementation,
)
from syclsched.kernels.tensor.writing.numba_writer import flat_index, python_kernel
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

# --- host functions -------------------------------------------------------------------------------


def _axpy_host(*, y: Any, x: Any, alpha: float) -> None:
    y += y.dtype.type(alpha) * x


def _add_host(*, z: Any, x: Any, y: Any) -> None:
    z[...] = x + y


def _scale_host(*, x: Any, alpha: float) -> None:
    x *= x.dtype.type(alpha)


def _fill_host(*, x: Any, value: float) -> None:
    x[...] = value


def _copy_host(*, y: Any, x: Any) -> None:
    y[...] = x


# --- operations -----------------------------------------------------------------------------------


def _check(signature: Signature) -> str | None:
    shapes = dict(signature.shapes)
    if len(set(shapes.values())) > 1:
        return f"all arrays must have one shape, not {shapes}"
    if any(len(shape) not in (1, 2) for shape in shapes.values()):
        return f"arrays have one or two dimensions, not {shapes}"
    return None


def _first(signature: Signature) -> str:
    return next(iter(signature.shapes))


def _elements(signature: Signature) -> int:
    return math.prod(signature.shapes[_first(signature)])


def _work(signature: Signature, *, flops: int, accesses: int) -> Work:
    dtype = signature.dtypes[_first(signature)]
    elements = _elements(signature)
    return Work(float(flops * elements), float(accesses * elements * ITEM_BYTES[dtype]), dtype, float(elements))


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    return line_launch(limits, _elements(signature))


def _grain(signature: Signature) -> int:
    """Return the number of rows that fill a vector register."""
    row = math.prod(signature.shapes[_first(signature)][1:])
    return ceil_div(VECTOR_ITEMS, max(1, row))


def _load_numba(signature: Signature, *, name: str, parameters: tuple[Parameter, ...], statement: str) -> Any:
    arrays = {p.name: flat_index(len(signature.shapes[p.name])) for p in parameters if p.is_array}
    for array, index in arrays.items():
        statement = statement.replace(f"{array}[i]", f"{array}[{index}]")
    lines = (
        f"def {name}(item, {', '.join(p.name for p in parameters)}):",
        "  i = item.get_global_id(0)",
        f"  if i < {_first(signature)}.size:",
        f"    {statement}",
    )
    return python_kernel("\n".join(lines) + "\n", name)


def _load_opencl(signature: Signature, *, name: str, parameters: tuple[Parameter, ...], statement: str) -> Any:
    dtype = signature.dtypes[_first(signature)]
    arguments = ", ".join(f"__global T* {p.name}" if p.is_array else f"T {p.name}" for p in parameters)
    source = f"""{element_type(dtype)}
__kernel void {name}({arguments}) {{
  const size_t i = get_global_id(0);
  if (i < {_elements(signature)}) {statement};
}}
"""
    return OpenCLSource(source, name)


def _operation(
    name: str,
    parameters: tuple[Parameter, ...],
    statement: str,
    host: Callable[..., None],
    flops: int,
) -> Operation:
    """Return the operation that executes ``statement``, valid in both OpenCL C and Python, for every element ``i``."""
    accesses = sum((p.mode.reads + p.mode.writes) for p in parameters if p.mode is not None)
    opencl = partial(_load_opencl, name=name, parameters=parameters, statement=statement)
    numba = partial(_load_numba, name=name, parameters=parameters, statement=statement)
    return Operation(
        name=name,
        parameters=parameters,
        implementations=(
            Implementation("python", "python", numba, _launch, PYTHON_KERNEL, efficiency=0.6),
            Implementation("opencl-c", "opencl-c", opencl, _launch, OPENCL_C, efficiency=0.6),
            numpy_implementation(host, efficiency=0.5),
        ),
        work=partial(_work, flops=flops, accesses=accesses),
        check=_check,
        split=Split(rows=tuple(p.name for p in parameters if p.is_array), grain=_grain),
    )


AXPY = _operation(
    "axpy",
    (
        Parameter("y", AccessMode.UPDATE, dtypes=NUMERIC_DTYPES),
        Parameter("x", AccessMode.READ, like="y"),
        Parameter("alpha", like="y"),
    ),
    "y[i] += alpha * x[i]",
    _axpy_host,
    flops=2,
)
ADD = _operation(
    "add",
    (
        Parameter("z", AccessMode.WRITE, dtypes=NUMERIC_DTYPES),
        Parameter("x", AccessMode.READ, like="z"),
        Parameter("y", AccessMode.READ, like="z"),
    ),
    "z[i] = x[i] + y[i]",
    _add_host,
    flops=1,
)
SCALE = _operation(
    "scale",
    (Parameter("x", AccessMode.UPDATE, dtypes=NUMERIC_DTYPES), Parameter("alpha", like="x")),
    "x[i] *= alpha",
    _scale_host,
    flops=1,
)
FILL = _operation(
    "fill",
    (Parameter("x", AccessMode.WRITE, dtypes=NUMERIC_DTYPES), Parameter("value", like="x")),
    "x[i] = value",
    _fill_host,
    flops=0,
)
COPY = _operation(
    "copy",
    (Parameter("y", AccessMode.WRITE, dtypes=NUMERIC_DTYPES), Parameter("x", AccessMode.READ, like="y")),
    "y[i] = x[i]",
    _copy_host,
    flops=0,
)
