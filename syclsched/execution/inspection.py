# SPDX-License-Identifier: Apache-2.0
"""What is looked at before and after each task of a run that is done step by step."""

from __future__ import annotations

import logging
from typing import Any, Protocol

import numpy as np

from syclsched.errors import NotFiniteError, TaskFailedError, UndeclaredWriteError
from syclsched.execution.buffers import BufferTable, LiveBuffer, NumpyArray
from syclsched.execution.checksums import Extent, first_change, others, sums_of
from syclsched.execution.guarded import POISON, GuardedBufferTable, bytes_of
from syclsched.execution.program import Buffer
from syclsched.execution.safeguards import Safeguards
from syclsched.execution.work import Work
from syclsched.model.plan import Instruction

_LOGGER = logging.getLogger("syclsched")


class Inspection(Protocol):
    """Something that is looked at around each task."""

    def before(self, instruction: Instruction, work: Work) -> None:
        """Look before a task runs."""

    def after(self, instruction: Instruction, work: Work) -> TaskFailedError | None:
        """Look after it, and return what is wrong with it."""


class UndeclaredWrites:
    """Finds tasks that change arrays, or rows of arrays, which they do not declare to write; or memory beyond."""

    def __init__(self, buffers: GuardedBufferTable) -> None:
        self._buffers = buffers
        self._extents: dict[Buffer, list[Extent]] = {}
        self._sums: dict[Buffer, list[NumpyArray]] = {}
        #: Buffers of which the task that was looked at last changed what it must not.
        self.spoiled: set[Buffer] = set()

    def before(self, instruction: Instruction, work: Work) -> None:
        """Add up everything that the task must leave as it is."""
        written: dict[Buffer, list[Extent]] = {}
        for parameter in work.arrays:
            if parameter.mode is not None and parameter.mode.writes:
                live = self._buffers[work.buffers[parameter.name]]
                memory = self._buffers.memory_of(work.buffers[parameter.name])
                start = _offset(live, self._buffers[memory])
                written.setdefault(memory, []).append((start, start + live.array.nbytes))
        self._extents, self._sums = {}, {}
        for buffer, live in self._buffers.live().items():
            extents = self._extents[buffer] = others(live.array.nbytes, written.get(buffer, ()))
            self._sums[buffer] = sums_of(bytes_of(live), extents) if extents else []

    def after(self, instruction: Instruction, work: Work) -> TaskFailedError | None:
        """Add up again, and compare."""
        self.spoiled = set()
        what = []
        for buffer, at in self._buffers.overrun().items():
            live = self._buffers[buffer]
            place = f"{-at} bytes before its beginning" if at < 0 else f"{at - live.array.nbytes} bytes behind its end"
            what.append(f"writes beyond array {buffer[0]!r} in {buffer[1]!r}, {place}")
        for buffer, extents in self._extents.items():
            live = self._buffers[buffer]
            changed = first_change(extents, self._sums[buffer], sums_of(bytes_of(live), extents)) if extents else None
            if changed is None:
                continue
            self.spoiled.add(buffer)
            declared = self._declared(work, buffer)
            if declared:
                rest = f"of which it declares to write {declared} only"
            else:
                rest = "which it does not declare to write"
            what.append(f"changes {_where(live, changed)} in {buffer[1]!r}, {rest}")
        if not what:
            return None
        return UndeclaredWriteError(
            "; ".join(what),
            task=work.task.name,
            where=_place(instruction, work),
            hint="Declare what it writes (write() or update() of the array, or of the rows), or mend its indices",
        )

    def _declared(self, work: Work, memory: Buffer) -> str:
        names = [
            work.buffers[p.name][0]
            for p in work.arrays
            if p.mode is not None and p.mode.writes and self._buffers.memory_of(work.buffers[p.name]) == memory
        ]
        return ", ".join(names)


class UnwrittenReads:
    """Warns of tasks that read floating-point numbers which nothing has written: memory as it was given."""

    def __init__(self, buffers: BufferTable) -> None:
        self._buffers = buffers

    def before(self, instruction: Instruction, work: Work) -> None:
        """Look for the pattern in what the task reads."""
        for parameter in work.arrays:
            if parameter.mode is None or not parameter.mode.reads:
                continue
            live = self._buffers[work.buffers[parameter.name]]
            if np.dtype(live.array.dtype).kind not in "fc":
                continue
            poisoned = _poisoned(live)
            if poisoned.any():
                first = _index(int(np.argmax(poisoned)), live.array.shape)
                _LOGGER.warning(
                    "%s: it may read %s of %s elements of array %r that nothing has written, the first at %s",
                    _place(instruction, work), int(poisoned.sum()), poisoned.size, live.array.name, first,
                )  # fmt: skip

    def after(self, instruction: Instruction, work: Work) -> TaskFailedError | None:
        """Nothing is to be seen then."""
        return None


