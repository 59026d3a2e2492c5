# SPDX-License-Identifier: Apache-2.0
"""Table of a run's events by instruction, submitted from Python or by the compiled loop."""

from __future__ import annotations

import threading
from typing import Any, cast

from syclsched.devices.native.sycl_types import SyclEvent
from syclsched.devices.submission.submission_loop import SubmissionLoop

_IN_LOOP = object()


class EventTable:
    """Maps each submitted instruction to its event, or to None if it has completed without one.

    Written by the dispatcher, read by any thread. Python objects for events of the compiled loop are created on
    request.
    """

    def __init__(self, loop: SubmissionLoop) -> None:
        #: The compiled loop; also the target of fault injection, for submissions from Python, too.
        self.loop = loop
        self._events: dict[int, Any] = {}
        self._loop_events: dict[int, SyclEvent] = {}
        self._lock = threading.Lock()
        self._closed = False

    def __contains__(self, number: int) -> bool:
        return number in self._events

    def put(self, number: int, event: SyclEvent | None, lane: int = -1) -> None:
        """Set an instruction's event and lane; the event is None if the instruction has completed without one."""
        if event is not None:
            self.loop.adopt(number, lane, event)
        self._events[number] = event

    def put_submitted(self, number: int) -> None:
        """Note that the compiled loop has submitted an instruction."""
        self._events[number] = _IN_LOOP

    def forget(self, number: int) -> None:
        """Remove a completed instruction, so that its number can be reused."""
        self._events.pop(number, None)
        self._loop_events.pop(number, None)

    def get(self, number: int) -> SyclEvent | None:
        """Return the event of an instruction; None if it has completed without one or the table is closed."""
        event: SyclEvent | None = self._events.get(number)
        if event is not _IN_LOOP:
            return event
        with self._lock:
            if self._closed:
                return None
            event = self._loop_events.get(number)
            if event is None:
                # A `LaneThreadEvent` only where callers do nothing but wait for it.
                event = self._loop_events[number] = cast(SyclEvent, self.loop.event(number))
            return event

    def is_complete(self, number: int) -> bool:
        """Return whether an instruction was submitted and has completed."""
        if number not in self._events:
            return False
        event = self._events[number]
        if event is _IN_LOOP:
            with self._lock:
                return self._closed or self.loop.is_complete(number)
        return event is None or bool(event.execution_status.name == "complete")

    def failed(self) -> dict[int, int]:
        """Return the runtime's error codes of instructions that failed on their device after submission."""
        with self._lock:
            return {} if self._closed else self.loop.failed()

    def any_failed(self) -> bool:
        """Return whether an instruction failed on its device after submission."""
        return bool(self.failed())

    def close(self) -> None:
        """Release the loop's events, once all instructions have completed."""
        with self._lock:
            self._closed = True
            self.loop.close()
