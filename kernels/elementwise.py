# SPDX-License-Identifier: Apache-2.0
"""Element-wise operations on arrays of any number of dimensions: `axpy`, `add`, `scale`, `fill`, `copy`.

Half precision is computed in single precision and rounded once. Factors of complex numbers are real, so a complex array
is one of twice as many real numbers. The sum of two bools is their disjunction, as in NumPy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from syclsched.kernels.common import (
    ALL_DTYPES,
    C_TYPES,
    ITEM_BYTES,
    NUMBA_DTYPES,
    OPENCL_C,
    PYTHON_KERNEL,
    REAL_PARTS,
    VECTOR_ITEMS,
    ceil_div,
    extension_pragma,
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

#: Element types of operations that move elements, and of those that compute with them.
_MOVED = (*ALL_DTYPES, *REAL_PARTS)
_NUMBERS = tuple(dtype for dtype in _MOVED if dtype != "bool")

# --- host functions -------------------------------------------------------------------------------


def _parts(x: Any) -> Any:
    """Return the elements of a contiguous array in a line: of complex numbers the parts."""
    part = REAL_PARTS.get(x.dtype.name)
    return x.reshape(-1) if part is None else x.reshape(-1).view(part)


def _axpy_host(*, y: Any, x: Any, alpha: float) -> None:
    to, source = _parts(y), _parts(x)
    if to.dtype.name == "float16":
        to[...] = to.astype("float32") + to.dtype.type(alpha) * source.astype("float32")
    else:
        to += to.dtype.type(alpha) * source


def _add_host(*, z: Any, x: Any, y: Any) -> None:
    z[...] = x + y


def _scale_host(*, x: Any, alpha: float) -> None:
    parts = _parts(x)
    parts *= parts.dtype.type(alpha)


def _fill_host(*, x: Any, value: float) -> None:
    x[...] = value


def _copy_host(*, y: Any, x: Any) -> None:
    y[...] = x


# --- operations -----------------------------------------------------------------------------------


def _check(signature: Signature) -> str | None:
    shapes = dict(signature.shapes)
    if len(set(shapes.values())) > 1:
        return f"all arrays must have one shape, not {shapes}"
    return None


def _first(signature: Signature) -> str:
    return next(iter(signature.shapes))


def _elements(signature: Signature) -> int:
    """Return the number of elements, of complex ones that of their parts."""
    first = _first(signature)
    return math.prod(signature.shapes[first]) * (2 if signature.dtypes[first] in REAL_PARTS else 1)


def _work(signature: Signature, *, flops: int, accesses: int) -> Work:
    dtype = signature.dtypes[_first(signature)]
    elements = _elements(signature)
    item = ITEM_BYTES[REAL_PARTS.get(dtype, dtype)]
    return Work(float(flops * elements), float(accesses * elements * item), dtype, float(max(1, elements)))


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    return line_launch(limits, _elements(signature))


def _grain(signature: Signature) -> int:
    """Return the number of rows that fill a vector register."""
    row = math.prod(signature.shapes[_first(signature)][1:])
    return ceil_div(VECTOR_ITEMS, max(1, row))


def _assignment(statement: str, dtype: str) -> tuple[str, str]:
    """Return the array that a statement assigns to, and the value."""
    target, _, value = statement.partition(" = ")
    return target, value.replace("+", "or") if dtype == "bool" else value


def _load_numba(signature: Signature, *, name: str, parameters: tuple[Parameter, ...], statement: str) -> Any:
    target, value = _assignment(statement, signature.dtypes[_first(signature)])
    text = f"{target}[i] = {value}"
    for p in parameters:
        if p.is_array:
            index = flat_index(len(signature.shapes[p.name]))
            text = re.sub(rf"\b{p.name}\b(\[i\])?", f"{p.name}[{index}]", text)
    lines = (
        f"def {name}(item, {', '.join(p.name for p in parameters)}):",
        "  i = item.get_global_id(0)",
        f"  if i < {_first(signature)}.size:",
        f"    {text}",
    )
    return python_kernel("\n".join(lines) + "\n", name)


def _load_opencl(signature: Signature, *, name: str, parameters: tuple[Parameter, ...], statement: str) -> Any:
    dtype = signature.dtypes[_first(signature)]
    real = REAL_PARTS.get(dtype, dtype)
    target, value = _assignment(statement, dtype)
    value = value.replace(" or ", " | ")
    is_half = real == "float16"
    if is_half and not re.search("[+*]", value):
        real = "uint16"  # moves alone need no half precision
        is_half = False
    arguments: list[str] = []
    for p in parameters:
        if p.is_array:
            arguments.append(f"__global T* {p.name}")
            value = re.sub(rf"\b{p.name}\b", f"vload_half(i, {p.name})" if is_half else f"{p.name}[i]", value)
            continue
        arguments.append(f"{'ushort' if is_half else 'T'} {p.name}")
        if is_half:
            value = re.sub(rf"\b{p.name}\b", f"vload_half(0, (const half*)&{p.name})", value)
        if dtype in REAL_PARTS:
            arguments.append(f"T {p.name}_imaginary")
            if value == p.name:  # the imaginary parts are filled, too
                value = f"i & 1 ? {p.name}_imaginary : {p.name}"
    assign = f"vstore_half({value}, i, {target})" if is_half else f"{target}[i] = (T)({value})"
    head = "typedef half T;" if is_half else f"{extension_pragma(real)}typedef {C_TYPES[real]} T;"
    source = f"""{head}
