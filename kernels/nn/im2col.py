# SPDX-License-Identifier: Apache-2.0
"""`im2col`: what every window sees, side by side, so that a convolution becomes a product of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from syclsched.kernels.common import OPENCL_C, Ints
from syclsched.kernels.nn import windows_numba
from syclsched.kernels.nn.geometry import channels, last, size, spatial, strides_of
from syclsched.kernels.nn.norm import lines_launch
from syclsched.kernels.nn.rows_opencl import Rows
from syclsched.kernels.nn.source import BYTES, FLOATS, nothing
from syclsched.kernels.windows import Window, times
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, OpenCLSource, Operation, Parameter, Signature, Split, Work


def _check(signature: Signature, *, window: Window, kernel: Ints, last_: bool) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if len(x) != len(kernel) + 2:
        return f"x {x} has {len(kernel) + 2} axes"
    windows, seen = size(window.extents(spatial(x, last_), kernel)), channels(x, last_) * size(kernel)
    wanted = (x[0], windows, seen) if last_ else (x[0], seen, windows)
    return None if y == wanted else f"y of x {x} is {wanted}, not {y}"


def _work(signature: Signature) -> Work:
    dtype = signature.dtypes["y"]
    results = size(signature.shapes["y"])
    return Work(0.0, float((results + size(signature.shapes["x"])) * BYTES[dtype]), dtype, float(max(1, results)))


def _host(*, y: Any, x: Any, window: Window, kernel: Ints, last_: bool) -> None:
    source = last(x, last_)
    outputs = window.extents(source.shape[1:-1], kernel)
    count = source.shape[-1]
    padded = window.padded(source, kernel, outputs, 0)
    shape = (x.shape[0], *outputs, *kernel, count) if last_ else (x.shape[0], count, *kernel, *outputs)
    target = y.reshape(shape)
    for place, cut in window.places(kernel, outputs):
        seen = padded[(slice(None), *cut)]
        if last_:
            target[(slice(None),) * (1 + len(kernel)) + place] = seen
        else:
            target[(slice(None), slice(None), *place)] = seen.transpose(0, source.ndim - 1, *range(1, source.ndim - 1))


def _outputs(signature: Signature, window: Window, kernel: Ints, last_: bool) -> Ints:
    return window.extents(spatial(signature.shapes["x"], last_), kernel)


def _count(signature: Signature, *, window: Window, kernel: Ints, last_: bool) -> int:
    x, outputs = signature.shapes["x"], _outputs(signature, window, kernel, last_)
    if last_:
        return x[0] * size(outputs) * size(kernel)
    return x[0] * channels(x, last_) * size(kernel) * size(outputs[:-1])


def _load_opencl(signature: Signature, *, window: Window, kernel: Ints, last_: bool) -> OpenCLSource:
    x, dtype = signature.shapes["x"], signature.dtypes["y"]
    parameters = "__global T* restrict y, __global const T* restrict x"
    if not size(signature.shapes["y"]):
        return nothing("im2col", parameters.replace("T*", "uchar*"))
    count, sizes, outputs = channels(x, last_), spatial(x, last_), _outputs(signature, window, kernel, last_)
    xs, xc, xn = strides_of(sizes, count, last_)
    axes = [*range(len(kernel))]
    known = axes if last_ else axes[:-1]
    line = Rows(count if last_ else outputs[-1], dtype)
    items = _count(signature, window=window, kernel=kernel, last_=last_)
    copied, zero = ("STOREV(y + j, LOADV(x + j));", "STOREV(y + j, (AV)0);")

    def taken(names: list[str], extents: list[int]) -> list[str]:
        pairs = reversed([*zip(names, extents, strict=True)])
        return [f"const int {name} = rest % {extent}; rest /= {extent};" for name, extent in pairs]

    places, windows = [f"k{axis}" for axis in axes], [f"o{axis}" for axis in known]
    out = [f"const size_t i = get_global_id(0);\n  if (i >= {items}) return;"]
    out.append(f"size_t rest = i; y += i * {line.length};")
    if last_:
        out += taken(places, [*kernel]) + taken(windows, [*outputs])
    else:
        out += taken(windows, [*outputs[:-1]]) + taken(places, [*kernel]) + taken(["c"], [count])
    for axis in known:
        at = f"o{axis} * {window.strides[axis]} - {window.begins[axis]} + k{axis} * {window.dilations[axis]}"
        out.append(f"const int i{axis} = {at};")
    there = " && ".join(f"(uint)i{axis} < {sizes[axis]}u" for axis in known) or "1"
    where = " + ".join(["rest * " + str(xn), *(f"(size_t)i{axis} * {xs[axis]}" for axis in known)])
    if last_:
        out.append(f"if ({there}) {{ x += {where}; {line.along(copied)} }} else {{ {line.along(zero)} }}")
    else:
        at = f"j * {window.strides[-1]} + first"
        each = f"const int at = {at}; y[j] = (uint)at < {sizes[-1]}u ? x[at] : (T)0;"
        out.append(f"const int first = k{axes[-1]} * {window.dilations[-1]} - {window.begins[-1]};")
        out.append(f"x += {where} + (size_t)c * {xc};")
        out.append(f"if ({there}) for (int j = 0; j < {outputs[-1]}; ++j) {{ {each} }}")
        out.append(f"else {{ {line.along(zero)} }}")
    body = "\n  ".join(out)
    return OpenCLSource(f"{line.head}WHOLE_VECTORS __kernel void im2col({parameters}) {{\n  {body}\n}}\n", "im2col")


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


@cache
def _im2col(kernel: Ints, window: Window, channels_last: bool) -> Operation:
    names = ["im2col", times(kernel), window.label(), "last" if channels_last else ""]
    attributes = {"window": window, "kernel": kernel, "last_": channels_last}
    launch = partial(lines_launch, count=partial(_count, **attributes))
    opencl = Implementation(
        "opencl-c", "opencl-c", partial(_load_opencl, **attributes), launch, OPENCL_C, efficiency=0.4
    )
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=(
            Parameter("y", AccessMode.WRITE, ndim=3, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, ndim=len(kernel) + 2, like="y"),
        ),
        implementations=(
            opencl,
            windows_numba.im2col(**attributes),
            Implementation("numpy", "host", partial(_load_host, **attributes), efficiency=0.2),
        ),
        work=_work,
        check=partial(_check, **attributes),
        split=Split(rows=("y", "x")),
    )


def im2col(
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    channels_last: bool = False,
) -> Operation:
    """Return the operation that writes what each window sees.

    Parameters
    ----------
    kernel : sequence of int
        Extents of the window.
    strides, pads, dilations : sequence of int, optional
        As of `syclsched.kernels.nn.conv`.
    channels_last : bool, optional
        Whether x is (N, *spatial, C): y is then (N, windows, places * C). Else x is (N, C, *spatial), and y
        (N, C * places, windows). ``matmul`` with weights of the same order makes a convolution of it.

    Returns
    -------
    Operation
        With parameters y (written) and x.

    Raises
    ------
    ArgumentError
        If the attributes do not go together.
    """
    sizes = tuple(map(int, kernel))
    return _im2col(sizes, Window.of(len(sizes), strides, pads, dilations), bool(channels_last))
