# SPDX-License-Identifier: Apache-2.0
"""Lines of contiguous elements in kernels of a `KernelWriter`: a work-item processes a line in vectors.

The remainder after the last whole vector is covered by a vector that ends with the line: reductions mask the elements
that come twice, stores repeat them. Lines shorter than a vector are processed by neighbouring work-items, which the
device's compiler can make lanes of vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from syclsched.kernels.common import ITEM_BYTES, line_launch
from syclsched.kernels.tensor.writing.kernel_writer import LANES, ROW_VECTORS, KernelWriter
from syclsched.kernels.tensor.writing.row_column_blocks import rows_launch, write_rows
from syclsched.model.operation import DeviceLimits, Launch


def write_lines(w: KernelWriter, lines: str, length: int, body: Callable[[str], None]) -> None:
    """Emit a kernel that runs a body for every line of a length, given its number."""
    if length >= LANES:
        write_rows(w, lines, body)
        return
    line = w.index(w.item)
    with w.if_block(f"{line} < {lines}"):
        body(line)


def launch_lines(lines: int, length: int, limits: DeviceLimits) -> Launch:
    """Return the launch of `write_lines`, at least one work-item."""
    lines = max(lines, 1)
    return rows_launch(lines, length, limits) if length >= LANES else line_launch(limits, lines)


@dataclass(frozen=True, slots=True)
class Line:
    """Code generator for a line of contiguous elements."""

    w: KernelWriter
    dtype: str  # compute dtype
    length: str
    whole: str  # elements in whole vectors
    vectors: int  # independent partial results of a reduction; 0 if the line is shorter than a vector

    @classmethod
    def of(cls, w: KernelWriter, dtype: str, length: str, known: int) -> Line:
        """Return the generator for a line; ``known`` is the length when the kernel is generated."""
        vectors = 0 if known < LANES else 1 if known < 2 * ROW_VECTORS * LANES else ROW_VECTORS
        whole = w.index(f"{w.div(length, str(LANES))} * {LANES}") if vectors else "0"
        return cls(w, dtype, length, whole, vectors)

    def each(self, body: Callable[[str], None], *, once: bool = False) -> None:
        """Emit a body for all elements, given the offset of a number or vector; some come twice unless ``once``."""
        w = self.w
        if self.vectors and not once:
            last = w.index(f"{self.length} - {LANES}")
            with w.loop("0", self.length, str(LANES)) as k:
                at = w.index(w.select(f"({k} < {last})", k, last))
                w.each_vector(1, lambda *_: body(at))
            return
        if self.vectors:
            with w.loop("0", self.whole, str(LANES)) as k:
                w.each_vector(1, lambda *_: body(k))
        with w.loop(self.whole, self.length) as k:
            body(k)

    def each_group(self, body: Callable[[Callable[[str], str], str], None]) -> None:
        """Emit a body for all elements, in groups of ``vectors`` vectors of wides; some come twice.

        It is given the function from a wide to its vector (or number, in lines shorter than a vector), and the offset.
        """
        w, step = self.w, self.vectors * LANES
        if not self.vectors:
            with w.loop("0", self.length) as k:
                body(str, k)
            return
        last = w.index(f"{self.length} - {step}")
        with w.loop("0", self.length, str(step)) as k:
            at = w.index(w.select(f"({k} < {last})", k, last))
            w.each_vector(self.vectors, lambda pick, lane: body(pick, f"{at} + {lane}"))

    def reduce(
        self,
        start: float,
        element: Callable[[str], str],
        combine: Callable[[str, str], str],
        *,
        change: Callable[[str, str], str] | None = None,
        lines: tuple[str, str] = ("1", "0"),
    ) -> str:
        """Emit a reduction of a number of lines a stride apart, given an element by its offset.

        ``combine`` joins partial results, ``change`` adds an element to one, if that is something else.
        """
        change = change or combine
        w, t, nothing = self.w, self.dtype, self.w.constant(start, self.dtype)
        count, apart = lines
        total = w.vector_group(t, nothing, self.vectors) if self.vectors else w.variable(t, nothing)

        def add(vectors: int, first: str) -> None:
            def body(pick: Callable[[str], str], lane: str) -> None:
                w.assign(pick(total), t, change(pick(total), element(f"{first} + {lane}")))

            w.each_vector(vectors, body)

        def add_last(first: str) -> None:
            kind = f"int{8 * ITEM_BYTES[t]}"
            old = w.value(kind, w.cast(kind, f"({LANES} - ({self.length} - {self.whole}))", "int64"))

            def body(pick: Callable[[str], str], _: str) -> None:
                new = f"({w.places(kind)} >= {old})"
                x = w.value(t, w.select(new, element(first), nothing))
                w.assign(pick(total), t, change(pick(total), x))

            w.each_vector(1, body)

        with nullcontext("0") if count == "1" else w.loop("0", count) as line:
            first = w.index(f"{line} * {apart}")
            if not self.vectors:
                with w.loop("0", self.length) as k:
                    w.assign(total, t, change(total, element(f"{first} + {k}")))
                return total
            turn = self.vectors * LANES
            turns = w.index(f"{w.div(self.whole, str(turn))} * {turn}")
            with w.loop("0", turns, str(turn)) as k:
                add(self.vectors, f"{first} + {k}")
            if self.vectors > 1:
                with w.loop(turns, self.whole, str(LANES)) as k:
                    add(1, f"{first} + {k}")
            with w.if_block(f"{self.whole} < {self.length}"):
                add_last(w.index(f"{first} + {self.length} - {LANES}"))
        (found,) = w.reduce_lanes([(total, t)], self.vectors, lambda a, b: [combine(*a, *b)])
        return found


def write_moments(
    w: KernelWriter,
    line: Line,
    base: str,
    epsilon: float,
    lines: tuple[str, str] = ("1", "0"),
    *,
    centred: bool = True,
) -> tuple[str, str]:
    """Emit the mean of lines of ``x``, 0 unless centred, and 1 / sqrt(variance + epsilon); return their names."""
    t = line.dtype
    count = w.value(t, w.cast(t, w.index(f"{lines[0]} * {line.length}"), "int64"))

    def add(a: str, b: str) -> str:
        return f"({a} + {b})"

    mean = w.value(t, w.constant(0.0, t))
    if centred:
        total = line.reduce(0.0, lambda k: w.read("x", f"{base} + {k}"), add, lines=lines)
        mean = w.value(t, f"{total} / {count}")
    squares = line.reduce(
        0.0,
        lambda k: w.value(t, f"{w.read('x', f'{base} + {k}')} - {mean}"),
        add,
        change=lambda total, x: w.multiply_add(x, x, total),
        lines=lines,
    )
    variance = w.value(t, f"{squares} / {count} + {w.constant(epsilon, t)}")
    return mean, w.value(t, f"{w.constant(1.0, t)} / {w.call('sqrt', variance)}")


def least(w: KernelWriter, a: str, b: str) -> str:
    """Emit the smaller of two indices, and return its name."""
    return w.index(w.select(f"({a} < {b})", a, b))


def product(w: KernelWriter, extents: Sequence[str]) -> str:
    """Define the product of extents, and return its name."""
    return w.index(" * ".join(extents) or "1")
