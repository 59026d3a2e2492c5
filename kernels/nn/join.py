# SPDX-License-Identifier: Apache-2.0
"""`join`: concatenation along the last axis, then a scale and shift per channel.

Densely connected networks do this before every convolution. As one operation, no intermediate array is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import OPENCL_C, numpy_implementation, with_recipe
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.line_operations import lines_launch, work
from syclsched.kernels.nn.opencl_types import FLOATS, empty_kernel, sum_dtype
from syclsched.kernels.nn.rows_opencl import RowCode
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, OpenCLSource, Operation, Parameter, Signature, Split

#: Most parts: OpenCL guarantees only 1,024 bytes of kernel arguments.
MOST_PARTS = 64
#: Neighbouring parts of one width, of two vectors or more, from which on a loop goes over them: it takes as long to run
#: then, and a part of the time to compile. Loops over fewer or narrower parts take up to a quarter longer.
_LOOPED = 12
#: Most vectors of a part whose width the kernel contains, so that its loop is unrolled.
_NARROW = 4


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(count))


def _check(signature: Signature, *, count: int) -> str | None:
    y = signature.shapes["y"]
    parts = [signature.shapes[name] for name in _names(count)]
    if len(y) < 2 or any(part[:-1] != y[:-1] or len(part) != len(y) for part in parts):
        return f"{parts} are not as y {y} but along the last of two axes or more"
    if sum(part[-1] for part in parts) != y[-1]:
        return f"{parts} together are not as long as y {y}"
    for name in ("scale", "shift"):
        if signature.shapes[name] != y[-1:]:
            return f"{name} has one element for each channel of y {y}, not {signature.shapes[name]}"
    return None


def _host(*, y: Any, scale: Any, shift: Any, activation: Activation, count: int, **parts: Any) -> None:
    import numpy as np

    dtype = np.dtype(sum_dtype(str(y.dtype)))
    whole = np.concatenate([parts[name] for name in _names(count)], axis=-1).astype(dtype, copy=False)
    y[...] = act.numpy(activation, whole * scale.astype(dtype, copy=False) + shift)


def _rows(signature: Signature) -> int:
    y = signature.shapes["y"]
    return size(y[:-1]) if size(y) else 0


def _load_opencl(signature: Signature, *, count: int, activation: Activation) -> OpenCLSource:
    dtype = signature.dtypes["y"]
    names = _names(count)
    arrays = ", ".join(f"__global const T* restrict {name}" for name in (*names, "scale", "shift"))
    parameters = f"__global T* restrict y, {arrays}"
    if not _rows(signature):
        return empty_kernel("join", parameters.replace("T*", "uchar*"))
    widths = [signature.shapes[name][-1] for name in names]
    # All parts use the vector width of the narrowest.
    shared = RowCode(min(width for width in widths if width), dtype)
    finish = act.opencl(activation, "v", sum_dtype(dtype), "AV")
    # Where a part begins is computed: with widths alone, arguments of `MOST_PARTS` parts fit.
    given, code = ExtentArguments(), ["int first = 0;"]
    rows, channels = given("rows", _rows(signature)), given("channels", signature.shapes["y"][-1])
    for width, group in groupby(zip(widths, names, strict=True), key=itemgetter(0)):
        alike = [name for _, name in group]
        if width:
            code.append(_joined(alike, width, shared.block.width, finish, given))
    body = "\n  ".join(code)
    return OpenCLSource(
        f"{shared.head}WHOLE_VECTORS __kernel void join({parameters}{given.declared}) {{\n"
        f"  const size_t i = get_global_id(0);\n  if (i >= {rows}) return;\n  y += i * {channels};\n  {body}\n}}\n",
        "join",
        extents=given.values,
    )


def _joined(names: Sequence[str], width: int, vector: int, finish: str, given: ExtentArguments) -> str:
    """Return code for neighbouring parts of one width: for several a loop, as each copy of its body is compiled."""
    length = str(width) if width <= _NARROW * vector else given(f"{names[0]}_width", width)
    statements = (
        "const int k = at + j; AV v = READV(__global, part + j) * READV(__global, scale + k) + "
        f"READV(__global, shift + k); {finish} WRITEV(__global, y + k, v);"
    )
    body = _along(length, vector, statements) + _rest(length, vector, statements) * (width % vector > 0)
    if len(names) < _LOOPED or width < 2 * vector or width % vector:
        return "\n  ".join(
            f"{{ const int at = first; __global const T* const part = {name} + i * {length}; {body} }}\n"
            f"  first += {length};"
            for name in names
        )
    return (
        f"{{ __global const T* const parts[] = {{{', '.join(names)}}};\n"
        f"  __attribute__((opencl_unroll_hint(1))) for (int n = 0; n < {len(names)}; ++n) {{\n"
        f"  const int at = first + n * {length}; __global const T* const part = parts[n] + i * {length}; {body} }}\n"
        f"  first += {len(names)} * {length}; }}"
    )


def _along(length: str, vector: int, statements: str) -> str:
    """Return a loop over a part's whole vectors."""
    return f"for (int j = 0; j + {vector} <= {length}; j += {vector}) {{ {statements} }}"


def _rest(length: str, vector: int, statements: str) -> str:
    """Return statements for the vector that ends with a part."""
    return f" {{ const int j = {length} - {vector}; {statements} }}"


@cache
def _join(count: int, activation: Activation) -> Operation:
    attributes = {"count": count, "activation": activation}
    read = partial(Parameter, mode=AccessMode.READ, like="y")
    return Operation(
        name=" ".join(filter(None, ("join", str(count), act.label(activation)))),
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
            *(read(name) for name in _names(count)),
            read("scale", ndim=1),
            read("shift", ndim=1),
        ),
        implementations=(
            Implementation(
                "opencl-c",
                "opencl-c",
                partial(_load_opencl, **attributes),
                partial(lines_launch, count=_rows),
                OPENCL_C,
                efficiency=0.6,
                revision="2",
            ),
            numpy_implementation(partial(_host, **attributes), efficiency=0.2),
        ),
        work=partial(work, flops=2.0 + act.cost(activation)),
        check=partial(_check, count=count),
        split=Split(rows=("y", *_names(count))),
    )


@with_recipe
def join(count: int, activation: Activation = ()) -> Operation:
    """Return y = activation(concatenation of x0, x1, ... along the last axis * scale + shift)."""
    if not 1 <= count <= MOST_PARTS:
        raise ArgumentError(f"{count} parts cannot be joined", where="join()", hint=f"1 to {MOST_PARTS} can")
    return _join(int(count), act.checked(activation))
