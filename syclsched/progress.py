# SPDX-License-Identifier: Apache-2.0
"""Progress of long calls: the callable that users pass, and messages to the logger ``syclsched``."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

#: Seconds until the first message of a long call, and between the following ones.
_FIRST_S: Final = 2.0
_NEXT_S: Final = 10.0


class Progress(Protocol):
    """Callable that is told of the steps of a long call.

    It is called before each step, and at the end with an empty text, on the thread that works. An exception that it
    raises ends the call.
    """

    def __call__(self, done: int, total: int, step: str, /) -> None:
        """Take note of a step.

        Parameters
        ----------
        done : int
            Number of steps that are finished.
        total : int
            Number of all steps known so far; it may grow.
        step : str
            Description of the step that begins; empty at the end.
        """


@dataclass(slots=True)
class StepCounter:
    """Counts the steps of a call for its `Progress`."""

    progress: Progress | None = None
    done: int = 0
    total: int = 0

    def expect(self, steps: int) -> None:
        """Announce more steps."""
        self.total += steps

    def begin(self, step: str) -> None:
        """Begin a step, of those announced."""
        if self.progress is not None:
            self.progress(self.done, max(self.total, self.done + 1), step)
        self.done += 1

    def end(self) -> None:
        """End the last step."""
        if self.progress is not None:
            self.progress(self.done, self.done, "")


@contextmanager
def reported(what: str, progress: Progress | None = None) -> Iterator[Progress | None]:
    """Log a message every few seconds while a block runs, if it takes long; yield the callable to tell its steps.

    The level is ``INFO``; nothing is done if that is disabled.
    """
    logger = logging.getLogger("syclsched")
    if not logger.isEnabledFor(logging.INFO):
        yield progress
        return
    import threading

    told: list[tuple[int, int, str]] = []

    def tell(done: int, total: int, step: str, /) -> None:
        told[:] = [(done, total, step)]
        if progress is not None:
            progress(done, total, step)

    def watch() -> None:
        pause_s = _FIRST_S
        while not ended.wait(pause_s):
            pause_s = _NEXT_S
            seconds = time.monotonic() - begun_s
            step = "".join(f": {step} ({done + 1} of {total})" for done, total, step in told if step)
            logger.info("%s takes %.0f s so far%s", what, seconds, step)

    ended, begun_s = threading.Event(), time.monotonic()
    thread = threading.Thread(target=watch, name=f"syclsched {what}", daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        ended.set()
        thread.join()
