# SPDX-License-Identifier: Apache-2.0
"""Checks before and after each task of a debug run: undeclared writes, unwritten reads, and non-finite values."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from syclsched.devices.memory.constant_uploads import UploadedConstants, forget, uploads_of
from syclsched.devices.programs.executables import Executable
from syclsched.errors import NotFiniteError, TaskFailedError, UndeclaredWriteError
from syclsched.execution.core.program import Buffer
from syclsched.execution.core.safeguards import Safeguards
from syclsched.execution.core.work import InstructionWork
from syclsched.execution.dispatch.checksums import Extent, complement_of, extent_sums, first_change
from syclsched.execution.memory.buffers import AllocatedBuffer, BufferTable, NumpyArray
from syclsched.execution.memory.red_zones import POISON, RedZoneBuffers, bytes_of, host_copy_of_range
from syclsched.model.plan import Instruction
from syclsched.model.text.units import listed

_LOGGER = logging.getLogger("syclsched")
#: Constants that an error lists.
_MOST_NAMES = 4


class DebugCheck(Protocol):
    """A check before and after each task."""

    def before(self, instruction: Instruction, work: InstructionWork) -> None:
        """Record the state that the check needs, before a task runs."""

    def after(self, instruction: Instruction, work: InstructionWork) -> TaskFailedError | None:
        """Check the state after the task; return an error if the check fails."""


class UndeclaredWriteCheck:
    """Detects tasks that write arrays or rows they do not declare to write, or memory outside their arrays."""

    def __init__(self, buffers: RedZoneBuffers) -> None:
        self._buffers = buffers
        #: Memory of each uploaded constant, with its checksums.
        self._constants: list[tuple[UploadedConstants, Any, list[NumpyArray]]] = []
        self._extents: dict[Buffer, list[Extent]] = {}
        self._sums: dict[Buffer, list[NumpyArray]] = {}
        #: Buffers with undeclared changes by the last checked task.
        self.changed: set[Buffer] = set()

    def watch_constants(self, executables: Iterable[Executable]) -> None:
        """Compute checksums of the constants in device memory, which no task may change."""
        memories = [
            (upload, array.usm_data if hasattr(array, "usm_data") else array.memory)
            for upload in uploads_of(executables)
            for array in upload.arrays.values()
            if not isinstance(array, np.ndarray) and array.nbytes
        ]
        self._constants = [(upload, memory, _sums_of(memory)) for upload, memory in memories]

    def before(self, instruction: Instruction, work: InstructionWork) -> None:
        """Compute checksums of all memory that the task must not change."""
        written: dict[Buffer, list[Extent]] = {}
        for parameter in work.arrays:
            if parameter.mode is not None and parameter.mode.writes:
                live = self._buffers[work.buffers[parameter.name]]
                memory = self._buffers.memory_of(work.buffers[parameter.name])
                start = _offset(live, self._buffers[memory])
                written.setdefault(memory, []).append((start, start + live.array.nbytes))
        self._extents, self._sums = {}, {}
        for buffer, live in self._buffers.live().items():
            extents = self._extents[buffer] = complement_of(live.array.nbytes, written.get(buffer, ()))
            self._sums[buffer] = extent_sums(bytes_of(live), extents) if extents else []

    def after(self, instruction: Instruction, work: InstructionWork) -> TaskFailedError | None:
        """Compare the checksums, and check the guard bytes."""
        self.changed = set()
        violations = []
        for buffer, at in self._buffers.find_overruns().items():
            live = self._buffers[buffer]
            place = f"{-at} bytes before its beginning" if at < 0 else f"{at - live.array.nbytes} bytes behind its end"
            violations.append(f"writes beyond array {buffer[0]!r} in {buffer[1]!r}, {place}")
        for buffer, extents in self._extents.items():
            live = self._buffers[buffer]
            changed = (
                first_change(extents, self._sums[buffer], extent_sums(bytes_of(live), extents)) if extents else None
            )
            if changed is None:
                continue
            self.changed.add(buffer)
            declared = self._declared(work, buffer)
            if declared:
                rest = f"of which it declares to write {declared} only"
            else:
                rest = "which it does not declare to write"
            violations.append(f"changes {_where(live, changed)} in {buffer[1]!r}, {rest}")
        violations += self._changed_constants()
        if not violations:
            return None
        return UndeclaredWriteError(
            "; ".join(violations),
            task=work.task.name,
            where=_place(instruction, work),
            hint="Declare what it writes (write() or update() of the array, or of the rows), or mend its indices",
        )

    def _changed_constants(self) -> list[str]:
        """Return the errors in constants, which the next run uploads again."""
        found = []
        for number, (upload, memory, before) in enumerate(self._constants):
            now = _sums_of(memory)
            if first_change([(0, memory.nbytes)], before, now) is not None:
                self._constants[number] = (upload, memory, now)
                forget(upload)
                names = listed([repr(name) for name in upload.names], _MOST_NAMES)
                found.append(f"changes the constant {names} in {upload.space!r}")
        return found

    def _declared(self, work: InstructionWork, memory: Buffer) -> str:
        names = [
            work.buffers[p.name][0]
            for p in work.arrays
            if p.mode is not None and p.mode.writes and self._buffers.memory_of(work.buffers[p.name]) == memory
        ]
        return ", ".join(names)


class _UnwrittenReadCheck:
    """Warns of tasks that read floating-point elements that no task has written."""

    def __init__(self, buffers: BufferTable) -> None:
        self._buffers = buffers

    def before(self, instruction: Instruction, work: InstructionWork) -> None:
        """Search for the fill pattern in arrays that the task reads."""
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

    def after(self, instruction: Instruction, work: InstructionWork) -> TaskFailedError | None:
        """Do nothing: the check is complete before the task."""
        return None


class _FiniteCheck:
    """Detects the first task that writes a NaN or an infinity."""

    def __init__(self, buffers: BufferTable) -> None:
        self._buffers = buffers
        self._inputs: dict[str, int] = {}

    def before(self, instruction: Instruction, work: InstructionWork) -> None:
        """Count the non-finite elements of arrays that the task updates, before it overwrites them."""
        self._inputs = {
            p.name: int((~_finite(self._buffers[work.buffers[p.name]])).sum())
            for p in work.arrays
            if p.mode is not None and p.mode.reads and p.mode.writes
        }

    def after(self, instruction: Instruction, work: InstructionWork) -> TaskFailedError | None:
        """Check the arrays that the task wrote."""
        violations = []
        for parameter in work.arrays:
            if parameter.mode is None or not parameter.mode.writes:
                continue
            live = self._buffers[work.buffers[parameter.name]]
            bad = ~_finite(live)
            if bad.any():
                value = np.ravel(_value(live))[int(np.argmax(bad))]
                first = _index(int(np.argmax(bad)), live.array.shape)
                violations.append(
                    f"writes {value} to {live.array.name!r} at {first}, {int(bad.sum())} of {bad.size} elements"
                )
        if not violations:
            return None
        message = "; ".join([*violations, *self._inputs_state(work)])
        return NotFiniteError(message, task=work.task.name, where=_place(instruction, work))

    def _inputs_state(self, work: InstructionWork) -> list[str]:
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


def debug_checks_for(safeguards: Safeguards, buffers: BufferTable) -> list[DebugCheck]:
    """Return the checks of a run."""
    found: list[DebugCheck] = []
    if isinstance(buffers, RedZoneBuffers):
        found += [UndeclaredWriteCheck(buffers), _UnwrittenReadCheck(buffers)]
    return [*found, _FiniteCheck(buffers)] if safeguards.nan_guard else found


# --- inside ---------------------------------------------------------------------------------------


def _place(instruction: Instruction, work: InstructionWork) -> str:
    again = f", done again ({instruction.again})" if instruction.again else ""
    return f"task {work.task.name!r} ({work.implementation.name}{again})"


def _sums_of(memory: Any) -> list[NumpyArray]:
    """Return the checksums of USM memory."""
    return extent_sums(host_copy_of_range(memory, 0, memory.nbytes), [(0, memory.nbytes)])


def _value(live: AllocatedBuffer) -> NumpyArray:
    return bytes_of(live).view(live.array.dtype).reshape(live.array.shape)


def _finite(live: AllocatedBuffer) -> NumpyArray:
    """Return a flat mask of the finite elements; elements that are not floating-point count as finite."""
    kind = np.dtype(live.array.dtype).kind
    count = live.array.nbytes // max(1, np.dtype(live.array.dtype).itemsize)
    return np.isfinite(_value(live)).reshape(-1) if kind in "fc" else np.ones(count, bool)


def _poisoned(live: AllocatedBuffer) -> NumpyArray:
    """Return a flat mask of the elements that consist of fill bytes only."""
    itemsize = np.dtype(live.array.dtype).itemsize
    found: NumpyArray = (bytes_of(live).reshape(-1, itemsize) == POISON).all(axis=1)
    return found


def _offset(part: AllocatedBuffer, whole: AllocatedBuffer) -> int:
    """Return the byte offset of a part in its whole array."""
    if part is whole:
        return 0
    return part.address - whole.address if part.array.nbytes or not whole.is_usm else 0


def _index(flat: int, shape: tuple[int, ...]) -> str:
    found = np.unravel_index(flat, shape) if shape else ()
    return "[" + ", ".join(str(int(i)) for i in found) + "]"


def _where(live: AllocatedBuffer, changed: Extent) -> str:
    """Describe which elements of a buffer a byte extent covers."""
    itemsize = np.dtype(live.array.dtype).itemsize
    first, last = changed[0] // itemsize, max(changed[0], changed[1] - 1) // itemsize
    shape: Any = live.array.shape
    return f"array {live.array.name!r} between {_index(first, shape)} and {_index(last, shape)}"
