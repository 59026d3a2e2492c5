# SPDX-License-Identifier: Apache-2.0
"""Reductions, argmax and argmin by work-groups; see `syclsched.kernels.tensor.reductions.group_reduction`."""

from __future__ import annotations

import math
from functools import partial

from syclsched.kernels.groups import head, implementation
from syclsched.kernels.tensor.reductions.group_reduction import LineReduction, local_bytes
from syclsched.kernels.tensor.writing.kernel_writer import compute_dtype
from syclsched.model.operation import DeviceLimits, Implementation, Launch, OpenCLSource, Signature

#: Least and greatest number of each dtype in OpenCL C; bool is stored as bytes.
_RANGES = {
    "bool": ("0", "1"),
    "int8": ("CHAR_MIN", "CHAR_MAX"),
    "int16": ("SHRT_MIN", "SHRT_MAX"),
    "int32": ("INT_MIN", "INT_MAX"),
    "int64": ("LONG_MIN", "LONG_MAX"),
    "uint8": ("0", "UCHAR_MAX"),
    "uint16": ("0", "USHRT_MAX"),
    "uint32": ("0", "UINT_MAX"),
    "uint64": ("0", "ULONG_MAX"),
}
_GREATEST = {"float32": "FLT_MAX", "float64": "DBL_MAX"}


def reduce(mode: str, axes: tuple[int, ...]) -> Implementation:
    """Return the implementation of `syclsched.kernels.tensor.reductions.reduce.reduce`."""
    return implementation(partial(_source, mode=mode, axes=axes), partial(_launch, axes=axes))


def reduce_parts(mode: str) -> Implementation:
    """Return the implementation of the first step of `reduce_whole`."""
    return implementation(partial(_parts_source, mode=mode), _parts_launch)


def arg(mode: str, axis: int, last: bool) -> Implementation:
    """Return the implementation of `syclsched.kernels.tensor.reductions.arg.arg`."""
    return implementation(partial(_arg_source, mode=mode, axis=axis, last=last), partial(_arg_launch, axis=axis))


def _lines(signature: Signature, limits: DeviceLimits, axes: tuple[int, ...]) -> LineReduction:
    return LineReduction.of(signature.shapes["x"], axes, limits, local_bytes(compute_dtype(signature.dtypes["x"])))


def _launch(signature: Signature, limits: DeviceLimits, *, axes: tuple[int, ...]) -> Launch:
    return _lines(signature, limits, axes).launch


def _source(signature: Signature, limits: DeviceLimits, *, mode: str, axes: tuple[int, ...]) -> OpenCLSource:
    lines = _lines(signature, limits, axes)
    return _reduction(signature, lines, mode, lines.length)


def _parts_lines(signature: Signature, limits: DeviceLimits) -> LineReduction:
    count, size = signature.shapes["y"][0], math.prod(signature.shapes["x"])
    each = size // count
    local = local_bytes(compute_dtype(signature.dtypes["x"]))
    return LineReduction.of_axes(((count, each),), ((each, 1),), limits, local, rest=size - each * count)


def _parts_launch(signature: Signature, limits: DeviceLimits) -> Launch:
    return _parts_lines(signature, limits).launch


def _parts_source(signature: Signature, limits: DeviceLimits, *, mode: str) -> OpenCLSource:
    # Partial means are divided by the number of all elements: their sum is the mean.
    return _reduction(signature, _parts_lines(signature, limits), mode, math.prod(signature.shapes["x"]))


def _reduction(signature: Signature, lines: LineReduction, mode: str, count: int) -> OpenCLSource:
    dtype = signature.dtypes["x"]
    kind = compute_dtype(dtype)
    code = _logarithm(lines, kind) if mode == "logsumexp" else _plain(lines, dtype, mode, count)
    source = f"""{head(dtype, kind, math.prod(signature.shapes["x"]))}
__kernel {lines.attributes} void reduction(__global T* restrict y, __global const T* restrict x) {{
{lines.local(s="A") if lines.team > 1 else ""}{lines.begin}{lines.loaded()}{code}
  if (t == 0 && line < {lines.count}) WRITE(y, line, s);
}}
"""
    return OpenCLSource(source, "reduction")


