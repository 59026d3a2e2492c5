# SPDX-License-Identifier: Apache-2.0
"""`batch_norm`: normalisation of every channel by a known mean and variance, for inference."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.common import OPENCL_C
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import channels, last, size
from syclsched.kernels.nn.line_operations import lines_launch, number, work
from syclsched.kernels.nn.normalisation import norms_numba
from syclsched.kernels.nn.opencl_types import FLOATS, empty_kernel, literal, sum_dtype
from syclsched.kernels.nn.rows_opencl import RowCode
from syclsched.kernels.onednn.operations import normalization as onednn
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, OpenCLSource, Operation, Parameter, Signature, Split

NAMES = ("scale", "bias", "mean", "variance")
#: Pixels per work-item, channels last; its channels' factors are computed once.
PIXELS = 16


def _check(signature: Signature, *, last_: bool) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if len(x) < 2:
        return f"x has a batch and channels, not {x}"
    if y != x:
        return f"batch_norm keeps the shape: y {y} against x {x}"
    for name in NAMES:
        if signature.shapes[name] != (channels(x, last_),):
            return f"{name} has one element for each channel of x {x}, not {signature.shapes[name]}"
    return None


def _host(
    *,
    y: Any,
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    epsilon: float,
    last_: bool,
    activation: Activation,
) -> None:
    import numpy as np

    dtype = np.dtype(sum_dtype(str(y.dtype)))
    source = last(x, last_).astype(dtype, copy=False)
    # A negative variance gives NaN without a warning.
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = scale.astype(dtype, copy=False) / np.sqrt(variance.astype(dtype, copy=False) + dtype.type(epsilon))
    last(y, last_)[...] = act.numpy(activation, (source - mean.astype(dtype, copy=False)) * factor + bias)


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


def _arrangement(signature: Signature, last_: bool) -> tuple[int, int, int]:
    """Return x's number of elements before the channels, of channels, and after them."""
    x = signature.shapes["x"]
    count = channels(x, last_)
    pixels = size(x) // max(1, count)
    return (pixels, count, 1) if last_ or x[0] == pixels else (x[0], count, pixels // max(1, x[0]))


def _count(signature: Signature, *, last_: bool) -> int:
    before, count, behind = _arrangement(signature, last_)
    if behind > 1:
        return before * count
    return panels.block_count(before, PIXELS) * panels.block_count(
        count, RowCode(max(1, count), signature.dtypes["y"]).block.width
    )


def _load_opencl(signature: Signature, *, epsilon: float, last_: bool, activation: Activation) -> OpenCLSource:
    dtype = signature.dtypes["y"]
    parameters = ", ".join(
        ["__global T* restrict y", *(f"__global const T* restrict {name}" for name in ("x", *NAMES))]
    )
    before, count, behind = _arrangement(signature, last_)
    if not before * count * behind:
        return empty_kernel("batch_norm", parameters.replace("T*", "uchar*"))
    line = RowCode(behind if behind > 1 else count, dtype)
    width, items = line.block.width, _count(signature, last_=last_)
    start = f"const size_t i = get_global_id(0);\n  if (i >= {items}) return;"
    small = literal(epsilon, sum_dtype(dtype))
    finish = f"{act.opencl(activation, 'v', sum_dtype(dtype), 'AV')} STOREV(y + j, v);"
    if behind > 1:
        body = f"""const int c = i % {count};
  x += i * {behind}; y += i * {behind};
  const A mu = mean[c], f = scale[c] / sqrt(variance[c] + {small}), h = bias[c];
  {line.along(f"AV v = (LOADV(x + j) - mu) * f + h; {finish}")}"""
    else:
        pieces = panels.block_count(count, width)
        body = f"""const int c = min((int)(i % {pieces}) * {width}, {count - width});
  const size_t first = i / {pieces} * {PIXELS}, end = min(first + {PIXELS}, (size_t){before});
  const AV mu = LOADV(mean + c), f = LOADV(scale + c) / sqrt(LOADV(variance + c) + {small}), h = LOADV(bias + c);
  for (size_t p = first; p < end; ++p) {{
    const size_t j = p * {count} + c;
    AV v = (LOADV(x + j) - mu) * f + h; {finish}
  }}"""
    source = f"{line.head}WHOLE_VECTORS __kernel void batch_norm({parameters}) {{\n  {start}\n  {body}\n}}\n"
    return OpenCLSource(source, "batch_norm")


@cache
def _batch_norm(epsilon: float, channels_last: bool, activation: Activation) -> Operation:
    attributes = {"epsilon": epsilon, "last_": channels_last, "activation": activation}
    launch = partial(lines_launch, count=partial(_count, last_=channels_last))
    opencl = Implementation(
        "opencl-c", "opencl-c", partial(_load_opencl, **attributes), launch, OPENCL_C, efficiency=0.6
    )
    names = ["batch_norm", number(epsilon), "last" if channels_last else "", act.label(activation)]
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, like="y"),
            *(Parameter(name, AccessMode.READ, ndim=1, like="y") for name in NAMES),
        ),
        implementations=(
            onednn.batch_norm(epsilon=epsilon, channels_last=channels_last, activation=activation),
            opencl,
            norms_numba.batch_norm(**attributes),
            Implementation("numpy", "host", partial(_load_host, **attributes), efficiency=0.2),
        ),
        work=partial(work, flops=3.0 + act.cost(activation)),
        check=partial(_check, last_=channels_last),
        split=Split(rows=("y", "x")),
    )


def batch_norm(epsilon: float = 1e-5, channels_last: bool = False, activation: Activation = ()) -> Operation:
    """Return y = activation((x - mean) / sqrt(variance + epsilon) * scale + bias), for every channel."""
    return _batch_norm(float(epsilon), bool(channels_last), act.checked(activation))
