# SPDX-License-Identifier: Apache-2.0
"""Commands of the compiled submission loop as C structures, and the result of submitting a batch of them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from syclsched.devices.programs.executables import KernelSubmission
from syclsched.model.operation import NativeCall

#: ``enum kind`` of ``_submit.h``.
FENCE, RANGE, ND_RANGE, COPY, CALL = range(5)


class CommandStructure(ctypes.Structure):
    """``struct command`` of ``_submit.h``."""

    _fields_ = [
        ("kind", ctypes.c_int64),
        ("lane", ctypes.c_int64),
        ("slot", ctypes.c_int64),
        ("waits", ctypes.c_void_p),
        ("waits_count", ctypes.c_size_t),
        ("kernel", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("types", ctypes.c_void_p),
        ("arguments_count", ctypes.c_size_t),
        ("global_range", ctypes.c_size_t * 3),
        ("local_range", ctypes.c_size_t * 3),
        ("dimensions", ctypes.c_size_t),
        ("to", ctypes.c_void_p),
        ("source", ctypes.c_void_p),
        ("nbytes", ctypes.c_size_t),
        ("function", ctypes.c_void_p),
        ("words", ctypes.c_void_p),
        ("event_word", ctypes.c_int64),
        ("returned", ctypes.c_void_p),
        ("divisible", ctypes.c_int64),
    ]


class Command:
    """One submission, ready for the loop; keeps all memory alive that it points to."""

    __slots__ = ("_kept", "_structure", "address", "is_open_ended", "slot")

    def __init__(self, structure: CommandStructure, kept: tuple[Any, ...], *, is_open_ended: bool = False) -> None:
        self.slot = int(structure.slot)
        #: Whether it is a kernel whose time follows from values and has no limit.
        self.is_open_ended = is_open_ended
        self._structure = structure
        self._kept = kept
        self.address = ctypes.addressof(structure)

    @property
    def lane(self) -> int:
        """The index of its lane."""
        return int(self._structure.lane)

    @property
    def is_copy(self) -> bool:
        """Whether it is a copy."""
        return int(self._structure.kind) == COPY

    @property
    def is_fence(self) -> bool:
        """Whether it is an empty operation."""
        return int(self._structure.kind) == FENCE

    @property
    def is_divisible(self) -> bool:
        """Whether it is a kernel, and launches of parts of its work-groups do the same."""
        return bool(self._structure.divisible)

    def truncated_copy(self, nbytes: int) -> tuple[Command, int]:
        """Return a copy command of the first ``nbytes`` bytes, and its structure's address, to change its pointers."""
        structure = CommandStructure.from_buffer_copy(self._structure)
        structure.nbytes = nbytes
        return Command(structure, self._kept), ctypes.addressof(structure)

    @property
    def copied(self) -> tuple[int, int]:
        """Destination address, 0 if there is nothing to copy, and number of bytes of a copy command."""
        return int(self._structure.to or 0), int(self._structure.nbytes)

    @property
    def parts(self) -> tuple[Command, ...]:
        """The submissions it is made of: itself."""
        return (self,)

    @property
    def slots(self) -> tuple[int, ...]:
        """The slots that its event completes."""
        return (self.slot,)

    def split_by_slot(self) -> Sequence[Command]:
        """Return equivalent commands, one for each slot."""
        return (self,)

    @property
    def refusal(self) -> str | None:
        """The error message of the library's last call if it failed, else None."""
        return None


class OwnKernel:
    """A native kernel that is released together with the commands that use it."""

    __slots__ = ("__weakref__", "_release", "handle")

    def __init__(self, handle: int, release: Callable[[int], object]) -> None:
        self.handle = handle
        self._release = release

    def __del__(self) -> None:
        self._release(self.handle)


class KernelCommand(Command):
    """The launch of a kernel; its submission is known if its native kernel has its arguments set."""

    __slots__ = ("own_kernel", "submission")

    def __init__(
        self,
        structure: CommandStructure,
        kept: tuple[Any, ...],
        submission: KernelSubmission | None,
        own_kernel: OwnKernel | None = None,
        *,
        is_open_ended: bool = False,
    ) -> None:
        super().__init__(structure, kept, is_open_ended=is_open_ended)
        self.submission = submission
        #: Its native kernel if no other command uses it.
        self.own_kernel = own_kernel

    def with_own_kernel(self, kernel: OwnKernel, keep: Any) -> KernelCommand:
        """Return the same launch of a native kernel of its own; it keeps an object alive."""
        structure = CommandStructure.from_buffer_copy(self._structure)
        structure.kernel = kernel.handle
        kept = *self._kept, kernel, keep
        return KernelCommand(structure, kept, self.submission, kernel, is_open_ended=self.is_open_ended)


class CallCommand(Command):
    """The call of a library function."""

    __slots__ = ("_explain", "_returned")

    def __init__(
        self,
        structure: CommandStructure,
        kept: tuple[Any, ...],
        returned: ctypes.c_int32,
        explain: Callable[[int], str] | None,
    ) -> None:
        super().__init__(structure, kept)
        self._returned = returned
        self._explain = explain

    @property
    def call(self) -> NativeCall:
        """The call it was made from."""
        found: NativeCall = self._kept[0]
        return found

    @property
    def refusal(self) -> str | None:
        """The error message and status of the last call if it failed, else None."""
        status = int(self._returned.value)
        if status == 0:
            return None
        return f"status {status}" if self._explain is None else f"{self._explain(status)} (status {status})"


class CommandSequence(Command):
    """Several submissions of one instruction, one after another on its lane."""

    __slots__ = ("_parts",)

    def __init__(self, slot: int, parts: tuple[Command, ...]) -> None:
        self.slot = slot
        self._parts = parts

    @property
    def parts(self) -> tuple[Command, ...]:
        """The submissions, in order."""
        return self._parts

    @property
    def refusal(self) -> str | None:
        """The error message of the first part whose library call failed, else None."""
        return next((said for part in self._parts if (said := part.refusal) is not None), None)


class JointCommand(Command):
    """One submission that does the work of several instructions.

    Its event is that of the first slot; of the last one if it does them ``in_order``, as they depend on each other.
    """

    __slots__ = ("_apart", "_in_order", "_slots")

    def __init__(
        self, whole: Command, slots: tuple[int, ...], apart: Callable[[int], Command], *, in_order: bool = False
    ) -> None:
        super().__init__(whole._structure, (whole,), is_open_ended=whole.is_open_ended)
        self._slots = slots
        self._apart = apart
        self._in_order = in_order

    @property
    def slots(self) -> tuple[int, ...]:
        """The slots that its event completes."""
        return self._slots

    def split_by_slot(self) -> Sequence[Command]:
        """Return a command for each slot; the one with the slot of all comes last, as others wait for its event."""
        return [self._apart(slot) for slot in (self._slots if self._in_order else reversed(self._slots))]


class Batch:
    """The result of one submission call: how many commands were submitted, when, and their events."""

    __slots__ = ("done", "fences", "further", "made", "made_count", "submit_ns")

    def __init__(
        self, done: int, submit_ns: list[int], fences: int, made: Any, made_count: int, further: int = 0
    ) -> None:
        self.further = further
        self.done = done
        self.submit_ns = submit_ns
        self.fences = fences
        self.made = made
        self.made_count = made_count
