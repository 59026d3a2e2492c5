# SPDX-License-Identifier: Apache-2.0
"""`softmax_over`: softmax or log-softmax over any axis."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.common import OPENCL_C, Ints
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.line_operations import lines_launch, work
from syclsched.kernels.nn.normalisation import norms_groups, online_softmax, softmax_numba
from syclsched.kernels.nn.opencl_types import BYTES, FLOATS, empty_kernel, sum_dtype
from syclsched.kernels.nn.rows_opencl import RowCode
from syclsched.kernels.onednn.operations import softmax as onednn
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


def lines(shape: Ints, axis: int) -> tuple[int, int, int]:
    """Return the number of elements before an axis, along it and after it."""
    axis %= len(shape)
    return size(shape[:axis]), shape[axis], size(shape[axis + 1 :])


def _check(signature: Signature, *, axis: int) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if not -len(x) <= axis < len(x):
        return f"x {x} has no axis {axis}"
    return None if y == x else f"softmax keeps the shape: y {y} against x {x}"


def _work(signature: Signature, *, axis: int) -> Work:
    before, _, behind = lines(signature.shapes["x"], axis)
    # Per element: maximum, subtraction, exponential (counted as one), sum and division.
    return work(signature, flops=5.0, parallelism=float(before * behind))


def _host(*, y: Any, x: Any, axis: int, log: bool) -> None:
    import numpy as np

    if not x.size:
        return
    source = x.astype(sum_dtype(str(y.dtype)), copy=False)
    # Infinite elements give NaN without warnings.
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = source - source.max(axis=axis, keepdims=True)
        if log:
            y[...] = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
            return
        powers = np.exp(shifted)
        y[...] = powers / powers.sum(axis=axis, keepdims=True)


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


def _count(signature: Signature, *, axis: int) -> int:
    before, length, behind = lines(signature.shapes["x"], axis)
    if behind <= 1:
        return before * behind
    dtype = signature.dtypes["y"]
    return before * panels.block_count(behind, _vectors(length, behind, dtype) * RowCode(behind, dtype).block.width)


def _load_opencl(signature: Signature, *, axis: int, log: bool) -> OpenCLSource:
    before, length, behind = lines(signature.shapes["x"], axis)
    dtype = signature.dtypes["y"]
    parameters = "__global T* restrict y, __global const T* restrict x"
    if not before * length * behind:
        return empty_kernel("softmax", parameters.replace("T*", "uchar*"))
    start = f"const size_t i = get_global_id(0);\n  if (i >= {before}) return;"
    if behind == 1:
        rows = RowCode(length, dtype)
        power = rows.summed("sum", "const AV v = power(LOADV(x + j) - m); STOREV(y + j, v);", "v")
        if log:
            power = rows.summed("sum", "", "power(LOADV(x + j) - m)")
            finish = rows.along("STOREV(y + j, (LOADV(x + j) - m) - shift);")
        else:
            # The last vector may overlap its predecessor and must not be scaled twice.
            whole = length - length % rows.block.width
            finish = RowCode(whole, dtype).along("STOREV(y + j, LOADV(y + j) * f);")
            finish += f" for (int j = {whole}; j < {length}; ++j) y[j] = (A)y[j] * f;"
        source = f"""{rows.head}{rows.powers}WHOLE_VECTORS __kernel void softmax({parameters}) {{
  {start}
  x += i * {length}; y += i * {length};
  {rows.most("m")}
  {power}
  {"const A shift = log(sum);" if log else "const A f = 1 / sum;"}
  {finish}
}}
"""
        return OpenCLSource(source, "softmax")
    rows, count = RowCode(behind, dtype), _vectors(length, behind, dtype)
    if _in_blocks(signature, axis):
        head, body = online_softmax.opencl(before, length, behind, log, _in_three_passes(length, behind, 1, 16, log))
        start = f"{parameters}) {{\n  {body}}}\n"
        return OpenCLSource(f"{rows.head}{rows.powers}{head}WHOLE_VECTORS __kernel void softmax({start}", "softmax")
    wide = count * rows.block.width
    pieces = panels.block_count(behind, wide)
    # The last piece may overlap its predecessor.
    source = f"""{rows.head}{rows.powers}WHOLE_VECTORS __kernel void softmax({parameters}) {{
  const size_t i = get_global_id(0);
  if (i >= {before * pieces}) return;
  const size_t at = i / {pieces} * {length * behind} + min((int)(i % {pieces}) * {wide}, {behind - wide});
  {_in_three_passes(length, behind, count, rows.block.width, log)}
}}
"""
    return OpenCLSource(source, "softmax")


def _in_three_passes(length: int, behind: int, count: int, width: int, log: bool) -> str:
    """Return statements for ``count`` vectors of neighbouring lines from offset ``at``, in three passes."""
    each = f"for (long j = at; j < at + {length * behind}; j += {behind})"

    def all_of(statement: str) -> str:
        return " ".join(statement.replace("#", str(k)).replace("@", str(k * width)) for k in range(count))

    finish = "(LOADV(x + j + @) - m#) - s#" if log else "power(LOADV(x + j + @) - m#) * s#"
    # Exponentials are computed twice; storing them in between would take as long.
    return f"""{all_of("AV m# = (AV)-INFINITY, s# = (AV)0;")}
  {each} {{ {all_of("{ const AV v = LOADV(x + j + @); m# = v > m# ? v : m#; }")} }}
  {each} {{ {all_of("s# += power(LOADV(x + j + @) - m#);")} }}
  {all_of("s# = log(s#);" if log else "s# = 1 / s#;")}
  {each} {{ {all_of(f"STOREV(y + j + @, {finish});")} }}"""


def _in_blocks(signature: Signature, axis: int) -> bool:
    return sum_dtype(signature.dtypes["y"]) == "float32" and online_softmax.fits(lines(signature.shapes["x"], axis)[2])


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int) -> Launch:
    before, length, behind = lines(signature.shapes["x"], axis)
    if before * length * behind and _in_blocks(signature, axis):
        return online_softmax.launch(limits, before, behind)
    return lines_launch(signature, limits, count=partial(_count, axis=axis))


#: Bytes that stay in a compute unit's cache.
_CACHE_BYTES = 1 << 18


def _vectors(length: int, behind: int, dtype: str) -> int:
    """Return the vectors of neighbouring lines per work-item: lines are read repeatedly, so they must fit the cache."""
    width = RowCode(behind, dtype).block.width
    count = 8
    while count > 1 and (count * width > behind or count * width * BYTES[dtype] * length > _CACHE_BYTES):
        count //= 2
    return count


@cache
def _softmax_over(axis: int, log: bool) -> Operation:
    launch, load = partial(_launch, axis=axis), partial(_load_opencl, axis=axis, log=log)
    opencl = Implementation("opencl-c", "opencl-c", load, launch, OPENCL_C, efficiency=0.5, revision="3")
    return Operation(
        name=f"{'log_' if log else ''}softmax_over {axis}",
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, like="y"),
        ),
        implementations=(
            onednn.softmax(axis=axis, log=log),
            norms_groups.softmax(axis, log),
            opencl,
            softmax_numba.softmax(axis=axis, log=log),
            Implementation("numpy", "host", partial(_load_host, axis=axis, log=log), efficiency=0.1),
        ),
        work=partial(_work, axis=axis),
        check=partial(_check, axis=axis),
        # A split along axis 0 requires that axis 0 is not reduced; a negative axis may be axis 0.
        split=Split(rows=("y", "x")) if axis > 0 else None,
    )


def softmax_over(axis: int = -1, log: bool = False) -> Operation:
    """Return y = exp(x) / sum of exp(x) along an axis, or its logarithm."""
    return _softmax_over(int(axis), bool(log))
