# SPDX-License-Identifier: Apache-2.0
"""What engines with a thread of their own have in common: start, cancel, join, who waits for what, the first error."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from syclsched.errors import ExecutionError, SyclschedError
from syclsched.execution.records import Counts
from syclsched.execution.thread_pool import THREADS, Lease
from syclsched.execution.waiting import wait_flag


class ThreadedEngine(ABC):
    """Does something once, on a thread of its own."""

    #: What is said of an error that is none of syclsched's.
    failing: ClassVar[str]

    def __init__(self, name: str, place: str, *, record: bool) -> None:
        self.counts = Counts()
        self.finished = threading.Event()
        self.error: SyclschedError | None = None
        self.cancelled = False
        self.recording = record
        self.lasting = True
        self.given_up = False
        #: Called on the thread, last of all.
        self.when_finished: Callable[[], None] | None = None
        self._name, self._place = name, place
        self._watched: dict[int, threading.Event] = {}
        self._thread: Lease | None = None

    # --- for other threads ------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, on a thread of its own."""
        self._thread = THREADS.start(self._run, self._name)

    def cancel(self) -> None:
        """Begin nothing more; what was submitted ends. Returns at once."""
        if not self.finished.is_set():
            self.cancelled = True
            self._be_cancelled()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the thread to be done."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    @abstractmethod
    def passed(self, number: int) -> bool:
        """Return whether something, by its number, has been submitted, completed or cancelled."""

    def wait_submitted(self, number: int, timeout_s: float | None) -> bool:
        """Wait until something has passed, or the run has ended."""
        if self.passed(number) or self.finished.is_set():
            return True
        flag = self._watched.setdefault(number, threading.Event())
        self._be_watched()
        # Looked at again because the thread may have passed it between the two lines.
        return self.passed(number) or self.finished.is_set() or wait_flag(flag, timeout_s)

    # --- what an engine adds ----------------------------------------------------------------------

    @abstractmethod
    def _go(self) -> None:
        """Do everything; on the thread."""

    @abstractmethod
    def _finish(self) -> None:
        """Wait for what was submitted, and read what there is to be read, whatever became of `_go`; on the thread."""

    def _be_cancelled(self) -> None:  # noqa: B027 - an engine that looks by itself has nothing to add
        """Wake the thread, which is to begin nothing more; on any other."""

    def _be_watched(self) -> None:  # noqa: B027 - as above
        """Have the thread look who waits, if it does not whenever something passes; on any other."""

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._go()
        except SyclschedError as error:
            self.error = error
        except BaseException as error:
            self.error = self._broken(self.failing, error)
        finally:
            try:
                self._finish()
            except BaseException as error:
                self.error = self.error or self._broken("the run could not be ended", error)
            finally:
                self.finished.set()
                for flag in list(self._watched.values()):
                    flag.set()
                if self.when_finished is not None:
                    self.when_finished()
                    self.when_finished = None

    def _broken(self, what: str, error: BaseException) -> ExecutionError:
        found = ExecutionError(f"{what}: {type(error).__name__}: {error}", where=self._place)
        found.__cause__ = error
        return found

    def _tell_waiting(self, number: int) -> None:
        """Let who waits for something go on, once it has passed."""
        if self._watched and (flag := self._watched.pop(number, None)) is not None:
            flag.set()
