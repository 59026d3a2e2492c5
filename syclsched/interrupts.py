# SPDX-License-Identifier: Apache-2.0
"""Deferral of Ctrl-C during code that must not be interrupted."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the enumerations of `signal` take ten times as long
import threading
from signal import SIGINT
from types import FrameType
from typing import Any


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
                before(*self._came[-1])

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._came.append((number, frame))


_INTERRUPT = int(SIGINT)
