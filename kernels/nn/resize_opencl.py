# SPDX-License-Identifier: Apache-2.0
"""Resizing in OpenCL C: a work-item makes a part of a line of the last axis that changes, with all behind that axis."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from syclsched.kernels.common import Ints, ceil_div
from syclsched.kernels.nn import picked_lines
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.rows_opencl import Rows
from syclsched.kernels.nn.source import literal, nothing, sums
from syclsched.model.operation import OpenCLSource, Signature

#: An axis that changes, with the places of the source that count for each place of the result, and how much: where the
#: source is left, -1.
Axis = tuple[int, list[list[int]], list[list[float]]]
#: Vectors behind the last axis that a work-item makes, at most; work-items there should be, and places of a line that
#: are worth one.
_VECTORS, _ITEMS, _PLACES = 16, 256, 4


@dataclass(frozen=True, slots=True)
class _Way:
    """How work-items divide what there is to make."""

    changed: list[Axis]  # at least one
    lines: int  # lines of the last of them, each with all behind it
    inner: int  # elements behind each place of a line
    #: How many pieces those are cut into, and what each is.
    cuts: int
    rows: Rows
    #: How many pieces a line is cut into, and how many places each has.
    parts: int
    each: int
    whole: str = ""  # what makes all of a line that has nothing behind it; empty if there is no such code

    @property
    def items(self) -> int:
        """Work-items."""
        return self.lines * self.parts * self.cuts


def _shapes(signature: Signature) -> tuple[Ints, Ints]:
    return signature.shapes["y"] or (1,), signature.shapes["x"] or (1,)


def _way(signature: Signature, changed: list[Axis]) -> _Way:
    y, x = _shapes(signature)
    dtype = signature.dtypes["y"]
    if not changed:
        # A copy, along the longest axis.
        axis = max(range(len(y)), key=lambda axis: y[axis])
        changed = [(axis, [[place] for place in range(y[axis])], [[1.0]] * y[axis])]
    axis = changed[-1][0]
    lines, inner = size(y[:axis]), size(y[axis + 1 :])
    if inner == 1:
        rows = Rows(y[axis], dtype)
        whole = _whole(changed, x[axis], rows)
        if whole:
            return _Way(changed, lines, 1, 1, rows, 1, y[axis], whole)
        return _Way(changed, lines, 1, 1, Rows(1, dtype), y[axis], 1)
    cuts = ceil_div(inner, _VECTORS * Rows(inner, dtype).block.width)
    parts = max(1, min(y[axis] // _PLACES, _ITEMS // (lines * cuts)))
    each = ceil_div(y[axis], parts)
    return _Way(changed, lines, inner, cuts, Rows(ceil_div(inner, cuts), dtype), ceil_div(y[axis], each), each)


def _whole(changed: list[Axis], extent: int, rows: Rows) -> str:
    if extent < 2 or any(line[0] < 0 for _, places, _ in changed for line in places):
        return ""
    _, places, weights = changed[-1]
    width, reading = rows.block.width, Rows(extent, rows.dtype).block.width
    line = picked_lines.pieces(places, weights, extent, width, reading)
    if line is None:
        return ""
    count = len(_choices(changed[:-1]))
    loads = [f"LOADR(x{number} + {{0}})" for number in range(count)]
    load = " + ".join(f"w{number} * {each}" for number, each in enumerate(loads)) if count > 1 else loads[0]
    return picked_lines.code(line, rows.dtype, (width, reading), load, "STOREV(y + {0}, v);", count) or ""


def _choices(changed: list[Axis]) -> list[Ints]:
    """Return all choices of a tap of each axis."""
    return [*itertools.product(*(range(len(places[0])) for _, places, _ in changed))]


def count(signature: Signature, changed: list[Axis]) -> int:
    """Return how many work-items there are."""
    return _way(signature, changed).items if size(signature.shapes["y"]) else 1


def load(signature: Signature, changed: list[Axis], extrapolation: float) -> OpenCLSource:
    """Return the kernel."""
    parameters = "__global T* restrict y, __global const T* restrict x"
    if not size(signature.shapes["y"]):
        return nothing("resize", parameters.replace("T*", "uchar*"))
    y, x = _shapes(signature)
    dtype, way = signature.dtypes["y"], _way(signature, changed)
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
        reader = picked_lines.reader(dtype, Rows(x[last], dtype).block.width)
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
            load = f"LOADV(x{number} + q{tap} + j)"
            terms.append(f"({' * '.join(shares)}) * {load}" if shares else load)
    there = f"const AV v = {' + '.join(terms)}; STOREV(y + o * {inner} + j, v);"
    body = way.rows.along(there)
    outside = [f"left{axis}[o{axis} / {taps[axis]}]" for axis in taps if f"left{axis}[]" in tables]
    outside += [f"left{last}[o]"] if f"left{last}[]" in tables else []
    if outside:
        gone = f"const AV v = (AV)(A){literal(extrapolation, sums(dtype))}; STOREV(y + o * {inner} + j, v);"
        body = f"if ({' | '.join(outside)}) {{ {way.rows.along(gone)} }} else {{ {body} }}"
    return _kernel(way, tables, [*out, body, "}"], parameters)


def _kernel(way: _Way, tables: str, lines: list[str], parameters: str) -> OpenCLSource:
    body = "\n  ".join(filter(None, lines))
    source = f"{way.rows.head}{tables}WHOLE_VECTORS __kernel void resize({parameters}) {{\n  {body}\n}}\n"
    return OpenCLSource(source, "resize")


def _tables(changed: Axis, step: int, dtype: str) -> str:
    """Return what is looked up for each place along an axis, of which neighbours in the source are ``step`` apart."""
    axis, places, weights = changed
    flat = [max(place, 0) * step for line in places for place in line]
    tables = f"__constant int places{axis}[] = {{{', '.join(map(str, flat))}}};\n"
    if len(places[0]) > 1:
        numbers = ", ".join(literal(share, sums(dtype)) for line in weights for share in line)
        tables += f"__constant A weights{axis}[] = {{{numbers}}};\n"
    if any(line[0] < 0 for line in places):
        tables += f"__constant uchar left{axis}[] = {{{', '.join(str(int(line[0] < 0)) for line in places)}}};\n"
    return tables