class NotFinite:
    """Finds the first task that writes a NaN or an infinity."""

    def __init__(self, buffers: BufferTable) -> None:
        self._buffers = buffers
        self._inputs: dict[str, int] = {}

    def before(self, instruction: Instruction, work: Work) -> None:
        """Count what is not finite in what the task updates: it will not be there afterwards."""
        self._inputs = {
            p.name: int((~_finite(self._buffers[work.buffers[p.name]])).sum())
            for p in work.arrays
            if p.mode is not None and p.mode.reads and p.mode.writes
        }

    def after(self, instruction: Instruction, work: Work) -> TaskFailedError | None:
        """Look at what the task wrote."""
        what = []
        for parameter in work.arrays:
            if parameter.mode is None or not parameter.mode.writes:
                continue
            live = self._buffers[work.buffers[parameter.name]]
            bad = ~_finite(live)
            if bad.any():
                value = np.ravel(_value(live))[int(np.argmax(bad))]
                first = _index(int(np.argmax(bad)), live.array.shape)
                what.append(
                    f"writes {value} to {live.array.name!r} at {first}, {int(bad.sum())} of {bad.size} elements"
                )
        if not what:
            return None
        said = "; ".join([*what, *self._inputs_state(work)])
        return NotFiniteError(said, task=work.task.name, where=_place(instruction, work))

    def _inputs_state(self, work: Work) -> list[str]:
        found = []
        for parameter in work.arrays:
            if parameter.mode is None or not parameter.mode.reads:
                continue
            live = self._buffers[work.buffers[parameter.name]]
            bad = self._inputs.get(parameter.name)
            count = int((~_finite(live)).sum()) if bad is None else bad
            state = "was finite" if count == 0 else f"had {count} elements that are not finite"
            found.append(f"its input {live.array.name!r} {state}")
        return found


def inspections_for(safeguards: Safeguards, buffers: BufferTable) -> list[Inspection]:
    """Return what is looked at in a run."""
    found: list[Inspection] = []
    if isinstance(buffers, GuardedBufferTable):
        found += [UndeclaredWrites(buffers), UnwrittenReads(buffers)]
    return [*found, NotFinite(buffers)] if safeguards.nan_guard else found


# --- inside ---------------------------------------------------------------------------------------


def _place(instruction: Instruction, work: Work) -> str:
    again = f", done again ({instruction.again})" if instruction.again else ""
    return f"task {work.task.name!r} ({work.implementation.name}{again})"


def _value(live: LiveBuffer) -> NumpyArray:
    return bytes_of(live).view(live.array.dtype).reshape(live.array.shape)


def _finite(live: LiveBuffer) -> NumpyArray:
    """Return, flat, which elements are finite; all of what is not of floating point are."""
    kind = np.dtype(live.array.dtype).kind
    count = live.array.nbytes // max(1, np.dtype(live.array.dtype).itemsize)
    return np.isfinite(_value(live)).reshape(-1) if kind in "fc" else np.ones(count, bool)


def _poisoned(live: LiveBuffer) -> NumpyArray:
    """Return, flat, which elements have all bytes as memory was filled."""
    itemsize = np.dtype(live.array.dtype).itemsize
    found: NumpyArray = (bytes_of(live).reshape(-1, itemsize) == POISON).all(axis=1)
    return found


def _offset(part: LiveBuffer, whole: LiveBuffer) -> int:
    """Return where some rows begin in the memory of their array, in bytes."""
    if part is whole:
        return 0
    if whole.is_usm:
        return int(part.storage._pointer - whole.storage._pointer) if part.array.nbytes else 0
    return int(part.storage.ctypes.data - whole.storage.ctypes.data)


def _index(flat: int, shape: tuple[int, ...]) -> str:
    found = np.unravel_index(flat, shape) if shape else ()
    return "[" + ", ".join(str(int(i)) for i in found) + "]"


def _where(live: LiveBuffer, changed: Extent) -> str:
    """Return which elements a block of bytes is."""
    itemsize = np.dtype(live.array.dtype).itemsize
    first, last = changed[0] // itemsize, max(changed[0], changed[1] - 1) // itemsize
    shape: Any = live.array.shape
    return f"array {live.array.name!r} between {_index(first, shape)} and {_index(last, shape)}"
