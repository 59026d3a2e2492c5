# SPDX-License-Identifier: Apache-2.0
"""Local response normalisation in numba-dpex.

Contiguous channels: those with all neighbours are computed in vectors, the others one by one. Strided channels: a
work-item loops over channels with a line of vectors. If neither line is long enough, each work-item computes one
element.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from syclsched.kernels.common import block_launch, ceil_div
from syclsched.kernels.nn import dpex
from syclsched.kernels.nn.geometry import size as extent
from syclsched.kernels.nn.rows_numba import BLOCK, indented, rows_launch, rows_text
from syclsched.kernels.vectors.vector_functions import LANES
from syclsched.model.operation import DeviceLimits, Implementation, Launch, Signature

#: Elements of a work-item's line, and the target number of work-items.
_LINE, _TARGET_ITEMS = 48 * LANES, 64


def _strategy(signature: Signature, size: int, last_: bool) -> str:
    """Return the strategy: along 'neighbours', in 'lines' over channels, or by 'elements'."""
    x = signature.shapes["x"]
    if last_ or extent(x[2:]) == 1:
        return "neighbours" if (x[-1] if last_ else x[1]) >= LANES + size - 1 else "elements"
    return "lines" if extent(x[2:]) >= LANES else "elements"


def _power(beta: float, dtype: str, *, wide: bool) -> str:
    """Return the expression of ``base`` to the power of -beta."""
    root = "vsqrt" if wide else "math.sqrt"
    three_quarters = f"real(1) / ({root}(base) * {root}({root}(base)))"
    if dtype == "float32":
        three_quarters = "vinverse_three_quarters(base)"
    # Roots are several times faster than pow, and these are the common exponents.
    powers = {0.5: f"real(1) / {root}(base)", 0.75: three_quarters, 1.0: "real(1) / base"}
    other = f"vexp(real({-beta!r}) * vlog(base))" if wide else f"math.pow(base, real({-beta!r}))"
    return powers.get(beta, other)


def _finish(at: str, alpha: float, beta: float, bias: float, size: int, dtype: str, *, wide: bool) -> str:
    load, store = ("load_vector", "store_vector") if wide else ("load", "store")
    power = _power(beta, dtype, wide=wide)
    return f"base = real({bias!r}) + real({alpha / size!r}) * s\n{store}(y, {at}, {load}(x, {at}) * ({power}))"


def _neighbours_text(channels: str, size: int, wide: str, narrow: str) -> str:
    before, after = (size - 1) // 2, size // 2
    text = "def lrn(item, y, x):\n" + rows_text(f"x.size // {channels}", channels)
    text += indented(f"for q in range((n - {size - 1} + {LANES - 1}) // {LANES}):", 2)
    text += indented(f"at = first + min({before} + q * {LANES}, n - {after + LANES})\nt = splat(real(0))", 3)
    for k in range(-before, after + 1):
        text += indented(f"v = load_vector(x, at + {k})\nt = vfma(v, v, t)", 3)
    text += indented(f"s = t\n{wide}", 3)
    text += indented(f"for q in range({size - 1}):", 2)
    text += indented(f"c = q if q < {before} else n - {size - 1} + q\nat = first + c\ne = real(0)", 3)
    text += indented(f"for k in range(max(c - {before}, 0), min(c + {after + 1}, n)):", 3)
    text += indented("u = load(x, first + k)\ne = fma(u, u, e)", 4)
    return text + indented(narrow.replace("base", "root").replace("* s", "* e"), 3)


def _lines_text(size: int, wide: str) -> str:
    return f"""def lrn(item, y, x):
    channels = x.shape[1]
    apart = x.size // (x.shape[0] * channels)
    i = item.get_global_id(0)
    lines = (apart + {_LINE - 1}) // {_LINE}
    parts = item.get_global_range(0) // (x.shape[0] * lines)
    each = (channels + parts - 1) // parts
    low = i // parts % lines * {_LINE}
    high = min(low + {_LINE}, apart)
    # A line shorter than a vector begins where one still fits.
    low = min(low, high - {LANES})
    begin = i % parts * each
    first = i // (parts * lines) * channels * apart
    for c in range(begin, min(begin + each, channels)):
        for q in range((high - low + {LANES - 1}) // {LANES}):
            at = first + c * apart + min(low + q * {LANES}, high - {LANES})
            s = splat(real(0))
            for k in range(max(-{(size - 1) // 2}, -c), min({size // 2}, channels - 1 - c) + 1):
                v = load_vector(x, at + k * apart)
                s = vfma(v, v, s)
{indented(wide, 3)}"""


def _elements_text(ndim: int, size: int, narrow: str, *, last_: bool) -> str:
    text = f"def lrn(item, y, x):\n    channels = x.shape[{ndim - 1 if last_ else 1}]\n"
    text += "    apart = 1\n" if last_ else "    apart = x.size // (x.shape[0] * channels)\n"
    text += BLOCK.format(length="channels" if last_ else "apart")
    text += "    n = channels\n" if last_ else "    n = apart\n"
    return f"""{text}    if j < n:
        c = {"j" if last_ else "row % channels"}
        at = row * n + j
        s = real(0)
        for k in range(-{(size - 1) // 2}, {size // 2 + 1}):
            if c + k >= 0 and c + k < channels:
                v = load(x, at + k * apart)
                s = fma(v, v, s)
{indented(narrow, 2)}"""


def _load(signature: Signature, *, alpha: float, beta: float, bias: float, size: int, last_: bool) -> Any:
    ndim, dtype = len(signature.shapes["x"]), signature.dtypes["y"]
    wide, narrow = (_finish("at", alpha, beta, bias, size, dtype, wide=each) for each in (True, False))
    strategy = _strategy(signature, size, last_)
    if strategy == "neighbours":
        text = _neighbours_text(f"x.shape[{ndim - 1 if last_ else 1}]", size, wide, narrow)
    elif strategy == "lines":
        text = _lines_text(size, wide)
    else:
        text = _elements_text(ndim, size, narrow, last_=last_)
    return dpex.compiled(text, "lrn", dtype)


def _launch(signature: Signature, limits: DeviceLimits, *, size: int, last_: bool) -> Launch:
    x = signature.shapes["x"]
    line = x[-1] if last_ else extent(x[2:])
    strategy = _strategy(signature, size, last_)
    if strategy == "neighbours":
        count = x[-1] if last_ else x[1]
        return rows_launch(limits, extent(x) // count, count)
    if strategy == "lines":
        lines = x[0] * ceil_div(line, _LINE)
        return Launch((lines * max(1, min(x[1], _TARGET_ITEMS // lines)),), (1,))
    return block_launch(limits, extent(x) // line, line)


def lrn(*, alpha: float, beta: float, bias: float, size: int, last_: bool) -> Implementation:
    """Return the numba-dpex implementation of local response normalisation."""
    load = partial(_load, alpha=alpha, beta=beta, bias=bias, size=size, last_=last_)
    launch = partial(_launch, size=size, last_=last_)
    return Implementation("numba-dpex", "numba-dpex", load, launch, dpex.REQUIRES, efficiency=0.3, revision="2")
