# SPDX-License-Identifier: Apache-2.0
"""Normalisations in numba-dpex.

If the elements of a sum are contiguous, a work-item reduces whole rows in vectors, one after another. If neighbouring
elements belong to different results, a work-item processes a few vectors of them. Only if groups of channels do not fit
vectors, a work-group reduces one group through local memory. Shapes are read at run time, so one compilation (a second)
serves all of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from syclsched.kernels.common import VECTOR_ITEMS, block_launch, ceil_div
from syclsched.kernels.nn import dpex
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.activation_numba import applied, applied_wide
from syclsched.kernels.nn.geometry import channels, size
from syclsched.kernels.nn.rows_numba import BLOCK, for_row, per_vector, rows_launch, rows_text, summed
from syclsched.kernels.vectors.vector_functions import LANES
from syclsched.model.operation import DeviceLimits, Implementation, Launch, Signature

#: Most work-items that share a row; each of them adds up all partial sums.
MOST = 2 * VECTOR_ITEMS
#: Elements per work-item that reuse one channel's factors.
ELEMENTS = 16


def _row_launch(limits: DeviceLimits, rows: int, length: int) -> Launch:
    """Return an index space of one work-group per row."""
    width = 1
    while width * 2 <= min(MOST, limits.max_work_group_size) and width < max(length, VECTOR_ITEMS):
        width *= 2
    return Launch((rows * width,), (width,))


def _gathered(name: str, shared: str) -> str:
    """Return source lines that replace the work-items' ``name`` by its sum over the group."""
    return f"""    store({shared}, l, {name})
    group_barrier(group)
    {name} = real(0)
    for k in range(width):
        {name} += load({shared}, k)
"""


#: Most vectors of neighbouring channels per work-item, target number of work-items, and pixels per chunk of moments, as
#: in `syclsched.kernels.nn.normalisation.group_norm`.
_VECTORS, _ITEMS, _PIXELS = 4, 16, 32


def _moments(epsilon: float) -> str:
    """Return source lines that compute a row's ``mean`` and ``f``, 1 / sqrt(variance + epsilon)."""
    text = summed("s", "{0} = {0} + load_vector(x, {1})", "{0} += load(x, {1})") + "        mean = s / real(n)\n"
    wide = "d = load_vector(x, {1}) - mean\n{0} = vfma(d, d, {0})"
    text += summed("q", wide, "e = load(x, {1}) - mean\n{0} = fma(e, e, {0})")
    return text + f"        f = real(1) / math.sqrt(q / real(n) + real({epsilon!r}))\n"


# --- layer normalisation ------------------------------------------------------------------------------


def _layer_text(epsilon: float, bias: bool) -> str:
    text = (
        f"def layer_norm(item, y, x, scale{', b' if bias else ''}):\n{rows_text('x.size // scale.size', 'scale.size')}"
    )
    text += _moments(epsilon)
    wide = f"v = (load_vector(x, first + j) - mean) * f * load_vector(scale, j){' + load_vector(b, j)' if bias else ''}"
    narrow = f"e = (load(x, first + j) - mean) * f * load(scale, j){' + load(b, j)' if bias else ''}"
    return text + for_row(f"{wide}\nstore_vector(y, first + j, v)", f"{narrow}\nstore(y, first + j, e)")


def _layer_load(signature: Signature, *, epsilon: float, bias: bool) -> Any:
    return dpex.compiled(_layer_text(epsilon, bias), "layer_norm", signature.dtypes["y"])


