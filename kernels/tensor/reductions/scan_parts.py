# SPDX-License-Identifier: Apache-2.0
"""`scan_in_parts`: prefix sums along few long lines on all compute units, in three kernels.

The first kernel sums each part of a line, the second scans these sums into the offset of each part, and the third
scans each part from its offset. Sums and offsets are stored in place of the first result of a part: no other memory is
needed.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any, NamedTuple

from syclsched.kernels.common import ceil_div, with_recipe
from syclsched.kernels.tensor.operation_factory import (
    array_bytes,
    axis_error,
    elements,
    input_parameter,
    make_operation,
    output_parameter,
    shape_error,
)
from syclsched.kernels.tensor.reductions.reduction_kernels import sum_of_line
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import unravel_index
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Launch, Operation, OperationStep, Parameter, Shape, Signature, Work
from syclsched.model.sequence import sequence_operation

#: Dtypes that are summed in themselves.
_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
#: Maximum parts per line, and minimum elements per part.
_PARTS, _SHORTEST = 256, 1024
#: From this number of lines on, one work-item per line keeps all compute units busy.
_LINES = 64
#: Elements scanned locally before their sum is added to the running total.
_GROUP = 8


@with_recipe
@cache
def scan_in_parts(axis: int, exclusive: bool = False, reverse: bool = False) -> Operation:
    """Return the operation equal to `scan_sum` for few long lines."""
    suffix = f"axis {axis}{' exclusive' if exclusive else ''}{' reverse' if reverse else ''}"
    y = Parameter("y", AccessMode.UPDATE, dtypes=_DTYPES)
    x = input_parameter(like="y", dtypes=_DTYPES)
    made = [
        _step(
            f"sums of parts {suffix}",
            (output_parameter(dtypes=_DTYPES), x),
            _write_sums,
            _host_sums,
            axis,
            exclusive,
            reverse,
        ),
        _step(f"sums before parts {suffix}", (y,), _write_offsets, _host_offsets, axis, exclusive, reverse),
        _step(f"scan of parts {suffix}", (y, x), _write_scan, _host_scan, axis, exclusive, reverse),
    ]
    steps = [OperationStep(each, tuple((p.name, p.name) for p in each.arrays)) for each in made]
    return sequence_operation(steps, [(name,) * 3 for name in ("opencl-c", "python", "numpy")])


def scan_in_parts_is_faster(shape: Shape, axis: int, dtype: str) -> bool:
    """Return whether lines along an axis are so few and long that `scan_in_parts` is faster than `scan_sum`."""
    if dtype not in _DTYPES or 0 in shape:
        return False
    return math.prod(shape) // shape[axis] < _LINES and shape[axis] >= 32 * _SHORTEST


class _PartLayout(NamedTuple):
    """Lines of ``extent`` elements with a stride, in ``parts`` of ``each`` elements; the last may be shorter."""

    outer: int
    extent: int
    stride: int
    parts: int
    each: int


def _lines(shape: Shape, axis: int) -> _PartLayout:
    extent = shape[axis]
    each = max(ceil_div(extent, _PARTS), min(_SHORTEST, extent), 1)
    return _PartLayout(math.prod(shape[:axis]), extent, math.prod(shape[axis + 1 :]), ceil_div(extent, each), each)


def _step(
    name: str, parameters: tuple[Parameter, ...], write: Any, host: Any, axis: int, exclusive: bool, reverse: bool
) -> Operation:
    whole = write is _write_offsets
    return make_operation(
        name,
        parameters,
        partial(host, axis=axis, exclusive=exclusive, reverse=reverse),
        partial(_check, axis=axis),
        work=partial(_work, axis=axis, whole=whole),
        kernels=generated_implementations(
            parameters,
            partial(write, axis=axis, exclusive=exclusive, reverse=reverse),
            partial(_launch, axis=axis, whole=whole),
        ),
    )


def _check(signature: Signature, *, axis: int) -> str | None:
    shape = signature.shapes["y"]
    wrong = axis_error(axis, len(shape))
    return wrong or shape_error(signature, signature.shapes.get("x", shape), "a scan")


def _work(signature: Signature, *, axis: int, whole: bool) -> Work:
    dtype, count = signature.dtypes["y"], elements(signature)
    if not count:
        return Work(0.0, 0.0, dtype, 1.0)
    layout = _lines(signature.shapes["y"], axis)
    lines = layout.outer * layout.stride
    if whole:
        return Work(float(lines * layout.parts), 0.0, dtype, float(lines))
    # The first kernel reads all elements, the third reads and writes all: 1.5 times the bytes on average.
    return Work(float(count), 1.5 * array_bytes(signature, "x"), dtype, float(lines * layout.parts))


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int, whole: bool) -> Launch:
    if not elements(signature):
        return Launch((0,), (1,))
    layout = _lines(signature.shapes["y"], axis)
    # One work-item per group: each has its own long piece of memory.
    return Launch((layout.outer * layout.stride * (1 if whole else layout.parts),), (1,))


def _write_sums(w: KernelWriter, *, axis: int, exclusive: bool, reverse: bool) -> None:
    layout = _lines(w.signature.shapes["y"], axis)
    line, part = _line_and_part(w, layout)
    t = w.signature.dtypes["x"]
    total = w.variable(t, w.constant(0, t))
    # The last part's sum is not needed, so that all parts summed have one length.
    with w.if_block(f"{part} < {layout.parts - 1}"):
        begin = f"({layout.extent} - ({part} + 1) * {layout.each})" if reverse else f"{part} * {layout.each}"
        first = w.index(f"{line} + {begin} * {layout.stride}")
        w.assign(total, t, sum_of_line(w, t, first, layout.each, layout.stride))
    w.store("y", _place(layout, reverse, line, f"({part} * {layout.each})"), total)


def _write_offsets(w: KernelWriter, *, axis: int, exclusive: bool, reverse: bool) -> None:
    layout = _lines(w.signature.shapes["y"], axis)
    line, _ = _line_and_part(w, layout._replace(parts=1))
    t = w.signature.dtypes["y"]
    total = w.variable(t, w.constant(0, t))
    with w.loop("0", str(layout.parts)) as part:
        place = w.index(_place(layout, reverse, line, f"({part} * {layout.each})"))
        here = w.value(t, w.load("y", place))
        w.store("y", place, total)
        w.assign(total, t, f"{total} + {here}")


def _write_scan(w: KernelWriter, *, axis: int, exclusive: bool, reverse: bool) -> None:
    layout = _lines(w.signature.shapes["y"], axis)
    line, part = _line_and_part(w, layout)
    t = w.signature.dtypes["x"]
    begin = w.index(f"{part} * {layout.each}")
    last = w.index(w.select(f"({part} < {layout.parts - 1})", f"{begin} + {layout.each}", str(layout.extent)))
    whole_end = w.index(f"{last} - ({last} - {begin}) % {_GROUP}")
    total = w.variable(t, w.load("y", _place(layout, reverse, line, begin)))

    def scan_group(k: str, count: int) -> None:
        places = [w.index(_place(layout, reverse, line, f"({k} + {n})")) for n in range(count)]
        sums: list[str] = []
        for place in places:
            x = w.value(t, w.load("x", place))
            sums.append(w.value(t, f"{sums[-1]} + {x}") if sums else x)
        # Only one addition per group depends on the elements before.
        before = [w.constant(0, t), *sums[:-1]] if exclusive else sums
        for place, here in zip(places, before, strict=True):
            w.store("y", place, w.value(t, f"{total} + {here}"))
        w.assign(total, t, f"{total} + {sums[-1]}")

    with w.loop(begin, whole_end, str(_GROUP)) as k:
        scan_group(k, _GROUP)
    with w.loop(whole_end, last) as k:
        scan_group(k, 1)


def _line_and_part(w: KernelWriter, layout: _PartLayout) -> tuple[str, str]:
    """Emit the start of a work-item's line in memory and the number of its part, and return their names."""
    outer, part, inner = unravel_index(w, w.index(w.item), (layout.outer, layout.parts, layout.stride))
    return w.index(f"{outer} * {layout.extent * layout.stride} + {inner}"), part


