# SPDX-License-Identifier: Apache-2.0
"""Winograd's minimal filtering F(m, 3): m outputs of a 3-tap filter by m + 2 products instead of 3 m.

Along an axis m + 2 inputs d and 3 taps g give m outputs y = A^T ((G g) * (B^T d)); in two dimensions each transform is
applied along both axes. (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.) The transforms
follow from m + 1 interpolation points and infinity (Toom and Cook). Here the points are 0 and pairs p, -p; the common
part of a pair's two rows is computed once.

The points determine the growth of rounding errors. For m = 4 they are the square roots of 1/2 and 2: the largest error
is a quarter of that of the paper's points 1 and 2, and two to three times that of the direct sum. For m = 2 the point
is 1, and the error is smaller than that of the direct sum.
"""

from __future__ import annotations

import math
from typing import Any, Final

#: Outputs along an axis -> interpolation points, used with either sign.
POINTS: Final = {2: (1.0,), 4: (math.sqrt(0.5), math.sqrt(2.0))}
#: Taps along an axis.
TAPS: Final = 3


def _expanded(squares: list[float]) -> list[float]:
    """Return the coefficients of the product of all (x - square), constant first."""
    found = [1.0]
    for square in squares:
        found = [a - square * b for a, b in zip([0.0, *found], [*found, 0.0], strict=True)]
    return found


def _squares(outputs: int) -> list[float]:
    # Exact: 1/2 and 2, not the squares of rounded roots.
    return [round(point * point, 6) for point in POINTS[outputs]]


def outputs_of(places: int) -> int:
    """Return m for transforms of this many elements: (m + 2)^2."""
    return next(m for m in POINTS if (m + TAPS - 1) ** 2 == places)


def _filter_transform(outputs: int) -> list[list[float]]:
    """Return the matrix G, with a row for each interpolation point, and one for infinity."""
    points = [0.0, *(sign * point for point in POINTS[outputs] for sign in (1.0, -1.0))]
    rows = [
        [point**tap / math.prod(point - other for other in points if other != point) for tap in range(TAPS)]
        for point in points
    ]
    return [*rows, [0.0, 0.0, 1.0]]


def filters(weights: Any, outputs: int) -> Any:
    """Return the transformed filters G g G^T of weights (3, 3, ...): an array ((m + 2)^2, ...) of float64."""
    import numpy as np

    transform = np.array(_filter_transform(outputs))
    taken = np.kron(transform, transform) @ weights.astype(np.float64, order="C").reshape(TAPS * TAPS, -1)
    return taken.reshape(-1, *weights.shape[2:])


def _number(value: float) -> str:
    return f"{float(value).hex()}f"


def _sum(terms: list[tuple[float, str]]) -> str:
    """Return the expression of a linear combination, with fused multiply-adds where a coefficient is not 1 or -1."""
    terms = sorted(((number, name) for number, name in terms if number), key=lambda term: term[0] != 1.0)
    number, text = terms[0]
    if number != 1.0:
        text = f"{text} * {_number(number)}"
    for number, name in terms[1:]:
        if number in (1.0, -1.0):
            text = f"({text} {'+' if number > 0 else '-'} {name})"
        else:
            text = f"fma((AV)({_number(number)}), {name}, {text})"
    return text


def inputs(outputs: int, names: list[str], results: list[str]) -> list[str]:
    """Return OpenCL C for ``results`` = B^T ``names``: m + 2 declared vectors ``AV`` each."""
    squares = _squares(outputs)
    even, odd = names[0::2], names[1::2]
    whole = _expanded(squares)
    lines = [f"{results[0]} = {_sum(list(zip(whole, even, strict=True)))};"]
    for index, point in enumerate(POINTS[outputs]):
        others = _expanded(squares[:index] + squares[index + 1 :])
        first = _sum(list(zip(others, even[1:], strict=True)))
        second = _sum(list(zip(others, odd[:-1], strict=True)))
        pair = results[1 + 2 * index : 3 + 2 * index]
        signed = (
            f"{name} = {_sum([(1.0, 'same'), (sign * point, 'other')])};"
            for sign, name in zip((1, -1), pair, strict=True)
        )
        lines.append(f"{{ const AV same = {first}; const AV other = {second}; {' '.join(signed)} }}")
    lines.append(f"{results[-1]} = {_sum(list(zip(whole, odd, strict=True)))};")
    return lines


def taps(outputs: int, names: list[str], results: list[str]) -> list[str]:
    """Return OpenCL C for ``results`` = G ``names``: m + 2 declared vectors ``AV`` of 3."""
    rows = zip(results, _filter_transform(outputs), strict=True)
    return [f"{made} = {_sum(list(zip(row, names, strict=True)))};" for made, row in rows]


def filter_sums(outputs: int, names: list[str], results: list[str]) -> list[str]:
    """Return OpenCL C for ``results`` = G^T ``names``: 3 declared vectors ``AV`` of m + 2."""
    columns = zip(results, zip(*_filter_transform(outputs), strict=True), strict=True)
    return [f"{made} = {_sum(list(zip(column, names, strict=True)))};" for made, column in columns]


def gradients(outputs: int, names: list[str], results: list[str]) -> list[str]:
    """Return OpenCL C for ``results`` = A ``names``: m + 2 declared vectors ``AV`` of m."""
    lines = [f"{results[0]} = {names[0]};"]
    for index, (point, square) in enumerate(zip(POINTS[outputs], _squares(outputs), strict=True)):
        same = _sum([(square ** (power // 2), name) for power, name in enumerate(names) if power % 2 == 0])
        other = _sum([(square ** (power // 2) * point, name) for power, name in enumerate(names) if power % 2])
        a, b = results[1 + 2 * index : 3 + 2 * index]
        lines.append(f"{{ const AV same = {same}; const AV other = {other}; {a} = same + other; {b} = same - other; }}")
    return [*lines, f"{results[-1]} = {names[-1]};"]


def results(outputs: int, names: list[str], made: list[str]) -> list[str]:
    """Return OpenCL C for ``made`` = A^T ``names``: m declared vectors ``AV`` of m + 2."""
    pairs = POINTS[outputs]
    lines = []
    for index in range(len(pairs)):
        a, b = names[1 + 2 * index : 3 + 2 * index]
        lines.append(f"const AV even{index} = {a} + {b}; const AV odd{index} = {a} - {b};")
    for power, name in enumerate(made):
        kind = "odd" if power % 2 else "even"
        # Powers of the exact squares.
        terms = [
            (square ** (power // 2) * (point if power % 2 else 1.0), f"{kind}{index}")
            for index, (point, square) in enumerate(zip(pairs, _squares(outputs), strict=True))
        ]
        terms += [(1.0, names[0])] * (power == 0) + [(1.0, names[-1])] * (power == outputs - 1)
        lines.append(f"{name} = {_sum(terms)};")
    return ["{ " + " ".join(lines) + " }"]
