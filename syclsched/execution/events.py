# SPDX-License-Identifier: Apache-2.0
"""The events of a run by instruction, wherever they were submitted."""

from __future__ import annotations

import threading
from typing import Any

from syclsched.devices import faultpoints
from syclsched.devices.faultpoints import Target
from syclsched.devices.submission_loop import INJECTED, SubmissionLoop

_IN_LOOP = object()


class EventTable:
    """What became of each instruction that was handed on: its event, or nothing if it has completed without one.

    Written by the dispatcher, read by any thread. Events of the compiled loop become Python objects only when they are
    asked for.
    """

    def __init__(self, loop: SubmissionLoop | None = None) -> None:
        self._loop = loop
        self._found: dict[int, Any] = {}
        self._objects: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._injected: set[int] = set()

    @property
    def target(self) -> Target:
        """Where faults are injected: what is submitted from Python and by the loop is known by the same numbers."""
        return self if self._loop is None else self._loop

    def fail(self, number: int) -> None:
        """Count what was submitted for an instruction as failed on its device: what injects faults says so."""
        self._injected.add(number)

    def is_pending(self, number: int) -> bool:
        """Return whether what was submitted for an instruction has neither completed nor failed."""
        return number in self._found and not self.is_complete(number)

    def __contains__(self, number: int) -> bool:
        return number in self._found

    def put(self, number: int, event: Any, lane: int = -1) -> None:
        """Note the event of an instruction and the lane it is from; no event if it has completed without one."""
        if event is not None and self._loop is not None:
            self._loop.adopt(number, lane, event)
        self._found[number] = event

    def put_submitted(self, number: int) -> None:
        """Note that the loop has submitted an instruction."""
        self._found[number] = _IN_LOOP

    def forget(self, number: int) -> None:
        """Let a number stand for something else; what it stood for has completed."""
        self._found.pop(number, None)

    def get(self, number: int) -> Any:
        """Return the event of an instruction; None if it has completed without one, or the run is over."""
        event = self._found.get(number)
        if event is not _IN_LOOP:
            return event
        with self._lock:
            if self._closed:
                return None
            assert self._loop is not None
            event = self._objects.get(number)
            if event is None:
                event = self._objects[number] = self._loop.event(number)
            return event

    def is_complete(self, number: int) -> bool:
        """Return whether an instruction was handed on and has completed."""
        if number not in self._found:
            return False
        event = self._found[number]
        if event is _IN_LOOP and self._loop is not None:
            with self._lock:
                return self._closed or self._loop.is_complete(number)
        return event is None or bool(event.execution_status.name == "complete")

    def failed(self) -> dict[int, int]:
        """Return the runtime's error codes of those instructions that failed on their device after submission."""
        with self._lock:
            if self._loop is None:
                return dict.fromkeys(self._injected, INJECTED)
            return {} if self._closed else self._loop.failed()

    def any_failed(self) -> bool:
        """Return whether something failed on its device after it had been submitted."""
        return bool(self.failed())

    def close(self) -> None:
        """Give back the loop's events once everything has completed."""
        with self._lock:
            self._closed = True
            if faultpoints.active is not None:
                faultpoints.active.forget(self)
            if self._loop is not None:
                self._loop.close()
