# SPDX-License-Identifier: Apache-2.0
"""`pool`: the largest element or the mean of every window that slides over the spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.nn.geometry import Ints, Window, channels, last, size, spatial, times
from syclsched.kernels.nn.source import BYTES, FLOATS, sums
from syclsched.kernels.onednn import pool as onednn
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Operation, Parameter, Signature, Split, Work

#: The largest of whole numbers can be asked for, too.
MAX_DTYPES = (*FLOATS, "int8", "uint8", "int32", "int64")


def _check(signature: Signature, *, window: Window, kernel: Ints, last_: bool) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if not len(x) == len(y) == len(kernel) + 2:
        return f"y {y} and x {x} have {len(kernel) + 2} axes each"
    sizes = spatial(x, last_)
    least, most = (window.extents(sizes, kernel, ceil=ceil) for ceil in (False, True))
    got = spatial(y, last_)
    if y[0] != x[0] or channels(y, last_) != channels(x, last_):
        return f"y {y} has another batch or other channels than x {x}"
    if not all(a <= b <= c for a, b, c in zip(least, got, most, strict=True)):
        return f"there are {least} windows in {sizes}, or {most} rounded up, not {got}"
    return None


def _work(signature: Signature, *, kernel: Ints) -> Work:
    y, x, dtype = signature.shapes["y"], signature.shapes["x"], signature.dtypes["y"]
    flops = float(size(y)) * size(kernel)
    return Work(flops, float((size(y) + size(x)) * BYTES[dtype]), dtype, float(max(1, size(y))))


def counts(window: Window, kernel: Ints, sizes: Ints, outputs: Ints, *, pads: bool) -> list[list[int]]:
    """Return, for each axis and each window along it, how many places are within the array (or within its pads)."""
    found = []
    for axis, (n, span, s, d) in enumerate(zip(sizes, kernel, window.strides, window.dilations, strict=True)):
        begin, end = window.begins[axis], window.ends[axis]
        low, high = (-begin, n + end) if pads else (0, n)
        found.append([sum(low <= o * s - begin + k * d < high for k in range(span)) for o in range(outputs[axis])])
    return found


def _host(*, y: Any, x: Any, mode: str, window: Window, kernel: Ints, last_: bool, count_include_pad: bool) -> None:
    import numpy as np

    target, source = last(y, last_), last(x, last_)
    outputs = target.shape[1:-1]
    if mode == "max":
        lowest = -np.inf if y.dtype.kind == "f" else np.iinfo(y.dtype).min
        padded = window.padded(source, kernel, outputs, lowest)
        target[...] = lowest
        for _, cut in window.places(kernel, outputs):
            np.maximum(target, padded[(slice(None), *cut)], out=target)
        return
    padded = window.padded(source, kernel, outputs, 0)
    total = np.zeros(target.shape, sums(str(y.dtype)))
    for _, cut in window.places(kernel, outputs):
        total += padded[(slice(None), *cut)]
    for axis, line in enumerate(counts(window, kernel, source.shape[1:-1], outputs, pads=count_include_pad)):
        shape = [1] * total.ndim
        shape[axis + 1] = -1
        total /= np.asarray(line, total.dtype).reshape(shape)
    target[...] = total


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


@cache
def _pool(mode: str, kernel: Ints, window: Window, count_include_pad: bool, channels_last: bool) -> Operation:
    names = [
        f"{mode}_pool",
        times(kernel),
        window.label(),
        "pads" if count_include_pad else "",
        "last" if channels_last else "",
    ]
    ndim = len(kernel) + 2
    attributes = {"window": window, "kernel": kernel, "last_": channels_last}
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=(
            Parameter("y", AccessMode.WRITE, ndim=ndim, dtypes=MAX_DTYPES if mode == "max" else FLOATS),
            Parameter("x", AccessMode.READ, ndim=ndim, like="y"),
        ),
        implementations=(
            onednn.pool(
                mode=mode,
                kernel=kernel,
                strides=window.strides,
                pads=window.pads,
                dilations=window.dilations,
                count_include_pad=count_include_pad,
                channels_last=channels_last,
            ),
            Implementation(
                "numpy",
                "host",
                partial(_load_host, mode=mode, count_include_pad=count_include_pad, **attributes),
                efficiency=0.1,
            ),
        ),
        work=partial(_work, kernel=kernel),
        check=partial(_check, **attributes),
        split=Split(rows=("y", "x")),
    )


def pool(
    mode: str,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    count_include_pad: bool = False,
    channels_last: bool = False,
) -> Operation:
    """Return the operation that takes the largest element or the mean of windows.

    How many windows there are follows from y: as many as fit, or one more where the last one does not fit wholly.

    Parameters
    ----------
    mode : str
        ``max`` or ``average``.
    kernel : sequence of int
        Extents of the window, which has as many axes as x has spatial ones.
    strides, dilations : sequence of int, optional
        For each spatial axis; 1 if not given.
    pads : sequence of int, optional
        For the beginnings of all axes, then for their ends. They are never the largest, and count as zeros in a mean
        only if asked for.
    count_include_pad : bool, optional
        Whether pads count. What the last windows reach beyond the pads never does.
    channels_last : bool, optional
        Whether x and y are (N, *spatial, C), not (N, C, *spatial).

    Returns
    -------
    Operation
        With parameters y (written) and x.

    Raises
    ------
    ArgumentError
        If the mode is another, or the attributes do not go together.
    """
    if mode not in ("max", "average"):
        raise ArgumentError(f"mode is max or average, not {mode!r}", where="mode")
    sizes = tuple(map(int, kernel))
    window = Window.of(len(sizes), strides, pads, dilations)
    return _pool(mode, sizes, window, bool(count_include_pad) and mode == "average", bool(channels_last))
