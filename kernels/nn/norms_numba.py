# SPDX-License-Identifier: Apache-2.0
"""Softmax and the normalisations in numba-dpex.

Where a row of neighbours is summed up, a work-group does it: each work-item takes every so-manyth element, what they
find goes through local memory. Where neighbours belong to different results, neighbouring work-items do, and each walks
along its own line. Shapes are read at run time: one compilation, which takes a second, serves all of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from syclsched.kernels.common import VECTOR_ITEMS, block_launch, ceil_div
from syclsched.kernels.nn import dpex
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.activation_numba import applied
from syclsched.kernels.nn.geometry import channels, size
from syclsched.model.operation import DeviceLimits, Implementation, Launch, Signature

#: Work-items at most that share a row: what each found is added up by all of them.
MOST = 2 * VECTOR_ITEMS
#: Elements each work-item makes with one channel's factors.
ELEMENTS = 16


def _row_launch(limits: DeviceLimits, rows: int, length: int) -> Launch:
    """Return an index space of one work-group for each row."""
    width = 1
    while width * 2 <= min(MOST, limits.max_work_group_size) and width < max(length, VECTOR_ITEMS):
        width *= 2
    return Launch((rows * width,), (width,))


def _gathered(name: str, start: str, combine: str, shared: str) -> str:
    """Return lines that make the work-items' ``name`` one number, the same for all of them."""
    return f"""
    store({shared}, l, {name})
    group_barrier(group)
    {name} = real({start})
    for k in range(width):
        v = load({shared}, k)
        {name} = {combine}
"""


_LARGER = "v if v > {0} or v != v else {0}"
_GROUP = f"""    group = item.get_group()
    row = group.get_group_id(0)
    l = item.get_local_id(0)
    width = item.get_local_range(0)
    found = LocalArray({MOST}, real)
    more = LocalArray({MOST}, real)
"""
#: A work-group takes a part of a row of ``length`` elements, each work-item one.
BLOCK = """    l = item.get_local_id(0)
    width = item.get_local_range(0)
    groups = ({length} + width - 1) // width
    group = item.get_group().get_group_id(0)
    row = group // groups
    j = group % groups * width + l
"""


# --- softmax ------------------------------------------------------------------------------------------


def _softmax_text(ndim: int, axis: int, log: bool, behind: bool) -> str:
    finish = "{0} - m - shift" if log else "math.exp({0} - m) / s"
    text = "def softmax(item, y, x):\n"
    if not behind:
        text += f"{_GROUP}    n = x.shape[{axis}]\n    first = row * n\n    m = real(-inf)\n"
        text += "    for j in range(l, n, width):\n        v = load(x, first + j)\n"
        text += f"        m = {_LARGER.format('m')}\n"
        text += _gathered("m", "-inf", _LARGER.format("m"), "found")
        text += "    s = real(0)\n    for j in range(l, n, width):\n        s += math.exp(load(x, first + j) - m)\n"
        text += _gathered("s", "0", "s + v", "more")
        text += "    shift = math.log(s)\n" if log else ""
        text += "    for j in range(l, n, width):\n"
        return text + f"        store(y, first + j, {finish.format('load(x, first + j)')})\n"
    text += "".join(
        f"    {'b' if each == axis + 1 else 'b = b'}{' =' if each == axis + 1 else ' *'} x.shape[{each}]\n"
        for each in range(axis + 1, ndim)
    )
    text += BLOCK.format(length="b")
    text += f"""    if j < b:
        n = x.shape[{axis}]
        first = row * n * b + j
        m = real(-inf)
        for k in range(n):
            v = load(x, first + k * b)
            m = {_LARGER.format("m")}
        s = real(0)
        for k in range(n):
            s += math.exp(load(x, first + k * b) - m)
{"        shift = math.log(s)" if log else ""}
        for k in range(n):
            store(y, first + k * b, {finish.format("load(x, first + k * b)")})
"""
    return text


