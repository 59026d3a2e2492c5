# SPDX-License-Identifier: Apache-2.0
"""`arg`: where along an axis the largest or smallest element is."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.tensor.lines import walk_launch, write_walk
from syclsched.kernels.tensor.making import array_bytes, axis_error, elements, expect, make, read, written
from syclsched.kernels.tensor.reduce import reduced_shape
from syclsched.kernels.tensor.reduction_kernels import reduction_plan
from syclsched.kernels.tensor.source import kernels
from syclsched.kernels.tensor.writer import Writer, working
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature, Split, Work


@cache
def arg(mode: str, axis: int, keepdims: bool = False, last: bool = False) -> Operation:
    """Return the operation that writes where the largest or smallest elements of ``x`` are to ``y``, int64.

    Parameters
    ----------
    mode : str
        "max" or "min".
    axis : int
        Counted from the front; its extent is at least 1.
    keepdims : bool, optional
        Whether the axis stays, with extent 1.
    last : bool, optional
        Whether the last of equal elements counts, not the first.

    Returns
    -------
    Operation
        NaN counts as larger than everything, and as smaller: the first or last NaN is found.

    Raises
    ------
    ArgumentError
        If there is no such mode.
    """
    if mode not in ("max", "min"):
        raise ArgumentError(f"there is no mode {mode!r}", where="arg", hint="max or min")
    parameters = (written(dtypes=("int64",)), read())
    return make(
        f"arg{mode} axis {axis}{' keepdims' if keepdims else ''}{' last' if last else ''}",
        parameters,
        partial(_host, mode=mode, axis=axis, last=last),
        partial(_check, axis=axis, keepdims=keepdims),
        work=_work,
        split=Split(("y", "x")) if axis else None,
        kernels=kernels(
            parameters,
            partial(_write, mode=mode, axis=axis, last=last),
            partial(_launch, axis=axis),
        ),
    )


def _check(signature: Signature, *, axis: int, keepdims: bool) -> str | None:
    x = signature.shapes["x"]
    wrong = axis_error(axis, len(x))
    if wrong is None and x[axis] == 0:
        return f"axis {axis} of {x} has no elements"
    return wrong or expect(signature, reduced_shape(x, (axis,), keepdims), f"axis {axis} of {x}")


def _work(signature: Signature) -> Work:
    moved = array_bytes(signature, "x") + array_bytes(signature, "y")
    return Work(float(elements(signature, "x")), float(moved), signature.dtypes["x"], float(elements(signature, "x")))


def _host(*, mode: str, axis: int, last: bool, y: Any, x: Any) -> None:
    import numpy as np

    if not y.size:
        return
    find = np.argmax if mode == "max" else np.argmin
    found = find(np.flip(x, axis), axis=axis) if last else find(x, axis=axis)
    y[...] = (x.shape[axis] - 1 - found if last else found).reshape(y.shape)


def _write(w: Writer, *, mode: str, axis: int, last: bool) -> None:
    plan = reduction_plan(w.signature.shapes["x"], (axis,))
    extent, stride = plan.reduced[0]
    t = working(w.signature.dtypes["x"])
    symbol = (">" if mode == "max" else "<") + ("=" if last else "")

    def body(at: str, others: list[str]) -> None:
        best = w.variable(t, w.load("x", others[0]))
        place = w.variable(None, "0")
        with w.loop("1", str(extent)) as k:
            x = w.value(t, w.load("x", f"{others[0]} + {k} * {stride}"))
            better = f"({x} {symbol} {best})"
            if t.startswith("float"):
                # A NaN is better than all others; of several, the first or last counts.
                isnan = f"({x} != {x})"
                better = w.either(better, isnan if last else w.both(isnan, f"({best} == {best})"))
            with w.when(better):
                w.assign(best, t, x)
                w.assign(place, None, k)
        w.store("y", at, place)

    write_walk(w, plan.kept, body)


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int) -> Launch:
    return walk_launch(reduction_plan(signature.shapes["x"], (axis,)).kept, limits)
