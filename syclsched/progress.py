# SPDX-License-Identifier: Apache-2.0
"""Progress of long calls: the callable that users pass, bars in notebooks and terminals, and messages to the logger."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

from syclsched.errors import ArgumentError

if TYPE_CHECKING:
    from rich.console import Console

#: Seconds until the first message of a long call, and between the following ones.
_FIRST_S: Final = 2.0
_NEXT_S: Final = 10.0
#: Seconds until a notebook shows a bar, and least seconds between two changes of it.
_SHOWN_S: Final = 1.0
_CHANGED_S: Final = 0.1


class Progress(Protocol):
    """Callable that receives the steps of a long call.

    It is called before each step, and at the end with an empty text, on the thread that works: what a run compiles
    before its first task is reported on the run's thread. An exception that it raises ends the call, or the run.
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
    told: bool = False  # whether the progress has heard of a step

    def expect(self, steps: int) -> None:
        """Announce more steps."""
        self.total += steps

    def begin(self, step: str) -> None:
        """Begin a step, of those announced."""
        self.tell(step)
        self.done += 1

    def tell(self, step: str) -> None:
        """Report the present step."""
        if self.progress is not None:
            self.told = True
            self.progress(self.done, max(self.total, self.done + 1), step)

    def end(self) -> None:
        """End the last step, if any was reported."""
        if self.progress is not None and self.told:
            self.progress(self.done, self.done, "")


class _NotebookBar:
    """A bar in the output of a notebook's cell, shown if the call takes longer than a second."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun_s = time.monotonic()
        self._changed_s = 0.0
        self._told = (0, 0, "")
        self._handle: Any = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(_SHOWN_S, self._show)
        self._timer.daemon = True
        self._timer.start()

    def __call__(self, done: int, total: int, step: str, /) -> None:
        """Show the step that begins."""
        with self._lock:
            self._told = (done, total, step)
            if self._handle is not None and time.monotonic() - self._changed_s >= _CHANGED_S:
                self._change(self._text())

    def close(self) -> None:
        """Leave the time that the call took, if the bar was shown."""
        self._timer.cancel()
        with self._lock:
            if self._handle is not None:
                self._change(_notebook_line(f"{self._what}: {time.monotonic() - self._begun_s:.1f} s"))

    def _show(self) -> None:
        display = import_module("IPython.display")  # without types
        with self._lock:
            self._handle = display.display(display.HTML(self._text()), display_id=True)

    def _change(self, text: str) -> None:
        self._changed_s = time.monotonic()
        self._handle.update(import_module("IPython.display").HTML(text))

    def _text(self) -> str:
        done, total, step = self._told
        share = f' value="{done}" max="{total}"' if total else ""
        return _notebook_line(f"{self._what}: {step}" if step else self._what, f"<progress{share}></progress> ")


def _notebook_line(text: str, before: str = "") -> str:
    from html import escape

    return f'<div style="font-size: 13px">{before}{escape(text)}</div>'


def _in_notebook() -> bool:
    """Return whether the program runs in a notebook's kernel."""
    found = sys.modules.get("IPython")
    shell = None if found is None else found.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


@contextmanager
def terminal_bar(what: str, console: Console | None = None) -> Iterator[Progress]:
    """Show a bar in a terminal, on standard error by default, and yield the callable to tell its steps."""
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn(what, markup=False),
        bars.BarColumn(20),  # leaves room for the step in a terminal of 80 columns
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
        bars.TextColumn("{task.description}", markup=False),
    )
    with bars.Progress(*columns, console=console or Console(stderr=True), transient=True) as shown:
        bar = shown.add_task("", total=None)

        def advance(done: int, total: int, step: str, /) -> None:
            shown.update(bar, completed=done, total=total or None, description=step)

        yield advance


def shown(what: str, progress: Progress | bool | None) -> AbstractContextManager[Progress | None]:
    """Return a context that shows a bar while a block runs, if that is wanted, and has the callable to tell its steps.

    ``True`` shows one, ``None`` only in notebooks, ``False`` none; a callable receives the steps. Anything else is
    refused before the block.
    """
    if not callable(progress) and progress is not None and not isinstance(progress, bool):
        raise ArgumentError(
            f"expected a function, True or False, got a value of type {type(progress).__name__}", where="progress"
        )
    return _shown(what, progress)


@contextmanager
def _shown(what: str, progress: Progress | bool | None) -> Iterator[Progress | None]:
    if callable(progress):
        yield progress
    elif progress is False or (progress is None and not _in_notebook()):
        yield None
    elif _in_notebook():
        bar = _NotebookBar(what)
        try:
            yield bar
        finally:
            bar.close()
    else:
        with terminal_bar(what) as tell:
            yield tell


@contextmanager
def reported(what: str, progress: Progress | bool | None = None) -> Iterator[Progress | None]:
    """Show a bar as `shown`, and log a message every few seconds if the block takes long; yield the callable.

    The level is ``INFO``; nothing is logged if that is disabled.
    """
    with shown(what, progress) as tell, _logged(what, tell) as heard:
        yield heard


@contextmanager
def _logged(what: str, progress: Progress | None) -> Iterator[Progress | None]:
    logger = logging.getLogger("syclsched")
    if not logger.isEnabledFor(logging.INFO):
        yield progress
        return
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