def _softmax_load(signature: Signature, *, axis: int, log: bool) -> Any:
    shape = signature.shapes["x"]
    axis %= len(shape)
    text = _softmax_text(len(shape), axis, log, size(shape[axis + 1 :]) > 1)
    return dpex.compiled(text, "softmax", signature.dtypes["y"])


def _softmax_launch(signature: Signature, limits: DeviceLimits, *, axis: int) -> Launch:
    shape = signature.shapes["x"]
    axis %= len(shape)
    before, behind = size(shape[:axis]), size(shape[axis + 1 :])
    return block_launch(limits, before, behind) if behind > 1 else _row_launch(limits, before, shape[axis])


def softmax(*, axis: int, log: bool) -> Implementation:
    """Return softmax, or its logarithm, along an axis."""
    return _implementation(partial(_softmax_load, axis=axis, log=log), partial(_softmax_launch, axis=axis))


# --- layer normalisation ------------------------------------------------------------------------------


def _moments(each: str, value: str, count: str, epsilon: float) -> str:
    """Return lines that make ``mean`` and ``f``, by which what is left must be multiplied."""
    text = f"    s = real(0)\n{each.format(f's += {value}')}{_gathered('s', '0', 's + v', 'found')}"
    text += f"    mean = s / real({count})\n    q = real(0)\n"
    text += each.format(f"d = {value} - mean; q = fma(d, d, q)")
    text += _gathered("q", "0", "q + v", "more")
    return text + f"    f = real(1) / math.sqrt(q / real({count}) + real({epsilon!r}))\n"


def _layer_text(epsilon: float, bias: bool) -> str:
    text = (
        f"def layer_norm(item, y, x, scale{', b' if bias else ''}):\n{_GROUP}    n = scale.size\n    first = row * n\n"
    )
    text += _moments("    for j in range(l, n, width):\n        {0}\n", "load(x, first + j)", "n", epsilon)
    text += "    for j in range(l, n, width):\n"
    text += "        v = (load(x, first + j) - mean) * f * load(scale, j)\n"
    return text + f"        store(y, first + j, v{' + load(b, j)' if bias else ''})\n"


def _layer_load(signature: Signature, *, epsilon: float, bias: bool) -> Any:
    return dpex.compiled(_layer_text(epsilon, bias), "layer_norm", signature.dtypes["y"])


