# SPDX-License-Identifier: Apache-2.0
"""`scan_in_parts`: prefix sums along few long lines, by all compute units, in three steps.

Each part of a line is summed, the sums become what goes before each part, and from there each part is summed up.
Between the steps, a part's number is kept where its first result will be, so that no other memory is needed.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any, NamedTuple

from syclsched.kernels.common import ceil_div
from syclsched.kernels.tensor.lines import take_apart
from syclsched.kernels.tensor.making import array_bytes, axis_error, elements, expect, make, read, written
from syclsched.kernels.tensor.reduction_kernels import sum_of_line
from syclsched.kernels.tensor.source import kernels
from syclsched.kernels.tensor.writer import Writer
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Launch, Operation, Parameter, Shape, Signature, Step, Work
from syclsched.model.sequence import sequence_operation

#: Those whose sums need no other dtype than their own.
_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
#: Parts of a line, at most, and elements of a part, at least.
_PARTS, _SHORTEST = 256, 1024
#: As many lines keep all compute units busy by themselves.
_LINES = 64
#: Elements that are added among themselves before their sum is added to what goes before.
_AHEAD = 8


@cache
def scan_in_parts(axis: int, exclusive: bool = False, reverse: bool = False) -> Operation:
    """Return the operation that does what `scan_sum` does, where lines are few and long."""
    how = f"axis {axis}{' exclusive' if exclusive else ''}{' reverse' if reverse else ''}"
    y = Parameter("y", AccessMode.UPDATE, dtypes=_DTYPES)
    x = read(like="y", dtypes=_DTYPES)
    made = [
        _step(f"sums of parts {how}", (written(dtypes=_DTYPES), x), _write_sums, _host_sums, axis, exclusive, reverse),
        _step(f"sums before parts {how}", (y,), _write_offsets, _host_offsets, axis, exclusive, reverse),
        _step(f"scan of parts {how}", (y, x), _write_scan, _host_scan, axis, exclusive, reverse),
    ]
    steps = [Step(each, tuple((p.name, p.name) for p in each.arrays)) for each in made]
    return sequence_operation(steps, [(name,) * 3 for name in ("opencl-c", "numba-dpex", "numpy")])


def parts_are_worth_it(shape: Shape, axis: int, dtype: str) -> bool:
    """Say whether lines along an axis are so few and long that `scan_in_parts` is faster than `scan_sum`."""
    if dtype not in _DTYPES or 0 in shape:
        return False
    return math.prod(shape) // shape[axis] < _LINES and shape[axis] >= 32 * _SHORTEST


class _Lines(NamedTuple):
    """Lines of `extent` elements that are `stride` apart, cut into `parts` of `each`; the last may be shorter."""

    outer: int
    extent: int
    stride: int
    parts: int
    each: int


def _lines(shape: Shape, axis: int) -> _Lines:
    extent = shape[axis]
    each = max(ceil_div(extent, _PARTS), min(_SHORTEST, extent), 1)
    return _Lines(math.prod(shape[:axis]), extent, math.prod(shape[axis + 1 :]), ceil_div(extent, each), each)


def _step(
    name: str, parameters: tuple[Parameter, ...], write: Any, host: Any, axis: int, exclusive: bool, reverse: bool
) -> Operation:
    whole = write is _write_offsets
    return make(
        name,
        parameters,
        partial(host, axis=axis, exclusive=exclusive, reverse=reverse),
        partial(_check, axis=axis),
        work=partial(_work, axis=axis, whole=whole),
        kernels=kernels(
            parameters,
            partial(write, axis=axis, exclusive=exclusive, reverse=reverse),
            partial(_launch, axis=axis, whole=whole),
        ),
    )


def _check(signature: Signature, *, axis: int) -> str | None:
    shape = signature.shapes["y"]
    wrong = axis_error(axis, len(shape))
    return wrong or expect(signature, signature.shapes.get("x", shape), "a scan")


def _work(signature: Signature, *, axis: int, whole: bool) -> Work:
    dtype, count = signature.dtypes["y"], elements(signature)
    if not count:
        return Work(0.0, 0.0, dtype, 1.0)
    way = _lines(signature.shapes["y"], axis)
    lines = way.outer * way.stride
    if whole:
        return Work(float(lines * way.parts), 0.0, dtype, float(lines))
    # The sums read all; the scan reads and writes all. In the mean of both, one and a half times.
    return Work(float(count), 1.5 * array_bytes(signature, "x"), dtype, float(lines * way.parts))


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int, whole: bool) -> Launch:
    if not elements(signature):
        return Launch((0,), (1,))
    way = _lines(signature.shapes["y"], axis)
    # A group each: a work-item has its own long piece of memory.
    return Launch((way.outer * way.stride * (1 if whole else way.parts),), (1,))


def _write_sums(w: Writer, *, axis: int, exclusive: bool, reverse: bool) -> None:
    way = _lines(w.signature.shapes["y"], axis)
    line, part = _line_and_part(w, way)
    t = w.signature.dtypes["x"]
    total = w.variable(t, w.constant(0, t))
    # Nobody asks for the last part's sum, so that all parts summed are of one length.
    with w.when(f"{part} < {way.parts - 1}"):
        begin = f"({way.extent} - ({part} + 1) * {way.each})" if reverse else f"{part} * {way.each}"
        first = w.index(f"{line} + {begin} * {way.stride}")
        w.assign(total, t, sum_of_line(w, t, first, way.each, way.stride))
    w.store("y", _place(way, reverse, line, f"({part} * {way.each})"), total)


def _write_offsets(w: Writer, *, axis: int, exclusive: bool, reverse: bool) -> None:
    way = _lines(w.signature.shapes["y"], axis)
    line, _ = _line_and_part(w, way._replace(parts=1))
    t = w.signature.dtypes["y"]
    total = w.variable(t, w.constant(0, t))
    with w.loop("0", str(way.parts)) as part:
        place = w.index(_place(way, reverse, line, f"({part} * {way.each})"))
        here = w.value(t, w.load("y", place))
        w.store("y", place, total)
        w.assign(total, t, f"{total} + {here}")


def _write_scan(w: Writer, *, axis: int, exclusive: bool, reverse: bool) -> None:
    way = _lines(w.signature.shapes["y"], axis)
    line, part = _line_and_part(w, way)
    t = w.signature.dtypes["x"]
    begin = w.index(f"{part} * {way.each}")
    last = w.index(w.select(f"({part} < {way.parts - 1})", f"{begin} + {way.each}", str(way.extent)))
    ahead = w.index(f"{last} - ({last} - {begin}) % {_AHEAD}")
    total = w.variable(t, w.load("y", _place(way, reverse, line, begin)))

    def some(k: str, count: int) -> None:
        places = [w.index(_place(way, reverse, line, f"({k} + {n})")) for n in range(count)]
        sums: list[str] = []
        for place in places:
            x = w.value(t, w.load("x", place))
            sums.append(w.value(t, f"{sums[-1]} + {x}") if sums else x)
        # What waits for the elements before is one addition for all of these.
        before = [w.constant(0, t), *sums[:-1]] if exclusive else sums
        for place, here in zip(places, before, strict=True):
            w.store("y", place, w.value(t, f"{total} + {here}"))
        w.assign(total, t, f"{total} + {sums[-1]}")

    with w.loop(begin, ahead, str(_AHEAD)) as k:
        some(k, _AHEAD)
    with w.loop(ahead, last) as k:
        some(k, 1)


def _line_and_part(w: Writer, way: _Lines) -> tuple[str, str]:
    """Name where a work-item's line begins in memory, and the number of its part."""
    outer, part, inner = take_apart(w, w.index(w.item), (way.outer, way.parts, way.stride))
    return w.index(f"{outer} * {way.extent * way.stride} + {inner}"), part


