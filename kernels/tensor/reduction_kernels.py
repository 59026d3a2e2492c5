# SPDX-License-Identifier: Apache-2.0
"""How reductions are done on devices: rows of neighbours, or columns side by side.

Where elements that go into one result are neighbours in memory, a work-item takes a row, with a vector of partial
results. Else neighbouring work-items take neighbouring results, and walk through the reduced axes in step.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from syclsched.kernels.tensor.lines import Walk, walk, walk_launch, write_walk
from syclsched.kernels.tensor.writer import LANES, Writer, working
from syclsched.model.operation import DeviceLimits, Launch, Shape, Signature


@dataclass(frozen=True, slots=True)
class Plan:
    """The axes of an array to be reduced, as few as possible.

    Parameters
    ----------
    kept : Walk
        Through the result; beside it runs the first element that goes into it.
    reduced : tuple of (int, int)
        Extent and stride of each axis that goes.
    """

    kept: Walk
    reduced: tuple[tuple[int, int], ...]

    @property
    def by_rows(self) -> bool:
        """Whether what goes into one result are neighbours in memory."""
        return len(self.reduced) == 1 and self.reduced[0][1] == 1


def reduction_plan(shape: Shape, axes: tuple[int, ...]) -> Plan:
    """Return how an array of a shape is reduced along axes."""
    reduced: list[tuple[int, int]] = []
    kept: list[tuple[int, int]] = []
    stride = 1
    for axis in range(len(shape) - 1, -1, -1):
        extent = shape[axis]
        if axis not in axes:
            kept.insert(0, (extent, stride))
        elif extent != 1:
            # Neighbouring axes that both go are one.
            if reduced and reduced[0][0] * reduced[0][1] == stride:
                reduced[0] = (reduced[0][0] * extent, reduced[0][1])
            else:
                reduced.insert(0, (extent, stride))
        stride *= extent
    way = walk(tuple(extent for extent, _ in kept), [tuple(step for _, step in kept)])
    return Plan(way, tuple(reduced) or ((1, 1),))


def write_reduction(w: Writer, *, mode: str, axes: tuple[int, ...]) -> None:
    """Write the kernel of a reduction of ``x`` to ``y``."""
    plan = reduction_plan(w.signature.shapes["x"], axes)
    dtype = w.signature.dtypes["x"]
    # As bytes: the larger of two is "or".
    t = "uint8" if dtype == "bool" else working(dtype)
    count = math.prod(extent for extent, _ in plan.reduced)
    if plan.by_rows:
        row = w.index(w.item)
        with w.when(f"{row} < {plan.kept.elements}"):
            base = w.index(f"{row} * {count}")
            _finish(w, row, mode, t, count, _Rows(w, t, base, count))
    else:
        columns = lambda at, others: _finish(w, at, mode, t, count, _Columns(w, t, others[0], plan.reduced))  # noqa: E731
        write_walk(w, plan.kept, columns)


def reduction_launch(signature: Signature, limits: DeviceLimits, *, axes: tuple[int, ...], group: int | None) -> Launch:
    """Return the index space of `write_reduction`; of rows, in groups of a given size if one is given."""
    plan = reduction_plan(signature.shapes["x"], axes)
    if not plan.by_rows:
        return walk_launch(plan.kept, limits)
    rows = plan.kept.elements
    if group is None:
        group = min(LANES, limits.max_work_group_size)
    return Launch((-(-rows // group) * group,), (group,))


def write_parts(w: Writer, *, mode: str) -> None:
    """Write the kernel that reduces as many parts of ``x`` as ``y`` has elements; the last takes what is left over."""
    t = working(w.signature.dtypes["x"])
    size, parts = math.prod(w.signature.shapes["x"]), w.signature.shapes["y"][0]
    each = size // parts
    start, combine = _SIMPLE[mode](w, t)
    part = w.index(w.item)
    with w.when(f"{part} < {parts}"):
        total = _Rows(w, t, w.index(f"{part} * {each}"), each).over(start, lambda x: x, combine)
        with w.when(f"{part} == {parts - 1}"), w.loop(str(each * parts), str(size)) as k:
            w.assign(total, t, combine(total, w.value(t, w.load("x", k))))
        w.store("y", part, total)


def _extremes(symbol: str, mode: str) -> Any:
    def of(w: Writer, t: str) -> tuple[Any, Any]:
        def combine(a: str, b: str) -> str:
            better = f"({a} {symbol} {b})"
            larger = w.select(better, a, b)
            # Two selections: of vectors, "or" is no cheap way to choose once.
            return w.select(f"({a} != {a})", a, larger) if t.startswith("float") else larger

        return start_of(mode, t), combine

    return of


#: What a reduction begins with, and how two partial results become one.
_SIMPLE: dict[str, Any] = {
    "sum": lambda w, t: (0, lambda a, b: f"({a} + {b})"),
    "prod": lambda w, t: (1, lambda a, b: f"({a} * {b})"),
    "max": _extremes(">=", "max"),
    "min": _extremes("<=", "min"),
}


class _Rows:
    """Goes through a row with vectors of partial results."""

    def __init__(self, w: Writer, t: str, base: str, count: int) -> None:
        self._w, self._t, self._base, self._count = w, t, base, count

    def over(self, start: Any, element: Any, combine: Any) -> str:
        """Write a reduction of the row and return the name of its result."""
        w, t, count = self._w, self._t, self._count
        total = w.variable(t, w.constant(start, t))
        chains = [w.wide(t, w.constant(start, t)) for _ in range(w.chains if count >= 2 * w.chains * LANES else 1)]
        step, at = len(chains) * LANES, 0
        if count >= LANES:
            whole = count // step * step
            with w.loop("0", str(whole), str(step)) as k:
                for number, chain in enumerate(chains):
                    place = f"{self._base} + {k} + {number * LANES}"
                    w.update_wide(chain, t, "x", place, lambda acc, x: combine(acc, element(x)))
            at = whole
            while count - at >= LANES:
                w.update_wide(chains[0], t, "x", f"{self._base} + {at}", lambda acc, x: combine(acc, element(x)))
                at += LANES
            for chain in chains:
                for lane in w.lanes(chain):
                    w.assign(total, t, combine(total, lane))
        if at < count:
            with w.loop(str(at), str(count)) as k:
                x = w.value(t, w.load("x", f"{self._base} + {k}"))
                w.assign(total, t, combine(total, element(x)))
        return total


class _Columns:
    """Goes through all reduced axes, one element after another."""

    def __init__(self, w: Writer, t: str, first: str, reduced: tuple[tuple[int, int], ...]) -> None:
        self._w, self._t, self._first, self._reduced = w, t, first, reduced

    def over(self, start: Any, element: Any, combine: Any) -> str:
        """Write a reduction and return the name of its result."""
        w, t = self._w, self._t
        total = w.variable(t, w.constant(start, t))
        with ExitStack() as loops:
            terms = [self._first]
            for extent, stride in self._reduced:
                terms.append(f"{loops.enter_context(w.loop('0', str(extent)))} * {stride}")
            x = w.value(t, w.load("x", " + ".join(terms)))
            w.assign(total, t, combine(total, element(x)))
        return total


def _finish(w: Writer, at: str, mode: str, t: str, count: int, way: Any) -> None:
    def same(x: str) -> str:
        return x

    start, plus = _SIMPLE["sum"](w, t)
    if mode in ("max", "min", "prod"):
        start, combine = _SIMPLE[mode](w, t)
        if w.signature.dtypes["x"] == "bool":
            start = int(start_of(mode, "bool"))
        result = way.over(start, same, combine)
    elif mode in ("l2", "sumsquare"):
        result = way.over(start, lambda x: f"{x} * {x}", plus)
    elif mode == "l1":
        magnitude = lambda x: w.call("fabs", x) if t.startswith("float") else _absolute(w, t, x)  # noqa: E731
        result = way.over(start, magnitude, plus)
    elif mode == "logsumexp":
        lowest, larger = _SIMPLE["max"](w, t)
        largest = way.over(lowest, same, larger)
        # Of nothing but minus infinity, and beside infinity, nothing is taken away.
        finite = w.value("bool", f"({largest} - {largest} == {w.constant(0, t)})")
        offset = w.value(t, w.select(finite, largest, w.constant(0, t)))
        total = way.over(start, lambda x: w.call("exp", f"{x} - {offset}"), plus)
        result = w.value(t, f"{w.call('log', total)} + {offset}")
    else:
        result = way.over(start, same, plus)
    if mode == "mean":
        number = w.constant(max(count, 1) if not t.startswith("float") else count, t)
        result = w.value(t, f"{result} / {number}" if t.startswith("float") else w.truncated(result, number, t))
    elif mode in ("l2", "logsum"):
        result = w.value(t, w.call("sqrt" if mode == "l2" else "log", result))
    w.store("y", at, result)


def _absolute(w: Writer, t: str, x: str) -> str:
    return x if t.startswith("u") else w.select(f"({x} < 0)", f"-{x}", x)


def start_of(mode: str, dtype: Any) -> Any:
    """Return what a maximum or minimum begins with: the least or greatest number of a dtype."""
    import numpy as np

    kind = np.dtype(dtype)
    if kind.kind == "b":
        return mode == "min"
    if kind.kind == "f":
        return -np.inf if mode == "max" else np.inf
    return np.iinfo(kind).min if mode == "max" else np.iinfo(kind).max
