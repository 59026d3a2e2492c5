# SPDX-License-Identifier: Apache-2.0
"""Base class of engines that run on their own thread: start, cancel, join, waiters, and the first error."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from syclsched.errors import ExecutionError, SyclschedError
from syclsched.execution.core.execution_records import Counts
from syclsched.execution.core.thread_pool import THREADS, Lease
from syclsched.execution.core.waiting import wait_flag


class ThreadedEngine(ABC):
    """Runs once, on its own thread."""

    #: Message prefix for errors that are no `SyclschedError`.
    failing: ClassVar[str]

    def __init__(self, name: str, place: str, *, record: bool) -> None:
        self.counts = Counts()
        self.finished = threading.Event()
        self.error: SyclschedError | None = None
        self.cancelled = False
        self.recording = record
        self.owns_buffers = True
        self.hung = False
        #: Called on the thread, as its last action.
        self.when_finished: Callable[[], None] | None = None
        self._name, self._place = name, place
        self._watched: dict[int, threading.Event] = {}
        self._thread: Lease | None = None

    # --- for other threads ------------------------------------------------------------------------

    def start(self) -> None:
        """Start the engine's thread."""
        self._thread = THREADS.start(self._run, self._name)

    def cancel(self) -> None:
        """Stop submitting; submitted instructions still complete. Returns at once."""
        if not self.finished.is_set():
            self.cancelled = True
            self._be_cancelled()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the engine's thread to finish."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    @abstractmethod
    def passed(self, number: int) -> bool:
        """Return whether an instruction has been submitted, completed or cancelled."""

    def wait_submitted(self, number: int, timeout_s: float | None) -> bool:
        """Wait until an instruction has been submitted or cancelled, or the run has ended."""
        if self.passed(number) or self.finished.is_set():
            return True
        flag = self._watched.setdefault(number, threading.Event())
        self._be_watched()
        # Checked again: the thread may have submitted it between the first check and the registration.
        return self.passed(number) or self.finished.is_set() or wait_flag(flag, timeout_s)

    # --- for subclasses ---------------------------------------------------------------------------

    @abstractmethod
    def _go(self) -> None:
        """Execute everything; on the engine's thread."""

    @abstractmethod
    def _finish(self) -> None:
        """Wait for submitted instructions and read the outcomes, even if `_go` failed; on the engine's thread."""

    def _be_cancelled(self) -> None:  # noqa: B027 - an engine that polls needs no wake-up
        """Wake the engine's thread after a cancellation; on any other thread."""

    def _be_watched(self) -> None:  # noqa: B027 - as above
        """Make the engine's thread check for new waiters, if it does not after each submission; on any other thread."""

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

    def _broken(self, prefix: str, error: BaseException) -> ExecutionError:
        wrapped = ExecutionError(f"{prefix}: {type(error).__name__}: {error}", where=self._place)
        wrapped.__cause__ = error
        return wrapped

    def _notify_waiters(self, number: int) -> None:
        """Wake the threads that wait for an instruction's submission."""
        if self._watched and (flag := self._watched.pop(number, None)) is not None:
            flag.set()