def _plain(lines: LineReduction, dtype: str, mode: str, count: int) -> str:
    floating = dtype.startswith("float")
    start, join = _start(mode, dtype), "s = s {} {};"
    if mode in ("max", "min"):
        join = f"if ({_better(mode, floating)}) s = {{1}};"
    else:
        join = join.replace("{}", "*" if mode == "prod" else "+", 1).replace("{}", "{1}")
    element = {"l2": "v * v", "sumsquare": "v * v", "l1": _absolute(dtype)}.get(mode, "v")
    finish = {"mean": f"s = s / {f'(A){count}' if floating else max(count, 1)};", "l2": "s = sqrt(s);"}
    finish["logsum"] = "s = log(s);"
    take = f"const A e = {element}; {_joined(join, 'e')}"
    return f"""  A s = {start};
{lines.each(take)}{lines.shared(_joined(join, "other_s"), s="A")}  {finish.get(mode, "")}"""


def _joined(join: str, other: str) -> str:
    return join.replace("{1}", other)


def _better(mode: str, floating: bool) -> str:
    """Return the condition that a number is better than the best ``s``; the first NaN beats all numbers."""
    symbol = ">" if mode == "max" else "<"
    return f"{{1}} {symbol} s || isnan({{1}})" if floating else f"{{1}} {symbol} s"


def _start(mode: str, dtype: str) -> str:
    if mode in ("max", "min"):
        if dtype.startswith("float"):
            return "-INFINITY" if mode == "max" else "INFINITY"
        return _RANGES[dtype][mode == "min"]
    return "1" if mode == "prod" else "0"


def _absolute(dtype: str) -> str:
    if dtype.startswith("float"):
        return "fabs(v)"
    return "v" if dtype.startswith("u") else "v < 0 ? -v : v"


def _logarithm(lines: LineReduction, kind: str) -> str:
    """Return the code of log-sum-exp in two passes: maximum, then sum."""
    # The maximum is clamped to a finite number; see `syclsched.kernels.tensor.reductions.log_sum_exp`.
    greatest = _GREATEST[kind]
    return f"""  A s = -{greatest};
{lines.each("if (v > s) s = v;")}{lines.shared("if (other_s > s) s = other_s;", s="A")}
  const A top = fmin(s, (A){greatest});
  s = 0;
{lines.each("s += exp(v - top);")}{lines.shared("s += other_s;", s="A")}  s = log(s) + top;"""


def _arg_lines(signature: Signature, limits: DeviceLimits, axis: int) -> LineReduction:
    return LineReduction.of(
        signature.shapes["x"], (axis,), limits, local_bytes(compute_dtype(signature.dtypes["x"]), "int64")
    )


def _arg_launch(signature: Signature, limits: DeviceLimits, *, axis: int) -> Launch:
    return _arg_lines(signature, limits, axis).launch


def _arg_source(signature: Signature, limits: DeviceLimits, *, mode: str, axis: int, last: bool) -> OpenCLSource:
    lines, dtype = _arg_lines(signature, limits, axis), signature.dtypes["x"]
    kind = compute_dtype(dtype)
    symbol, equal = ">" if mode == "max" else "<", "="
    better, as_good = f"({{0}} {symbol} s", f"({{0}} {equal}= s"
    if dtype.startswith("float"):
        # NaN is better than any number, and ties with NaN.
        better, as_good = f"{better} || (isnan({{0}}) && !isnan(s))", f"{as_good} || (isnan({{0}}) && isnan(s))"
    better, as_good = f"{better})", f"{as_good})"
    # Positions in a work-item ascend; partial results of work-items come in any order. Position -1: no element yet.
    take = "if (i < 0 || {0}{1}) {{ s = {2}; i = {3}; }}"
    own = take.format(better.format("v"), f" || {as_good.format('v')}" if last else "", "v", "k")
    nearer = f" || ({as_good.format('other_s')} && other_i {'>' if last else '<'} i)"
    join = f"if (other_i >= 0) {take.format(better.format('other_s'), nearer, 'other_s', 'other_i')}"
    source = f"""{head(dtype, kind, math.prod(signature.shapes["x"]))}
__kernel {lines.attributes} void places(__global long* restrict y, __global const T* restrict x) {{
{lines.local(s="A", i="I") if lines.team > 1 else ""}{lines.begin}{lines.loaded()}
  A s = 0; I i = -1;
{lines.each(own)}{lines.shared(join, s="A", i="I")}
  if (t == 0 && line < {lines.count}) y[line] = i;
}}
"""
    return OpenCLSource(source, "places")
