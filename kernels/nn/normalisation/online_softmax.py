# SPDX-License-Identifier: Apache-2.0
"""Online softmax of strided lines in single precision: memory is read twice and written once.

A work-item processes vectors of neighbouring lines - whole rows of memory, if that leaves enough for all compute units.
For each lane it keeps the running maximum and the sum of exponentials, which is rescaled when the maximum grows (see
`syclsched.kernels.vectors.scaled_exponential`). A second pass writes the result. Vectors with values outside the valid
range are recomputed separately in three passes.
"""

from __future__ import annotations

from syclsched.kernels.common import ceil_div
from syclsched.kernels.nn.rows_numba import indented
from syclsched.kernels.vectors import scaled_exponential, straight_line
from syclsched.kernels.vectors.vector_functions import LANES
from syclsched.model.operation import DeviceLimits, Launch

#: Most and fewest vectors per work-item.
_MOST_VECTORS, _FEWEST_VECTORS = 64, 4
#: Elements of a line per rescaling of its sum.
_UNROLL = 8
#: Target number of work-items per compute unit.
_ITEMS_PER_UNIT = 4


def fits(behind: int) -> bool:
    """Return whether there are at least as many neighbouring lines as lanes."""
    return behind >= LANES


def launch(limits: DeviceLimits, before: int, behind: int) -> Launch:
    """Return the index space: equally many work-items for each set of ``behind`` neighbouring lines."""
    vectors = ceil_div(behind, LANES)
    wanted = ceil_div(_ITEMS_PER_UNIT * limits.compute_units, max(before, 1))
    # The last two vectors may overlap and belong to one work-item, which has up to one vector more than the others.
    pieces = max(ceil_div(vectors, _MOST_VECTORS - 1), min(wanted, vectors // _FEWEST_VECTORS), 1)
    return Launch((max(before, 1) * pieces,), (1,))


def opencl(before: int, length: int, behind: int, log: bool, one_vector: str) -> tuple[str, str]:
    """Return functions and kernel statements on ``x`` and ``y`` in OpenCL C."""
    vectors = ceil_div(behind, LANES)
    here = f"const int own = v - first, at = min(v * {LANES}, {behind - LANES});"
    of_all = f"for (int v = first; v < end; ++v) {{ {here}"

    def rows(begin: int, end: int, step: int) -> str:
        xs = [f"x{k}" for k in range(step)]
        loads = " ".join(f"const AV {x} = LOADV(x + (r + {k}) * {behind} + at);" for k, x in enumerate(xs))
        adds = " ".join(f"total = add_power(total, {x}, k);" for x in xs)
        return f"""for (long r = {begin}; r < {end}; r += {step}) {of_all}
    AV total = totals[own]; {loads}
    const AV before = tops[own], top = {_tree_max(["before", *xs], "larger({}, {})")}, k = exponent(top);
    total *= scaling(exponent(before), k);
    {adds}
    tops[own] = top; totals[own] = total;
  }}"""

    whole = length // _UNROLL * _UNROLL
    high, low = scaled_exponential.LN2_PARTS
    least, most = scaled_exponential.LEAST, scaled_exponential.MOST
    scale = f"totals[own] = fma(k, (AV){high!r}f, -top) + (k * {low!r}f + log(totals[own]));" if log else ""
    scale = scale or "tops[own] = k; totals[own] = 1 / totals[own];"
    result = "(LOADV(x + p) - tops[own]) - totals[own]" if log else "power_over(LOADV(x + p), tops[own]) * totals[own]"
    head = "".join(straight_line.opencl(each, name, LANES) for name, each in scaled_exponential.FUNCTIONS.items())
    body = f"""const int pieces = get_global_size(0) / {before}, piece = get_global_id(0) % pieces;
  const int some = ({vectors - 2} + pieces) / pieces, first = piece * some;
  if (piece > 0 && first >= {vectors - 1}) return;
  const int end = first + some >= {vectors - 1} ? {vectors} : first + some;
  const long start = get_global_id(0) / pieces * {length * behind};
  x += start; y += start;
  AV tops[{_MOST_VECTORS}], totals[{_MOST_VECTORS}];
  int sound[{_MOST_VECTORS}];
  {of_all} tops[own] = (AV){least!r}f; totals[own] = (AV)0; }}
  {rows(0, whole, _UNROLL)}
  {rows(whole, length, 1)}
  {of_all}
    const AV top = tops[own], k = exponent(top);
    sound[own] = all(top > {least!r}f & top < {most!r}f & totals[own] < INFINITY);
    {scale}
  }}
  for (long r = 0; r < {length}; ++r) {of_all} const long p = r * {behind} + at; STOREV(y + p, {result}); }}
  {of_all} if (!sound[own]) {{ {one_vector} }} }}
"""
    return f"{head}#define larger(a, b) ((a) > (b) ? (a) : (b))\n", body


def _tree_max(names: list[str], join: str) -> str:
    """Return the expression of the largest of several names, combined in pairs by ``join``."""
    while len(names) > 1:
        pairs = [join.format(*pair) for pair in zip(names[::2], names[1::2], strict=False)]
        names = pairs + names[2 * len(pairs) :]
    return names[0]


def numba_text(ndim: int, axis: int, log: bool) -> str:
    """Return the numba-dpex kernel; shapes are read at run time."""
    behind = " * ".join(f"x.shape[{each}]" for each in range(axis + 1, ndim))
    before = " * ".join(f"x.shape[{each}]" for each in range(axis))

    def of_all(lines: str, depth: int = 1) -> str:
        here = f"own = (v - begin) * {LANES}\nat = first + min(v * {LANES}, b - {LANES})\n"
        return indented("for v in range(begin, end):", depth) + indented(here + lines, depth + 1)

    def rows(begin: str, end: str, step: int) -> str:
        xs = [f"x{k}" for k in range(step)]
        loads = "".join(f"{x} = load_vector(x, at + (r + {k}) * b)\n" for k, x in enumerate(xs))
        adds = "".join(f"total = vadd_power(total, {x}, k)\n" for x in xs)
        # One after another: a nested expression would repeat its operands many times.
        largest = "".join(f"top = choose({x} > top, {x}, top)\n" for x in xs)
        return indented(f"for r in range({begin}, {end}, {step}):", 1) + of_all(
            f"{loads}before = load_vector(tops, own)\ntop = before\n{largest}k = vexponent(top)\n"
            f"total = load_vector(totals, own) * vscaling(vexponent(before), k)\n{adds}"
            "store_vector(tops, own, top)\nstore_vector(totals, own, total)",
            2,
        )

    high, low = scaled_exponential.LN2_PARTS
    least, most = scaled_exponential.LEAST, scaled_exponential.MOST
    start = f"store_vector(tops, own, splat(real({least})))\nstore_vector(totals, own, splat(real(0)))"
    scale = (
        f"store_vector(totals, own, vfma(k, real({high}), -top) + (k * real({low}) + vlog(total)))"
        if log
        else "store_vector(tops, own, k)\nstore_vector(totals, own, real(1) / total)"
    )
    sound = f"(top > real({least})) & (top < real({most})) & (total < real(inf))"
    end = f"""top = load_vector(tops, own)
total = load_vector(totals, own)
k = vexponent(top)
wrong[v - begin] = largest(choose({sound}, splat(real(0)), splat(real(1))))
{scale}"""
    power = "vpower_over(load_vector(x, at + r * b), load_vector(tops, own)) * load_vector(totals, own)"
    shifted = "(load_vector(x, at + r * b) - load_vector(tops, own)) - load_vector(totals, own)"
    result = shifted if log else power
    again = f"""if wrong[v - begin] > 0:
    m = splat(real(-inf))
    s = splat(real(0))
    for j in range(at, at + n * b, b):
        e = load_vector(x, j)
        m = choose(e > m, e, m)
    for j in range(at, at + n * b, b):
        s = s + vpower(load_vector(x, j) - m)
    s = {"vlog(s)" if log else "real(1) / s"}
    for j in range(at, at + n * b, b):
        store_vector(y, j, {"(load_vector(x, j) - m) - s" if log else "vpower(load_vector(x, j) - m) * s"})"""
    return f"""def softmax(item, y, x):
    n = x.shape[{axis}]
    b = {behind}
    vectors = (b + {LANES - 1}) // {LANES}
{_piece(before)}    some = (vectors - 2 + pieces) // pieces
    begin = piece * some
    end = vectors if begin + some >= vectors - 1 else begin + some
    begin = vectors if piece > 0 and begin >= vectors - 1 else begin
    tops = PrivateArray({_MOST_VECTORS * LANES}, real)
    totals = PrivateArray({_MOST_VECTORS * LANES}, real)
    wrong = PrivateArray({_MOST_VECTORS}, real)
    whole = n // {_UNROLL} * {_UNROLL}
{of_all(start)}{rows("0", "whole", _UNROLL)}{rows("whole", "n", 1)}{of_all(end)}    for r in range(n):
{of_all(f"store_vector(y, at + r * b, {result})", 2)}{of_all(again)}"""


def _piece(before: str) -> str:
    """Return source lines that compute a work-item's first line, its piece and the number of pieces."""
    i, items = "item.get_global_id(0)", "item.get_global_range(0)"
    if not before:
        # For a constant quotient of 0, LLVM would use odd integer widths that SPIR-V lacks.
        return indented(f"first = 0\npiece = {i}\npieces = {items}", 1)
    # LLVM would fuse quotient and remainder into instructions that SPIR-V lacks.
    pieces = f"pieces = {items} // ({before})\nnumber = {i} // pieces"
    return indented(f"{pieces}\npiece = {i} - number * pieces\nfirst = number * n * b", 1)
