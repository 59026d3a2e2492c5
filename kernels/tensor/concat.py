# SPDX-License-Identifier: Apache-2.0
"""`concat`: arrays one after another along an axis."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.onednn import movement
from syclsched.kernels.tensor.lines import Walk, walk_launch, write_walk
from syclsched.kernels.tensor.making import axis_error, expect, make, moving_work, read, written
from syclsched.kernels.tensor.source import kernels
from syclsched.kernels.tensor.writer import Writer
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature, Split


@cache
def concat(axis: int, count: int) -> Operation:
    """Return the operation that writes ``count`` arrays one after another along an axis to ``y``.

    Parameters
    ----------
    axis : int
        Counted from the front.
    count : int
        How many, at least 1: the parameters ``x0``, ``x1``, ...

    Returns
    -------
    Operation

    Raises
    ------
    ArgumentError
        If there are none.
    """
    if count < 1:
        raise ArgumentError("there is nothing to put together", where="concat")
    names = tuple(f"x{i}" for i in range(count))
    parameters = (written(), *(read(name, like="y") for name in names))
    return make(
        f"concat {count} axis {axis}",
        parameters,
        partial(_host, axis=axis, names=names),
        partial(_check, axis=axis, names=names),
        work=moving_work,
        split=Split(("y", *names)) if axis else None,
        kernels=(
            movement.concat(axis=axis, count=count),
            *kernels(parameters, partial(_write, axis=axis, names=names), partial(_launch, axis=axis, names=names)),
        ),
    )


def _check(signature: Signature, *, axis: int, names: tuple[str, ...]) -> str | None:
    shapes = [signature.shapes[name] for name in names]
    first = shapes[0]
    wrong = axis_error(axis, len(first))
    if wrong is not None:
        return wrong
    if len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) > 1 or len({len(s) for s in shapes}) > 1:
        return f"{shapes} differ but along axis {axis}"
    return expect(
        signature, (*first[:axis], sum(s[axis] for s in shapes), *first[axis + 1 :]), f"{shapes} along {axis}"
    )


def _host(*, axis: int, names: tuple[str, ...], y: Any, **parts: Any) -> None:
    import numpy as np

    np.concatenate([parts[name] for name in names], axis=axis, out=y)


def _widths(signature: Signature, axis: int, names: tuple[str, ...]) -> list[int]:
    """Return how many neighbours of each array lie between one element along the axes before and the next."""
    return [math.prod(signature.shapes[name][axis:]) for name in names]


def _walk(signature: Signature, axis: int, names: tuple[str, ...]) -> Walk:
    """Return the way through the widest array's lines; beside it run the line's number and the place in it."""
    rows = math.prod(signature.shapes["y"][:axis])
    return Walk((rows, max(_widths(signature, axis, names))), ((1, 0), (0, 1)))


def _write(w: Writer, *, axis: int, names: tuple[str, ...]) -> None:
    widths = _widths(w.signature, axis, names)

    def body(_: str, others: list[str]) -> None:
        row, j = others
        start = 0
        for name, width in zip(names, widths, strict=True):
            source, target = w.index(f"{row} * {width}"), w.index(f"{row} * {sum(widths)} + {start}")
            with w.when(f"{j} < {width}") if width < max(widths) else nullcontext():
                w.store("y", f"{target} + {j}", w.load(name, f"{source} + {j}"))
            start += width

    write_walk(w, _walk(w.signature, axis, names), body)


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int, names: tuple[str, ...]) -> Launch:
    return walk_launch(_walk(signature, axis, names), limits)