__kernel void {name}({", ".join(arguments)}) {{
  const size_t i = get_global_id(0);
  if (i < {_elements(signature)}) {assign};
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
    """Return the operation that executes ``statement``, valid in both OpenCL C and Python, for every element."""
    accesses = sum((p.mode.reads + p.mode.writes) for p in parameters if p.mode is not None)
    opencl = partial(_load_opencl, name=name, parameters=parameters, statement=statement)
    numba = partial(_load_numba, name=name, parameters=parameters, statement=statement)
    return Operation(
        name=name,
        parameters=parameters,
        implementations=(
            Implementation(
                "python", "python", numba, _launch, replace(PYTHON_KERNEL, dtypes=NUMBA_DTYPES), efficiency=0.6
            ),
            Implementation("opencl-c", "opencl-c", opencl, _launch, OPENCL_C, efficiency=0.6),
            numpy_implementation(host, efficiency=0.5),
        ),
        work=partial(_work, flops=flops, accesses=accesses),
        check=_check,
        split=Split(rows=tuple(p.name for p in parameters if p.is_array), grain=_grain),
        recipe=(name, {}),
    )


AXPY = _operation(
    "axpy",
    (
        Parameter("y", AccessMode.UPDATE, dtypes=_NUMBERS),
        Parameter("x", AccessMode.READ, like="y"),
        Parameter("alpha", like="y"),
    ),
    "y = y + alpha * x",
    _axpy_host,
    flops=2,
)
ADD = _operation(
    "add",
    (
        Parameter("z", AccessMode.WRITE, dtypes=_MOVED),
        Parameter("x", AccessMode.READ, like="z"),
        Parameter("y", AccessMode.READ, like="z"),
    ),
    "z = x + y",
    _add_host,
    flops=1,
)
SCALE = _operation(
    "scale",
    (Parameter("x", AccessMode.UPDATE, dtypes=_NUMBERS), Parameter("alpha", like="x")),
    "x = x * alpha",
    _scale_host,
    flops=1,
)
FILL = _operation(
    "fill",
    (Parameter("x", AccessMode.WRITE, dtypes=_MOVED), Parameter("value", like="x")),
    "x = value",
    _fill_host,
    flops=0,
)
COPY = _operation(
    "copy",
    (Parameter("y", AccessMode.WRITE, dtypes=_MOVED), Parameter("x", AccessMode.READ, like="y")),
    "y = x",
    _copy_host,
    flops=0,
)
