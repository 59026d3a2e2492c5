# SPDX-License-Identifier: Apache-2.0
"""`arg`: where along an axis the largest or smallest element is."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.tensor.blocks import block_launch, block_vectors, write_blocks
from syclsched.kernels.tensor.lines import walk_launch, write_walk
from syclsched.kernels.tensor.making import array_bytes, axis_error, elements, expect, make, read, written
from syclsched.kernels.tensor.reduce import reduced_shape
from syclsched.kernels.tensor.reduction_kernels import reduction_plan
from syclsched.kernels.tensor.source import kernels
from syclsched.kernels.tensor.writer import LANES, STEP_VECTORS, Writer, working
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
            partial(_launch, axis=axis, most=STEP_VECTORS["opencl-c"]),
            numba_launch=partial(_launch, axis=axis, most=STEP_VECTORS["numba-dpex"]),
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

    def better_of(x: str, best: str) -> str:
        better = f"({x} {'>' if mode == 'max' else '<'}{'=' if last else ''} {best})"
        if not t.startswith("float"):
            return better
        # A NaN is better than all others; of several, the first or last counts.
        isnan = f"({x} != {x})"
        return w.either(better, isnan if last else w.both(isnan, f"({best} == {best})"))

    vectors = _block_vectors(w.signature, axis, w.step_vectors)
    if vectors:
        write_blocks(w, plan.kept, vectors, partial(_write_block, w, t, (extent, stride), vectors, better_of))
        return

    def body(at: str, others: list[str]) -> None:
        best = w.variable(t, w.load("x", others[0]))
        place = w.variable(None, "0")
        with w.loop("1", str(extent)) as k:
            x = w.value(t, w.load("x", f"{others[0]} + {k} * {stride}"))
            with w.when(better_of(x, best)):
                w.assign(best, t, x)
                w.assign(place, None, k)
        w.store("y", at, place)

    write_walk(w, plan.kept, body)


#: Dtypes whose comparisons are as wide as places in a row are kept, and those.
_PLACES = {
    "float32": "int32",
    "int32": "int32",
    "uint32": "int32",
    "float64": "int64",
    "int64": "int64",
    "uint64": "int64",
}


def _block_vectors(signature: Signature, axis: int, most: int) -> int:
    plan = reduction_plan(signature.shapes["x"], (axis,))
    if signature.dtypes["x"] not in _PLACES or plan.by_rows or not LANES <= plan.reduced[0][0] < 1 << 31:
        return 0
    return block_vectors(plan.kept, most)


def _write_block(w: Writer, t: str, along: tuple[int, int], vectors: int, better_of: Any, at: str, first: str) -> None:
    extent, stride = along
    kind = _PLACES[t]
    best = w.wide(t, w.constant(0, t), vectors)
    places = w.wide(kind, w.constant(0, kind), vectors)
    w.over_wide(vectors, lambda pick, lane: w.assign(pick(best), t, w.load_wide("x", f"{first} + {lane}")))
    with w.loop("1", str(extent)) as k:

        def compare(pick: Any, lane: str) -> None:
            x = w.value(t, w.load_wide("x", f"{first} + {k} * {stride} + {lane}"))
            here = w.value(kind, w.cast(kind, k, "int64"))
            better = better_of(x, pick(best))
            w.assign(pick(places), kind, w.select(better, here, pick(places)))
            w.assign(pick(best), t, w.select(better, x, pick(best)))

        w.over_wide(vectors, compare)
    w.over_wide(vectors, lambda pick, lane: w.store_wide("y", f"{at} + {lane}", pick(places), kind))


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int, most: int) -> Launch:
    kept = reduction_plan(signature.shapes["x"], (axis,)).kept
    vectors = _block_vectors(signature, axis, most)
    return block_launch(kept, vectors, limits) if vectors else walk_launch(kept, limits)
