# SPDX-License-Identifier: Apache-2.0
"""Resizing in OpenCL C: a work-item computes part of a line of the last resized axis, inner axes included."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from syclsched.kernels.common import Ints, ceil_div
from syclsched.kernels.nn import lane_shuffles
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.opencl_types import empty_kernel, literal, sum_dtype
from syclsched.kernels.nn.rows_opencl import RowCode
from syclsched.model.operation import OpenCLSource, Signature

#: A resized axis: its number, the source indices for each result index (-1 outside the source), and their weights.
Axis = tuple[int, list[list[int]], list[list[float]]]
#: Most vectors within the last axis per work-item, target number of work-items, fewest line positions per work-item.
_MOST_VECTORS, _TARGET_ITEMS, _FEWEST_POSITIONS = 16, 256, 4


@dataclass(frozen=True, slots=True)
class _WorkDivision:
    """Distribution of the work over work-items."""

    changed: list[Axis]  # at least one
    lines: int  # lines of the last resized axis
    inner: int  # elements at each position of a line
    cuts: int  # parts that the inner elements are divided into
    rows: RowCode  # one of these parts
    parts: int  # parts that a line is divided into
    each: int  # positions of such a part
    whole: str = ""  # code for a whole line with inner = 1; empty if interpolated is none

    @property
    def items(self) -> int:
        """Total number of work-items."""
        return self.lines * self.parts * self.cuts


def _shapes(signature: Signature) -> tuple[Ints, Ints]:
    return signature.shapes["y"] or (1,), signature.shapes["x"] or (1,)


def _work_division(signature: Signature, changed: list[Axis]) -> _WorkDivision:
    y, x = _shapes(signature)
    dtype = signature.dtypes["y"]
    if not changed:
        # A copy, along the longest axis.
        axis = max(range(len(y)), key=lambda axis: y[axis])
        changed = [(axis, [[place] for place in range(y[axis])], [[1.0]] * y[axis])]
    axis = changed[-1][0]
    lines, inner = size(y[:axis]), size(y[axis + 1 :])
    if inner == 1:
        rows = RowCode(y[axis], dtype)
        whole = _whole(changed, x[axis], rows)
        if whole:
            return _WorkDivision(changed, lines, 1, 1, rows, 1, y[axis], whole)
        return _WorkDivision(changed, lines, 1, 1, RowCode(1, dtype), y[axis], 1)
    cuts = ceil_div(inner, _MOST_VECTORS * RowCode(inner, dtype).block.width)
    parts = max(1, min(y[axis] // _FEWEST_POSITIONS, _TARGET_ITEMS // (lines * cuts)))
    each = ceil_div(y[axis], parts)
    return _WorkDivision(
        changed, lines, inner, cuts, RowCode(ceil_div(inner, cuts), dtype), ceil_div(y[axis], each), each
    )


def _whole(changed: list[Axis], extent: int, rows: RowCode) -> str:
    if extent < 2 or any(line[0] < 0 for _, places, _ in changed for line in places):
        return ""
    _, places, weights = changed[-1]
    width, reading = rows.block.width, RowCode(extent, rows.dtype).block.width
    line = lane_shuffles.shuffled_vectors(places, weights, extent, width, reading)
    if line is None:
        return ""
    count = len(_choices(changed[:-1]))
    loads = [f"LOADR(x{number} + {{0}})" for number in range(count)]
    load = " + ".join(f"w{number} * {each}" for number, each in enumerate(loads)) if count > 1 else loads[0]
    return lane_shuffles.code(line, rows.dtype, (width, reading), load, "WRITEV(__global, y + {0}, v);", count) or ""


def _choices(changed: list[Axis]) -> list[Ints]:
    """Return all combinations of one tap per axis."""
    return [*itertools.product(*(range(len(places[0])) for _, places, _ in changed))]


def count(signature: Signature, changed: list[Axis]) -> int:
    """Return the number of work-items."""
    return _work_division(signature, changed).items if size(signature.shapes["y"]) else 1


def load(signature: Signature, changed: list[Axis], extrapolation: float) -> OpenCLSource:
    """Return the kernel of a signature."""
    parameters = "__global T* restrict y, __global const T* restrict x"
    if not size(signature.shapes["y"]):
        return empty_kernel("resize", parameters.replace("T*", "uchar*"))
    y, x = _shapes(signature)
    dtype, way = signature.dtypes["y"], _work_division(signature, changed)
    *outer, inmost = way.changed
    last, length, inner = inmost[0], way.rows.length, way.inner
    tables = "".join(_tables(each, size(x[each[0] + 1 :]), dtype) for each in outer)
    out = [f"const size_t i = get_global_id(0);\n  if (i >= {way.items}) return;"]
    out.append(f"const int part = i / {way.cuts} % {way.parts} * {way.each}; size_t rest = i / {way.cuts * way.parts};")
    cut = f"min((int)(i % {way.cuts}) * {length}, {inner - length})" if way.cuts > 1 else "0"
    out.append(f"const int cut = {cut}; y += rest * {y[last] * inner} + cut; x += cut;")
    taps = {axis: len(places[0]) for axis, places, _ in outer}
    for axis in reversed(range(last)):
        if axis in taps:
            out.append(f"const int o{axis} = rest % {y[axis]} * {taps[axis]}; rest /= {y[axis]};")
        else:
            out.append(f"x += rest % {y[axis]} * {size(x[axis + 1 :])}; rest /= {y[axis]};")
    choices = _choices(outer)
    weighted = len(choices) > 1
    for number, choice in enumerate(choices):
        at = [f"{axis}[o{axis} + {tap}]" for axis, tap in zip(taps, choice, strict=True)]
        out.append(f"__global const T* x{number} = {' + '.join(['x', *(f'places{each}' for each in at)])};")
        shares = " * ".join(f"weights{each}" for each in at if taps[int(each.partition("[")[0])] > 1)
        out.append(f"const A w{number} = {shares};" if weighted else "")
    if way.whole:
        reader = lane_shuffles.reader(dtype, RowCode(x[last], dtype).block.width)
        return _kernel(way, tables + reader, [*out, way.whole], parameters)
    tables += _tables(inmost, size(x[last + 1 :]), dtype)
    count = len(inmost[1][0])
    out.append(f"for (int o = part; o < min(part + {way.each}, {y[last]}); ++o) {{")
    out.extend(f"const int q{tap} = places{last}[o * {count} + {tap}];" for tap in range(count))
    terms = []
    for tap in range(count):
        if count > 1:
            out.append(f"const A h{tap} = weights{last}[o * {count} + {tap}];")
        for number in range(len(choices)):
            shares = [*([f"w{number}"] if weighted else []), *([f"h{tap}"] if count > 1 else [])]
            load = f"READV(__global, x{number} + q{tap} + j)"
            terms.append(f"({' * '.join(shares)}) * {load}" if shares else load)
    interpolated = f"const AV v = {' + '.join(terms)}; WRITEV(__global, y + o * {inner} + j, v);"
    body = way.rows.along(interpolated)
    outside = [f"left{axis}[o{axis} / {taps[axis]}]" for axis in taps if f"left{axis}[]" in tables]
    outside += [f"left{last}[o]"] if f"left{last}[]" in tables else []
    if outside:
        extrapolated = (
            f"const AV v = (AV)(A){literal(extrapolation, sum_dtype(dtype))}; WRITEV(__global, y + o * {inner} + j, v);"
        )
        body = f"if ({' | '.join(outside)}) {{ {way.rows.along(extrapolated)} }} else {{ {body} }}"
    return _kernel(way, tables, [*out, body, "}"], parameters)


def _kernel(way: _WorkDivision, tables: str, lines: list[str], parameters: str) -> OpenCLSource:
    body = "\n  ".join(filter(None, lines))
    source = f"{way.rows.head}{tables}WHOLE_VECTORS __kernel void resize({parameters}) {{\n  {body}\n}}\n"
    return OpenCLSource(source, "resize")


def _tables(changed: Axis, step: int, dtype: str) -> str:
    """Return the lookup tables of an axis; ``step`` is its stride in the source."""
    axis, places, weights = changed
    flat = [max(place, 0) * step for line in places for place in line]
    tables = f"__constant int places{axis}[] = {{{', '.join(map(str, flat))}}};\n"
    if len(places[0]) > 1:
        numbers = ", ".join(literal(share, sum_dtype(dtype)) for line in weights for share in line)
        tables += f"__constant A weights{axis}[] = {{{numbers}}};\n"
    if any(line[0] < 0 for line in places):
        tables += f"__constant uchar left{axis}[] = {{{', '.join(str(int(line[0] < 0)) for line in places)}}};\n"
    return tables
