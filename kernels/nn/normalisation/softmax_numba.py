# SPDX-License-Identifier: Apache-2.0
"""Softmax in numba-dpex, vectorised along rows or across neighbouring lines. Shapes are read at run time."""

from __future__ import annotations

from functools import partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, block_launch, ceil_div
from syclsched.kernels.nn import dpex
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.normalisation import online_softmax
from syclsched.kernels.nn.rows_numba import BLOCK, for_row, per_vector, reduced_row, rows_launch, rows_text, summed
from syclsched.kernels.vectors.vector_functions import LANES
from syclsched.model.operation import DeviceLimits, Implementation, Launch, Signature

#: Most vectors of neighbouring lines per work-item, and the bytes of them that stay in a compute unit's cache.
_MOST_VECTORS, _CACHE_BYTES = 4, 1 << 18


def _rows_text(axis: int, log: bool) -> str:
    text = f"def softmax(item, y, x):\n{rows_text(f'x.size // x.shape[{axis}]', f'x.shape[{axis}]')}"
    # The comparison ignores NaN; the sum of exponentials propagates it.
    wide = "v = load_vector(x, {1})\n{0} = choose(v > {0}, v, {0})"
    narrow = "e = load(x, {1})\n{0} = e if e > {0} else {0}"
    text += reduced_row("m", "-inf", wide, narrow, "choose({0} > {1}, {0}, {1})", "largest({0})")
    if log:
        text += summed("s", "{0} = {0} + vpower(load_vector(x, {1}) - m)", "{0} += math.exp(load(x, {1}) - m)")
        text += "        shift = math.log(s)\n"
        wide = "store_vector(y, first + j, (load_vector(x, first + j) - m) - shift)"
        return text + for_row(wide, "store(y, first + j, (load(x, first + j) - m) - shift)")
    wide = "v = vpower(load_vector(x, {1}) - m)\nstore_vector(y, {1}, v)\n{0} = {0} + v"
    text += (
        summed("s", wide, "e = math.exp(load(x, {1}) - m)\nstore(y, {1}, e)\n{0} += e") + "        f = real(1) / s\n"
    )
    wide = "store_vector(y, first + j, load_vector(y, first + j) * f)"
    return text + for_row(wide, "store(y, first + j, load(y, first + j) * f)")


def _lines_text(ndim: int, axis: int, log: bool, vectors: int) -> str:
    """Return the kernel of strided lines: a work-item processes a few vectors of neighbouring lines."""
    behind = " * ".join(f"x.shape[{each}]" for each in range(axis + 1, ndim))
    text = f"""def softmax(item, y, x):
    n = x.shape[{axis}]
    b = {behind}
    pieces = (b + {vectors * LANES - 1}) // {vectors * LANES}
    i = item.get_global_id(0)
    first = i // pieces * n * b + min(i % pieces * {vectors * LANES}, b - {vectors * LANES})
"""
    along = "    for j in range(first, first + n * b, b):\n"

    all_of = partial(per_vector, vectors)

    text += all_of("m{0} = splat(real(-inf))\ns{0} = splat(real(0))", 1)
    text += along + all_of("v = load_vector(x, j + {1})\nm{0} = choose(v > m{0}, v, m{0})", 2)
    text += along + all_of("s{0} = s{0} + vpower(load_vector(x, j + {1}) - m{0})", 2)
    if log:
        text += all_of("s{0} = vlog(s{0})", 1)
        return text + along + all_of("store_vector(y, j + {1}, (load_vector(x, j + {1}) - m{0}) - s{0})", 2)
    text += all_of("s{0} = real(1) / s{0}", 1)
    return text + along + all_of("store_vector(y, j + {1}, vpower(load_vector(x, j + {1}) - m{0}) * s{0})", 2)


def _narrow_text(ndim: int, axis: int, log: bool) -> str:
    """Return the kernel of fewer neighbouring lines than a vector has lanes."""
    finish = "load(x, first + k * b) - m - shift" if log else "math.exp(load(x, first + k * b) - m) / s"
    behind = " * ".join(f"x.shape[{each}]" for each in range(axis + 1, ndim))
    text = f"def softmax(item, y, x):\n    b = {behind}\n" + BLOCK.format(length="b")
    return (
        text
        + f"""    if j < b:
        n = x.shape[{axis}]
        first = row * n * b + j
        m = real(-inf)
        for k in range(n):
            v = load(x, first + k * b)
            m = v if v > m or v != v else m
        s = real(0)
        for k in range(n):
            s += math.exp(load(x, first + k * b) - m)
{"        shift = math.log(s)" if log else ""}
        for k in range(n):
            store(y, first + k * b, {finish})
"""
    )


def _lines(signature: Signature, axis: int) -> tuple[int, int, int, int]:
    """Return the lines before and after an axis, its extent, and the vectors per work-item."""
    shape = signature.shapes["x"]
    before, length, behind = size(shape[:axis]), shape[axis], size(shape[axis + 1 :])
    vectors = _MOST_VECTORS
    while vectors and (
        vectors * LANES > behind
        or (vectors > 1 and vectors * LANES * length * ITEM_BYTES[signature.dtypes["x"]] > _CACHE_BYTES)
    ):
        vectors //= 2
    return before, length, behind, vectors


def _in_blocks(signature: Signature, behind: int) -> bool:
    return signature.dtypes["x"] == "float32" and online_softmax.fits(behind)


def _load(signature: Signature, *, axis: int, log: bool) -> Any:
    ndim = len(signature.shapes["x"])
    axis %= ndim
    _, _, behind, vectors = _lines(signature, axis)
    if behind == 1:
        text = _rows_text(axis, log)
    elif _in_blocks(signature, behind):
        text = online_softmax.numba_text(ndim, axis, log)
    else:
        text = _lines_text(ndim, axis, log, vectors) if vectors else _narrow_text(ndim, axis, log)
    return dpex.compiled(text, "softmax", signature.dtypes["y"])


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int) -> Launch:
    before, length, behind, vectors = _lines(signature, axis % len(signature.shapes["x"]))
    if behind == 1:
        return rows_launch(limits, before, length)
    if _in_blocks(signature, behind):
        return online_softmax.launch(limits, before, behind)
    if vectors:
        return Launch((before * ceil_div(behind, vectors * LANES),), (1,))
    return block_launch(limits, before, behind)


def softmax(*, axis: int, log: bool) -> Implementation:
    """Return the numba-dpex implementation of softmax or log-softmax along an axis."""
    load, launch = partial(_load, axis=axis, log=log), partial(_launch, axis=axis)
    return Implementation("numba-dpex", "numba-dpex", load, launch, dpex.REQUIRES, efficiency=0.4, revision="3")