def _layer_launch(signature: Signature, limits: DeviceLimits) -> Launch:
    length = size(signature.shapes["scale"])
    return _row_launch(limits, size(signature.shapes["x"]) // length, length)


def layer_norm(*, epsilon: float, bias: bool) -> Implementation:
    """Return layer normalisation."""
    return _implementation(partial(_layer_load, epsilon=epsilon, bias=bias), _layer_launch)


# --- batch normalisation ------------------------------------------------------------------------------


def _batch_text(epsilon: float, along: bool, activation: Activation) -> str:
    """Return the kernel for elements whose neighbours are of other channels (``along``), or of the same one."""
    text = "def batch_norm(item, y, x, scale, bias, mean, variance):\n    n = scale.size\n"
    root = f"math.sqrt(load(variance, c) + real({epsilon!r}))"
    factors = f"mu = load(mean, c); f = load(scale, c) / {root}; h = load(bias, c)\n"
    finish = "v = (load(x, j) - mu) * f + h\n"
    if along:
        text += BLOCK.format(length="n")
        text += f"    rows = x.size // n\n    c = j\n    if c < n:\n        {factors}"
        text += f"        for p in range(row * {ELEMENTS}, min(row * {ELEMENTS} + {ELEMENTS}, rows)):\n"
        text += f"            j = p * n + c\n            {finish}{applied(activation, ' ' * 12)}"
        return text + "            store(y, j, v)\n"
    text += f"    length = x.size // (n * x.shape[0])\n{BLOCK.format(length=f'(length // {ELEMENTS} + 1)')}"
    text += f"    c = row % n\n    {factors}"
    text += f"    first = (j - l) * {ELEMENTS} + l\n"
    text += f"    for i in range(first, min(first + {ELEMENTS} * width, length), width):\n"
    text += f"        j = row * length + i\n        {finish}{applied(activation, ' ' * 8)}        store(y, j, v)\n"
    return text


def _is_along(signature: Signature, last: bool) -> bool:
    x = signature.shapes["x"]
    return last or size(x[2:]) == 1


def _batch_load(signature: Signature, *, epsilon: float, last_: bool, activation: Activation) -> Any:
    text = _batch_text(epsilon, _is_along(signature, last_), activation)
    return dpex.compiled(text, "batch_norm", signature.dtypes["y"])


def _batch_launch(signature: Signature, limits: DeviceLimits, *, last_: bool) -> Launch:
    x, (count,) = signature.shapes["x"], signature.shapes["scale"]
    if _is_along(signature, last_):
        return block_launch(limits, ceil_div(size(x) // count, ELEMENTS), count)
    return block_launch(limits, x[0] * count, size(x[2:]) // ELEMENTS + 1)


def batch_norm(*, epsilon: float, last_: bool, activation: Activation) -> Implementation:
    """Return batch normalisation."""
    load = partial(_batch_load, epsilon=epsilon, last_=last_, activation=activation)
    return _implementation(load, partial(_batch_launch, last_=last_))


# --- group normalisation ------------------------------------------------------------------------------


def _group_text(groups: int, epsilon: float, last: bool, activation: Activation) -> str:
    text = f"def group_norm(item, y, x, scale, bias):\n{_GROUP}"
    text += f"    every = scale.size\n    count = every // {groups}\n    pixels = x.size // (x.shape[0] * every)\n"
    text += f"    n = count * pixels\n    c0 = row % {groups} * count\n"
    if not last:
        text += "    first = row * n\n"
        text += _moments("    for j in range(l, n, width):\n        {0}\n", "load(x, first + j)", "n", epsilon)
        text += "    for c in range(count):\n        g = f * load(scale, c0 + c)\n        h = load(bias, c0 + c)\n"
        text += "        for i in range(l, pixels, width):\n            j = first + c * pixels + i\n"
        text += f"            v = (load(x, j) - mean) * g + h\n{applied(activation, ' ' * 12)}"
        return text + "            store(y, j, v)\n"
    text += f"    first = row // {groups} * pixels * every + c0\n"
    # Place and channel of a work-item's elements by addition: a division of each would take longer than all the rest.
    each = "    p = l // count\n    c = l % count\n    while p < pixels:\n        {0}\n"
    each += "        p += width // count\n        c += width % count\n"
    each += "        if c >= count:\n            c -= count\n            p += 1\n"
    place = "first + p * every + c"
    text += _moments(each, f"load(x, {place})", "n", epsilon)
    finish = f"v = (load(x, {place}) - mean) * f * load(scale, c0 + c) + load(bias, c0 + c)\n"
    finish += f"{applied(activation, ' ' * 8)}        store(y, {place}, v)"
    return text + each.replace("{0}", finish)


def _group_load(signature: Signature, *, groups: int, epsilon: float, last_: bool, activation: Activation) -> Any:
    return dpex.compiled(_group_text(groups, epsilon, last_, activation), "group_norm", signature.dtypes["y"])


def _group_launch(signature: Signature, limits: DeviceLimits, *, groups: int, last_: bool) -> Launch:
    x = signature.shapes["x"]
    pixels = size(x) // (x[0] * channels(x, last_))
    return _row_launch(limits, x[0] * groups, channels(x, last_) // groups * pixels)


def group_norm(*, groups: int, epsilon: float, last_: bool, activation: Activation) -> Implementation:
    """Return group normalisation."""
    load = partial(_group_load, groups=groups, epsilon=epsilon, last_=last_, activation=activation)
    return _implementation(load, partial(_group_launch, groups=groups, last_=last_))


def _implementation(load: Any, launch: Any) -> Implementation:
    return Implementation("numba-dpex", "numba-dpex", load, launch, dpex.REQUIRES, efficiency=0.4)
