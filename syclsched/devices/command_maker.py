# SPDX-License-Identifier: Apache-2.0
"""The commands of the compiled submission loop, and the lanes they are for, as C has them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from syclsched.devices.commands import (
    CALL,
    COPY,
    FENCE,
    ND_RANGE,
    RANGE,
    CallCommand,
    Command,
    CommandSequence,
    CommandStructure,
)
from syclsched.devices.executables import CopySubmission, KernelSubmission
from syclsched.devices.fences import must_fence, scratch_for
from syclsched.devices.native_opencl import NativeOpenCL, load_native
from syclsched.devices.submission_library import Library
from syclsched.errors import ExecutionError
from syclsched.model.operation import NativeCall

#: Machine words that a library's function is called with.
_CALL_WORDS = 6

#: With more unfinished events than this, a kernel goes behind a fence instead of taking a long list.
LONGEST_LIST = 8

#: Where a kernel can wait for any number of events.
NO_LIMIT = 1 << 62

# DPCTLKernelArgType of dpctl 0.17.
_VOID_PTR = 10
_TYPES: dict[Any, int] = {
    ctypes.c_uint8: 1,
    ctypes.c_int16: 2,
    ctypes.c_uint16: 3,
    ctypes.c_int32: 4,
    ctypes.c_uint32: 5,
    ctypes.c_int64: 6,
    ctypes.c_uint64: 7,
    ctypes.c_float: 8,
    ctypes.c_double: 9,
}


class Lane(ctypes.Structure):
    """An in-order queue: ``struct lane``."""

    _fields_ = [
        ("way", ctypes.c_void_p),
        ("functions", ctypes.c_void_p),
        ("queue", ctypes.c_void_p),
        ("scratch_to", ctypes.c_void_p),
        ("scratch_from", ctypes.c_void_p),
        ("longest_list", ctypes.c_int64),
        ("calls", ctypes.c_int64),
        ("apart", ctypes.c_void_p),
        ("last", ctypes.c_void_p),
        ("last_is_call", ctypes.c_int64),
        ("timed", ctypes.c_int64),
        ("remembered", ctypes.c_int64),
    ]


class Event(ctypes.Structure):
    """An event and where it comes from: ``struct event``."""

    _fields_ = [("event", ctypes.c_void_p), ("lane", ctypes.c_void_p), ("slot", ctypes.c_int64)]


class CommandMaker:
    """Makes commands for the lanes and instructions of one run; `SubmissionLoop` submits them."""

    def __init__(
        self, library: Library, queues: dict[int, Any], slots: int, devices: Mapping[int, str] | None = None
    ) -> None:
        self._library = library
        self._queues = queues
        self._devices = devices or {}
        self._injected: set[int] = set()
        # The second half is for lanes as SYCL has them, where work goes to their native queues otherwise.
        self._lanes_count = max(queues, default=-1) + 1
        self._lanes = (Lane * (2 * self._lanes_count))()
        for index, queue in queues.items():
            to, source = scratch_for(queue)
            self._lanes[index] = Lane(
                library.dpctl_way,
                library.dpctl_functions,
                queue.addressof_ref(),
                to._pointer,
                source._pointer,
                0 if must_fence(queue) else LONGEST_LIST,
            )
        #: What commands are handed to: the lanes above, or others in their place.
        self._handed_to: Any = self._lanes
        # The second half is for the first events of sequences, with which they begin.
        self._slots = slots
        self._events = (Event * (2 * slots))()
        self._stop = ctypes.c_int32(0)
        #: Address and number of events that were made together, and what holds them.
        self._made: list[tuple[int, ctypes.c_int64, Any]] = []
        self._native: NativeOpenCL | None = None
        self._native_queues: dict[int, int] = {}
        #: By the lane whose own it is, None for those of all, and SYCL's kernel.
        self._native_kernels: dict[tuple[int | None, int], int] = {}
        self._adopted: list[int] = []
        self._own_kernels = self._has_adopted = self._timed = self._parted = False
        self._own: WeakValueDictionary[Hashable, _OwnKernel] = WeakValueDictionary()
        #: Of slots that have no events of their own: the slot whose event stands for theirs, too.
        self._stands_for: dict[int, int] = {}

    def go_native(self, *, own_kernels: bool = False) -> None:
        """Submit to the native queues behind SYCL's where they are OpenCL's, from now on.

        To be called before any command is made, and only if nothing but the loop's own commands will be submitted to
        these queues: SYCL does not know of what is.
        """
        native = load_native()
        if native is None:
            return
        self._native = native
        self._own_kernels = own_kernels
        for index, queue in self._queues.items():
            if queue.backend.name == "opencl":
                try:
                    handle, functions = native.queue(queue)
                except AttributeError:  # a platform without the extension for unified shared memory
                    continue
                self._native_queues[index] = handle
                lane = self._lanes[index]
                lane.way, lane.functions, lane.queue = self._library.opencl_way, functions, handle
                lane.longest_list = NO_LIMIT

    def stop(self) -> None:
        """Let the loop end before its next submission; for other threads."""
        self._stop.value = 1

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return bool(self._stop.value)

    def lanes_with(self, queues: Mapping[int, int]) -> Any:
        """Return the lanes as C has them, with other native queues in the place of theirs."""
        lanes = type(self._lanes).from_buffer_copy(self._lanes)
        for index, handle in queues.items():
            lanes[index].queue = handle
        return lanes

    def hand_to(self, lanes: Any | None) -> None:
        """Hand commands to other lanes from now on, or to its own again; none of its commands must be on its way."""
        self._handed_to = self._lanes if lanes is None else lanes

    @property
    def is_on_threads(self) -> bool:
        """Whether commands are handed to threads of our own."""
        return self._handed_to is not self._lanes

    @property
    def stop_flag(self) -> ctypes.c_int32:
        """What `stop` sets."""
        return self._stop

    @property
    def event_slots(self) -> int:
        """How many slots there are, with those of the first events of sequences."""
        return len(self._events)

    def share(self, slots: Sequence[int]) -> None:
        """Let the event of the first of some slots stand for all: for what waits for them, and for questions.

        To be called before the commands that wait for them are made.
        """
        self._stands_for.update(dict.fromkeys(slots[1:], slots[0]))

    def share_nothing(self) -> None:
        """Take back all that `share` said."""
        self._stands_for.clear()

    @property
    def native(self) -> bool:
        """Whether some lanes' native queues are submitted to."""
        return bool(self._native_queues)

    def kernel(self, slot: int, lane: int, waits: Sequence[int], submission: KernelSubmission) -> Command:
        """Return the command of a kernel."""
        count = len(submission.arguments)
        values, types = (ctypes.c_void_p * count)(), (ctypes.c_int32 * count)()
        for i, argument in enumerate(submission.arguments):
            kind = _TYPES.get(type(argument))
            values[i] = argument._pointer if kind is None else ctypes.addressof(argument)
            types[i] = _VOID_PTR if kind is None else kind
        listed = self._waits(waits)
        local = submission.local_range
        dimensions = len(submission.global_range)
        own = self._own_kernel(lane, submission, values) if self._own_kernels else None
        structure = CommandStructure(
            RANGE if local is None else ND_RANGE,
            lane,
            slot,
            ctypes.addressof(listed),
            len(listed),
            self._kernel_on(lane, submission.kernel) if own is None else own.handle,
            ctypes.addressof(values),
            ctypes.addressof(types),
            count if own is None else 0,
            _three(submission.global_range),
            _three(submission.global_range if local is None else local),
            dimensions,
        )
        return Command(structure, (submission, values, types, listed, own))

    def call(self, slot: int, lane: int, waits: Sequence[int], call: NativeCall) -> Command:
        """Return the command of a function of a library's that submits to the lane's queue."""
        if len(call.arguments) > _CALL_WORDS or not -1 <= (-1 if call.event is None else call.event) < _CALL_WORDS:
            raise ExecutionError(f"a native call takes at most {_CALL_WORDS} words", where=f"instruction {slot}")
        if call.event is None:  # a fence before says when it may start, the one behind it when it has ended
            return CommandSequence(
                slot, (self.fence(self._slots + slot, lane, waits), self._call(slot, lane, (), call))
            )
        return self._call(slot, lane, waits, call)

    def _call(self, slot: int, lane: int, waits: Sequence[int], call: NativeCall) -> Command:
        listed, returned = self._waits(waits), ctypes.c_int32()
        self._lanes[lane].calls = 1
        if self._native is not None and lane in self._native_queues and not call.on_queue:
            self._part(lane)
        words = (ctypes.c_uint64 * _CALL_WORDS)(*[word % (1 << 64) for word in call.arguments])
        structure = CommandStructure(CALL, lane, slot, ctypes.addressof(listed), len(listed))
        structure.function, structure.words = call.function, ctypes.addressof(words)
        structure.event_word = -1 if call.event is None else call.event
        structure.returned = ctypes.addressof(returned)
        return CallCommand(structure, (call, listed, words), returned, call.explain)

    def _part(self, lane: int) -> None:
        """Have calls on a lane go to the SYCL queue and all else to the native one, with waits between them."""
        device = self._queues[lane].sycl_device
        for index, queue in self._queues.items():  # copies of all lanes of the device are done in place, too
            if index in self._native_queues and queue.sycl_device == device:
                whole, apart = self._lanes[index], self._lanes[self._lanes_count + index]
                apart.way, apart.functions = self._library.apart_way, self._library.dpctl_functions
                apart.queue, apart.calls = queue.addressof_ref(), 1
                apart.scratch_to, apart.scratch_from = whole.scratch_to, whole.scratch_from
                whole.apart = ctypes.addressof(apart)
                self._parted = True
        self._time_calls()

    def time_calls(self, timed: bool) -> None:
        """Have it noted from now on when calls end whose work is done elsewhere, or not: each is then waited for.

        Not where several devices or lanes compute: while one is waited for, nothing would be submitted to the others.
        """
        if timed != self._timed:
            self._timed = timed
            self._time_calls()

    def _time_calls(self) -> None:
        parted = sum(1 for lane in self._lanes if lane.apart and lane.calls)
        alone = len({queue.sycl_device for queue in self._queues.values()}) == 1 and parted == 1
        for lane in self._lanes:
            lane.timed = self._timed and alone

    def is_apart(self, lane: int) -> bool:
        """Return whether a lane's calls and copies are done on the host's cores, apart from its native queue."""
        return bool(self._lanes[lane].apart)

    @property
    def tables(self) -> tuple[int, int, int, int]:
        """Where C finds all lanes and events: two addresses, each with a count."""
        return ctypes.addressof(self._lanes), len(self._lanes), ctypes.addressof(self._events), len(self._events)

    @property
    def blocks(self) -> bool:
        """Whether to submit is to wait in between, because libraries' work is done elsewhere than the rest."""
        return self._parted

    def sequence(
        self,
        slot: int,
        lane: int,
        waits: Sequence[int],
        steps: Sequence[KernelSubmission | CopySubmission | NativeCall],
    ) -> Command:
        """Return the command of several kernels, copies and calls, at least one, of which only the first waits."""
        parts: list[Command] = []
        for number, step in enumerate(steps):
            first = number == 0 and len(steps) > 1
            at, behind = self._slots + slot if first else slot, () if number else waits
            if isinstance(step, KernelSubmission):
                parts.append(self.kernel(at, lane, behind, step))
            elif isinstance(step, CopySubmission):
                parts.append(self.copy(at, lane, behind, step.to, step.source, step.nbytes))
            elif first and step.event is None:
                parts += (self.fence(at, lane, behind), self._call(slot, lane, (), step))
            else:
                parts.append(self._call(at, lane, behind, step))
        return CommandSequence(slot, tuple(parts))

    def copy(self, slot: int, lane: int, waits: Sequence[int], to: Any, source: Any, nbytes: int) -> Command:
        """Return the command of a copy."""
        listed = self._waits(waits)
        structure = CommandStructure(COPY, lane, slot, ctypes.addressof(listed), len(listed))
        structure.to, structure.source, structure.nbytes = _address(to), _address(source), nbytes
        return Command(structure, (to, source, listed))

    def fence(self, slot: int, lane: int, waits: Sequence[int]) -> Command:
        """Return the command of something that does nothing, after what it waits for."""
        listed = self._waits(waits)
        return Command(CommandStructure(FENCE, lane, slot, ctypes.addressof(listed), len(listed)), (listed,))

    def _kernel_on(self, lane: int, kernel: Any) -> int:
        """Return what the way of a lane takes for a kernel."""
        if self._native is None or lane not in self._native_queues:
            return int(kernel.addressof_ref())
        return self._native_kernel(None, lane, kernel)

    def kernel_of_lane(self, lane: int, kernel: Any) -> int:
        """Return a native kernel that is one lane's own: threads that submit to several lanes may set its arguments."""
        return self._native_kernel(lane, lane, kernel)

    def _native_kernel(self, owner: int | None, lane: int, kernel: Any) -> int:
        assert self._native is not None
        key = (owner, int(kernel.addressof_ref()))
        if key not in self._native_kernels:
            try:
                self._native_kernels[key] = self._native.kernel(kernel)
            except OSError as error:
                raise ExecutionError(str(error), where=f"lane {lane}") from error
        return self._native_kernels[key]

    def _own_kernel(self, lane: int, submission: KernelSubmission, values: Any) -> _OwnKernel | None:
        """Return a kernel that has its arguments, one for equal ones; None if it refuses them, or SYCL's is used."""
        if self._native is None or lane not in self._native_queues:
            return None
        passed = tuple(
            (type(a), a.value) if type(a) in _TYPES else value
            for a, value in zip(submission.arguments, values, strict=True)
        )
        # Fewer kernels stay in the processor's caches.
        key = (int(submission.kernel.addressof_ref()), passed)
        own = self._own.get(key)
        if own is None:
            try:
                own = _OwnKernel(self._native.kernel(submission.kernel), self._native.release_kernel)
            except OSError:
                return None
            sizes = [ctypes.sizeof(a) if type(a) in _TYPES else 0 for a in submission.arguments]
            taken = list(zip(values, sizes, strict=True))
            if not self._native.set_arguments(own.handle, self._lanes[lane].functions, taken):
                return None
            self._own[key] = own
        return own

    def _waits(self, slots: Sequence[int]) -> Any:
        """Return slots to wait for, those that share an event once."""
        if self._stands_for:
            slots = list(dict.fromkeys(self._stands_for.get(slot, slot) for slot in slots))
        return (ctypes.c_int64 * len(slots))(*slots)

    def _held_at(self, slot: int) -> int:
        """Return the slot whose event stands for a slot's: its own, if it has one after all."""
        return slot if slot not in self._stands_for or self._events[slot].event else self._stands_for[slot]

    def _address(self, slot: int) -> int:
        return ctypes.addressof(self._events) + self._held_at(slot) * ctypes.sizeof(Event)


# --- inside ---------------------------------------------------------------------------------------


class _OwnKernel:
    """A native kernel that is given back with the command that it is for."""

    __slots__ = ("__weakref__", "_release", "handle")

    def __init__(self, handle: int, release: Callable[[int], None]) -> None:
        self.handle = handle
        self._release = release

    def __del__(self) -> None:
        self._release(self.handle)


def _three(extents: Sequence[int]) -> Any:
    return (ctypes.c_size_t * 3)(*extents, *[1] * (3 - len(extents)))


def _address(memory: Any) -> int:
    return int(memory._pointer) if hasattr(memory, "_pointer") else int(memory.ctypes.data)
