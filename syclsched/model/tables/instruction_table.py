# SPDX-License-Identifier: Apache-2.0
"""The instructions of a lane as columns: a plan's many instructions are checked, timed and written without objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from syclsched.model.access import MODE_CODE, MODES
from syclsched.model.plan import BufferUse, Instruction, InstructionKind
from syclsched.model.tables.distinct_codes import distinct
from syclsched.model.text.bulk_objects import make_objects, paused_collection

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Kinds of instructions, in the order of their codes; kinds from ``launch`` on run tasks.
INSTRUCTION_KINDS: Final[tuple[str, ...]] = get_args(InstructionKind)

# Reading field by field is several times faster than a loop over objects.
_NUMBERS: Final = {name: attrgetter(name) for name in ("id", "nbytes", "again")}
_SECONDS: Final = {name: attrgetter(name) for name in ("duration_s", "start_s", "finish_s")}
_TEXTS: Final = {name: attrgetter(name) for name in ("kind", "task", "implementation")}
_USES, _WAITS = attrgetter("uses"), attrgetter("waits")
_ARRAY, _SPACE, _MODE = attrgetter("array"), attrgetter("space"), attrgetter("mode")


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A column of texts: the different values, and the index of each row's value."""

    values: Sequence[Any]
    index: Ints

    def __iter__(self) -> Iterable[Any]:
        return map(self.values.__getitem__, self.index.tolist())

    def numbered(self, numbers: Mapping[Any, int]) -> Ints:
        """Return the number of each row's text; -1 for a text that has none."""
        return np.array([numbers.get(value, -1) for value in self.values], np.int64)[self.index]


@dataclass(frozen=True, slots=True, eq=False)
class InstructionTable:
    """Instructions of a lane in order; the columns are the fields of `Instruction`."""

    id: Ints
    kind: Texts
    task: Texts
    implementation: Texts
    #: Ragged: the uses of each instruction, and their columns.
    use_starts: Ints
    use_array: Texts
    use_space: Texts
    use_mode: Ints  # index into `MODES`
    #: Ragged: the instructions that each waits for.
    wait_starts: Ints
    waits: Ints
    duration_s: Floats
    start_s: Floats
    finish_s: Floats
    nbytes: Ints
    again: Ints

    def __len__(self) -> int:
        return len(self.id)

    def instructions(self) -> tuple[Instruction, ...]:
        """Return the instructions as objects."""
        with paused_collection():
            waits = self.waits.tolist()
            columns: dict[str, Iterable[Any]] = {name: getattr(self, name) for name in _TEXTS}
            columns |= {name: getattr(self, name).tolist() for name in (*_NUMBERS, *_SECONDS)}
            columns["uses"] = self._uses()
            columns["waits"] = [tuple(waits[a:b]) if a < b else () for a, b in pairwise(self.wait_starts.tolist())]
            return tuple(make_objects(Instruction, len(self), columns))

    def _uses(self) -> list[tuple[BufferUse, ...]]:
        """Return the uses of each instruction; equal ones are one object."""
        array, space = self.use_array, self.use_space
        code = (array.index * len(space.values) + space.index) * len(MODES) + self.use_mode
        code, which = distinct(code, len(array.values) * len(space.values) * len(MODES))
        code, mode = np.divmod(code, len(MODES))
        arrays, spaces = np.divmod(code, max(1, len(space.values)))
        columns: dict[str, Iterable[Any]] = {
            "array": map(array.values.__getitem__, arrays.tolist()),
            "space": map(space.values.__getitem__, spaces.tolist()),
            "mode": map(MODES.__getitem__, mode.tolist()),
        }
        uses = list(map(make_objects(BufferUse, len(code), columns).__getitem__, which.tolist()))
        return [tuple(uses[a:b]) for a, b in pairwise(self.use_starts.tolist())]


def table_of(instructions: Sequence[Instruction]) -> InstructionTable:
    """Return instructions as columns."""
    count = len(instructions)
    uses, waits = list(map(_USES, instructions)), list(map(_WAITS, instructions))
    flat = list(chain.from_iterable(uses))
    found: dict[str, Any] = {name: texts_of(map(get, instructions)) for name, get in _TEXTS.items()}
    found |= {name: np.fromiter(map(get, instructions), np.int64, count) for name, get in _NUMBERS.items()}
    found |= {name: np.fromiter(map(get, instructions), np.float64, count) for name, get in _SECONDS.items()}
    return InstructionTable(
        use_starts=starts_of(map(len, uses), count),
        use_array=texts_of(map(_ARRAY, flat)),
        use_space=texts_of(map(_SPACE, flat)),
        use_mode=np.fromiter(map(MODE_CODE.__getitem__, map(id, map(_MODE, flat))), np.int64, len(flat)),
        wait_starts=starts_of(map(len, waits), count),
        waits=np.fromiter(chain.from_iterable(waits), np.int64),
        **found,
    )


def texts_of(values: Iterable[Any]) -> Texts:
    """Return a column of texts."""
    given = list(values)
    code = {value: n for n, value in enumerate(dict.fromkeys(given))}
    return Texts(tuple(code), np.fromiter(map(code.__getitem__, given), np.int64, len(given)))


def starts_of(lengths: Iterable[int], count: int) -> Ints:
    """Return the start offset of each row in a flat array, and the end of the last."""
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, count), out=starts[1:])
    return starts
