# SPDX-License-Identifier: Apache-2.0
"""Commands and lanes of the compiled submission loop, built as C structures."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from syclsched.devices.backends.registry import backend_of
from syclsched.devices.backends.sycl import NativeAccess
from syclsched.devices.native.fences import scratch_for
from syclsched.devices.native.submission_library import SubmissionLibrary
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.devices.programs.executables import CopySubmission, KernelSubmission
from syclsched.devices.submission.commands import (
    CALL,
    COPY,
    FENCE,
    ND_RANGE,
    RANGE,
    CallCommand,
    Command,
    CommandSequence,
    CommandStructure,
    KernelCommand,
    OwnKernel,
)
from syclsched.devices.submission.local_queues import LocalQueues, open_local_queues
from syclsched.errors import ExecutionError
from syclsched.model.operation import NativeCall

#: Machine words passed to a library function.
_CALL_WORDS = 6

#: A kernel with more unfinished dependencies than this is submitted behind a fence instead of with a long event list.
MAX_EVENT_LIST = 8

#: For queues where a kernel may wait for any number of events.
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


#: A native object, and the function that releases it.
NativeObject = tuple[Callable[[int], object], int]


class LaneStructure(ctypes.Structure):
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
        ("unsplit_done", ctypes.c_int64),
        ("last", ctypes.c_void_p),
        ("last_is_call", ctypes.c_int64),
        ("timed", ctypes.c_int64),
        ("distant", ctypes.c_int64),
        ("remembered", ctypes.c_int64),
    ]


class EventStructure(ctypes.Structure):
    """An event and where it comes from: ``struct event``."""

    _fields_ = [("event", ctypes.c_void_p), ("lane", ctypes.c_void_p), ("slot", ctypes.c_int64)]


class CallEventStructure(ctypes.Structure):
    """An event of a split lane's SYCL queue: ``struct call``."""

    _fields_ = [("event", ctypes.c_void_p), ("start_ns", ctypes.c_int64), ("end_ns", ctypes.c_int64)]


class MovableCommand(NamedTuple):
    """A command that reads an array anywhere in the host's memory."""

    command: Command
    move: int  # address of a C function of the next address and the array's, which returns 0 on success
    moved: int


class MovedArgumentStructure(ctypes.Structure):
    """A kernel's argument that reads an array in place: ``struct moved_argument``."""

    _fields_ = [("functions", ctypes.c_void_p), ("kernel", ctypes.c_void_p), ("index", ctypes.c_int64)]


@dataclass(frozen=True, eq=False, slots=True)
class _ArgumentForm:
    """Common part of the argument lists of one kernel."""

    array: Any  # type of the array of their addresses
    types: Any  # DPCTLKernelArgType of each
    is_pointer: tuple[bool, ...]  # whether each is memory, passed by its address

    def values_of(self, arguments: Sequence[Any]) -> Any:
        """Return the addresses of arguments as a C array."""
        return self.array(
            *[
                a._pointer if pointer else ctypes.addressof(a)
                for a, pointer in zip(arguments, self.is_pointer, strict=True)
            ]
        )