def _place(layout: _PartLayout, reverse: bool, line: str, number: str) -> str:
    """Return the text of an element's index, by its number in scan order."""
    return f"{line} + {f'({layout.extent - 1} - {number})' if reverse else number} * {layout.stride}"


def _in_order(array: Any, layout: _PartLayout, reverse: bool) -> Any:
    lines = array.reshape(layout.outer, layout.extent, layout.stride)
    return lines[:, ::-1] if reverse else lines


def _host_sums(*, axis: int, exclusive: bool, reverse: bool, y: Any, x: Any) -> None:
    if not y.size:
        return
    layout = _lines(y.shape, axis)
    sums, given = _in_order(y, layout, reverse), _in_order(x, layout, reverse)
    for first in range(0, layout.extent, layout.each):
        sums[:, first] = given[:, first : first + layout.each].sum(axis=1, dtype=x.dtype)


def _host_offsets(*, axis: int, exclusive: bool, reverse: bool, y: Any) -> None:
    if not y.size:
        return
    layout = _lines(y.shape, axis)
    firsts = _in_order(y, layout, reverse)[:, :: layout.each]
    sums = firsts.cumsum(axis=1, dtype=y.dtype)
    firsts[:, 1:] = sums[:, :-1]
    firsts[:, 0] = 0


def _host_scan(*, axis: int, exclusive: bool, reverse: bool, y: Any, x: Any) -> None:
    if not y.size:
        return
    layout = _lines(y.shape, axis)
    result, given = _in_order(y, layout, reverse), _in_order(x, layout, reverse)
    for first in range(0, layout.extent, layout.each):
        part, before = given[:, first : first + layout.each], result[:, first : first + 1].copy()
        sums = part.cumsum(axis=1, dtype=x.dtype) + before
        if exclusive:
            sums[:, 1:] = sums[:, :-1].copy()
            sums[:, :1] = before
        result[:, first : first + layout.each] = sums