def _layer_launch(signature: Signature, limits: DeviceLimits) -> Launch:
    length = size(signature.shapes["scale"])
    return rows_launch(limits, size(signature.shapes["x"]) // length, length)


def layer_norm(*, epsilon: float, bias: bool) -> Implementation:
    """Return the numba-dpex implementation of layer normalisation."""
    return _implementation(partial(_layer_load, epsilon=epsilon, bias=bias), _layer_launch)


# --- batch normalisation ------------------------------------------------------------------------------


_BATCH_NORM = "def batch_norm(item, y, x, scale, bias, mean, variance):\n"


def _batch_vectors_text(epsilon: float, vectors: int, activation: Activation) -> str:
    """Return the channels-last kernel: a work-item computes a few vectors of channels for many pixels."""
    all_of = partial(per_vector, vectors)

    width = vectors * LANES
    text = f"""{_BATCH_NORM}    n = scale.size
    rows = x.size // n
    pieces = (n + {width - 1}) // {width}
    i = item.get_global_id(0)
    ways = item.get_global_range(0) // pieces
    each = (rows + ways - 1) // ways
    c = min(i % pieces * {width}, n - {width})
    first = i // pieces * each
"""
    text += all_of("m{0} = load_vector(mean, c + {1})\nh{0} = load_vector(bias, c + {1})", 1)
    root = f"vsqrt(load_vector(variance, c + {{1}}) + real({epsilon!r}))"
    text += all_of(f"f{{0}} = load_vector(scale, c + {{1}}) / {root}", 1)
    text += "    for p in range(first, min(first + each, rows)):\n        j = p * n + c\n"
    finish = f"v = (load_vector(x, j + {{1}}) - m{{0}}) * f{{0}} + h{{0}}\n{applied_wide(activation, '')}"
    return text + all_of(f"{finish}store_vector(y, j + {{1}}, v)", 2)


def _batch_narrow_text(epsilon: float, activation: Activation) -> str:
    """Return the channels-last kernel for fewer channels than a vector has lanes."""
    text = f"{_BATCH_NORM}    n = scale.size\n{BLOCK.format(length='n')}    rows = x.size // n\n    if j < n:\n"
    text += f"        f = load(scale, j) / math.sqrt(load(variance, j) + real({epsilon!r}))\n"
    text += f"        for p in range(row * {ELEMENTS}, min(row * {ELEMENTS} + {ELEMENTS}, rows)):\n"
    text += f"            v = (load(x, p * n + j) - load(mean, j)) * f + load(bias, j)\n{applied(activation, ' ' * 12)}"
    return text + "            store(y, p * n + j, v)\n"


def _batch_rows_text(epsilon: float, activation: Activation) -> str:
    """Return the channels-first kernel, in which a row belongs to one channel."""
    text = _BATCH_NORM + rows_text("x.shape[0] * scale.size", "x.size // (x.shape[0] * scale.size)")
    text += f"""        c = row % scale.size
        mu = load(mean, c)
        h = load(bias, c)
        f = load(scale, c) / math.sqrt(load(variance, c) + real({epsilon!r}))
"""
    wide = f"v = (load_vector(x, first + j) - mu) * f + h\n{applied_wide(activation, '')}"
    narrow = f"v = (load(x, first + j) - mu) * f + h\n{applied(activation, '')}"
    return text + for_row(f"{wide}store_vector(y, first + j, v)", f"{narrow}store(y, first + j, v)")


def _along(signature: Signature, last: bool) -> int | None:
    """Return the vectors of channels per work-item; None if contiguous elements belong to one channel."""
    x, (count,) = signature.shapes["x"], signature.shapes["scale"]
    return min(_VECTORS, count // LANES) if last or size(x[2:]) == 1 else None


def _batch_load(signature: Signature, *, epsilon: float, last_: bool, activation: Activation) -> Any:
    vectors = _along(signature, last_)
    if vectors is None:
        text = _batch_rows_text(epsilon, activation)
    elif vectors:
        text = _batch_vectors_text(epsilon, vectors, activation)
    else:
        text = _batch_narrow_text(epsilon, activation)
    return dpex.compiled(text, "batch_norm", signature.dtypes["y"])


def _batch_launch(signature: Signature, limits: DeviceLimits, *, last_: bool) -> Launch:
    x, (count,) = signature.shapes["x"], signature.shapes["scale"]
    vectors, rows = _along(signature, last_), size(x) // count
    if vectors is None:
        return rows_launch(limits, x[0] * count, size(x[2:]))
    if vectors:
        (ways,) = rows_launch(limits, rows, count).global_range
        return Launch((ways * ceil_div(count, vectors * LANES),), (1,))
    return block_launch(limits, ceil_div(rows, ELEMENTS), count)


def batch_norm(*, epsilon: float, last_: bool, activation: Activation) -> Implementation:
    """Return the numba-dpex implementation of batch normalisation."""
    load = partial(_batch_load, epsilon=epsilon, last_=last_, activation=activation)
    return _implementation(load, partial(_batch_launch, last_=last_))


# --- group normalisation ------------------------------------------------------------------------------


_GROUP_NORM = "def group_norm(item, y, x, scale, bias):\n"


def _group_rows_text(groups: int, epsilon: float, activation: Activation) -> str:
    """Return the channels-first kernel, in which each group is a row."""
    text = f"""{_GROUP_NORM}    count = scale.size // {groups}
    pixels = x.size // (x.shape[0] * scale.size)
    part = pixels // {LANES} * {LANES}
{rows_text(f"x.shape[0] * {groups}", "count * pixels")}{_moments(epsilon)}        for k in range(count):
            c = row % {groups} * count + k
            g = f * load(scale, c)
            h = load(bias, c)
            begin = first + k * pixels
            for j in range(begin, begin + part, {LANES}):
                v = (load_vector(x, j) - mean) * g + h
{applied_wide(activation, " " * 16)}                store_vector(y, j, v)
            for j in range(begin + part, begin + pixels):
                v = (load(x, j) - mean) * g + h
{applied(activation, " " * 16)}                store(y, j, v)
"""
    return text


def _group_vectors_text(count: int, vectors: int, epsilon: float, activation: Activation) -> str:
    """Return the channels-last kernel: a work-item computes a few vectors of channels, in whole groups."""
    width = vectors * LANES

    all_of = partial(per_vector, vectors)

    def by_group(name: str) -> str:
        if count == 1:
            return ""
        text = all_of(f"store_vector(part, {{1}}, {name}{{0}})", 1)
        text += f"""    for g in range(0, {width}, {count}):
        t = real(0)
        for k in range({count}):
            t += load(part, g + k)
        for k in range({count}):
            store(part, g + k, t / real({count}))
"""
        return text + all_of(f"{name}{{0}} = load_vector(part, {{1}})", 1)

    text = f"""{_GROUP_NORM}    every = scale.size
    pixels = x.size // (x.shape[0] * every)
    pieces = (every + {width - 1}) // {width}
    i = item.get_global_id(0)
    c = min(i % pieces * {width}, every - {width})
    first = i // pieces * pixels * every + c
"""
    text += f"    part = LocalArray({width}, real)\n" if count > 1 else ""
    text += all_of("m{0} = splat(real(0))\nq{0} = splat(real(0))", 1)
    text += f"""    for k in range(0, pixels, {_PIXELS}):
        end = min(k + {_PIXELS}, pixels)
        n = real(end - k)
        share = n / real(end)
        old = real(k) * share
        low = first + k * every
        high = first + end * every
"""
    along = "        for j in range(low, high, every):\n"
    text += all_of("s{0} = splat(real(0))", 2)
    text += along + all_of("s{0} = s{0} + load_vector(x, j + {1})", 3) + all_of("s{0} = s{0} / n", 2)
    text += along + all_of("d = load_vector(x, j + {1}) - s{0}\nq{0} = vfma(d, d, q{0})", 3)
    text += all_of("d = s{0} - m{0}\nm{0} = vfma(d, share, m{0})\nq{0} = vfma(d * d, old, q{0})", 2)
    if count > 1:
        text += all_of("g{0} = m{0}", 1) + by_group("g")
        text += all_of("d = m{0} - g{0}\nq{0} = vfma(d * d, real(pixels), q{0})\nm{0} = g{0}", 1) + by_group("q")
    text += all_of(f"f{{0}} = load_vector(scale, c + {{1}}) / vsqrt(q{{0}} / real(pixels) + real({epsilon!r}))", 1)
    text += all_of("h{0} = load_vector(bias, c + {1})", 1)
    # Backwards, because the data read last are still in the L2 cache.
    text += "    for k in range(pixels):\n        j = first + (pixels - 1 - k) * every\n"
    finish = f"v = (load_vector(x, j + {{1}}) - m{{0}}) * f{{0}} + h{{0}}\n{applied_wide(activation, '')}"
    return text + all_of(f"{finish}store_vector(y, j + {{1}}, v)", 2)


def _group_narrow_text(groups: int, epsilon: float, activation: Activation) -> str:
    """Return the channels-last kernel for groups that fit no vectors: one work-group per group."""
    # Update pixel and channel incrementally: a division per element would dominate the run time.
    each = """    p = l // count
    c = l % count
    while p < pixels:
        {0}
        p += width // count
        c += width % count
        if c >= count:
            c -= count
            p += 1
"""
    value = "load(x, first + p * every + c)"
    finish = f"v = ({value} - mean) * f * load(scale, c0 + c) + load(bias, c0 + c)\n"
    finish += f"{applied(activation, ' ' * 8)}        store(y, first + p * every + c, v)"
    return f"""{_GROUP_NORM}    group = item.get_group()
    row = group.get_group_id(0)
    l = item.get_local_id(0)
    width = item.get_local_range(0)
    found = LocalArray({MOST}, real)
    more = LocalArray({MOST}, real)
    every = scale.size
    count = every // {groups}
    pixels = x.size // (x.shape[0] * every)
    n = real(count * pixels)
    c0 = row % {groups} * count
    first = row // {groups} * pixels * every + c0
    s = real(0)
{each.replace("{0}", f"s += {value}")}{_gathered("s", "found")}    mean = s / n
    q = real(0)
{each.replace("{0}", f"d = {value} - mean; q = fma(d, d, q)")}{_gathered("q", "more")}
    f = real(1) / math.sqrt(q / n + real({epsilon!r}))
{each.replace("{0}", finish)}"""


def _group_vectors(signature: Signature, groups: int) -> int:
    """Return the vectors of channels per work-item, in whole groups, channels last; 0 if none fits."""
    x, every = signature.shapes["x"], signature.shapes["scale"][0]
    fit = [k for k in (1, 2, 4, 8) if k * LANES <= every and k * LANES % (every // groups) == 0]
    # As many as leave enough work-items.
    return max((k for k in fit if x[0] * ceil_div(every, k * LANES) >= _ITEMS), default=min(fit, default=0))


def _group_load(signature: Signature, *, groups: int, epsilon: float, last_: bool, activation: Activation) -> Any:
    vectors = _group_vectors(signature, groups) if last_ else 0
    if not last_:
        text = _group_rows_text(groups, epsilon, activation)
    elif vectors:
        text = _group_vectors_text(signature.shapes["scale"][0] // groups, vectors, epsilon, activation)
    else:
        text = _group_narrow_text(groups, epsilon, activation)
    return dpex.compiled(text, "group_norm", signature.dtypes["y"])


def _group_launch(signature: Signature, limits: DeviceLimits, *, groups: int, last_: bool) -> Launch:
    x = signature.shapes["x"]
    every = channels(x, last_)
    length = size(x) // (x[0] * groups)
    if not last_:
        return rows_launch(limits, x[0] * groups, length)
    vectors = _group_vectors(signature, groups)
    if vectors:
        return Launch((x[0] * ceil_div(every, vectors * LANES),), (1,))
    return _row_launch(limits, x[0] * groups, length)


def group_norm(*, groups: int, epsilon: float, last_: bool, activation: Activation) -> Implementation:
    """Return the numba-dpex implementation of group normalisation."""
    load = partial(_group_load, groups=groups, epsilon=epsilon, last_=last_, activation=activation)
    return _implementation(load, partial(_group_launch, groups=groups, last_=last_), revision="3")


def _implementation(load: Any, launch: Any, revision: str = "2") -> Implementation:
    return Implementation("numba-dpex", "numba-dpex", load, launch, dpex.REQUIRES, efficiency=0.4, revision=revision)