class CommandMaker:
    """Builds the commands of one run, for its lanes and instructions; `SubmissionLoop` submits them."""

    def __init__(
        self,
        library: SubmissionLibrary,
        queues: dict[int, SyclQueue],
        slots: int,
        devices: Mapping[int, str] | None = None,
    ) -> None:
        self._library = library
        self._queues = queues
        self._devices = devices or {}
        self._injected: set[int] = set()
        # The second half has the SYCL queues of split lanes, whose other work goes to the native queue; see `_split`.
        self._lanes_count = max(queues, default=-1) + 1
        self._lanes = (LaneStructure * (2 * self._lanes_count))()
        for index, queue in queues.items():
            to, source = scratch_for(queue)
            self._lanes[index] = LaneStructure(
                library.dpctl_backend,
                library.dpctl_functions,
                queue.addressof_ref(),
                to._pointer,
                source._pointer,
                MAX_EVENT_LIST if backend_of(queue).facts.kernels_wait else 0,
            )
        #: The lanes that commands are submitted to: those above, or a replacement.
        self._handed_to: Any = self._lanes
        # The second half has the first event of each sequence, which gives its start time.
        self._slots = slots
        self._events = (EventStructure * (2 * slots))()
        self._stop = ctypes.c_int32(0)
        #: Address and number of the events of one call, and the objects that keep them and their commands alive.
        self._made: list[tuple[int, ctypes.c_int64, Any]] = []
        #: By lane, for lanes that submit to native queues.
        self._native: dict[int, NativeAccess] = {}
        #: By owning lane (None: shared by all lanes) and the SYCL kernel's address, with the kernel, which keeps it.
        self._native_kernels: dict[tuple[int | None, int], tuple[int, Any]] = {}
        #: Native objects to release, kernels and queues at the end and events at each reset.
        self._made_native: list[NativeObject] = []
        self._adopted: list[NativeObject] = []
        self._own_kernels = self._has_adopted = self._timed = self._has_split_lanes = False
        self._own: WeakValueDictionary[Hashable, OwnKernel] = WeakValueDictionary()
        #: By lane, kernel, index space and form of the arguments: the common part of commands, and the kernel.
        self._templates: dict[Hashable, tuple[Any, Any]] = {}
        #: For slots without an event of their own: the slot whose event is theirs, too.
        self._stands_for: dict[int, int] = {}

    def use_native_queues(self, *, own_kernels: bool = False) -> None:
        """Submit directly to the native queues of devices whose backends have them from now on.

        To be called before any command is made, and only if nothing else is submitted to these queues: SYCL does not
        know of these submissions.
        """
        self._own_kernels = own_kernels
        for index, queue in self._queues.items():
            native = backend_of(queue).native()
            if native is None or (made := native.queue(queue)) is None:
                continue
            self._native[index] = native
            self._made_native.append((native.release_queue, made[0]))
            lane = self._lanes[index]
            lane.way, (lane.queue, lane.functions) = self._library.native_backend(native.way), made
            lane.longest_list = NO_LIMIT

    def stop(self) -> None:
        """Make the loop end before its next submission; may be called from any thread."""
        self._stop.value = 1

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return bool(self._stop.value)

    def copy_lanes(self, queues: Mapping[int, int]) -> Any:
        """Return a copy of the lanes' C structures with other native queues."""
        lanes = type(self._lanes).from_buffer_copy(self._lanes)
        for index, handle in queues.items():
            lanes[index].queue = handle
        return lanes

    def use_lanes(self, lanes: Any | None) -> None:
        """Submit commands to other lanes from now on, or to the own ones again; no command may be in flight."""
        self._handed_to = self._lanes if lanes is None else lanes

    @property
    def uses_lane_threads(self) -> bool:
        """Whether commands are executed by the package's own lane threads."""
        return self._handed_to is not self._lanes

    @property
    def stop_flag(self) -> ctypes.c_int32:
        """The flag that `stop` sets."""
        return self._stop

    @property
    def event_slots(self) -> int:
        """The number of event slots, those of the first events of sequences included."""
        return len(self._events)

    def share(self, slots: Sequence[int]) -> None:
        """Let the event of the first slot serve for all of these slots, for waits and for queries.

        To be called before the commands that wait for them are made.
        """
        self._stands_for.update(dict.fromkeys(slots[1:], slots[0]))

    def clear_shared_events(self) -> None:
        """Undo all calls of `share`."""
        self._stands_for.clear()

    @property
    def native(self) -> bool:
        """Whether some lanes submit to native queues."""
        return bool(self._native)

    def kernel(self, slot: int, lane: int, waits: Sequence[int], submission: KernelSubmission) -> Command:
        """Return the command of a kernel."""
        template, form = self.kernel_template(lane, submission)
        values, listed = form.values_of(submission.arguments), self._waits(waits)
        structure = CommandStructure.from_buffer_copy(template)
        structure.slot, structure.waits, structure.waits_count = slot, ctypes.addressof(listed), len(listed)
        structure.arguments = ctypes.addressof(values)
        own = self._own_kernel(lane, submission, values) if self._own_kernels else None
        if own is not None:
            structure.kernel, structure.arguments_count = own.handle, 0
        kept = submission, values, form, listed, own
        shown = submission if own is not None else None
        return KernelCommand(structure, kept, shown, is_open_ended=submission.open_ended)

    def reading_anywhere(self, command: Command, address: int) -> MovableCommand | None:
        """Return a kernel's command whose pointer to an array, which it reads, can be set to any memory of the host.

        None if the command is none of a kernel with arguments of its own, if it passes the array twice, or if the
        device does not read all memory of the host.
        """
        if not isinstance(command, KernelCommand) or command.submission is None:
            return None
        submission, functions = command.submission, self._lanes[command.lane].functions
        values = _argument_form(tuple(map(type, submission.arguments))).values_of(submission.arguments)
        at = [index for index, value in enumerate(values) if value == address]
        if len(at) != 1:
            return None
        own = command.own_kernel or _new_own_kernel(self._native[command.lane], submission, values, functions)
        if own is None:
            return None
        moved = MovedArgumentStructure(functions, own.handle, at[0])
        move, tried = self._argument_mover(), ctypes.c_int64()
        if any(move(ctypes.addressof(moved), to) for to in (ctypes.addressof(tried), address)):
            return None
        made = command.with_own_kernel(own, moved)
        return MovableCommand(made, self._library.move_argument, ctypes.addressof(moved))

    def _argument_mover(self) -> Callable[[int, int], int]:
        """Return the function that sets a moved argument to an address, and returns 0 on success."""
        return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(self._library.move_argument)

    def kernel_template(self, lane: int, submission: KernelSubmission) -> tuple[Any, _ArgumentForm]:
        """Return the common part of all launches of one kernel over one index space on a lane."""
        form = _argument_form(tuple(map(type, submission.arguments)))
        extents, local = tuple(submission.global_range), submission.local_range
        key = lane, id(submission.kernel), extents, local and tuple(local), form
        found = self._templates.get(key)
        if found is None:
            structure = CommandStructure(
                RANGE if local is None else ND_RANGE,
                lane,
                kernel=self._kernel_on(lane, submission.kernel),
                types=ctypes.addressof(form.types),
                arguments_count=len(form.types),
                global_range=_three(extents),
                local_range=_three(extents if local is None else local),
                dimensions=len(extents),
                divisible=submission.divisible,
            )
            found = self._templates[key] = structure, submission.kernel  # the kernel is kept, as its id is in the key
        return found[0], form

    def call(self, slot: int, lane: int, waits: Sequence[int], call: NativeCall) -> Command:
        """Return the command of a library function that submits to the lane's queue."""
        if len(call.arguments) > _CALL_WORDS or not -1 <= (-1 if call.event is None else call.event) < _CALL_WORDS:
            raise ExecutionError(f"a native call takes at most {_CALL_WORDS} words", where=f"instruction {slot}")
        if call.event is None:  # the fence before gives its start, the fence behind it its end
            return CommandSequence(
                slot, (self.fence(self._slots + slot, lane, waits), self._call(slot, lane, (), call))
            )
        return self._call(slot, lane, waits, call)

    def _call(self, slot: int, lane: int, waits: Sequence[int], call: NativeCall) -> Command:
        listed, returned = self._waits(waits), ctypes.c_int32()
        self._lanes[lane].calls = 1
        if lane in self._native and not call.on_queue:
            self._split(lane)
        words = (ctypes.c_uint64 * _CALL_WORDS)(*[word % (1 << 64) for word in call.arguments])
        structure = CommandStructure(CALL, lane, slot, ctypes.addressof(listed), len(listed))
        structure.function, structure.words = call.function, ctypes.addressof(words)
        structure.event_word = -1 if call.event is None else call.event
        structure.returned = ctypes.addressof(returned)
        return CallCommand(structure, (call, listed, words), returned, call.explain)

    def _split(self, lane: int) -> None:
        """Split a lane: library calls go to the SYCL queue, all else to the native one, with waits in between."""
        device = self._queues[lane].sycl_device
        for index, queue in self._queues.items():  # the device's copies are made by the calling thread, too
            if index in self._native and queue.sycl_device == device:
                main, split = self._lanes[index], self._lanes[self._lanes_count + index]
                split.way, split.functions = self._library.split_backend, self._library.dpctl_functions
                split.queue, split.calls = queue.addressof_ref(), 1
                split.distant = int(device.is_gpu)
                split.scratch_to, split.scratch_from = main.scratch_to, main.scratch_from
                main.apart = ctypes.addressof(split)
                self._has_split_lanes = True
        self._time_calls()

    def time_calls(self, timed: bool) -> None:
        """Set whether each library call on a split lane is waited for, to learn when it ends.

        It is not done where several devices or lanes compute: while the loop waits for one it would submit nothing to
        the others.
        """
        if timed != self._timed:
            self._timed = timed
            self._time_calls()

    def _time_calls(self) -> None:
        split_calls = sum(1 for lane in self._lanes if lane.apart and lane.calls)
        alone = len({queue.sycl_device for queue in self._queues.values()}) == 1 and split_calls == 1
        for lane in self._lanes:
            lane.timed = self._timed and alone

    def is_on_host(self, lane: int) -> bool:
        """Return whether a lane submits to a native queue, or outside it, and all its work is on the host's cores."""
        return lane in self._native and self._queues[lane].sycl_device.is_cpu

    def local_queues(self, lanes: Iterable[int]) -> LocalQueues | None:
        """Return queues that execute commands of lanes on the submitting thread; None if a device has none."""
        return open_local_queues({lane: self._queues[lane] for lane in lanes})

    @property
    def tables(self) -> tuple[int, int, int, int]:
        """Addresses and lengths of the arrays of lanes and of events."""
        return ctypes.addressof(self._lanes), len(self._lanes), ctypes.addressof(self._events), len(self._events)

    @property
    def blocks(self) -> bool:
        """Whether submitting may block, because library calls and kernels use different queues."""
        return self._has_split_lanes

    def sequence(
        self,
        slot: int,
        lane: int,
        waits: Sequence[int],
        steps: Sequence[KernelSubmission | CopySubmission | NativeCall],
    ) -> Command:
        """Return the command of several kernels, copies and calls, at least one; only the first waits for others."""
        parts: list[Command] = []
        for number, step in enumerate(steps):
            first = number == 0 and len(steps) > 1
            at, depends = self._slots + slot if first else slot, () if number else waits
            if isinstance(step, KernelSubmission):
                parts.append(self.kernel(at, lane, depends, step))
            elif isinstance(step, CopySubmission):
                parts.append(self.copy(at, lane, depends, step.to, step.source, step.nbytes))
            elif first and step.event is None:
                parts += (self.fence(at, lane, depends), self._call(slot, lane, (), step))
            else:
                parts.append(self._call(at, lane, depends, step))
        return CommandSequence(slot, tuple(parts))

    def copy(self, slot: int, lane: int, waits: Sequence[int], to: Any, source: Any, nbytes: int) -> Command:
        """Return the command of a copy."""
        listed = self._waits(waits)
        structure = CommandStructure(COPY, lane, slot, ctypes.addressof(listed), len(listed))
        structure.to, structure.source, structure.nbytes = _address(to), _address(source), nbytes
        return Command(structure, (to, source, listed))

    def fence(self, slot: int, lane: int, waits: Sequence[int]) -> Command:
        """Return the command of an empty operation that waits for the given slots."""
        listed = self._waits(waits)
        return Command(CommandStructure(FENCE, lane, slot, ctypes.addressof(listed), len(listed)), (listed,))

    def _kernel_on(self, lane: int, kernel: Any) -> int:
        """Return the kernel handle that a lane's backend takes."""
        return self._native_kernel(None, lane, kernel) if lane in self._native else int(kernel.addressof_ref())

    def lane_kernel(self, lane: int, kernel: Any) -> int:
        """Return a native kernel for one lane alone: threads of several lanes may set arguments at the same time."""
        return self._native_kernel(lane, lane, kernel)

    def _native_kernel(self, owner: int | None, lane: int, kernel: Any) -> int:
        native, key = self._native[lane], (owner, int(kernel.addressof_ref()))
        if key not in self._native_kernels:
            try:
                made = native.kernel(kernel)
            except OSError as error:
                raise ExecutionError(str(error), where=f"lane {lane}") from error
            self._native_kernels[key] = made, kernel
            self._made_native.append((native.release_kernel, made))
        return self._native_kernels[key][0]

    def _own_kernel(self, lane: int, submission: KernelSubmission, values: Any) -> OwnKernel | None:
        """Return a native kernel with these arguments set; None if it refuses them or the lane is not native."""
        native = self._native.get(lane)
        if native is None:
            return None
        passed = tuple(
            (type(a), a.value) if type(a) in _TYPES else value
            for a, value in zip(submission.arguments, values, strict=True)
        )
        # Share kernels between commands with equal arguments: fewer objects stay in the processor's caches.
        key = (int(submission.kernel.addressof_ref()), passed)
        own = self._own.get(key)
        if own is None:
            own = _new_own_kernel(native, submission, values, self._lanes[lane].functions)
            if own is not None:
                self._own[key] = own
        return own

    def slots_to_wait_for(self, slots: Sequence[int]) -> Sequence[int]:
        """Return slots to wait for, of those that share an event only one."""
        if not self._stands_for:
            return slots
        return list(dict.fromkeys(self._stands_for.get(slot, slot) for slot in slots))

    def _waits(self, slots: Sequence[int]) -> Any:
        """Return slots to wait for as a C array."""
        if not slots:
            return _NO_WAITS
        slots = self.slots_to_wait_for(slots)
        return (ctypes.c_int64 * len(slots))(*slots)

    def _held_at(self, slot: int) -> int:
        """Return the slot whose event is a slot's: its own if it has one, else the one it shares."""
        return slot if slot not in self._stands_for or self._events[slot].event else self._stands_for[slot]

    def _address(self, slot: int) -> int:
        return ctypes.addressof(self._events) + self._held_at(slot) * ctypes.sizeof(EventStructure)