def _place(way: _Lines, reverse: bool, line: str, number: str) -> str:
    """Return where in memory an element of a line is, by its number in the order of the scan."""
    return f"{line} + {f'({way.extent - 1} - {number})' if reverse else number} * {way.stride}"


def _in_order(array: Any, way: _Lines, reverse: bool) -> Any:
    lines = array.reshape(way.outer, way.extent, way.stride)
    return lines[:, ::-1] if reverse else lines


def _host_sums(*, axis: int, exclusive: bool, reverse: bool, y: Any, x: Any) -> None:
    if not y.size:
        return
    way = _lines(y.shape, axis)
    sums, given = _in_order(y, way, reverse), _in_order(x, way, reverse)
    for first in range(0, way.extent, way.each):
        sums[:, first] = given[:, first : first + way.each].sum(axis=1, dtype=x.dtype)


def _host_offsets(*, axis: int, exclusive: bool, reverse: bool, y: Any) -> None:
    if not y.size:
        return
    way = _lines(y.shape, axis)
    firsts = _in_order(y, way, reverse)[:, :: way.each]
    sums = firsts.cumsum(axis=1, dtype=y.dtype)
    firsts[:, 1:] = sums[:, :-1]
    firsts[:, 0] = 0


def _host_scan(*, axis: int, exclusive: bool, reverse: bool, y: Any, x: Any) -> None:
    if not y.size:
        return
    way = _lines(y.shape, axis)
    result, given = _in_order(y, way, reverse), _in_order(x, way, reverse)
    for first in range(0, way.extent, way.each):
        part, before = given[:, first : first + way.each], result[:, first : first + 1].copy()
        sums = part.cumsum(axis=1, dtype=x.dtype) + before
        if exclusive:
            sums[:, 1:] = sums[:, :-1].copy()
            sums[:, :1] = before
        result[:, first : first + way.each] = sums
