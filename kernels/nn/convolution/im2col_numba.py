# SPDX-License-Identifier: Apache-2.0
"""im2col in numba-dpex, copying lines of contiguous elements in vectors where they are long enough.

Channels last: a work-item copies the channels of every kernel position for some windows. Channels first: it handles all
windows at some kernel positions, where the elements along a line are contiguous or every second one. Other lines are
copied element by element. Shapes are read at run time.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from syclsched.kernels.common import Ints, block_launch
from syclsched.kernels.nn import dpex
from syclsched.kernels.nn.geometry import channels, size, spatial
from syclsched.kernels.nn.pooling.pool_numba import at, extents, place, split_index
from syclsched.kernels.nn.rows_numba import BLOCK, indented, rows_launch
from syclsched.kernels.vectors.vector_functions import LANES
from syclsched.kernels.windows import Window
from syclsched.model.operation import DeviceLimits, Implementation, Launch, Signature

#: Window stride -> the function that loads a vector of elements that far apart.
_LOADS = {1: "load_vector", 2: "load_second"}


def _line(signature: Signature, window: Window, kernel: Ints, last_: bool) -> int:
    """Return the number of consecutive result elements copied along one line."""
    x = signature.shapes["x"]
    return channels(x, last_) if last_ else window.extents(spatial(x, last_), kernel)[-1]


def _in_vectors(signature: Signature, window: Window, kernel: Ints, last_: bool) -> bool:
    return _line(signature, window, kernel, last_) >= LANES and (last_ or window.strides[-1] in _LOADS)


def _begun(ndim: int, window: Window, kernel: Ints, last_: bool) -> str:
    text = "def im2col(item, y, x):\n" + extents("x", "x", ndim, last=last_)
    for axis, reach in enumerate(window.reach(kernel)):
        last = f"x{axis} + {window.begins[axis] + window.ends[axis] - reach}"
        text += f"    y{axis} = ({last}) // {window.strides[axis]} + 1\n"
    return text


def _rows(length: str) -> str:
    return f"""    length = {length}
    rows = y.size // length
    items = item.get_global_range(0)
    each = (rows + items - 1) // items
    begin = item.get_global_id(0) * each
    for row in range(begin, min(begin + each, rows)):
