# SPDX-License-Identifier: Apache-2.0
"""Logarithms of sums of exponentials.

In single precision in one pass over memory: exponentials are taken in powers of two less one near the largest number
so far, and what was summed is scaled, exactly, when a larger one comes (Milakov and Gimelshein, "Online normalizer
calculation for softmax", 2018). Each lane of a vector has its own, looked for in several vectors first, so that there
is one scaling for all of them. See `syclsched.kernels.base_two`.

What that cannot do shows at the end - the largest number is huge, or very small, or the sum is no finite number - and
is done again in two passes: the largest number, then the sum. So is double precision. There what is largest stays
finite, so that nothing infinite is taken from itself: infinity less the greatest finite number makes the sum infinite,
minus infinity adds nothing, and a NaN makes the sum one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from syclsched.kernels.base_two import LEAST, LN2_PARTS, MOST
from syclsched.kernels.tensor.writer import LANES, Writer

#: Rows of columns that are added together, and how many vectors of columns a work-item has, at most.
TOGETHER, VECTORS = 8, 64
#: Rows that are gone through together, and vectors of each that are added together.
ROWS, ROW_TOGETHER = 8, 4
#: A power of this, or of more, is infinite in single precision; `syclsched.kernels.exponential` takes no larger one.
_INFINITE = 89.0

#: Writes a reduction, given what it begins with, what is done to an element, and how two results become one.
Over = Callable[[Any, Callable[[str], str], Callable[[str, str], str]], str]
#: Puts the vector of a wide into words.
Pick = Callable[[str], str]


def in_one_pass(t: str) -> bool:
    """Return whether sums of exponentials reckoned in a dtype are found in one pass."""
    return t == "float32"


def in_two_passes(w: Writer, t: str, over: Over) -> str:
    """Write the logarithm of a sum in two passes, and return its name."""
    # Beside a NaN the largest one so far is kept.
    top = over(-greatest(t), lambda x: x, lambda a, b: w.select(f"({b} > {a})", b, a))
    top = w.value(t, _finite(w, t, top))
    total = over(0.0, lambda x: w.power(t, _below(w, t, f"{x} - {top}")), lambda a, b: f"({a} + {b})")
    return w.value(t, f"{w.call('log', total)} + {top}")


@dataclass(frozen=True, slots=True)
class Sums:
    """Names of sums of exponentials in single precision, and of the largest numbers in them."""

    top: str
    total: str

    def add(self, w: Writer, pick: Pick, xs: list[str]) -> None:
        """Write, in `Writer.over_wide`, that some vectors, a power of two, are added."""
        found = list(xs)
        while len(found) > 1:
            found = [w.value(T, larger(w, *pair)) for pair in zip(found[::2], found[1::2], strict=True)]
        self.lower(w, pick, w.value(T, larger(w, found[0], pick(self.top))))
        k = w.value(T, w.base_two("exponent", pick(self.top)))
        for x in xs:
            w.assign(pick(self.total), T, w.base_two("add_power", pick(self.total), x, k))

    def lower(self, w: Writer, pick: Pick, top: str) -> None:
        """Write, in `Writer.over_wide`, that what is largest is some number, which is not less than before."""
        before, now = (w.value(T, w.base_two("exponent", each)) for each in (pick(self.top), top))
        w.assign(pick(self.total), T, f"{pick(self.total)} * {w.base_two('scaling', before, now)}")
        w.assign(pick(self.top), T, top)

    def logarithm(self, w: Writer, pick: Pick = str) -> str:
        """Write the logarithm of the sum and return its name."""
        k = w.value(T, w.base_two("exponent", pick(self.top)))
        high, low = (w.constant(part, T) for part in LN2_PARTS)
        return w.value(T, f"{k} * {high} + ({k} * {low} + {w.call('log', pick(self.total))})")

    def folded(self, w: Writer) -> Sums:
        """Write the sum of all numbers of wides of one vector, and return names of numbers."""
        (top,) = w.fold_wide([(self.top, T)], 1, lambda a, b: [larger(w, *a, *b)])
        w.over_wide(1, lambda pick, _: self.lower(w, pick, w.value(T, top)))
        (total,) = w.fold_wide([(self.total, T)], 1, lambda a, b: [f"({a[0]} + {b[0]})"])
        return Sums(top, total)

    def sound(self, w: Writer, pick: Pick = str) -> str:
        """Say that the sum is right."""
        top, bounds = pick(self.top), [w.constant(bound, T) for bound in (LEAST, MOST, float("inf"))]
        return w.both(f"({top} > {bounds[0]})", f"({top} < {bounds[1]})", f"({pick(self.total)} < {bounds[2]})")


#: What one pass reckons in.
T = "float32"


def write_some_rows(w: Writer, first: str, rows: int, count: int, again: Callable[[str], str]) -> None:
    """Write the logarithms of sums of the exponentials of neighbouring rows of ``x`` to ``y``.

    A row is a page or less, and the processor does not fetch the next one before it is asked for: so some are gone
    through together.
    """
    bases = [w.index(f"({first} + {row}) * {count}") for row in range(rows)]
    sums = [Sums(w.wide(T, w.constant(LEAST, T)), w.wide(T, w.constant(0.0, T))) for _ in bases]
    end, at = count // LANES * LANES, 0
    for together in (ROW_TOGETHER, 1):
        stop = end // (together * LANES) * (together * LANES)
        if at < stop:
            with w.loop(str(at), str(stop), str(together * LANES)) as k:
                for base, each in zip(bases, sums, strict=True):
                    places = [f"{base} + {k} + {number * LANES}" for number in range(together)]
                    w.over_wide(1, lambda pick, _, e=each, p=places: e.add(w, pick, _vectors(w, p)))
            at = stop

    def add_last(base: str, each: Sums, pick: Pick, _: str) -> None:
        # The vector that ends with the row, of which is left out what was added before.
        (x,) = _vectors(w, [f"{base} + {count - LANES}"])
        new = f"({w.places('int32')} >= {w.constant(LANES - (count - end), 'int32')})"
        each.add(w, pick, [w.value(T, w.select(new, x, w.constant(-float("inf"), T)))])

    sound = []
    for row, (base, each) in enumerate(zip(bases, sums, strict=True)):
        if end < count:
            w.over_wide(1, partial(add_last, base, each))
        found = each.folded(w)
        sound.append(w.value("bool", found.sound(w)))
        nan = w.constant(float("nan"), T)
        w.store("y", f"({first} + {row})", w.value(T, w.select(sound[-1], found.logarithm(w), nan)))
    with w.when(w.negate(w.both(*sound))), w.loop("0", str(rows)) as row:
        number = w.index(f"{first} + {row}")
        stored = w.value(T, w.load("y", number))
        with w.when(f"({stored} != {stored})"):
            w.store("y", number, again(number))


def write_columns(
    w: Writer, at: str, first: str, vectors: int, rows: Iterable[list[str]], again: Callable[[str], str]
) -> None:
    """Write the logarithms of sums of the exponentials of neighbouring columns of ``x`` to ``y``."""
    tops = w.wide_array(T, w.constant(LEAST, T), vectors)
    totals = w.wide_array(T, w.constant(0.0, T), vectors)
    sums = Sums(w.wide(T, w.constant(0.0, T)), w.wide(T, w.constant(0.0, T)))
    each = partial(w.loop, "0", str(vectors * LANES), str(LANES))

    def load(pick: Pick, place: str) -> None:
        w.assign(pick(sums.top), T, w.load_wide(tops, place))
        w.assign(pick(sums.total), T, w.load_wide(totals, place))

    def add(place: str, places: list[str], pick: Pick, _: str) -> None:
        load(pick, place)
        sums.add(w, pick, _vectors(w, [f"{row} + {place}" for row in places]))
        w.store_wide(tops, place, pick(sums.top), T)
        w.store_wide(totals, place, pick(sums.total), T)

    for places in rows:
        with each() as place:
            w.over_wide(1, partial(add, place, places))
    wrong = w.wide(T, w.constant(0.0, T))

    def store(place: str, pick: Pick, _: str) -> None:
        load(pick, place)
        found = w.value(T, w.select(sums.sound(w, pick), sums.logarithm(w, pick), w.constant(float("nan"), T)))
        w.store_wide("y", f"{at} + {place}", found, T)
        w.assign(pick(wrong), T, w.select(f"({found} == {found})", pick(wrong), w.constant(1.0, T)))

    with each() as place:
        w.over_wide(1, partial(store, place))
    (any_wrong,) = w.fold_wide([(wrong, T)], 1, lambda a, b: [f"({a[0]} + {b[0]})"])

    def repeat(place: str, pick: Pick, _: str) -> None:
        # What was right stays: another work-item may have found it, too, and not go this way.
        stored, found = w.value(T, w.load_wide("y", f"{at} + {place}")), again(f"{first} + {place}")
        w.store_wide("y", f"{at} + {place}", w.value(T, w.select(f"({stored} == {stored})", stored, found)), T)

    with w.when(f"{any_wrong} > {w.constant(0.0, T)}"), each() as place:
        w.over_wide(1, partial(repeat, place))


def _vectors(w: Writer, places: list[str]) -> list[str]:
    return [w.value(T, w.load_wide("x", place)) for place in places]


def larger(w: Writer, a: str, b: str) -> str:
    """Put the larger of two numbers into words: the second one beside a NaN."""
    return w.select(f"({a} > {b})", a, b)


def _finite(w: Writer, t: str, x: str) -> str:
    most = w.constant(greatest(t), t)
    return w.select(f"({x} > {most})", most, x)


def _below(w: Writer, t: str, difference: str) -> str:
    x = w.value(t, difference)
    if t != "float32":
        return x
    most = w.constant(_INFINITE, t)
    return w.value(t, w.select(f"({x} > {most})", most, x))


def greatest(t: str) -> float:
    """Return the greatest finite number of a dtype."""
    import numpy as np

    return float(np.finfo(t).max)
