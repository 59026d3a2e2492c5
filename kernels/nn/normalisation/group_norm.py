# SPDX-License-Identifier: Apache-2.0
"""`group_norm`: normalisation of groups of channels of each batch element (Wu and He, 2018)."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import OPENCL_C
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import channels, last, size, spatial
from syclsched.kernels.nn.line_operations import lines_launch, number, standardised, work
from syclsched.kernels.nn.normalisation import norms_groups, norms_numba
from syclsched.kernels.nn.opencl_types import FLOATS, empty_kernel, literal, sum_dtype
from syclsched.kernels.nn.rows_opencl import RowCode
from syclsched.kernels.onednn.operations import normalization as onednn
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
    source = last(x, last_).astype(sum_dtype(str(y.dtype)), copy=False)
    pieces = source.reshape(*source.shape[:-1], groups, source.shape[-1] // groups)
    axes = (*range(1, source.ndim - 1), source.ndim)
    total = standardised(pieces, axes, epsilon).reshape(source.shape) * scale + bias
    last(y, last_)[...] = act.numpy(activation, total)


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


#: Most vectors of neighbouring channels per work-item, and the target number of work-items.
_MOST_VECTORS, _WANTED = 8, 16
#: Pixels per chunk. A chunk's moments are computed in two passes within the L1 cache, then merged with those so far
#: (Chan, Golub and LeVeque, 1979): an array larger than the caches is read twice instead of three times.
_CHUNK_PIXELS = 32


def _block(signature: Signature, groups: int) -> tuple[int, int]:
    """Return the vector width with channels last, and how many channels (whole groups) a work-item computes.

    0 channels means one group per work-item, because groups are too large or do not fit vectors.
    """
    shape, dtype = signature.shapes["x"], signature.dtypes["y"]
    every = shape[-1]
    count = every // groups
    width = RowCode(every, dtype).block.width
    block = math.lcm(count, width)
    if block > min(_MOST_VECTORS * width, every):
        while count % width:
            width //= 2
        return width, 0
    while 2 * block <= min(_MOST_VECTORS * width, every) and shape[0] * panels.block_count(every, 2 * block) >= _WANTED:
        block *= 2
    return width, block


def _count(signature: Signature, *, groups: int, last_: bool) -> int:
    x = signature.shapes["x"]
    if not size(x):
        return 1
    if last_ and size(spatial(x, last_)) > 1:
        _, block = _block(signature, groups)
        if block:
            return x[0] * panels.block_count(x[-1], block)
    return x[0] * groups


def _load_channel_blocks(
    signature: Signature, parameters: str, width: int, block: int, count: int, epsilon: str, activate: str
) -> OpenCLSource:
    """Return the channels-last kernel whose work-items compute blocks of neighbouring channels."""
    shape = signature.shapes["x"]
    every, pixels = shape[-1], size(shape[1:-1])
    pieces = panels.block_count(every, block)

    def all_of(statement: str) -> str:
        return " ".join(statement.replace("#", str(k)).replace("@", str(k * width)) for k in range(block // width))

    def by_group(name: str) -> str:
        if count == 1:
            return ""
        add = f"A t = 0; for (int c = 0; c < {count}; ++c) t += part[g + c];"
        fill = f"for (int c = 0; c < {count}; ++c) part[g + c] = t / {count};"
        # These are sums, so plain vload/vstore is right even for half-precision elements.
        store, load = (
            ("vstore{0}({1}#, 0, part + @);", "{1}# = vload{0}(0, part + @);")
            if width > 1
            else ("part[@] = {1}#;", "{1}# = part[@];")
        )
        return (
            f"{all_of(store.format(width, name))} for (int g = 0; g < {block}; g += {count}) {{ {add} {fill} }} "
            f"{all_of(load.format(width, name))}"
        )

    rows = RowCode(width, signature.dtypes["y"])
    each = f"for (int p = k * {every}; p < end * {every}; p += {every})"
    # Backwards, because the data read last are still in the L2 cache.
    back = f"for (int p = {(pixels - 1) * every}; p >= 0; p -= {every})"
    source = f"""{rows.head}WHOLE_VECTORS __kernel void group_norm({parameters}) {{
  const size_t i = get_global_id(0);
  if (i >= {shape[0] * pieces}) return;
  const int first = min((int)(i % {pieces}) * {block}, {every - block});
  x += i / {pieces} * {every * pixels} + first; y += i / {pieces} * {every * pixels} + first;
  scale += first; bias += first;
  A part[{block}];
  {all_of("AV m# = (AV)0, q# = (AV)0;")}
  for (int k = 0; k < {pixels}; k += {_CHUNK_PIXELS}) {{
    const int end = min(k + {_CHUNK_PIXELS}, {pixels});
    const A n = end - k, share = n / end;
    {all_of("AV s# = (AV)0;")}
    {each} {{ {all_of("s# += LOADV(x + p + @);")} }}
    {all_of("s# /= n;")}
    {each} {{ {all_of("{ const AV d = LOADV(x + p + @) - s#; q# = fma(d, d, q#); }")} }}
    {all_of("{ const AV d = s# - m#; m# = fma(d, (AV)share, m#); q# = fma(d * d, (AV)(k * share), q#); }")}
  }}
  {all_of("AV g# = m#;") if count > 1 else ""}
  {by_group("g")}
  {all_of(f"q# = fma((m# - g#) * (m# - g#), (AV){pixels}, q#); m# = g#;") if count > 1 else ""}
  {by_group("q")}
  {all_of(f"q# = LOADV(scale + @) / sqrt(q# / {pixels} + {epsilon}); const AV b# = LOADV(bias + @);")}
  {back} {{ {all_of("{ AV v = (LOADV(x + p + @) - m#) * q# + b#; " + activate + " STOREV(y + p + @, v); }")} }}
}}
"""
    return OpenCLSource(source, "group_norm")


def _load_opencl(
    signature: Signature, *, groups: int, epsilon: float, last_: bool, activation: Activation
) -> OpenCLSource:
    shape, dtype = signature.shapes["x"], signature.dtypes["y"]
    kind = sum_dtype(dtype)
    parameters = ", ".join(
        ["__global T* restrict y", *(f"__global const T* restrict {name}" for name in ("x", "scale", "bias"))]
    )
    if not size(shape):
        return empty_kernel("group_norm", parameters.replace("T*", "uchar*"))
    every = channels(shape, last_)
    count, pixels = every // groups, size(spatial(shape, last_))
    last_ = last_ and pixels > 1
    start = f"const size_t i = get_global_id(0);\n  if (i >= {shape[0] * groups}) return;"
    root = f"1 / sqrt(squares / {count * pixels} + {literal(epsilon, kind)})"
    if last_:
        width, block = _block(signature, groups)
        activate = act.opencl(activation, "v", kind, "AV")
        if block:
            known = (width, block, count, literal(epsilon, kind), activate)
            return _load_channel_blocks(signature, parameters, *known)
        rows = RowCode(width, dtype)
        each = f"for (int p = 0; p < {pixels * every}; p += {every}) for (int c = 0; c < {count}; c += {width})"
        body = f"""{start}
  const size_t first = i % {groups} * {count}, image = i / {groups} * {every * pixels};
  x += image + first; y += image + first; scale += first; bias += first;
  AV s = (AV)0, q = (AV)0;
  {each} s += LOADV(x + p + c);
  const A mean = total(s) / {count * pixels};
  {each} {{ const AV d = LOADV(x + p + c) - mean; q = fma(d, d, q); }}
  const A squares = total(q), f = {root};
  {each} {{
    AV v = (LOADV(x + p + c) - mean) * f * LOADV(scale + c) + LOADV(bias + c);
    {activate} STOREV(y + p + c, v);
  }}"""
        return OpenCLSource(
            f"{rows.head}WHOLE_VECTORS __kernel void group_norm({parameters}) {{\n  {body}\n}}\n", "group_norm"
        )
    line = RowCode(count * pixels, dtype)
    if pixels > 1:
        # Vectors must stay within one channel: narrower ones if it has few pixels.
        part = RowCode(pixels, dtype)
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
        revision="3",
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
            norms_groups.group_norm(groups, epsilon, channels_last, activation),
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
    """Return y = activation((x - mean) / sqrt(variance + epsilon) * scale + bias), statistics per group."""
    if groups < 1:
        raise ArgumentError(f"there is at least one group, not {groups}", where="groups")
    return _group_norm(int(groups), float(epsilon), bool(channels_last), act.checked(activation))
