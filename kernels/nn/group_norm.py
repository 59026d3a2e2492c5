# SPDX-License-Identifier: Apache-2.0
"""`group_norm`: normalisation of groups of channels of each element of a batch (Wu and He, 2018)."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import OPENCL_C
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import norms_numba, panels
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import channels, last, size, spatial
from syclsched.kernels.nn.norm import centred, lines_launch, number, work
from syclsched.kernels.nn.rows_opencl import Rows
from syclsched.kernels.nn.source import FLOATS, literal, nothing, sums
from syclsched.kernels.onednn import normalization as onednn
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, OpenCLSource, Operation, Parameter, Signature, Split, Work


def _check(signature: Signature, *, groups: int, last_: bool) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if len(x) < 2:
        return f"x has a batch and channels, not {x}"
    if y != x:
        return f"group_norm keeps the shape: y {y} against x {x}"
    count = channels(x, last_)
    if count % groups:
        return f"the {count} channels of x {x} cannot be divided into {groups} groups"
    for name in ("scale", "bias"):
        if signature.shapes[name] != (count,):
            return f"{name} has one element for each channel of x {x}, not {signature.shapes[name]}"
    return None


def _work(signature: Signature, *, groups: int, extra: int) -> Work:
    return work(signature, flops=8.0 + extra, parallelism=float(signature.shapes["x"][0] * groups))


def _host(
    *,
    y: Any,
    x: Any,
    scale: Any,
    bias: Any,
    groups: int,
    epsilon: float,
    last_: bool,
    activation: Activation,
) -> None:
    if not x.size:
        return
    source = last(x, last_).astype(sums(str(y.dtype)), copy=False)
    pieces = source.reshape(*source.shape[:-1], groups, source.shape[-1] // groups)
    axes = (*range(1, source.ndim - 1), source.ndim)
    total = centred(pieces, axes, epsilon).reshape(source.shape) * scale + bias
    last(y, last_)[...] = act.numpy(activation, total)


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


def _width(signature: Signature, groups: int, last_: bool) -> int:
    """Return the width of vectors, channels last: of neighbouring channels of one group, or of one each."""
    every = max(1, channels(signature.shapes["x"], last_))
    width = Rows(every if every == groups else every // groups, signature.dtypes["y"]).block.width
    while every != groups and every // groups % width:
        width //= 2
    return width


def _count(signature: Signature, *, groups: int, last_: bool) -> int:
    x = signature.shapes["x"]
    every = channels(x, last_)
    if not size(x):
        return 1
    if last_ and size(spatial(x, last_)) > 1 and every == groups:
        return x[0] * panels.starts(every, _width(signature, groups, last_))
    return x[0] * groups


def _load_opencl(
    signature: Signature, *, groups: int, epsilon: float, last_: bool, activation: Activation
) -> OpenCLSource:
    shape, dtype = signature.shapes["x"], signature.dtypes["y"]
    kind = sums(dtype)
    parameters = ", ".join(
        ["__global T* restrict y", *(f"__global const T* restrict {name}" for name in ("x", "scale", "bias"))]
    )
    if not size(shape):
        return nothing("group_norm", parameters.replace("T*", "uchar*"))
    every = channels(shape, last_)
    count, pixels = every // groups, size(spatial(shape, last_))
    last_ = last_ and pixels > 1
    start = f"const size_t i = get_global_id(0);\n  if (i >= {shape[0] * groups}) return;"
    root = f"1 / sqrt(squares / {count * pixels} + {literal(epsilon, kind)})"
    if last_:
        width = _width(signature, groups, last_)
        rows, alone = Rows(width, dtype), count == 1
        pieces = panels.starts(every, width) if alone else groups
        items = shape[0] * pieces
        first = f"min((int)(i % {pieces}) * {width}, {every - width})" if alone else f"(int)(i % {groups}) * {count}"
        # Alone, every lane is a channel of its own, and the sums stay apart; else they are one group's.
        gathered = "" if alone else "total"
        each = f"for (int p = 0; p < {pixels * every}; p += {every}) "
        each += f"for (int c = 0; c < {width if alone else count}; c += {width})"
        total = "AV" if alone else "A"
        body = f"""const size_t i = get_global_id(0);
  if (i >= {items}) return;
  const int first = {first};
  x += i / {pieces} * {every * pixels} + first; y += i / {pieces} * {every * pixels} + first;
  scale += first; bias += first;
  AV s = (AV)0, q = (AV)0;
  {each} s += LOADV(x + p + c);
  const {total} mean = {gathered}(s) / {count * pixels};
  {each} {{ const AV d = LOADV(x + p + c) - mean; q = fma(d, d, q); }}
  const {total} squares = {gathered}(q), f = {root};
  {each} {{
    AV v = (LOADV(x + p + c) - mean) * f * LOADV(scale + c) + LOADV(bias + c);
    {act.opencl(activation, "v", kind, "AV")} STOREV(y + p + c, v);
  }}"""
        return OpenCLSource(
            f"{rows.head}WHOLE_VECTORS __kernel void group_norm({parameters}) {{\n  {body}\n}}\n", "group_norm"
        )
    line = Rows(count * pixels, dtype)
    if pixels > 1:
        # Vectors within one channel: narrower ones where it has few pixels.
        part = Rows(pixels, dtype)
        narrow = f"{act.opencl(activation, 'v', kind)} y[j] = v;"
        wide = f"{act.opencl(activation, 'v', kind, 'AV')} STOREV(y + j, v);"
        if part.block.width == line.block.width:
            inner = part.along(f"AV v = LOADV(x + j) * g + h; {wide}")
        else:
            inner = f"for (int j = 0; j < {pixels}; ++j) {{ A v = x[j] * g + h; {narrow} }}"
        finish = f"""for (int c = 0; c < {count}; ++c, x += {pixels}, y += {pixels}) {{
    const A g = f * scale[c], h = bias[c] - mean * g;
    {inner}
  }}"""
    else:
        value = "AV v = (LOADV(x + j) - mean) * f * LOADV(scale + j) + LOADV(bias + j);"
        finish = line.along(f"{value} {act.opencl(activation, 'v', kind, 'AV')} STOREV(y + j, v);")
    source = f"""{line.head}WHOLE_VECTORS __kernel void group_norm({parameters}) {{
  {start}
  x += i * {count * pixels}; y += i * {count * pixels};
  scale += i % {groups} * {count}; bias += i % {groups} * {count};
  {line.summed("sum", "", "LOADV(x + j)")}
  const A mean = sum / {count * pixels};
  {line.summed("squares", "const AV d = LOADV(x + j) - mean;", "d * d")}
  const A f = {root};
  {finish}
}}
"""
    return OpenCLSource(source, "group_norm")


@cache
def _group_norm(groups: int, epsilon: float, channels_last: bool, activation: Activation) -> Operation:
    attributes = {"groups": groups, "last_": channels_last}
    names = [f"group_norm {groups}", number(epsilon), "last" if channels_last else "", act.label(activation)]
    load = partial(_load_host, epsilon=epsilon, activation=activation, **attributes)
    opencl = Implementation(
        "opencl-c",
        "opencl-c",
        partial(_load_opencl, epsilon=epsilon, activation=activation, **attributes),
        partial(lines_launch, count=partial(_count, **attributes)),
        OPENCL_C,
        efficiency=0.4,
    )
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, like="y"),
            Parameter("scale", AccessMode.READ, ndim=1, like="y"),
            Parameter("bias", AccessMode.READ, ndim=1, like="y"),
        ),
        implementations=(
            onednn.group_norm(groups=groups, epsilon=epsilon, channels_last=channels_last, activation=activation),
            opencl,
            norms_numba.group_norm(epsilon=epsilon, activation=activation, **attributes),
            Implementation("numpy", "host", load, efficiency=0.1),
        ),
        work=partial(_work, groups=groups, extra=act.cost(activation)),
        check=partial(_check, **attributes),
        split=Split(rows=("y", "x")),
    )


def group_norm(
    groups: int, epsilon: float = 1e-5, channels_last: bool = False, activation: Activation = ()
) -> Operation:
    """Return y = activation((x - mean) / sqrt(variance + epsilon) * scale + bias), both of each group of channels.

    Parameters
    ----------
    groups : int
        Into how many groups the channels are divided. As many as there are channels: instance normalisation.
    epsilon : float, optional
        As in the formula.
    channels_last : bool, optional
        Whether x and y are (N, *spatial, C), not (N, C, *spatial).
    activation : Activation, optional
        See `syclsched.kernels.nn.activation`.

    Returns
    -------
    Operation
        With parameters y (written), x, scale and bias: the last two (C,).

    Raises
    ------
    ArgumentError
        If there is no group.
    """
    if groups < 1:
        raise ArgumentError(f"there is at least one group, not {groups}", where="groups")
    return _group_norm(int(groups), float(epsilon), bool(channels_last), act.checked(activation))
