# SPDX-License-Identifier: Apache-2.0
"""One-call runs of a plan instance: one blocking C call per run, prepared for each selection of results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from syclsched.devices.native.submission_library import SubmissionLibrary
from syclsched.devices.submission.command_list import CommandList
from syclsched.devices.submission.native_run import COMPLETED, STILL_RUNNING, NativeRun, native_run_for
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.execution.core import stall_timeout
from syclsched.execution.core.program import Program
from syclsched.execution.core.waiting import SLICE_S
from syclsched.execution.memory.buffers import BufferTable, NumpyArray

#: Maximum number of prepared result selections, each with its own thread; beyond it all are dropped.
MOST = 8

#: Most seconds until a run that has not ended is taken over by an engine, which detects stalls. That costs 2.7 ms, and
#: the next run begins in Python.
LONGEST_S: Final = 2.0
#: Shape and dtype of a result.
_Form = tuple[tuple[int, ...], np.dtype[Any]]


class NativeRunCache:
    """The one-call runs of one plan instance."""

    def __init__(
        self, library: SubmissionLibrary, loop: SubmissionLoop, program: Program, buffers: BufferTable
    ) -> None:
        self._library = library
        self._loop = loop
        self._program = program
        self._buffers = buffers
        self._made: dict[tuple[str, ...], tuple[NativeRun | None, Sequence[_Form]]] = {}
        self._last: NativeRun | None = None
        #: Result arrays of the run in flight, kept alive until it is known to have ended; None if no run is in flight.
        self._written: dict[str, NumpyArray] | None = None

    def run_blocking(self, commands: CommandList, names: tuple[str, ...]) -> dict[str, NumpyArray] | None:
        """Run all commands, and return copies of the results; None if not eligible, failed or in progress."""
        found = self._made.get(names)
        if found is None:
            if len(self._made) == MOST:
                self.close()
            found = self._made[names] = self._make(commands, names)
        self._last, forms = found
        if self._last is None:
            return None
        self._written = {}
        self._last.begin()
        return self._complete_run(self._last, names, forms)

    def ready(self, names: tuple[str, ...]) -> NativeRun | None:
        """Return the prepared run for a selection of results; None if there is none."""
        return self._made.get(names, (None,))[0]

    def repeated(
        self, native_run: NativeRun, names: tuple[str, ...], settle: Callable[[], object]
    ) -> Callable[[tuple[Any, ...]], dict[str, NumpyArray] | None]:
        """Return a function that runs as `run_blocking` does, with a run's own commands and new input arrays.

        It returns None, without a run, if the run was not the last one or the arrays have not the expected form. It
        calls ``settle`` if a run is under way.
        """
        forms, is_brief = self._made[names][1], native_run.is_brief
        shapes, dtypes = tuple(shape for shape, _ in forms), tuple(dtype for _, dtype in forms)
        empty = np.empty

        def repeat(given: tuple[Any, ...]) -> dict[str, NumpyArray] | None:
            if self._written is not None:  # after Ctrl-C twice, no caller has taken over the interrupted run
                settle()
            if native_run is not self._last or self._written is not None:
                return None
            if is_brief.value:
                arrays = tuple(map(empty, shapes, dtypes))
                self._written = results = dict(zip(names, arrays))  # noqa: B905 - a keyword takes as long as the zip
                ended = native_run.run_briefly(given, arrays)
                if ended == COMPLETED:
                    self._written = None
                    return results
                if ended == STILL_RUNNING:
                    return self._await_end(native_run, results)
            self._written = {}
            if not native_run.begin_in_place(given):
                self._written = None
                return None
            return self._complete_run(native_run, names, forms)

        return repeat

    def _complete_run(
        self, native_run: NativeRun, names: tuple[str, ...], forms: Sequence[_Form]
    ) -> dict[str, NumpyArray] | None:
        """Complete a run that has begun."""
        assert self._written is not None
        results = self._written
        # Allocated while the devices work: with cold caches each array takes microseconds.
        for name, (shape, dtype) in zip(names, forms, strict=True):
            results[name] = np.empty(shape, dtype)
        return self._await_end(native_run, results)

    def _await_end(self, native_run: NativeRun, results: dict[str, NumpyArray]) -> dict[str, NumpyArray] | None:
        ended = native_run.run_blocking(tuple(results.values()), SLICE_S)
        give_up_s = time.monotonic() + min(LONGEST_S, stall_timeout.HANG_S / 4) if ended == STILL_RUNNING else 0.0
        while ended == STILL_RUNNING and time.monotonic() < give_up_s:  # between two waits, Python handles signals
            ended = native_run.wait(SLICE_S)
        if ended != COMPLETED and self.unfinished() is not None:
            return None
        self._written = None
        return results

    @property
    def handed_ns(self) -> tuple[int, int] | None:
        """The host times at submission, see `Runner.handed_over_ns`; None if there was no run."""
        return None if self._last is None else self._last.handed_ns

    def unfinished(self) -> NativeRun | None:
        """Return the run if it is still in progress or failed. The caller must take it over."""
        if self._last is None or self._written is None:
            return None
        if self._last.follow():
            self._written = {}
            return self._last
        self._written = None
        return None

    def settle(self) -> None:
        """Wait for a run in flight that no caller has taken over."""
        if self._last is not None:
            self._last.settle()

    def close(self) -> None:
        """Stop the threads of the prepared runs; no run may be in flight."""
        for native_run, _ in self._made.values():
            if native_run is not None:
                native_run.close()
        self._made.clear()
        self._last = self._written = None

    def _make(self, commands: CommandList, names: tuple[str, ...]) -> tuple[NativeRun | None, Sequence[_Form]]:
        finals, segments = self._program.final_buffers, self._program.segments
        # An array without a writer is the caller's own and may be at another address in the next run.
        if len(set(names)) < len(names) or any(
            name in segments or name not in finals or finals[name][1] is None for name in names
        ):
            return None, ()
        buffers = [self._buffers[finals[name][0]] for name in names]
        results = [(buffer.address, buffer.array.nbytes) for buffer in buffers]
        forms = [(buffer.array.shape, np.dtype(buffer.array.dtype)) for buffer in buffers]
        return native_run_for(self._library, self._loop, commands, results), forms
