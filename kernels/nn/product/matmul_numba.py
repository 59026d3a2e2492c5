# SPDX-License-Identifier: Apache-2.0
"""Product of two matrices in numba-dpex, with rows of a staged in local memory.

A work-group computes `ROWS` rows by twice as many columns as it has work-items. Each work-item keeps two columns of all
these rows in registers; neighbours have neighbouring columns, so reads of b coalesce. The group first loads its part of
a into local memory, `DEPTH` summation terms at a time.

Shapes are read at run time, so one compilation (a second) serves all of them.
"""

from __future__ import annotations

from typing import Any

from syclsched.kernels.common import NUMBA_DPEX, ceil_div
from syclsched.kernels.nn import dpex
from syclsched.model.operation import DeviceLimits, Launch, Requirements, Signature, Tailored

#: Rows and columns per work-item: 28 sums leave registers for the operands.
ROWS, COLUMNS = 14, 2
#: Summation terms in local memory at once: 7 KiB of float32, which every device has.
DEPTH = 128


def lanes(signature: Signature, limits: DeviceLimits) -> int:
    """Return the work-items of a group; a compile-time constant, so that the compiler sees contiguous accesses."""
    columns = signature.shapes["y"][-1]
    return min(128 if columns >= 256 else 32, limits.max_work_group_size)


def refuses(signature: Signature) -> str | None:
    """Return why a product is not supported, or None."""
    if any(len(signature.shapes[name]) != 2 for name in "ab"):
        return "it multiplies two matrices, not many"
    if 0 in signature.shapes["y"]:
        return "the result must not be empty"
    if "c" in signature.shapes and signature.shapes["c"] != signature.shapes["y"][-1:]:
        return "it adds a bias of one number for each column"
    return None


REQUIRES = Requirements(packages=NUMBA_DPEX.packages, dtypes=("float32", "float64"), refuses=refuses)


def launch(signature: Signature, limits: DeviceLimits) -> Launch:
    """Return the index space."""
    (m, n), width = signature.shapes["y"], lanes(signature, limits)
    return Launch((max(1, ceil_div(m, ROWS) * ceil_div(n, COLUMNS * width)) * width,), (width,))


def load(signature: Signature, *, alpha: float, beta: float, bias: bool, residual: bool) -> Any:
    """Return the kernel of a signature, specialised for a device's work-group size."""

    def of(limits: DeviceLimits) -> Any:
        return _kernel(signature.dtypes["y"], lanes(signature, limits), alpha, beta, bias, residual)

    return Tailored(of)


def _terms(clamped: bool) -> str:
    """Return source lines that add one term to all sums."""
    text = ""
    for column in range(COLUMNS):
        place = f"q{column}" if clamped else f"j0 + {column} * width + l"
        text += f"                w{column} = load(b, (k0 + k) * n + {place})\n"
    for row in range(ROWS):
        text += f"                v{row} = load(tile, {row * DEPTH} + k)\n"
        for column in range(COLUMNS):
            text += f"                s{row}_{column} = fma(v{row}, w{column}, s{row}_{column})\n"
    return text


def _text(width: int, alpha: float, beta: float, bias: bool, residual: bool) -> str:
    names = ["y", "a", "b", *(["c"] if bias else []), *(["r"] if residual else [])]
    text = f"""def product(item, {", ".join(names)}):
    tile = LocalArray(({ROWS}, {DEPTH}), real)
    m, n, depth = y.shape[0], y.shape[1], a.shape[1]
    width = {width}
    l = item.get_local_id(0)
    wide = width * {COLUMNS}
    groups = (n + wide - 1) // wide
    group = item.get_group().get_group_id(0)
    i0 = group // groups * {ROWS}
    j0 = group % groups * wide
"""
    for row in range(ROWS):
        for column in range(COLUMNS):
            text += f"    s{row}_{column} = real(0)\n"
    # Columns beyond the last one repeat it and are not stored. Full groups use unclamped, contiguous columns.
    for column in range(COLUMNS):
        text += f"    q{column} = min(j0 + {column} * width + l, n - 1)\n"
    text += f"""    for k0 in range(0, depth, {DEPTH}):
        for e in range(l, {ROWS * DEPTH}, width):
            row = e // {DEPTH}
            k = e % {DEPTH}
            v = real(0)
            if i0 + row < m and k0 + k < depth:
                v = load(a, (i0 + row) * depth + k0 + k)
            store(tile, e, v)
        group_barrier(item.get_group())
        if j0 + wide <= n:
            for k in range(min({DEPTH}, depth - k0)):
{_terms(False)}        else:
            for k in range(min({DEPTH}, depth - k0)):
{_terms(True)}        group_barrier(item.get_group())
"""
    for column in range(COLUMNS):
        text += f"    j = j0 + {column} * width + l\n    if j < n:\n"
        text += f"        added = load(c, j) * real({beta!r})\n" if bias else ""
        for row in range(ROWS):
            value = f"s{row}_{column}" + (f" * real({alpha!r})" if alpha != 1 else "") + (" + added" if bias else "")
            place = f"(i0 + {row}) * n + j"
            value += f" + load(r, {place})" if residual else ""
            text += f"        if i0 + {row} < m:\n            store(y, {place}, {value})\n"
    return text


def _kernel(dtype: str, width: int, alpha: float, beta: float, bias: bool, residual: bool) -> Any:
    return dpex.compiled(_text(width, alpha, beta, bias, residual), "product", dtype)
