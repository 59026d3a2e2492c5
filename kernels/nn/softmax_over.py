# SPDX-License-Identifier: Apache-2.0
"""`softmax_over`: softmax, or its logarithm, over any axis."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.common import OPENCL_C, Ints
from syclsched.kernels.nn import norms_numba, panels
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.norm import lines_launch, work
from syclsched.kernels.nn.rows_opencl import Rows
from syclsched.kernels.nn.source import FLOATS, nothing, sums
from syclsched.kernels.onednn import softmax as onednn
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, OpenCLSource, Operation, Parameter, Signature, Split, Work


def lines(shape: Ints, axis: int) -> tuple[int, int, int]:
    """Return how many elements an array has before an axis, along it and behind it."""
    axis %= len(shape)
    return size(shape[:axis]), shape[axis], size(shape[axis + 1 :])


def _check(signature: Signature, *, axis: int) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if not -len(x) <= axis < len(x):
        return f"x {x} has no axis {axis}"
    return None if y == x else f"softmax keeps the shape: y {y} against x {x}"


def _work(signature: Signature, *, axis: int) -> Work:
    before, _, behind = lines(signature.shapes["x"], axis)
    # A maximum, a subtraction, an exponential (counted as one), a sum and a division for each element.
    return work(signature, flops=5.0, parallelism=float(before * behind))


def _host(*, y: Any, x: Any, axis: int, log: bool) -> None:
    import numpy as np

    if not x.size:
        return
    source = x.astype(sums(str(y.dtype)), copy=False)
    # Infinite elements make NaNs, as they should, but no warnings.
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
    before, _, behind = lines(signature.shapes["x"], axis)
    return before * panels.starts(behind, Rows(max(1, behind), signature.dtypes["y"]).block.width)


def _load_opencl(signature: Signature, *, axis: int, log: bool) -> OpenCLSource:
    before, length, behind = lines(signature.shapes["x"], axis)
    dtype = signature.dtypes["y"]
    parameters = "__global T* restrict y, __global const T* restrict x"
    if not before * length * behind:
        return nothing("softmax", parameters.replace("T*", "uchar*"))
    start = f"const size_t i = get_global_id(0);\n  if (i >= {before}) return;"
    if behind == 1:
        rows = Rows(length, dtype)
        power = rows.summed("sum", "const AV v = exp(LOADV(x + j) - m); STOREV(y + j, v);", "v")
        if log:
            power = rows.summed("sum", "", "exp(LOADV(x + j) - m)")
            finish = rows.along("STOREV(y + j, LOADV(x + j) - shift);")
        else:
            # The last vector may overlap its predecessor, and must not be scaled twice.
            whole = length - length % rows.block.width
            finish = Rows(whole, dtype).along("STOREV(y + j, LOADV(y + j) * f);")
            finish += f" for (int j = {whole}; j < {length}; ++j) y[j] = (A)y[j] * f;"
        source = f"""{rows.head}WHOLE_VECTORS __kernel void softmax({parameters}) {{
  {start}
  x += i * {length}; y += i * {length};
  AV most = (AV)-INFINITY;
  {rows.along("most = fmax(most, LOADV(x + j));")}
  const A m = largest(most);
  {power}
  {"const A shift = m + log(sum);" if log else "const A f = 1 / sum;"}
  {finish}
}}
"""
        return OpenCLSource(source, "softmax")
    rows = Rows(behind, dtype)
    pieces, width = panels.starts(behind, rows.block.width), rows.block.width
    each = f"for (int j = 0; j < {length * behind}; j += {behind})"
    if log:
        sums_up, finish = "sum += exp(LOADV(x + j) - m);", "LOADV(x + j) - m - log(sum)"
    else:
        sums_up = "{ const AV v = exp(LOADV(x + j) - m); sum += v; STOREV(y + j, v); }"
        # Neighbours may have done some of these lines: begin with the source, not with what is in y.
        finish = "exp(LOADV(x + j) - m) * f"
        sums_up = "sum += exp(LOADV(x + j) - m);" if behind % width else sums_up
        finish = finish if behind % width else "LOADV(y + j) * f"
    source = f"""{rows.head}WHOLE_VECTORS __kernel void softmax({parameters}) {{
  const size_t i = get_global_id(0);
  if (i >= {before * pieces}) return;
  const size_t first = i / {pieces} * {length * behind} + min((int)(i % {pieces}) * {width}, {behind - width});
  x += first; y += first;
  AV m = (AV)-INFINITY, sum = (AV)0;
  {each} m = fmax(m, LOADV(x + j));
  {each} {sums_up}
  {"" if log else "const AV f = 1 / sum;"}
  {each} STOREV(y + j, {finish});
}}
"""
    return OpenCLSource(source, "softmax")


@cache
def _softmax_over(axis: int, log: bool) -> Operation:
    launch = partial(lines_launch, count=partial(_count, axis=axis))
    load = partial(_load_opencl, axis=axis, log=log)
    opencl = Implementation("opencl-c", "opencl-c", load, launch, OPENCL_C, efficiency=0.5)
    return Operation(
        name=f"{'log_' if log else ''}softmax_over {axis}",
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, like="y"),
        ),
        implementations=(
            onednn.softmax(axis=axis, log=log),
            opencl,
            norms_numba.softmax(axis=axis, log=log),
            Implementation("numpy", "host", partial(_load_host, axis=axis, log=log), efficiency=0.1),
        ),
        work=partial(_work, axis=axis),
        check=partial(_check, axis=axis),
        # Cut along axis 0, nothing must be summed over it; a negative axis may be axis 0.
        split=Split(rows=("y", "x")) if axis > 0 else None,
    )


def softmax_over(axis: int = -1, log: bool = False) -> Operation:
    """Return y = exp(x) / sum of exp(x) along an axis, or its logarithm.

    Parameters
    ----------
    axis : int, optional
        Negative ones count from the end. A graph can be cut along axis 0 only if this is a positive number.
    log : bool, optional
        Whether the logarithm is asked for.

    Returns
    -------
    Operation
        With parameters y (written) and x.
    """
    return _softmax_over(int(axis), bool(log))
