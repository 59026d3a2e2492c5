# SPDX-License-Identifier: Apache-2.0
"""`lrn`: local response normalisation across channels (Krizhevsky, Sutskever and Hinton, 2012, section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import OPENCL_C, ceil_div
from syclsched.kernels.nn import lane_shuffles
from syclsched.kernels.nn.geometry import last
from syclsched.kernels.nn.geometry import size as extent
from syclsched.kernels.nn.line_operations import lines_launch, number, work
from syclsched.kernels.nn.normalisation import lrn_numba
from syclsched.kernels.nn.opencl_types import FLOATS, empty_kernel, literal, sum_dtype
from syclsched.kernels.nn.rows_opencl import RowCode
from syclsched.kernels.onednn.operations import normalization as onednn
from syclsched.kernels.vectors import inverse_root
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, OpenCLSource, Operation, Parameter, Signature, Split


def _check(signature: Signature) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if len(x) < 2:
        return f"x has a batch and channels, not {x}"
    return None if y == x else f"lrn keeps the shape: y {y} against x {x}"


def _host(*, y: Any, x: Any, alpha: float, beta: float, bias: float, size: int, last_: bool) -> None:
    import numpy as np

    target = last(y, last_)
    source = last(x, last_).astype(sum_dtype(str(y.dtype)), copy=False)
    before, after = (size - 1) // 2, size // 2
    count = source.shape[-1]
    # Differences of running sums would cancel, so the few neighbours are added directly.
    squares = np.pad(np.square(source), [(0, 0)] * (source.ndim - 1) + [(before, after)])
    total = np.zeros_like(source)
    for offset in range(size):
        total += squares[..., offset : offset + count]
    target[...] = source / (bias + alpha / size * total) ** beta


#: Most and fewest vectors of a line per work-item, and the target number of work-items.
_MOST_VECTORS, _FEWEST_VECTORS, _TARGET_ITEMS = 64, 32, 32


@dataclass(frozen=True, slots=True)
class _WorkDivision:
    """Distribution of the work over work-items."""

    images: int  # groups of all channels
    channels: int
    apart: int  # stride of the channels, in elements
    line: RowCode  # contiguous elements per work-item: of one channel at a time, or all channels of a pixel
    lines: int  # lines that cover a channel
    each: int  # channels per work-item

    @property
    def parts(self) -> int:
        """Work-items that together compute a line of all channels."""
        return ceil_div(self.channels, self.each)

    @property
    def items(self) -> int:
        """Total number of work-items."""
        return self.images * self.lines * self.parts


def _work_division(signature: Signature, last_: bool) -> _WorkDivision:
    x, dtype = signature.shapes["x"], signature.dtypes["y"]
    count, apart = (x[-1], 1) if last_ else (x[1], extent(x[2:]))
    if apart == 1:
        return _WorkDivision(extent(x) // count, count, 1, RowCode(count, dtype), 1, count)
    width = RowCode(apart, dtype).block.width
    # The longest line with the least overlap.
    lengths = [min(vectors * width, apart) for vectors in range(_MOST_VECTORS, _FEWEST_VECTORS - 1, -1)]
    length = min(lengths, key=lambda length: ceil_div(apart, length) * length)
    lines = ceil_div(apart, length)
    each = ceil_div(count, max(1, min(count, _TARGET_ITEMS // (x[0] * lines))))
    return _WorkDivision(x[0], count, apart, RowCode(length, dtype), lines, each)


def _count(signature: Signature, *, last_: bool) -> int:
    return _work_division(signature, last_).items if extent(signature.shapes["x"]) else 1


def _load_opencl(
    signature: Signature, *, alpha: float, beta: float, bias: float, size: int, last_: bool
) -> OpenCLSource:
    parameters = "__global T* restrict y, __global const T* restrict x"
    if not extent(signature.shapes["x"]):
        return empty_kernel("lrn", parameters.replace("T*", "uchar*"))
    dtype, division = signature.dtypes["y"], _work_division(signature, last_)
    kind, whole = sum_dtype(dtype), division.channels * division.apart
    finish = f"const AV base = {literal(bias, kind)} + {literal(alpha / size, kind)} * v; "
    finish += f"STOREV(y + {{0}}, LOADV(x + {{0}}) * ({_power(beta, kind)}));"
    start = f"const size_t i = get_global_id(0);\n  if (i >= {division.items}) return;\n  "
    start += f"const size_t image = i / {division.lines * division.parts} * {whole}; x += image; y += image;"
    body = _neighbours(division.line, size, finish) if division.apart == 1 else None
    if body is None:
        division = division if division.apart > 1 else replace(division, line=RowCode(1, dtype))
        body = _over_channels(division, size, finish)
    width = division.line.block.width
    head = division.line.head + (inverse_root.opencl(width) if kind == "float32" else "")
    reader = lane_shuffles.reader(dtype, width)
    head += f"{reader}inline AR squared(AR v) {{ return v * v; }}\n"
    source = f"{head}WHOLE_VECTORS __kernel void lrn({parameters}) {{\n  {start}\n  {body}\n}}\n"
    return OpenCLSource(source, "lrn")


def _power(beta: float, kind: str) -> str:
    """Return the expression of ``base`` to the power of -beta."""
    single = kind == "float32"
    root = "inverse_root(base)" if single else "1 / sqrt(base)"
    # Roots are several times faster than pow, and these are the common exponents.
    three_quarters = "inverse_three_quarters(base)" if single else "1 / (sqrt(base) * sqrt(sqrt(base)))"
    powers = {0.5: root, 0.75: three_quarters, 1.0: "1 / base"}
    return powers.get(beta, f"pow(base, (AV){literal(-beta, kind)})")


def _neighbours(rows: RowCode, size: int, finish: str) -> str | None:
    """Return code for all channels of a pixel, which are contiguous; None if it would be too long."""
    before, count, width = (size - 1) // 2, rows.length, rows.block.width
    taps = [range(channel - before, channel - before + size) for channel in range(count)]
    places = [[at if 0 <= at < count else -1 for at in line] for line in taps]
    line = lane_shuffles.shuffled_vectors(places, [[1.0] * size] * count, count, width, width)
    load = "squared(LOADR(x + {0}))"
    return lane_shuffles.code(line, rows.dtype, (width, width), load, finish) if line else None


def _over_channels(division: _WorkDivision, size: int, finish: str) -> str:
    """Return code that loops over channels; a work-item computes a line of each."""
    before, after, length = (size - 1) // 2, size // 2, division.line.length
    add = "{{ const AV u = LOADV(x + at + {0}); v = fma(u, u, v); }}"
    inside = " ".join(add.format(k * division.apart) for k in range(-before, after + 1))
    edge = f"for (int k = max(-{before}, -c); k <= min({after}, {division.channels - 1} - c); ++k) "
    edge += add.format(f"k * {division.apart}")

    def channel(sum_up: str) -> str:
        each = f"const int at = c * {division.apart} + j; AV v = (AV)0; {sum_up} {finish.format('at')}"
        return f"{{ {division.line.along(each)} }}"

    first = f"min((int)(i / {division.parts} % {division.lines}) * {length}, {division.apart - length})"
    return f"""const int first = {first}, part = i % {division.parts} * {division.each};
  x += first; y += first;
  for (int c = part; c < min(part + {division.each}, {division.channels}); ++c)
    if (c >= {before} && c + {after} < {division.channels}) {channel(inside)}
    else {channel(edge)}"""


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


@cache
def _lrn(alpha: float, beta: float, bias: float, size: int, channels_last: bool) -> Operation:
    attributes = {"alpha": alpha, "beta": beta, "bias": bias, "size": size, "last_": channels_last}
    launch = partial(lines_launch, count=partial(_count, last_=channels_last))
    opencl = Implementation(
        "opencl-c", "opencl-c", partial(_load_opencl, **attributes), launch, OPENCL_C, efficiency=0.4, revision="2"
    )
    names = ["lrn", str(size), number(alpha), number(beta), number(bias), "last" if channels_last else ""]
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, like="y"),
        ),
        implementations=(
            onednn.lrn(alpha=alpha, beta=beta, bias=bias, size=size, channels_last=channels_last),
            opencl,
            lrn_numba.lrn(alpha=alpha, beta=beta, bias=bias, size=size, last_=channels_last),
            Implementation("numpy", "host", partial(_load_host, **attributes), efficiency=0.1),
        ),
        work=partial(work, flops=2.0 * size + 20),
        check=_check,
        split=Split(rows=("y", "x")),
    )


def lrn(
    alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int = 5, channels_last: bool = False
) -> Operation:
    """Return y = x / (bias + alpha / size * sum of squares of ``size`` neighbouring channels) ** beta."""
    if size < 1:
        raise ArgumentError(f"size is at least 1, not {size}", where="size")
    return _lrn(float(alpha), float(beta), float(bias), int(size), bool(channels_last))
