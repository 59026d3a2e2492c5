# SPDX-License-Identifier: Apache-2.0
"""Logarithms of sums of exponentials, in one pass over memory.

Exponentials are taken of numbers less the largest one so far; when a larger one comes, what was summed is scaled
(Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). Each lane of a vector has a largest number
of its own, looked for in several vectors first, so that there is one scaling for all of them.

What is largest stays finite, so that nothing infinite is taken from itself: infinity less the greatest finite number
makes the sum infinite, minus infinity adds nothing, and a NaN makes the sum one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from syclsched.kernels.tensor.writer import LANES, Writer

#: Vectors of a row that are summed together.
_TOGETHER = 8
#: Rows of columns that are, and how many vectors of columns a work-item has: each is the code of so many exponentials.
COLUMN_ROWS, COLUMN_VECTORS = 4, 4
#: A power of this, or of more, is infinite in single precision; `syclsched.kernels.exponential` takes no larger one.
_INFINITE = 89.0


def write_row_logarithm(w: Writer, t: str, base: str, count: int) -> tuple[str, str]:
    """Write the sum of the exponentials of a row of ``x``, and return what all were made less by, and the sum.

    Parameters
    ----------
    w : Writer
        Where to.
    t : str
        The dtype that is reckoned in.
    base : str
        Where the row begins.
    count : int
        Its length.
    """
    end = count // LANES * LANES
    top, total = (w.variable(t, w.constant(number, t)) for number in (-greatest(t), 0.0))
    if end:
        sums, at = Sums(w, t, 1), 0
        for together in (_TOGETHER, 1):
            stop = end // (together * LANES) * (together * LANES)
            if at < stop:
                with w.loop(str(at), str(stop), str(together * LANES)) as k:
                    places = [f"{base} + {k} + {number * LANES}" for number in range(together)]
                    w.over_wide(1, lambda pick, _, places=places: sums.add(places, pick))
                at = stop
        (found,) = w.fold_wide([(sums.top, t)], 1, lambda a, b: [larger(w, *a, *b)])
        w.assign(top, t, found)
        w.over_wide(1, lambda pick, _: sums.lower(top, pick))
        (found,) = w.fold_wide([(sums.total, t)], 1, lambda a, b: [f"({a[0]} + {b[0]})"])
        w.assign(total, t, found)
    if end < count:
        with w.loop(str(end), str(count)) as k:
            add_one(w, t, top, total, w.value(t, w.load("x", f"{base} + {k}")))
    return top, total


def add_one(w: Writer, t: str, top: str, total: str, x: str) -> None:
    """Write that the variables of what is largest and of the sum take a number in."""
    with w.when(f"({x} > {top})"):
        now = w.value(t, _finite(w, t, x))
        w.assign(total, t, f"{total} * {w.power(t, f'{top} - {now}')}")
        w.assign(top, t, now)
    w.assign(total, t, f"{total} + {w.power(t, _below(w, t, f'{x} - {top}'))}")


def logarithm(w: Writer, t: str, top: str, total: str) -> str:
    """Write the logarithm of a sum of exponentials, all made less, and return its name."""
    return w.value(t, f"{w.call('log', total)} + {top}")


class Sums:
    """Sums of exponentials in vectors, and what they were made less by.

    Parameters
    ----------
    w : Writer
        Where to.
    t : str
        The dtype that is reckoned in.
    vectors : int
        How many times `LANES` sums.
    """

    def __init__(self, w: Writer, t: str, vectors: int) -> None:
        self._w, self._t = w, t
        self.top = w.wide(t, w.constant(-greatest(t), t), vectors)
        self.total = w.wide(t, w.constant(0.0, t), vectors)

    def add(self, places: Iterable[str], pick: Callable[[str], str]) -> None:
        """Write, in `Writer.over_wide`, that the vectors at some places of ``x``, a power of two, are added."""
        w, t = self._w, self._t
        xs = [w.value(t, w.load_wide("x", place)) for place in places]
        # Of a NaN and another number the second is taken, so that what is largest never is a NaN.
        found = self._in_pairs(xs, partial(larger, w))
        self.lower(w.value(t, _finite(w, t, w.value(t, larger(w, found, pick(self.top))))), pick)
        powers = [w.value(t, w.power(t, w.value(t, _below(w, t, f"{x} - {pick(self.top)}")))) for x in xs]
        w.assign(pick(self.total), t, f"{pick(self.total)} + {self._in_pairs(powers, lambda a, b: f'({a} + {b})')}")

    def lower(self, top: str, pick: Callable[[str], str]) -> None:
        """Write, in `Writer.over_wide`, that all is made less by numbers that are not less than before."""
        w, t = self._w, self._t
        w.assign(pick(self.total), t, f"{pick(self.total)} * {w.power(t, f'{pick(self.top)} - {top}')}")
        w.assign(pick(self.top), t, top)

    def _in_pairs(self, found: list[str], join: Callable[[str, str], str]) -> str:
        while len(found) > 1:
            found = [self._w.value(self._t, join(*pair)) for pair in zip(found[::2], found[1::2], strict=True)]
        return found[0]


def larger(w: Writer, a: str, b: str) -> str:
    """Put the larger of two numbers into words: the second one beside a NaN."""
    return w.select(f"({a} > {b})", a, b)


def _finite(w: Writer, t: str, x: str) -> str:
    most = w.constant(greatest(t), t)
    return w.select(f"({x} > {most})", most, x)


def _below(w: Writer, t: str, difference: str) -> str:
    if t != "float32":
        return difference
    x, most = w.value(t, difference), w.constant(_INFINITE, t)
    return w.select(f"({x} > {most})", most, x)


def greatest(t: str) -> float:
    """Return the greatest finite number of a dtype."""
    import numpy as np

    return float(np.finfo(t).max)
