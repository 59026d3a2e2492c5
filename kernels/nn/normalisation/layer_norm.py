# SPDX-License-Identifier: Apache-2.0
"""`layer_norm`: normalisation of each batch element over its last axes (Ba, Kiros and Hinton, 2016)."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.common import OPENCL_C, Ints
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.line_operations import lines_launch, number, standardised, work
from syclsched.kernels.nn.normalisation import norms_groups, norms_numba
from syclsched.kernels.nn.opencl_types import FLOATS, empty_kernel, literal, sum_dtype
from syclsched.kernels.nn.rows_opencl import RowCode
from syclsched.kernels.onednn.operations import normalization as onednn
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, OpenCLSource, Operation, Parameter, Signature, Split, Work


def rows(shape: Ints, axis: int) -> tuple[int, int]:
    """Return the number of independently normalised rows and their length."""
    axis %= len(shape)
    return size(shape[:axis]), size(shape[axis:])


def _check(signature: Signature, *, axis: int, bias: bool) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if not -len(x) <= axis < len(x):
        return f"x {x} has no axis {axis}"
    if y != x:
        return f"layer_norm keeps the shape: y {y} against x {x}"
    for name in ("scale", "b") if bias else ("scale",):
        if signature.shapes[name] != x[axis:]:
            return f"{name} of x {x} from axis {axis} is {x[axis:]}, not {signature.shapes[name]}"
    return None


def _work(signature: Signature, *, axis: int, bias: bool) -> Work:
    count, _ = rows(signature.shapes["x"], axis)
    return work(signature, flops=7.0 + bias, parallelism=float(count))


def _host(*, y: Any, x: Any, scale: Any, b: Any = None, axis: int, epsilon: float) -> None:
    source = x.astype(sum_dtype(str(y.dtype)), copy=False)
    if not source.size:
        return
    total = standardised(source, tuple(range(axis % x.ndim, x.ndim)), epsilon) * scale
    y[...] = total if b is None else total + b


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


def _count(signature: Signature, *, axis: int) -> int:
    return rows(signature.shapes["x"], axis)[0]


def _load_opencl(signature: Signature, *, axis: int, epsilon: float, bias: bool) -> OpenCLSource:
    count, length = rows(signature.shapes["x"], axis)
    dtype = signature.dtypes["y"]
    parameters = "__global T* restrict y, __global const T* restrict x, __global const T* restrict scale"
    parameters += ", __global const T* restrict b" if bias else ""
    if not count * length:
        return empty_kernel("layer_norm", parameters.replace("T*", "uchar*"))
    line = RowCode(length, dtype)
    shift = " + LOADV(b + j)" if bias else ""
    source = f"""{line.head}WHOLE_VECTORS __kernel void layer_norm({parameters}) {{
  const size_t i = get_global_id(0);
  if (i >= {count}) return;
  x += i * {length}; y += i * {length};
  {line.summed("sum", "", "LOADV(x + j)")}
  const A mean = sum / {length};
  {line.summed("squares", "const AV d = LOADV(x + j) - mean;", "d * d")}
  const A f = 1 / sqrt(squares / {length} + {literal(epsilon, sum_dtype(dtype))});
  {line.along(f"STOREV(y + j, (LOADV(x + j) - mean) * f * LOADV(scale + j){shift});")}
}}
"""
    return OpenCLSource(source, "layer_norm")


@cache
def _layer_norm(axis: int, epsilon: float, bias: bool) -> Operation:
    attributes = {"axis": axis, "epsilon": epsilon}
    launch = partial(lines_launch, count=partial(_count, axis=axis))
    load = partial(_load_opencl, bias=bias, **attributes)
    opencl = Implementation("opencl-c", "opencl-c", load, launch, OPENCL_C, efficiency=0.5, revision="2")
    return Operation(
        name=f"layer_norm {axis} {number(epsilon)}{' bias' if bias else ''}",
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, like="y"),
            Parameter("scale", AccessMode.READ, like="y"),
            *([Parameter("b", AccessMode.READ, like="y")] if bias else []),
        ),
        implementations=(
            onednn.layer_norm(axis=axis, epsilon=epsilon),
            norms_groups.layer_norm(axis, epsilon, bias),
            opencl,
            norms_numba.layer_norm(epsilon=epsilon, bias=bias),
            Implementation("numpy", "host", partial(_load_host, **attributes), efficiency=0.1),
        ),
        work=partial(_work, axis=axis, bias=bias),
        check=partial(_check, axis=axis, bias=bias),
        # A split along axis 0 requires that axis 0 is not normalised; a negative axis may be axis 0.
        split=Split(rows=("y", "x")) if axis > 0 else None,
    )


def layer_norm(axis: int = -1, epsilon: float = 1e-5, bias: bool = False) -> Operation:
    """Return y = (x - mean) / sqrt(variance + epsilon) * scale + b, with statistics over the axes from ``axis`` on."""
    return _layer_norm(int(axis), float(epsilon), bool(bias))
