# SPDX-License-Identifier: Apache-2.0
"""Deferral of Ctrl-C during code that must not be interrupted, its delivery where Python would lose it, its exit code.

Ctrl-C cancels a run, and long functions on other threads ask whether theirs was.

Python discards exceptions that are raised in callbacks of weak references, in ``__del__`` and in functions called by C,
and so a KeyboardInterrupt that is raised there.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the enumerations of `signal` take ten times as long
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from signal import SIGINT
from types import CodeType, FrameType
from typing import Any, Final

from syclsched.errors import RunCancelledError

#: Exit code of the command line after Ctrl-C.
INTERRUPTED: Final = 130


class interrupts_deferred:
    """Context manager that defers Ctrl-C until the block ends. Entering and leaving takes 2 us.

    Without effect outside the main thread, where Ctrl-C never arrives, and without a Python handler.
    """

    __slots__ = ("_before", "_came")

    def __enter__(self) -> None:
        self._came: list[tuple[int, FrameType | None]] = []
        self._before: Any = None
        before = _signal.getsignal(_INTERRUPT)
        if threading.current_thread() is threading.main_thread() and callable(before):
            self._before = before
            _signal.signal(_INTERRUPT, self._hold)

    def __exit__(self, *_: object) -> None:
        before, self._before = self._before, None
        if before is not None:
            _signal.signal(_INTERRUPT, before)
            if self._came:
                self._deliver(before)

    def _deliver(self, handler: Any) -> None:
        handler(*self._came[-1])

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._came.append((number, frame))


class _interrupts_postponed(interrupts_deferred):
    """`interrupts_deferred` for callbacks, from which an exception cannot be raised: Ctrl-C comes shortly after."""

    __slots__ = ()

    def _deliver(self, handler: Any) -> None:
        _interrupt_soon()


def call_in_callback(call: Callable[[], object]) -> None:
    """Call a function in a callback, which Ctrl-C does not cut short; it comes afterwards."""
    with _interrupts_postponed():
        call()


def redeliver_lost_interrupts() -> None:
    """Make the interpreter repeat Ctrl-C where its exception was lost in a callback, for the rest of the process."""
    if not isinstance(sys.unraisablehook, _LostInterrupts):
        sys.unraisablehook = _LostInterrupts(sys.unraisablehook)


class _LostInterrupts:
    """Hook for exceptions that are lost: repeats Ctrl-C, and passes all others on."""

    def __init__(self, following: Any) -> None:
        self.following = following

    def __call__(self, lost: Any) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            _interrupt_soon()
        else:
            self.following(lost)


def _interrupt_soon() -> None:
    """Repeat Ctrl-C from another thread, when the callback has ended."""
    again = threading.Timer(_PAUSE_S, _interrupt_after_callback)
    again.daemon = True
    with suppress(RuntimeError):  # no thread can be started while the interpreter ends
        again.start()


def _interrupt_after_callback() -> None:
    """Interrupt the main thread; wait while it is in a callback of ours, where the exception could be lost for good.

    In a callback of others it is lost and comes again.
    """
    import weakref

    codes = {_LostInterrupts.__call__.__code__, call_in_callback.__code__, weakref.finalize.__call__.__code__}
    main = threading.main_thread().ident
    assert main is not None
    while _executes(sys._current_frames().get(main), codes):
        time.sleep(_PAUSE_S)
    _signal.pthread_kill(main, _INTERRUPT)  # also wakes a waiting main thread


def _executes(frame: FrameType | None, codes: Collection[CodeType]) -> bool:
    """Return whether a stack has a frame of one of these functions."""
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back
    return frame is not None


class _HostCall(threading.local):
    """The call of a host function on a thread."""

    #: Whether its run was cancelled, as by Ctrl-C; None if there is no call, or nobody can tell.
    is_cancelled: Callable[[], bool] | None = None

    def check_cancelled(self) -> None:
        """Raise `RunCancelledError` if its run was cancelled; for functions of many steps."""
        if self.is_cancelled is not None and self.is_cancelled():
            raise RunCancelledError("the run was cancelled", where="a host function")


HOST_CALL: Final = _HostCall()


_INTERRUPT = int(SIGINT)
#: Seconds after which an interrupt is repeated.
_PAUSE_S = 1e-3
