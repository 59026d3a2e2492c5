# SPDX-License-Identifier: Apache-2.0
"""Kernels written once, for two languages: OpenCL C, and Python for numba-dpex.

A kernel is written as calls of a `Writer`. Expressions are text; what differs between the languages (selection,
division, loads, constants), a method of the writer puts into words. Indices are never negative unless a kernel takes
care of it. float16 is read as float32 and rounded when stored; only OpenCL C has it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from syclsched.kernels.common import VECTOR_ITEMS
from syclsched.model.operation import Parameter, Signature

#: Numbers that are changed side by side: what the widest vector register in use holds.
LANES = VECTOR_ITEMS
#: How many times as many neighbouring columns, of four bytes each, a work-item should have beside each other, at most.
BLOCK_VECTORS = 16
#: Vectors of partial results of a row that are changed in turn, so that none waits for an addition to end.
ROW_VECTORS = 4

UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


class Writer(ABC):
    """Writes a kernel over contiguous arrays."""

    #: What the language calls the number of a work-item, and how many there are, in an index space that is a line; and
    #: the row and column of one in a plane. Neighbours in a row become lanes of a vector.
    item: str
    items: str
    plane_row: str
    plane_column: str
    #: In a line: the work-group, how many there are, the work-item in its group, how many of them there are.
    group: str
    groups: str
    local: str
    width: str

    def __init__(self, signature: Signature, parameters: tuple[Parameter, ...]) -> None:
        self.signature = signature
        self.parameters = parameters
        self.lines: list[str] = []
        self._depth = 1
        self._names = 0
        self._lanes = 1  # how many numbers what is named now is

    def fresh(self, stem: str = "t") -> str:
        """Return a name that was not used."""
        self._names += 1
        return f"{stem}{self._names}"

    def line(self, text: str) -> None:
        """Add a line as it is."""
        self.lines.append("  " * self._depth + text)

    @contextmanager
    def block(self, head: str, end: str | None = None) -> Iterator[None]:
        """Indent what is written inside."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1
        if end is not None:
            self.line(end)

    def first(self, *, plane: bool = False) -> str:
        """Say that this is the first of all work-items."""
        if plane:
            return self.both(f"({self.plane_row} == 0)", f"({self.plane_column} == 0)")
        return f"({self.item} == 0)"

    @abstractmethod
    def index(self, expression: str) -> str:
        """Name an index that does not change."""

    @abstractmethod
    def value(self, dtype: str, expression: str) -> str:
        """Name a number that does not change."""

    @abstractmethod
    def variable(self, dtype: str | None, expression: str) -> str:
        """Name a number that changes; without a dtype, an index."""

    @abstractmethod
    def assign(self, name: str, dtype: str | None, expression: str) -> None:
        """Change a variable."""

    @abstractmethod
    def store(self, array: str, index: str, value: str) -> None:
        """Write a number, of the array's dtype, to an array."""

    @abstractmethod
    def private(self, dtype: str, size: int) -> str:
        """Declare an array of the work-item's own: ``name[i]`` can be read and, as a variable, assigned."""

    @abstractmethod
    def loop(self, start: str, stop: str, step: str = "1") -> Any:
        """Open a loop upwards over indices; gives the index's name."""

    @abstractmethod
    def when(self, condition: str) -> Any:
        """Open a block that is done if a condition holds."""

    @abstractmethod
    def repeat(self, condition: str) -> Any:
        """Open a block that is done while a condition holds."""

    @abstractmethod
    def load(self, array: str, index: str) -> str:
        """Read a number from an array."""

    @abstractmethod
    def constant(self, value: Any, dtype: str) -> str:
        """Put a number into words."""

    @abstractmethod
    def cast(self, dtype: str, value: str, given: str) -> str:
        """Convert a number to a dtype from a given one."""

    @abstractmethod
    def select(self, condition: str, yes: str, no: str) -> str:
        """Choose one of two."""

    @abstractmethod
    def call(self, function: str, *operands: str) -> str:
        """Call a function of the C library, by its name there."""

    @abstractmethod
    def beyond(self, symbol: str, x: str, best: str) -> str:
        """Say that a floating-point number is larger (``>``) or smaller (``<``) than the best, or the first NaN.

        Put as the device's compiler makes the fastest vectors of it, which is up to twice as fast as how it does not.
        """

    @abstractmethod
    def unordered(self, a: str, b: str) -> str:
        """Say, in `over_wide`, that one of two floating-point numbers is NaN: one comparison for both."""

    @abstractmethod
    def power(self, dtype: str, x: str) -> str:
        """Call the exponential of a number of at most 0; see `syclsched.kernels.exponential`."""

    @abstractmethod
    def erf(self, dtype: str, x: str) -> str:
        """Call the error function; see `syclsched.kernels.error_function`."""

    @abstractmethod
    def base_two(self, function: str, *operands: str) -> str:
        """Call a function of `syclsched.kernels.base_two`, by its name, of numbers in single precision."""

    @abstractmethod
    def div(self, a: str, b: str) -> str:
        """Divide indices."""

    @abstractmethod
    def both(self, *conditions: str) -> str:
        """Say that all conditions hold."""

    @abstractmethod
    def either(self, *conditions: str) -> str:
        """Say that one of the conditions holds."""

    @abstractmethod
    def negate(self, condition: str) -> str:
        """Say that a condition does not hold."""

    @abstractmethod
    def truncated(self, a: str, b: str, dtype: str) -> str:
        """Divide whole numbers by one that is not 0, rounding to 0."""

    @abstractmethod
    def rounded(self, x: str, dtype: str) -> str:
        """Round a number to the nearest whole, of two to the even one."""

    @abstractmethod
    def wide(self, dtype: str, expression: str, vectors: int = 1) -> str:
        """Name some times `LANES` numbers that change, all of one value at first."""

    def wide_array(self, dtype: str, value: str, vectors: int) -> str:
        """Declare some times `LANES` numbers in memory of the work-item's own; for `load_wide` and `store_wide`."""
        name, number = self.private(dtype, vectors * LANES), self.wide(dtype, value)
        with self.loop("0", str(vectors * LANES), str(LANES)) as at:
            self.over_wide(1, lambda pick, _: self.store_wide(name, at, pick(number), dtype))
        return name

    def over_wide(self, vectors: int, body: Callable[[Callable[[str], str], str], None]) -> None:
        """Write what is done with every number of wides."""
        with self._vectors_of(LANES):
            for number in range(vectors):
                body(partial(_vector, number), str(number * LANES))

    @contextmanager
    def _vectors_of(self, lanes: int) -> Iterator[None]:
        self._lanes = lanes
        yield
        self._lanes = 1

    @abstractmethod
    def places(self, dtype: str) -> str:
        """Name, in `over_wide`, the numbers 0, 1, 2, ... of a vector's places."""

    @abstractmethod
    def load_wide(self, array: str, index: str) -> str:
        """Read, in `over_wide`, a vector of elements of an array, from an index on."""

    @abstractmethod
    def store_wide(self, array: str, index: str, value: str, given: str) -> None:
        """Write, in `over_wide`, a vector of numbers of a given dtype to an array, from an index on."""

    def update_wide(
        self, wide: str, vectors: int, dtype: str, array: str, index: str, change: Callable[[str, str], str]
    ) -> None:
        """Change each number, given it and the element of an array, from an index on, beside it."""

        def body(pick: Callable[[str], str], place: str) -> None:
            given = self.value(dtype, self.load_wide(array, f"{index} + {place}"))
            self.assign(pick(wide), dtype, change(pick(wide), given))

        self.over_wide(vectors, body)

    @abstractmethod
    def halves(self, vector: str) -> tuple[str, str]:
        """Read the first and the second half of a vector; of two numbers, the first and the second."""

    def fold_wide(
        self,
        wides: Sequence[tuple[str, str]],
        vectors: int,
        combine: Callable[[list[str], list[str]], list[str]],
    ) -> list[str]:
        """Write how the numbers of wides become one of each, in pairs, as none waits for the other."""

        def joined(a: list[str], b: list[str]) -> list[str]:
            pairs = zip(wides, combine(a, b), strict=True)
            return [self.value(dtype, expression) for (_, dtype), expression in pairs]

        parts = [[_vector(number, wide) for wide, _ in wides] for number in range(vectors)]
        with self._vectors_of(LANES):
            while len(parts) > 1:
                parts = [joined(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        (found,), lanes = parts, LANES
        while lanes > 1:
            lanes //= 2
            with self._vectors_of(lanes):
                low, high = zip(*map(self.halves, found), strict=True)
                found = joined([*low], [*high])
        return found

    @abstractmethod
    def turn(self, to: str, y_apart: str, start: str, x_apart: str) -> None:
        """Write that as many lines of `LANES` elements of ``x`` become columns of ``y``."""

    @abstractmethod
    def finish(self) -> Any:
        """Return what an implementation's ``load`` returns."""


def _vector(number: int, wide: str) -> str:
    return f"{wide}_{number}"


def working(dtype: str) -> str:
    """Return the dtype that is reckoned in for arrays of a dtype."""
    return "float32" if dtype == "float16" else dtype
