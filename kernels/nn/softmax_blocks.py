# SPDX-License-Identifier: Apache-2.0
"""Softmax of lines side by side, in single precision: memory is read twice and written once.

A work-item has some vectors of neighbouring lines - whole rows of memory, if that leaves enough for all compute units -
and keeps of each lane the largest number and the sum of exponentials, which is scaled when a larger one comes (see
`syclsched.kernels.base_two`). Then it goes through memory again, and writes. Vectors with something that cannot be done
so are done once more, by themselves, in three passes.
"""

from __future__ import annotations

from syclsched.kernels import base_two, straight_line
from syclsched.kernels.common import ceil_div
from syclsched.kernels.nn.rows_numba import indented
from syclsched.kernels.vector_words import LANES
from syclsched.model.operation import DeviceLimits, Launch

#: Vectors a work-item has at most, and that are worth one of its own.
_MOST, _FEW = 64, 4
#: Elements of a line that are added together.
_TOGETHER = 8
#: Work-items a compute unit should get.
_ITEMS = 4


def fits(behind: int) -> bool:
    """Return whether there are enough lines side by side."""
    return behind >= LANES


def launch(limits: DeviceLimits, before: int, behind: int) -> Launch:
    """Return the index space: as many work-items for each ``behind`` lines side by side."""
    vectors = ceil_div(behind, LANES)
    wanted = ceil_div(_ITEMS * limits.compute_units, max(before, 1))
    # The last two vectors may overlap, and are of one work-item: one has up to a vector more than the others.
    pieces = max(ceil_div(vectors, _MOST - 1), min(wanted, vectors // _FEW), 1)
    return Launch((max(before, 1) * pieces,), (1,))


def opencl(before: int, length: int, behind: int, log: bool, one_vector: str) -> tuple[str, str]:
    """Return functions, and statements of a kernel that has ``x`` and ``y``, in OpenCL C."""
    vectors = ceil_div(behind, LANES)
    here = f"const int own = v - first, at = min(v * {LANES}, {behind - LANES});"
    of_all = f"for (int v = first; v < end; ++v) {{ {here}"

    def rows(begin: int, end: int, step: int) -> str:
        xs = [f"x{k}" for k in range(step)]
        loads = " ".join(f"const AV {x} = LOADV(x + (r + {k}) * {behind} + at);" for k, x in enumerate(xs))
        adds = " ".join(f"total = add_power(total, {x}, k);" for x in xs)
        return f"""for (long r = {begin}; r < {end}; r += {step}) {of_all}
    AV total = totals[own]; {loads}
    const AV before = tops[own], top = {_largest(["before", *xs], "larger({}, {})")}, k = exponent(top);
    total *= scaling(exponent(before), k);
    {adds}
    tops[own] = top; totals[own] = total;
  }}"""

    whole = length // _TOGETHER * _TOGETHER
    high, low = base_two.LN2_PARTS
    scale = f"totals[own] = fma(k, (AV){high!r}f, -top) + (k * {low!r}f + log(totals[own]));" if log else ""
    scale = scale or "tops[own] = k; totals[own] = 1 / totals[own];"
    result = "(LOADV(x + p) - tops[own]) - totals[own]" if log else "power_over(LOADV(x + p), tops[own]) * totals[own]"
    head = "".join(straight_line.opencl(each, name, LANES) for name, each in base_two.FUNCTIONS.items())
    body = f"""const int pieces = get_global_size(0) / {before}, piece = get_global_id(0) % pieces;
  const int some = ({vectors - 2} + pieces) / pieces, first = piece * some;
  if (piece > 0 && first >= {vectors - 1}) return;
  const int end = first + some >= {vectors - 1} ? {vectors} : first + some;
  const long start = get_global_id(0) / pieces * {length * behind};
  x += start; y += start;
  AV tops[{_MOST}], totals[{_MOST}];
  int sound[{_MOST}];
  {of_all} tops[own] = (AV){base_two.LEAST!r}f; totals[own] = (AV)0; }}
  {rows(0, whole, _TOGETHER)}
  {rows(whole, length, 1)}
  {of_all}
    const AV top = tops[own], k = exponent(top);
    sound[own] = all(top > {base_two.LEAST!r}f & top < {base_two.MOST!r}f & totals[own] < INFINITY);
    {scale}
  }}
  for (long r = 0; r < {length}; ++r) {of_all} const long p = r * {behind} + at; STOREV(y + p, {result}); }}
  {of_all} if (!sound[own]) {{ {one_vector} }} }}
"""
    return f"{head}#define larger(a, b) ((a) > (b) ? (a) : (b))\n", body


def _largest(names: list[str], join: str) -> str:
    """Put the largest of some into words, in pairs, of which ``join`` makes one."""
    while len(names) > 1:
        pairs = [join.format(*pair) for pair in zip(names[::2], names[1::2], strict=False)]
        names = pairs + names[2 * len(pairs) :]
    return names[0]


def numba_text(ndim: int, axis: int, log: bool) -> str:
    """Return a kernel in numba-dpex's Python; shapes are read at run time."""
    behind = " * ".join(f"x.shape[{each}]" for each in range(axis + 1, ndim))
    before = " * ".join(f"x.shape[{each}]" for each in range(axis))

    def of_all(lines: str, depth: int = 1) -> str:
        here = f"own = (v - begin) * {LANES}\nat = first + min(v * {LANES}, b - {LANES})\n"
        return indented("for v in range(begin, end):", depth) + indented(here + lines, depth + 1)

    def rows(begin: str, end: str, step: int) -> str:
        xs = [f"x{k}" for k in range(step)]
        loads = "".join(f"{x} = load_vector(x, at + (r + {k}) * b)\n" for k, x in enumerate(xs))
        adds = "".join(f"total = vadd_power(total, {x}, k)\n" for x in xs)
        # One after the other: put in pairs into an expression, each would stand in it many times.
        largest = "".join(f"top = choose({x} > top, {x}, top)\n" for x in xs)
        return indented(f"for r in range({begin}, {end}, {step}):", 1) + of_all(
            f"{loads}before = load_vector(tops, own)\ntop = before\n{largest}k = vexponent(top)\n"
            f"total = load_vector(totals, own) * vscaling(vexponent(before), k)\n{adds}"
            "store_vector(tops, own, top)\nstore_vector(totals, own, total)",
            2,
        )

    high, low = base_two.LN2_PARTS
    start = f"store_vector(tops, own, splat(real({base_two.LEAST})))\nstore_vector(totals, own, splat(real(0)))"
    scale = (
        f"store_vector(totals, own, vfma(k, real({high}), -top) + (k * real({low}) + vlog(total)))"
        if log
        else "store_vector(tops, own, k)\nstore_vector(totals, own, real(1) / total)"
    )
    sound = f"(top > real({base_two.LEAST})) & (top < real({base_two.MOST})) & (total < real(inf))"
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
    tops = PrivateArray({_MOST * LANES}, real)
    totals = PrivateArray({_MOST * LANES}, real)
    wrong = PrivateArray({_MOST}, real)
    whole = n // {_TOGETHER} * {_TOGETHER}
{of_all(start)}{rows("0", "whole", _TOGETHER)}{rows("whole", "n", 1)}{of_all(end)}    for r in range(n):
{of_all(f"store_vector(y, at + r * b, {result})", 2)}{of_all(again)}"""


def _piece(before: str) -> str:
    """Return what says where a work-item's lines begin, which piece of all side by side it has, and of how many."""
    i, items = "item.get_global_id(0)", "item.get_global_range(0)"
    if not before:
        # A quotient that is 0 is made of numbers of as many bits as it needs, which SPIR-V does not have.
        return indented(f"first = 0\npiece = {i}\npieces = {items}", 1)
    # Of a quotient and a remainder a compiler makes instructions that SPIR-V does not have.
    pieces = f"pieces = {items} // ({before})\nnumber = {i} // pieces"
    return indented(f"{pieces}\npiece = {i} - number * pieces\nfirst = number * n * b", 1)
