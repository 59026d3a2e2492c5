# SPDX-License-Identifier: Apache-2.0
"""Vectors of a line assembled from source vectors by constant lane shuffles, in OpenCL C.

Used for resizing, windows and sums over neighbours.

Each result vector consists of lanes of a few source vectors, picked by constant indices. A pattern that repeats some
vectors later, as it does if an extent grows or shrinks by a ratio of small numbers, becomes a loop. Operations that can
be applied to the source before the shuffle, such as adding several source lines, are applied first.
"""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.kernels.common import ceil_div
from syclsched.kernels.nn.opencl_types import literal, sum_dtype
from syclsched.kernels.nn.panels import vector

#: Most source vectors per result vector, and most vectors of generated straight-line code.
_MOST_SOURCES, _MOST_UNROLLED = 4, 64
#: Periods, in vectors, that are tried for loops.
_PERIODS = range(1, 9)


@dataclass(frozen=True, slots=True)
class ShuffledVector:
    """A vector of a line of the result."""

    to: int  # offset in the result
    start: int  # offset of the first source vector
    offsets: tuple[int, ...]  # of all source vectors, relative to start
    lanes: tuple[tuple[int, ...], ...]  # for each tap, the source lane of each result lane; -1: none
    weights: tuple[tuple[float, ...], ...]  # for each tap, of each result lane

    @property
    def pattern(self) -> tuple[object, ...]:
        """The operation without its position; weights are compared up to rounding."""
        return self.offsets, self.lanes, tuple(tuple(round(each, 13) for each in line) for line in self.weights)


def shuffled_vectors(
    places: list[list[int]], weights: list[list[float]], extent: int, width: int, reading: int
) -> list[ShuffledVector] | None:
    """Return the vectors of a line, or None if one needs too many source vectors."""
    found = []
    for first in range(0, len(places), width):
        to = min(first, len(places) - width)
        seen = places[to : to + width]
        inside = [place for line in seen for place in line if place >= 0]
        start = min(min(inside, default=0), extent - reading)
        count = ceil_div(max(inside, default=start - 1) + 1 - start, reading)
        if count > _MOST_SOURCES:
            return None
        offsets = tuple(min(k * reading, extent - reading - start) for k in range(count))
        taps = range(len(places[0]))
        lanes = tuple(tuple(_lane(line[tap], start, offsets, reading) for line in seen) for tap in taps)
        shares = tuple(tuple(line[tap] for line in weights[to : to + width]) for tap in taps)
        found.append(ShuffledVector(to, start, offsets, lanes, shares))
    return found


def _lane(place: int, start: int, offsets: tuple[int, ...], reading: int) -> int:
    if place < 0:
        return -1
    source = next(k for k, offset in enumerate(offsets) if place < start + offset + reading)
    return source * reading + place - start - offsets[source]


def runs(line: list[ShuffledVector]) -> list[tuple[list[ShuffledVector], int, int]]:
    """Return a line as repetitions: pieces, repeat count, and source distance between repetitions."""
    found, at = [], 0
    while at < len(line):
        best = ([line[at]], 1, 0)
        for period in _PERIODS:
            times, apart = _times(line, at, period)
            if times > 2 and times * period > best[1] * len(best[0]):
                best = line[at : at + period], times, apart
        found.append(best)
        at += best[1] * len(best[0])
    return found


def _times(line: list[ShuffledVector], at: int, period: int) -> tuple[int, int]:
    if at + 2 * period > len(line):
        return 1, 0
    apart, forward = line[at + period].start - line[at].start, line[at + period].to - line[at].to
    end = at + period
    while end < len(line):
        old, new = line[end - period], line[end]
        if (old.pattern, old.start + apart, old.to + forward) != (new.pattern, new.start, new.to):
            break
        end += 1
    return (end - at) // period, apart


def code(
    line: list[ShuffledVector],
    dtype: str,
    block: tuple[int, int],
    load: str,
    store: str,
    cost: int = 1,
    join: str = "{0} + {1}",
    nothing: str = "(A)0",
) -> str | None:
    """Return the OpenCL C that computes a line; None if it would be too long."""
    parts = runs(line)
    if sum(len(part) for part, _, _ in parts) * cost > _MOST_UNROLLED:
        return None

    def piece(each: ShuffledVector, start: str, to: str) -> str:
        loads = [f"const AR r{number} = {load.format(f'{start} + {at}')};" for number, at in enumerate(each.offsets)]
        total = ""
        for lanes, weights in zip(each.lanes, each.weights, strict=True):
            weighted = set(weights) != {1.0}
            share = f"{_vector([literal(share, sum_dtype(dtype)) for share in weights])} * " if weighted else ""
            term = share + _picked(lanes, *block, nothing)
            total = join.format(total, term) if total else term
        return f"{{ {' '.join(loads)} const AV v = {total}; {store.format(to)} }}"

    out = []
    for part, times, apart in parts:
        first, forward = part[0], len(part) * block[0]
        if times == 1:
            out.append(piece(first, str(first.start), str(first.to)))
            continue
        begin = f"int to = {first.to}, from = {first.start}"
        body = " ".join(
            piece(each, f"from + {each.start - first.start}", f"to + {each.to - first.to}") for each in part
        )
        out.append(f"for ({begin}, n = 0; n < {times}; ++n, to += {forward}, from += {apart}) {{ {body} }}")
    return "\n  ".join(out)


def _picked(lanes: tuple[int, ...], width: int, reading: int, nothing: str) -> str:
    parts = [f".s{lane:x}" if reading > 1 else "" for lane in range(reading)]
    names = [f"r{lane // reading}{parts[lane % reading]}" if lane >= 0 else nothing for lane in lanes]
    if lanes == tuple(range(lanes[0], lanes[0] + width)) and reading == width and lanes[0] >= 0 == lanes[0] % reading:
        return names[0].partition(".")[0]
    return _vector(names)


def _vector(numbers: list[str]) -> str:
    same = len(set(numbers)) == 1
    return f"(AV)({numbers[0] if same else ', '.join(numbers)})"


def reader(dtype: str, reading: int) -> str:
    """Return ``AR`` and ``LOADR``: vectors of the source."""
    name = "vload_half" if dtype == "float16" else "vload"
    suffix = "" if reading == 1 else str(reading)
    load = "*(p)" if reading == 1 and dtype != "float16" else f"{name}{suffix}(0, p)"
    return f"typedef {vector('A', reading)} AR;\n#define LOADR(p) {load}\n"
