# SPDX-License-Identifier: Apache-2.0
"""The compiled submission loop (``_submit.c``), called without the GIL."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from syclsched.devices.backends.sycl import sycl_event_at
from syclsched.devices.native.submission_library import SubmissionLibrary
from syclsched.devices.native.sycl_types import SyclEvent
from syclsched.devices.submission import faultpoints
from syclsched.devices.submission.command_maker import CallEventStructure, CommandMaker, EventStructure, LaneStructure
from syclsched.devices.submission.commands import Batch, Command
from syclsched.errors import DeviceError, ExecutionError

#: The status of submissions failed by `SubmissionLoop.fail`: OpenCL's CL_OUT_OF_RESOURCES.
INJECTED_STATUS = -5


class SubmissionLoop(CommandMaker):
    """The submission loop for the lanes and instructions of one run; it also makes the commands: see `CommandMaker`."""

    def submit(self, commands: Sequence[Command]) -> Batch:
        """Submit commands in order, without the GIL."""
        parts = [part for command in commands for part in command.parts]
        count = len(parts)
        pointers = (ctypes.c_void_p * count)(*[part.address for part in parts])
        submit_ns, made, made_count = (ctypes.c_int64 * count)(), (EventStructure * (2 * count))(), ctypes.c_int64()
        # Before the call, because Ctrl-C may come as soon as C has returned. Lane threads read commands when they run
        # them.
        self.keep(made, 0, made_count, (self._handed_to, parts))
        done = self._submit(pointers, 0, count, submit_ns, made, made_count)
        if count == len(commands):
            return Batch(done, submit_ns[:done], made_count.value - done, made, made_count.value)
        return self._batch_of_sequences(commands, parts, done, submit_ns, made, made_count.value)

    def new_event_array(self, count: int) -> Any:
        """Return an array for ``count`` events, for `submit_listed`."""
        return (EventStructure * count)()

    def keep(self, made: Any, begin: int, count: ctypes.c_int64, lanes: Any = None) -> None:
        """Take ownership of new events, and of the objects they point to; they are released with all others."""
        self._made.append((ctypes.addressof(made) + begin * ctypes.sizeof(EventStructure), count, (made, lanes)))

    def submit_listed(self, pointers: Any, submit_ns: Any, made: Any, begin: int, count: int) -> tuple[int, int]:
        """Submit a range of many commands, without the GIL; see `syclsched.devices.submission.command_list`."""
        made_count = ctypes.c_int64()
        self.keep(made, 2 * begin, made_count, self._handed_to)  # before, as in `submit`
        done = self._submit(pointers, begin, count, submit_ns, made, made_count)
        return done, made_count.value

    @property
    def addresses(self) -> tuple[int, int, int, int]:
        """Address of the lanes and their number, addresses of the events by slot and of the stop flag."""
        events, stop = ctypes.addressof(self._events), ctypes.addressof(self._stop)
        return ctypes.addressof(self._lanes), len(self._lanes), events, stop

    def _submit(self, pointers: Any, begin: int, count: int, submit_ns: Any, made: Any, made_count: Any) -> int:
        """Call the loop in C for commands from ``begin`` on; their events go to ``made`` from ``2 * begin`` on."""
        times = ctypes.addressof(submit_ns) + begin * ctypes.sizeof(ctypes.c_int64)
        events = ctypes.addressof(made) + 2 * begin * ctypes.sizeof(EventStructure)

        def call(commands: Any, count: int, times: int, events: int, made_count: Any) -> int:
            lanes, stop = self._handed_to, ctypes.byref(self._stop)
            found = self._library.submit(
                lanes, len(lanes), commands, count, self._events, times, events, made_count, stop
            )
            return int(found)

        if faultpoints.active is None:
            commands = ctypes.byref(pointers, begin * ctypes.sizeof(ctypes.c_void_p))
            return call(commands, count, times, events, ctypes.byref(made_count))
        kept: list[Any] = []
        self._made.append((0, ctypes.c_int64(), kept))
        return faultpoints.submit_with_faults(
            faultpoints.active,
            self,
            {index: (self._devices.get(index, queue.sycl_device.name), queue) for index, queue in self._queues.items()},
            self._slots,
            lambda commands, times, events, made: call(commands, 1, times, events, made),
            pointers[begin : begin + count],
            count,
            times,
            events,
            made_count,
            kept,
        )

    def fail(self, number: int) -> None:
        """Count the submission for a slot as failed on its device; called by fault injection."""
        self._injected.add(number)

    def is_pending(self, number: int) -> bool:
        """Return whether the submission for a slot has neither completed nor failed."""
        return self.has_event(number) and not self.is_complete(number)

    def signal_eventfd(self, slot: int, descriptor: int) -> bool:
        """Increment an eventfd once the submission for a slot has completed or failed; False if impossible."""
        held = self._events[self._held_at(slot)]
        if not self._is_own(held):
            return bool(self._library.thread_wake_at(held.event, descriptor))
        lane = (held.lane - ctypes.addressof(self._lanes)) // ctypes.sizeof(LaneStructure)
        native = self._native.get(lane)
        return native is not None and native.call_back(held.event, self._library.wake, descriptor)

    def wait_for(self, made: Any, begin: int, count: int) -> None:
        """Wait for a range of events made by `submit_listed`, one after another, without the GIL."""
        self._library.wait(ctypes.byref(made, begin * ctypes.sizeof(EventStructure)), count)

    def wait_for_all(self) -> None:
        """Wait for all submissions whose events are not released, in order, without the GIL."""
        for address, count, _ in list(self._made):
            self._library.wait(address, count.value)

    def wait_for_slots(self, slots: Sequence[int]) -> None:
        """Wait for the submissions for some slots, without the GIL."""
        for slot in slots:
            if self.has_event(slot):
                self._library.wait(self._address(slot), 1)

    def reset(self) -> None:
        """Release all events, which must have completed, and reset for the same commands again."""
        self.detach_events()()

    def detach_events(self) -> Callable[[], None]:
        """Reset for the same commands again; return a function that releases the events, which must have completed.

        It must be called after the last wait for these events.
        """
        if faultpoints.active is not None:
            faultpoints.active.forget(self)
        self._injected.clear()
        made, adopted = self._made, self._adopted
        self._made, self._adopted = [], []
        ctypes.memset(self._events, 0, ctypes.sizeof(self._events))
        for lane in self._lanes:
            lane.last = None
        self._stop.value = 0

        def give_back() -> None:
            for address, count, _ in made:
                self._library.delete(address, count.value)
            for release, handle in adopted:
                release(handle)

        return give_back

    def _batch_of_sequences(
        self,
        commands: Sequence[Command],
        parts: Sequence[Command],
        done: int,
        submit_ns: Any,
        made: Any,
        made_count: int,
    ) -> Batch:
        """Return the batch of commands of which some were several submissions."""
        starts = list(accumulate((len(command.parts) for command in commands), initial=0))
        begun = sum(1 for start in starts[:-1] if start < done)
        if begun and done < starts[begun] and all(part.is_fence for part in parts[starts[begun - 1] : done]):
            begun -= 1  # the fence before a library call that was refused: nothing of the command has been submitted
        times = [submit_ns[start] for start in starts[:begun]]
        batch = Batch(begun, times, made_count - done, made, made_count, done - begun)
        if begun and done < starts[begun]:
            slot = commands[begun - 1].slot
            self._events[slot] = self._events[parts[done - 1].slot]
            if not self._stop.value:
                self.wait(batch)
                raise DeviceError("a kernel was refused in the middle of a sequence", where=f"instruction {slot}")
        return batch

    def stamp(self, lane: int) -> tuple[int, int]:
        """Submit an empty command to a lane, wait for it, and return its start and end on the clock of `times`.

        SYCL's events may use another clock: on the FPGA emulator theirs is the wall-clock time. Callable from any
        thread.
        """
        if faultpoints.active is not None:
            faultpoints.active.uses(self._queues[lane])
        command = self.fence(0, lane, ())
        events, made, made_count, submit_ns = (
            (EventStructure * 1)(),
            (EventStructure * 2)(),
            ctypes.c_int64(),
            ctypes.c_int64(),
        )
        done = self._library.submit(
            self._lanes,
            len(self._lanes),
            ctypes.byref(ctypes.c_void_p(command.address)),
            1,
            events,
            ctypes.byref(submit_ns),
            made,
            ctypes.byref(made_count),
            ctypes.byref(ctypes.c_int32(0)),
        )
        if not done:
            raise ExecutionError("the runtime refuses an empty command", where=f"lane {lane}")
        self._library.wait(made, made_count.value)
        start_ns, end_ns = ctypes.c_int64(), ctypes.c_int64()
        self._library.times(
            ctypes.byref(ctypes.c_void_p(ctypes.addressof(events))), 1, ctypes.byref(start_ns), ctypes.byref(end_ns)
        )
        self._lanes[lane].last = None
        self._library.delete(made, made_count.value)
        return start_ns.value, end_ns.value

    def wait(self, batch: Batch) -> None:
        """Wait for all events of a batch, one after another, without the GIL."""
        self._library.wait(batch.made, batch.made_count)

    def finish_lane(self, lane: int) -> None:
        """Wait for the last command of a split lane, before a submission to its SYCL queue that is not the loop's."""
        if not self._library.finish_lane(ctypes.byref(self._lanes[lane])):
            raise ExecutionError("the runtime refuses an empty command", where=f"lane {lane}")

    def adopt(self, slot: int, lane: int, event: SyclEvent) -> None:
        """Order a lane's later commands after a submission to its queue by Python; its event takes a slot."""
        handle, native, own = event.addressof_ref(), self._native.get(lane), self._lanes[lane]
        if own.apart:
            # A host task of a library has no native event: SYCL's is kept, as of calls on the split lane.
            main, own, call = own, self._lanes[self._lanes_count + lane], CallEventStructure(handle)
            self._made.append((0, ctypes.c_int64(), (call, event)))
            handle = main.last = ctypes.addressof(call)
            main.last_is_call = 1
        elif native is not None:
            handle = native.event(event)
            self._adopted.append((native.release_event, handle))
        self._events[slot] = EventStructure(handle, ctypes.addressof(own), slot)
        self._has_adopted = True

    def event(self, slot: int) -> SyclEvent | LaneThreadEvent:
        """Return the event of a slot as ``dpctl.SyclEvent``; for lanes on threads as `LaneThreadEvent`."""
        held = self._events[self._held_at(slot)]
        if not self._is_own(held):
            return LaneThreadEvent(self._library, EventStructure(held.event, held.lane, slot))
        lane = (held.lane - ctypes.addressof(self._lanes)) // ctypes.sizeof(LaneStructure)
        if lane in self._native:
            return self._native[lane].sycl_event(held.event, self._queues[lane])
        # An event of a split lane is a structure whose first member is SYCL's event.
        if lane < self._lanes_count:
            return sycl_event_at(held.event)
        made = ctypes.c_void_p.from_address(held.event).value
        return _completed() if made is None else sycl_event_at(made)

    def _is_own(self, held: EventStructure) -> bool:
        """Return whether an event belongs to one of the loop's own lanes."""
        return bool(0 <= held.lane - ctypes.addressof(self._lanes) < ctypes.sizeof(self._lanes))

    def has_event(self, slot: int) -> bool:
        """Return whether there is an event for a slot."""
        return bool(self._events[self._held_at(slot)].event)

    def is_complete(self, slot: int) -> bool:
        """Return whether the submission for a slot has completed or failed."""
        return bool(self._library.status(self._address(slot)) != 0)

    def status(self, slot: int) -> int:
        """Return 1 if the submission for a slot has completed, 0 if not yet, a negative code if it failed."""
        found = int(self._library.status(self._address(slot)))
        return INJECTED_STATUS if self._injected and found == 1 and slot in self._injected else found

    def any_failed(self, slots: Sequence[int]) -> bool:
        """Return whether a submission for one of these slots, or an injected one, has failed."""
        return bool(self._injected) or any(self.has_event(slot) and self.status(slot) < 0 for slot in slots)

    def failed(self) -> dict[int, int]:
        """Return the runtime's error codes of those slots whose command failed on its device.

        Commands that depend on a failed one may run all the same.
        """
        found: dict[int, int] = dict.fromkeys(self._injected, INJECTED_STATUS)
        adopted = [(ctypes.addressof(self._events), ctypes.c_int64(self._slots), None)] if self._has_adopted else []
        for address, count, _ in (*self._made, *adopted):
            position = -1
            while (position := self._library.next_failed(address, position + 1, count.value)) >= 0:
                event = EventStructure.from_address(address + position * ctypes.sizeof(EventStructure))
                found.setdefault(event.slot % self._slots, self._library.status(ctypes.byref(event)))
        shared = {slot: found[first] for slot, first in self._stands_for.items() if first in found}
        return {**shared, **found}

    def times(self, slots: Sequence[int]) -> list[tuple[int, int]]:
        """Return start and end of finished commands, in nanoseconds of their device's clock."""
        starts_ns, ends_ns = self._times(slots)
        begun = [index for index, slot in enumerate(slots) if self._events[self._slots + slot].event]
        for index, start_ns in zip(begun, self._times([self._slots + slots[i] for i in begun])[0], strict=True):
            starts_ns[index] = start_ns
        return list(zip(starts_ns, ends_ns, strict=True))

    def _times(self, slots: Sequence[int]) -> tuple[list[int], list[int]]:
        count = len(slots)
        events = (ctypes.c_void_p * count)(*[self._address(slot) for slot in slots])
        start_ns, end_ns = (ctypes.c_int64 * count)(), (ctypes.c_int64 * count)()
        self._library.times(events, count, start_ns, end_ns)
        return list(start_ns), list(end_ns)

    def listed(self, slots: Sequence[int]) -> Any:
        """Return an array of the events of some slots, for repeated calls of `event_times`."""
        return (ctypes.c_void_p * len(slots))(*[self._address(slot) for slot in slots])

    def first_event_array(self, slots: Sequence[int]) -> Any:
        """Return an array of the first events of the sequences in some slots, for `event_times`."""
        return self.listed([self._slots + slot for slot in slots])

    def event_times(self, listed: Any) -> tuple[Any, Any]:
        """Return start and end of finished commands as arrays: as `times`, in one call of C."""
        start_ns, end_ns = np.empty(len(listed), np.int64), np.empty(len(listed), np.int64)
        self._library.times(listed, len(listed), start_ns.ctypes.data, end_ns.ctypes.data)
        return start_ns, end_ns

    def close(self) -> None:
        """Release all events; `event` and `times` must not be called any more."""
        self.reset()
        while self._made_native:  # kernels, then the queues, which were made before
            release, handle = self._made_native.pop()
            release(handle)


class LaneThreadEvent:
    """The event of a command on a lane thread, without a SYCL event."""

    def __init__(self, library: SubmissionLibrary, held: EventStructure) -> None:
        self._library, self._held = library, held

    def wait(self) -> None:
        """Wait for the event, without the GIL."""
        self._library.wait(ctypes.byref(self._held), 1)


# --- inside ---------------------------------------------------------------------------------------


def _completed() -> SyclEvent:
    import dpctl

    made: SyclEvent = dpctl.SyclEvent()
    return made