"""


def _last_text(ndim: int, *, window: Window, kernel: Ints) -> str:
    """Return the kernel for channels last."""
    axes = range(ndim)
    text = _begun(ndim, window, kernel, True) + _rows(f"xc * {size(kernel)}")
    text += indented(f"to = row * length\npieces = (xc + {LANES - 1}) // {LANES}", 2)
    text += indented(
        split_index([(f"o{axis}", f"y{axis}") for axis in axes], "row").replace("    ", "") + "image = rest", 2
    )
    depth = 2
    for axis in axes:
        text += indented(f"for k{axis} in range({kernel[axis]}):", depth)
        depth += 1
        text += indented(f"i{axis} = {at(window, axis, f'k{axis}')}", depth)
    there = " and ".join(f"i{axis} >= 0 and i{axis} < x{axis}" for axis in axes)
    where = place("x", [f"i{axis}" for axis in axes], "0", last=True)
    each = f"for q in range(pieces):\n    c = min(q * {LANES}, xc - {LANES})\n    store_vector(y, to + c, {{0}})"
    text += indented(f"if {there}:\n    e = {where}", depth)
    text += indented(each.format("load_vector(x, e + c)"), depth + 1)
    return (
        text
        + indented("else:", depth)
        + indented(each.format("splat(real(0))"), depth + 1)
        + indented("to += xc", depth)
    )


def _first_text(ndim: int, *, window: Window, kernel: Ints) -> str:
    """Return the kernel for channels first."""
    last, stride = ndim - 1, window.strides[-1]
    outer = range(last)
    text = _begun(ndim, window, kernel, False) + _rows(" * ".join(f"y{axis}" for axis in range(ndim)))
    places = split_index([(f"k{axis}", str(kernel[axis])) for axis in range(ndim)], "row").replace("    ", "")
    text += indented(f"{places}image = rest\nahead = {window.begins[-1]} - k{last} * {window.dilations[-1]}", 2)
    text += indented(f"low = min(max((ahead + {stride - 1}) // {stride}, 0), y{last})", 2)
    text += indented(f"high = max(min((x{last} - 1 + ahead) // {stride} + 1, y{last}), low)", 2)
    text += indented(f"for line in range(length // y{last}):\n    to = row * length + line * y{last}", 2)
    text += indented(split_index([(f"o{axis}", f"y{axis}") for axis in outer], "line").replace("    ", ""), 3)
    where = "image"
    for axis in outer:
        text += indented(f"i{axis} = {at(window, axis, f'k{axis}')}", 3)
        where = f"({where} * x{axis} + i{axis})"
    there = " and ".join(f"i{axis} >= 0 and i{axis} < x{axis}" for axis in outer) or "True"
    return text + indented(
        f"""if {there}:
    e = {where} * x{last} - ahead
    if high - low >= {LANES}:
        for q in range((high - low + {LANES - 1}) // {LANES}):
            o = min(low + q * {LANES}, high - {LANES})
            store_vector(y, to + o, {_LOADS[stride]}(x, e + o * {stride}))
    else:
        for o in range(low, high):
            store(y, to + o, load(x, e + o * {stride}))
    for o in range(low):
        store(y, to + o, real(0))
    for o in range(high, y{last}):
        store(y, to + o, real(0))
else:
    for q in range((y{last} + {LANES - 1}) // {LANES}):
        store_vector(y, to + min(q * {LANES}, y{last} - {LANES}), splat(real(0)))""",
        3,
    )


def _elements_text(ndim: int, *, window: Window, kernel: Ints, last_: bool) -> str:
    """Return the kernel whose work-items each copy one element of a line at all kernel positions."""
    axes = range(ndim)
    text = _begun(ndim, window, kernel, last_)
    line = "xc" if last_ else f"y{ndim - 1}"
    text += BLOCK.format(length=line)
    windows = [(f"o{axis}", f"y{axis}") for axis in axes]
    text += split_index(windows if last_ else [("c", "xc"), *windows[:-1]], "row")
    text += f"    image = rest\n    {'c' if last_ else f'o{ndim - 1}'} = j\n    if j < {line}:\n"
    indent, tap = " " * 8, "0"
    for axis in axes:
        text += f"{indent}for k{axis} in range({kernel[axis]}):\n{indent}    i{axis} = {at(window, axis, f'k{axis}')}\n"
        indent += "    "
        tap = f"({tap} * {kernel[axis]} + k{axis})"
    there = " and ".join(f"i{axis} >= 0 and i{axis} < x{axis}" for axis in axes)
    text += f"{indent}v = real(0)\n{indent}if {there}:\n"
    text += f"{indent}    v = load(x, {place('x', [f'i{axis}' for axis in axes], 'c', last=last_)})\n"
    where = f"(row * {size(kernel)} + {tap}) * xc + j"
    if not last_:
        where = f"((image * xc + c) * {size(kernel)} + {tap})"
        for axis in axes:
            where = f"({where} * y{axis} + o{axis})"
    return text + f"{indent}store(y, {where}, v)\n"


def _load(signature: Signature, *, window: Window, kernel: Ints, last_: bool) -> Any:
    if not _in_vectors(signature, window, kernel, last_):
        text = _elements_text(len(kernel), window=window, kernel=kernel, last_=last_)
    else:
        text = (_last_text if last_ else _first_text)(len(kernel), window=window, kernel=kernel)
    return dpex.compiled(text, "im2col", signature.dtypes["y"])


def _launch(signature: Signature, limits: DeviceLimits, *, window: Window, kernel: Ints, last_: bool) -> Launch:
    results, line = size(signature.shapes["y"]), _line(signature, window, kernel, last_)
    if _in_vectors(signature, window, kernel, last_):
        length = signature.shapes["y"][-1]
        return rows_launch(limits, results // length, length)
    return block_launch(limits, results // (line * size(kernel)), line)


def im2col(*, window: Window, kernel: Ints, last_: bool) -> Implementation:
    """Return the numba-dpex implementation of im2col."""
    attributes = {"window": window, "kernel": kernel, "last_": last_}
    load, launch = partial(_load, **attributes), partial(_launch, **attributes)
    return Implementation("numba-dpex", "numba-dpex", load, launch, dpex.REQUIRES, efficiency=0.3, revision="2")
