# SPDX-License-Identifier: Apache-2.0
"""Importers of MatMul, Gemm and Einsum."""

from __future__ import annotations

import math
from collections.abc import Sequence

from syclsched.frontends.onnx.importing.importer_registry import Inputs, Names, UnsupportedFormError, imports
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode


@imports("MatMul")
def _matmul(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import MatMul; vectors become matrices of one row or column, which is removed from the product."""
    x, y = inputs.first("A", "B")
    if b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    left, right = b.shape(x), b.shape(y)
    if not left or not right:
        raise b.wrong(f"{left} and {right} are no matrices")
    if len(left) == 1:
        x = b.reshape(x, (1, *left))
    if len(right) == 1:
        y = b.reshape(y, (*right, 1))
    made = b.matmul(x, y)
    shape = b.shape(made)
    if len(right) == 1:
        shape = shape[:-1]
    if len(left) == 1:
        shape = (*shape[:-2], *shape[-1:]) if len(right) > 1 else shape[:-1]
    return [b.reshape(made, shape)]


@imports("Gemm")
def _gemm(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    (x, y), bias = inputs.first("A", "B"), inputs.optional(2)
    if b.dtype(x) not in FLOATS:
        raise UnsupportedFormError
    if len(b.shape(x)) != 2 or len(b.shape(y)) != 2:
        raise b.wrong(f"{b.shape(x)} and {b.shape(y)} are not two matrices")
    flags = {"transpose_a": node.flag("transA"), "transpose_b": node.flag("transB")}
    scales = {name: float(node.number(name, 1.0)) for name in ("alpha", "beta")}
    return [b.matmul(x, y, bias, **flags, **scales)]


# --- Einsum -------------------------------------------------------------------------------------------


@imports("Einsum")
def _einsum(b: NetworkBuilder, node: ModelNode, inputs: Inputs) -> Names:
    """Import Einsum as a chain of batched matrix products, one per additional operand."""
    values = inputs.all("Inputs_")
    if b.dtype(values[0]) not in FLOATS:
        raise UnsupportedFormError
    terms, result = _parsed(b, node.text("equation"), [len(b.shape(value)) for value in values])
    if len(set(result)) < len(result):
        raise UnsupportedFormError
    diagonals = [_diagonal(b, term, value) for term, value in zip(terms, values, strict=True)]
    terms, values = [term for term, _ in diagonals], [value for _, value in diagonals]
    extents: dict[str, int] = {}
    for term, value in zip(terms, values, strict=True):
        for letter, extent in zip(term, b.shape(value), strict=True):
            if extents.setdefault(letter, extent) != extent:
                if 1 not in (extent, extents[letter]):
                    raise b.wrong(f"{letter!r} stands for extents {extents[letter]} and {extent}")
                raise UnsupportedFormError  # broadcasting of an ellipsis
    term, value = terms[0], values[0]
    for index in range(1, len(values)):
        later = set(result).union(*terms[index + 1 :])
        term, value = _joined(b, (term, value), (terms[index], values[index]), later)
    summed_axes = tuple(axis for axis, letter in enumerate(term) if letter not in result)
    if summed_axes:
        value = b.reduce("sum", value, summed_axes, keepdims=False)
        term = "".join(letter for letter in term if letter in result)
    return [b.transpose(value, [term.index(letter) for letter in result])]


def _diagonal(b: NetworkBuilder, term: str, x: str) -> tuple[str, str]:
    """Return an operand without repeated subscripts: the elements whose indices along their axes are equal."""
    while repeated := next((letter for letter in term if term.count(letter) > 1), None):
        first, second = (
            axis for axis, letter in enumerate(term) if letter == repeated and term[:axis].count(letter) < 2
        )
        shape, rest = b.shape(x), [axis for axis in range(len(term)) if axis not in (first, second)]
        count = shape[first]
        if shape[second] != count:
            raise b.wrong(f"{repeated!r} stands for extents {count} and {shape[second]}")
        kept = tuple(shape[axis] for axis in rest)
        rows = b.reshape(b.transpose(x, [*rest, first, second]), (*kept, count * count))
        starts, steps = (0,) * (len(rest) + 1), (*(1,) * len(rest), count + 1)
        x = b.slice(rows, starts, (*kept, count), steps)
        term = "".join(term[axis] for axis in rest) + repeated
    return term, x


def _parsed(b: NetworkBuilder, equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the subscripts of each operand and of the result, with an ellipsis replaced by letters."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    wrong = b.wrong(f"equation {equation!r} does not fit operands of {', '.join(map(str, ranks))} dimensions")
    if len(terms) != len(ranks) or (not left.replace(",", "").replace(".", "").isalpha() and any(ranks)):
        raise wrong
    # Greek letters for the axes of an ellipsis; equations use Latin letters.
    spare = [chr(0x3B1 + i) for i in range(24)]
    widest = 0
    made: list[str] = []
    for term, rank in zip(terms, ranks, strict=True):
        if "..." in term:
            count = rank - len(term) + 3
            if count < 0 or count > len(spare):
                raise wrong
            widest = max(widest, count)
            term = term.replace("...", "".join(reversed(spare[:count])))
        if len(term) != rank or "." in term:
            raise wrong
        made.append(term)
    dots = "".join(reversed(spare[:widest]))
    if arrow:
        result = right.replace("...", dots)
    else:
        letters = sorted(set("".join(terms)) - {"."})
        result = dots + "".join(c for c in letters if sum(term.count(c) for term in terms) == 1)
    if any(letter not in "".join(made) for letter in result):
        raise wrong
    return made, result


def _joined(b: NetworkBuilder, first: tuple[str, str], second: tuple[str, str], later: set[str]) -> tuple[str, str]:
    """Multiply two operands, summing over shared subscripts that are not needed later."""
    (left, x), (right, y) = first, second
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in later]
    summed = [c for c in shared if c not in later]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]
    size = {**dict(zip(left, b.shape(x), strict=True)), **dict(zip(right, b.shape(y), strict=True))}

    def arranged(term: str, value: str, *groups: list[str]) -> str:
        order = [*batch, *groups[0], *groups[1]]
        turned = b.transpose(value, [term.index(c) for c in order])
        extents = (*(size[c] for c in batch), *(math.prod(size[c] for c in group) for group in groups))
        return b.reshape(turned, extents)

    made = b.matmul(arranged(left, x, rows, summed), arranged(right, y, summed, columns))
    letters = [*batch, *rows, *columns]
    return "".join(letters), b.reshape(made, tuple(size[c] for c in letters))