# --- inside ---------------------------------------------------------------------------------------


def _new_own_kernel(
    native: NativeAccess, submission: KernelSubmission, values: Any, functions: int
) -> OwnKernel | None:
    """Return a new native kernel with these arguments set; None if it refuses them."""
    try:
        own = OwnKernel(native.kernel(submission.kernel), native.release_kernel)
    except OSError:
        return None
    sizes = [ctypes.sizeof(a) if type(a) in _TYPES else 0 for a in submission.arguments]
    return own if native.set_arguments(own.handle, functions, list(zip(values, sizes, strict=True))) else None


_NO_WAITS = (ctypes.c_int64 * 0)()


@lru_cache(maxsize=1024)
def _argument_form(kinds: tuple[type, ...]) -> _ArgumentForm:
    """Return the form of arguments of these Python types."""
    types = (ctypes.c_int32 * len(kinds))(*[_TYPES.get(kind, _VOID_PTR) for kind in kinds])
    return _ArgumentForm(ctypes.c_void_p * len(kinds), types, tuple(kind not in _TYPES for kind in kinds))


def _three(extents: Sequence[int]) -> Any:
    return (ctypes.c_size_t * 3)(*extents, *[1] * (3 - len(extents)))


def _address(memory: Any) -> int:
    return int(memory._pointer) if hasattr(memory, "_pointer") else int(memory.ctypes.data)
