# SPDX-License-Identifier: Apache-2.0
"""The events of a run by instruction, wherever they were submitted."""

from __future__ import annotations

import threading
from typing import Any

from syclsched.devices.submission_loop import SubmissionLoop

_IN_LOOP = object()


class EventTable:
    """What became of each instruction that was handed on: its event, or nothing if it has completed without one.

    Written by the dispatcher, read by any thread. Events of the compiled loop become Python objects only when they are
    asked for.

    Parameters
    ----------
    loop : SubmissionLoop or None
        Where the slots are; instructions are their own slots.
    """

    def __init__(self, loop: SubmissionLoop | None = None) -> None:
        self._loop = loop
        self._found: dict[int, Any] = {}
        self._objects: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._closed = False

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

    def any_failed(self) -> bool:
        """Return whether something failed on its device after the loop had submitted it."""
        with self._lock:
            return self._loop is not None and not self._closed and bool(self._loop.failed())

    def close(self) -> None:
        """Give back the loop's events once everything has completed."""
        with self._lock:
            self._closed = True
            if self._loop is not None:
                self._loop.close()
