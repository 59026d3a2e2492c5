# SPDX-License-Identifier: Apache-2.0
"""`im2col`: what every window sees, side by side, so that a convolution becomes a product of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from syclsched.kernels.nn.geometry import Ints, Window, channels, last, size, spatial, times
from syclsched.kernels.nn.source import BYTES, FLOATS
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Operation, Parameter, Signature, Split, Work


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


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


@cache
def _im2col(kernel: Ints, window: Window, channels_last: bool) -> Operation:
    names = ["im2col", times(kernel), window.label(), "last" if channels_last else ""]
    attributes = {"window": window, "kernel": kernel, "last_": channels_last}
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=(
            Parameter("y", AccessMode.WRITE, ndim=3, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, ndim=len(kernel) + 2, like="y"),
        ),
        implementations=(Implementation("numpy", "host", partial(_load_host, **attributes), efficiency=0.2),),
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
