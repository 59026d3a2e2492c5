# SPDX-License-Identifier: Apache-2.0
"""Log-sum-exp kernels.

In single precision one pass over memory suffices: exponentials are computed relative to a power of two near the running
maximum, and the partial sum is rescaled, exactly, when the maximum grows (Milakov and Gimelshein, "Online normalizer
calculation for softmax", 2018). Each lane of a vector has its own maximum and sum; several vectors are combined before
each rescaling. See `syclsched.kernels.vectors.scaled_exponential`.

The result is checked: if the maximum is too large or too small, or the sum is not finite, it is recomputed in two
passes, maximum and sum. Double precision always takes two passes. There the maximum is clamped to a finite number, to
avoid infinity minus infinity: an infinite input makes the sum infinite, minus infinity adds 0, and NaN propagates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from syclsched.kernels.tensor.writing.kernel_writer import LANES, KernelWriter
from syclsched.kernels.vectors.scaled_exponential import LEAST, LN2_PARTS, MOST

#: Column kernels: rows added together, and maximum vectors of columns per work-item.
ROWS_PER_STEP, MAX_COLUMN_VECTORS = 8, 64
#: Row kernels: rows processed together, and vectors of each added together.
ROW_GROUP, VECTORS_PER_STEP = 8, 4
#: exp of this is infinite in single precision; `syclsched.kernels.vectors.exponential` accepts no larger argument.
_INFINITE = 89.0

#: Emits a reduction, given the start value, the function of an element, and the combination of two results.
EmitReduction = Callable[[Any, Callable[[str], str], Callable[[str, str], str]], str]
#: Returns the text of the current vector of a wide.
Pick = Callable[[str], str]


def takes_one_pass(t: str) -> bool:
    """Return whether log-sum-exp of a compute dtype takes one pass."""
    return t == "float32"


def write_two_passes(w: KernelWriter, t: str, over: EmitReduction) -> str:
    """Emit log-sum-exp in two passes, and return the name of the result."""
    # NaN is not larger than the maximum so far: the sum propagates it.
    top = over(-_max_finite(t), lambda x: x, lambda a, b: w.select(f"({b} > {a})", b, a))
    top = w.value(t, _clamped_maximum(w, t, top))
    total = over(0.0, lambda x: w.power(t, _clamped_argument(w, t, f"{x} - {top}")), lambda a, b: f"({a} + {b})")
    return w.value(t, f"{w.call('log', total)} + {top}")


@dataclass(frozen=True, slots=True)
class PartialSums:
    """Names of partial sums of exponentials in single precision, and of their running maxima."""

    top: str
    total: str

    def add(self, w: KernelWriter, pick: Pick, xs: list[str]) -> None:
        """Emit, in `KernelWriter.over_wide`, the addition of some vectors; their number is a power of two."""
        vectors = list(xs)
        while len(vectors) > 1:
            vectors = [w.value(T, larger_of(w, *pair)) for pair in zip(vectors[::2], vectors[1::2], strict=True)]
        self.rescale_to(w, pick, w.value(T, larger_of(w, vectors[0], pick(self.top))))
        k = w.value(T, w.branch_free("exponent", pick(self.top)))
        for x in xs:
            w.assign(pick(self.total), T, w.branch_free("add_power", pick(self.total), x, k))

    def rescale_to(self, w: KernelWriter, pick: Pick, top: str) -> None:
        """Emit, in `KernelWriter.over_wide`, a new maximum, not less than before, and the rescaling of the sum."""
        before, after = (w.value(T, w.branch_free("exponent", each)) for each in (pick(self.top), top))
        w.assign(pick(self.total), T, f"{pick(self.total)} * {w.branch_free('scaling', before, after)}")
        w.assign(pick(self.top), T, top)

    def logarithm(self, w: KernelWriter, pick: Pick = str) -> str:
        """Emit the logarithm of the sum, and return its name."""
        k = w.value(T, w.branch_free("exponent", pick(self.top)))
        high, low = (w.constant(part, T) for part in LN2_PARTS)
        return w.value(T, f"{k} * {high} + ({k} * {low} + {w.call('log', pick(self.total))})")

    def over_lanes(self, w: KernelWriter) -> PartialSums:
        """Emit the sum over the lanes of a vector, and return scalar sums."""
        (top,) = w.reduce_lanes([(self.top, T)], 1, lambda a, b: [larger_of(w, *a, *b)])
        w.each_vector(1, lambda pick, _: self.rescale_to(w, pick, w.value(T, top)))
        (total,) = w.reduce_lanes([(self.total, T)], 1, lambda a, b: [f"({a[0]} + {b[0]})"])
        return PartialSums(top, total)

    def is_valid(self, w: KernelWriter, pick: Pick = str) -> str:
        """Return the condition that the result of one pass is valid."""
        top, bounds = pick(self.top), [w.constant(bound, T) for bound in (LEAST, MOST, float("inf"))]
        return w.all_of(f"({top} > {bounds[0]})", f"({top} < {bounds[1]})", f"({pick(self.total)} < {bounds[2]})")


#: Compute dtype of one pass.
T = "float32"


def write_row_group(w: KernelWriter, first: str, rows: int, count: int, again: Callable[[str], str]) -> None:
    """Emit log-sum-exp of neighbouring rows of ``x`` to ``y``; ``again`` emits the two-pass form of a row."""
    # Rows are a page or less, and the hardware does not prefetch across pages: several rows are processed together.
    bases = [w.index(f"({first} + {row}) * {count}") for row in range(rows)]
    sums = [PartialSums(w.vector_group(T, w.constant(LEAST, T)), w.vector_group(T, w.constant(0.0, T))) for _ in bases]
    end, at = count // LANES * LANES, 0
    for together in (VECTORS_PER_STEP, 1):
        stop = end // (together * LANES) * (together * LANES)
        if at < stop:
            with w.loop(str(at), str(stop), str(together * LANES)) as k:
                for base, each in zip(bases, sums, strict=True):
                    places = [f"{base} + {k} + {number * LANES}" for number in range(together)]
                    w.each_vector(1, lambda pick, _, e=each, p=places: e.add(w, pick, _vectors(w, p)))
            at = stop

    def add_last(base: str, each: PartialSums, pick: Pick, _: str) -> None:
        # The last vector is shifted to end with the row; lanes that were added before are masked.
        (x,) = _vectors(w, [f"{base} + {count - LANES}"])
        new = f"({w.places('int32')} >= {w.constant(LANES - (count - end), 'int32')})"
        each.add(w, pick, [w.value(T, w.select(new, x, w.constant(-float("inf"), T)))])

    valid = []
    for row, (base, each) in enumerate(zip(bases, sums, strict=True)):
        if end < count:
            w.each_vector(1, partial(add_last, base, each))
        found = each.over_lanes(w)
        valid.append(w.value("bool", found.is_valid(w)))
        nan = w.constant(float("nan"), T)
        w.store("y", f"({first} + {row})", w.value(T, w.select(valid[-1], found.logarithm(w), nan)))
    with w.if_block(w.negate(w.all_of(*valid))), w.loop("0", str(rows)) as row:
        number = w.index(f"{first} + {row}")
        stored = w.value(T, w.load("y", number))
        with w.if_block(f"({stored} != {stored})"):
            w.store("y", number, again(number))


def write_columns(
    w: KernelWriter, at: str, first: str, vectors: int, rows: Iterable[list[str]], again: Callable[[str], str]
) -> None:
    """Emit log-sum-exp of neighbouring columns to ``y``; ``again`` emits the two-pass form of a vector."""
    tops = w.vector_array(T, w.constant(LEAST, T), vectors)
    totals = w.vector_array(T, w.constant(0.0, T), vectors)
    sums = PartialSums(w.vector_group(T, w.constant(0.0, T)), w.vector_group(T, w.constant(0.0, T)))
    each = partial(w.loop, "0", str(vectors * LANES), str(LANES))

    def load(pick: Pick, place: str) -> None:
        w.assign(pick(sums.top), T, w.load_vector(tops, place))
        w.assign(pick(sums.total), T, w.load_vector(totals, place))

    def add(place: str, places: list[str], pick: Pick, _: str) -> None:
        load(pick, place)
        sums.add(w, pick, _vectors(w, [f"{row} + {place}" for row in places]))
        w.store_vector(tops, place, pick(sums.top), T)
        w.store_vector(totals, place, pick(sums.total), T)

    for places in rows:
        with each() as place:
            w.each_vector(1, partial(add, place, places))
    wrong = w.vector_group(T, w.constant(0.0, T))

    def store(place: str, pick: Pick, _: str) -> None:
        load(pick, place)
        found = w.value(T, w.select(sums.is_valid(w, pick), sums.logarithm(w, pick), w.constant(float("nan"), T)))
        w.store_vector("y", f"{at} + {place}", found, T)
        w.assign(pick(wrong), T, w.select(f"({found} == {found})", pick(wrong), w.constant(1.0, T)))

    with each() as place:
        w.each_vector(1, partial(store, place))
    (any_wrong,) = w.reduce_lanes([(wrong, T)], 1, lambda a, b: [f"({a[0]} + {b[0]})"])

    def repeat(place: str, pick: Pick, _: str) -> None:
        # Valid results stay: another work-item may have stored the same column and not take this branch.
        stored, found = w.value(T, w.load_vector("y", f"{at} + {place}")), again(f"{first} + {place}")
        w.store_vector("y", f"{at} + {place}", w.value(T, w.select(f"({stored} == {stored})", stored, found)), T)

    with w.if_block(f"{any_wrong} > {w.constant(0.0, T)}"), each() as place:
        w.each_vector(1, partial(repeat, place))


def _vectors(w: KernelWriter, places: list[str]) -> list[str]:
    return [w.value(T, w.load_vector("x", place)) for place in places]


def larger_of(w: KernelWriter, a: str, b: str) -> str:
    """Return the text of the larger of two numbers; the second if one is NaN."""
    return w.select(f"({a} > {b})", a, b)


def _clamped_maximum(w: KernelWriter, t: str, x: str) -> str:
    most = w.constant(_max_finite(t), t)
    return w.select(f"({x} > {most})", most, x)


def _clamped_argument(w: KernelWriter, t: str, difference: str) -> str:
    x = w.value(t, difference)
    if t != "float32":
        return x
    most = w.constant(_INFINITE, t)
    return w.value(t, w.select(f"({x} > {most})", most, x))


def _max_finite(t: str) -> float:
    """Return the largest finite number of a dtype."""
    import numpy as np

    return float(np.finfo(t).max)
