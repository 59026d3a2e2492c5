# SPDX-License-Identifier: Apache-2.0
"""`concat`: arrays one after another along an axis."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.onednn import movement
from syclsched.kernels.tensor.lines import Walk, walk_launch, write_walk
from syclsched.kernels.tensor.making import axis_error, expect, make, moving_work, read, written
from syclsched.kernels.tensor.source import kernels
from syclsched.kernels.tensor.writer import Writer
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature


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
        kernels=(
            movement.concat(axis=axis, count=count),
            *kernels(parameters, partial(_write, axis=axis, names=names), partial(_launch, axis=axis)),
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


def _walk(signature: Signature, axis: int) -> Walk:
    """Return the way through the result, in lines of what lies between one element of all arrays and the next.

    Beside it run the line's number and the place in it.
    """
    shape = signature.shapes["y"]
    return Walk((math.prod(shape[:axis]), math.prod(shape[axis:])), ((1, 0), (0, 1)))


def _write(w: Writer, *, axis: int, names: tuple[str, ...]) -> None:
    def body(at: str, others: list[str]) -> None:
        row, j = others
        start = 0
        for name in names:
            width = math.prod(w.signature.shapes[name][axis:])
            if width:
                with w.when(w.both(f"({j} >= {start})", f"({j} < {start + width})")):
                    w.store("y", at, w.load(name, f"{row} * {width} + {j} - {start}"))
            start += width

    write_walk(w, _walk(w.signature, axis), body)


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int) -> Launch:
    return walk_launch(_walk(signature, axis), limits)
