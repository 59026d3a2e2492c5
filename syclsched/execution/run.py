# SPDX-License-Identifier: Apache-2.0
"""A run as its caller sees it: waiting, cancelling, trace, and giving everything back; with its results."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from syclsched.errors import ExecutionError, WaitTimeoutError
from syclsched.execution.answers import Answers
from syclsched.execution.buffers import NumpyArray
from syclsched.execution.engine import Engine
from syclsched.execution.records import Counts, make_trace
from syclsched.execution.resources import Resources, Waits
from syclsched.execution.safeguards import USUAL, Safeguards
from syclsched.execution.waiting import after, wait_flag
from syclsched.execution.watchdog import WATCHDOG, Watch
from syclsched.model.trace import Trace
from syclsched.oneapi.forked import check_not_forked

if TYPE_CHECKING:
    from syclsched.execution.recorder import Recorder
    from syclsched.execution.recovery.recovering import Recovering


def _record(resources: Resources, recorder: Recorder, generation: int) -> None:
    if resources.hung is None:
        recorder.add(resources.engine, generation)


class Run(Answers):
    """A plan on its way. Made by `execute`; use it in a ``with`` statement, or call `close`.

    Leaving the ``with`` block waits for the run (cancels it, if by an exception) and gives its memory back. A run
    that is dropped is cancelled.

    Parameters
    ----------
    dispatcher : Engine
        Not yet started.
    live : LiveDevices
        The devices it runs on.
    values : dict of str to numpy.ndarray
        Inputs, and values given for arrays that no task touches.
    owns_devices : bool
        Whether to close the devices with the run.
    joined : Mapping[str, tuple of str], optional
        Arrays that are held in parts, with those in order.
    keep : object, optional
        What must live as long as the run.
    safeguards : Safeguards, optional
        What it is watched for.
    deadlines_s : Mapping[int, float], optional
        Of its tasks, in seconds, by instruction number.
    recovering : Recovering, optional
        The dispatcher, if it is one that is replaced by another when something breaks.
    """

    def __init__(
        self,
        dispatcher: Engine,
        live: Any,
        values: dict[str, NumpyArray],
        *,
        owns_devices: bool = False,
        joined: Mapping[str, tuple[str, ...]] | None = None,
        keep: Any = None,
        safeguards: Safeguards = USUAL,
        deadlines_s: Mapping[int, float] | None = None,
        recovering: Recovering | None = None,
    ) -> None:
        resources = Resources(dispatcher, live, owns_devices=owns_devices)
        super().__init__(dispatcher, live, values, joined, recovering, resources)
        self._trace: Trace | None = None
        self._keep = keep
        self._finalizer = weakref.finalize(self, self._resources.abandon)
        self._finalizer.atexit = False  # at the exit all runs are ended, and waited for
        WATCHDOG.watch(Watch(self._resources, safeguards, deadlines_s or {}), self._resources)
        dispatcher.start()

    @property
    def constant_bytes(self) -> dict[str, int]:
        """Bytes of constants in device memory by memory space, in the form in which implementations take them."""
        return dict(self.counts.constant_bytes)

    # --- waiting ----------------------------------------------------------------------------------

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the run, however it ends; raises nothing of it.

        A run in which nothing goes on any more is given up: after ten minutes, and 30 times what is running was
        predicted to take.

        Parameters
        ----------
        timeout : float, optional
            Seconds after which it is given up in any case.
        """
        self._resources.wait_while_it_goes_on(timeout)

    def waits(self) -> Waits:
        """Return what somebody who waits for the run in his own way looks with, whether it still goes on."""
        return Waits(self._resources)

    @property
    def left_behind(self) -> ExecutionError | None:
        """Why the run was given up, as long as something of it goes on all the same."""
        return None if self._resources.engine.finished.is_set() else self._resources.hung

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the whole run.

        Parameters
        ----------
        timeout : float, optional
            Seconds; no limit if not given.

        Raises
        ------
        TaskFailedError
            If a task failed: the first one in the plan's order. What does not depend on it has been done all the same.
        RunCancelledError
            If the run was cancelled before it was through.
        WaitTimeoutError
            If the time was up; the run goes on.
        ExecutionError
            If the run itself failed, for instance to compile a kernel; or was given up because something hangs.
        """
        try:
            self._wait_finished(timeout)
        except KeyboardInterrupt:
            self._interrupted()
            raise
        self._raise_failure()

    def settle(self, future: asyncio.Future[None]) -> None:
        """Have a future of some event loop settled, if it is not yet, once the run has ended, however it ended."""
        loop = future.get_loop()

        def tell() -> None:
            if not future.done():
                future.set_result(None)

        def tell_loop() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed without waiting for the run
                loop.call_soon_threadsafe(tell)

        self._resources.when_ended(tell_loop)

    def when_ended(self, call: Callable[[], None]) -> None:
        """Have something called once the run has ended, however it ended, on any thread; at once if it has."""
        self._resources.when_ended(call)

    def record_in(self, recorder: Recorder, generation: int = 0) -> None:
        """Have what the run noted kept once it has ended."""
        self.when_ended(partial(_record, self._resources, recorder, generation))

    async def wait_async(self, timeout: float | None = None) -> None:
        """Wait for the whole run in a coroutine, without a thread of its own.

        Parameters
        ----------
        timeout : float, optional
            Seconds; no limit if not given.

        Raises
        ------
        TaskFailedError, RunCancelledError, WaitTimeoutError, ExecutionError
            As `wait`.
        """
        check_not_forked(self._where)
        ended = asyncio.get_running_loop().create_future()
        self.settle(ended)
        if timeout is None:
            await ended
        else:
            await asyncio.wait([ended], timeout=timeout)
            if not self.done():
                raise self._timed_out(timeout)
        self._raise_failure()

    def __await__(self) -> Generator[Any, None, Run]:
        """Wait as `wait_async` without a limit: ``await run`` gives the run."""
        yield from self.wait_async().__await__()
        return self

    def trace(self) -> Trace:
        """Wait for the run to end, well or not, and return what happened.

        Returns
        -------
        Trace
            With the instructions that were cancelled or failed marked so.

        Raises
        ------
        ExecutionError
            If the run was started with ``trace=False``.
        """
        self._wait_finished(None)
        if self._resources.hung is not None:
            raise ExecutionError("the run was given up: there is no trace", where=self._where) from self._resources.hung
        if not self._dispatcher.recording:
            raise ExecutionError("the run was started with trace=False", where=f"plan {self.plan.name!r}")
        if self._trace is None:
            d, recovering = self._dispatcher, self._recovering
            whole = None if recovering is None else recovering.trace()
            further = d.program.further
            self._trace = whole or make_trace(self.plan, d.records, d.clocks, d.counts, further)
        return self._trace

    def story(self, task: str) -> str:
        """Say everything that happened to a task: when it was ready, what it waited for, where and when it ran.

        Waits for the run to end.

        Parameters
        ----------
        task : str
            Its name.

        Returns
        -------
        str
            A few lines; predicted times stand beside measured ones.

        Raises
        ------
        GraphError
            If no such task ran.
        ExecutionError
            As `trace`.
        """
        from syclsched.tracing.story import tell_story

        return tell_story(self.trace(), task)

    @property
    def counts(self) -> Counts:
        """What was counted so far."""
        return self._dispatcher.counts

    # --- ending -----------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Submit nothing more; kernels that were submitted end. Returns at once; `wait` then raises."""
        self._dispatcher.cancel()

    def close(self) -> None:
        """Cancel what is left, wait for kernels that were submitted, and give the memory back.

        What does not end within a minute goes on behind the caller's back; its memory is given back when it ends.
        """
        check_not_forked(self._where)
        if self._closed:
            return
        if self._resources.hung is not None or not self._resources.finished.is_set():
            self._dispatcher.cancel()
            self._resources.wait_or_give_up()
        self._release()

    def results_at_last(self, names: Iterable[str]) -> dict[str, NumpyArray]:
        """Wait, return results by name, and close it in any case."""
        try:
            self.wait()
            return {name: self.result(name) for name in names}
        finally:
            self.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._closed and not self._reported:
                self.wait()
        finally:
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "done" if self.done() else "running"
        return f"<Run of {self.plan.name!r}: {state}>"

    # --- inside -----------------------------------------------------------------------------------

    def _wait_finished(self, timeout: float | None) -> None:
        check_not_forked(self._where)
        finished = self._resources.finished
        if finished.is_set():
            return
        self._dispatcher.counts.host_waits += 1
        if not wait_flag(finished, timeout):
            raise self._timed_out(timeout)

    def _timed_out(self, timeout: float | None) -> WaitTimeoutError:
        return WaitTimeoutError(f"not done {after(timeout)}: {self._what_is_left()}", where=self._where)

    def _interrupted(self) -> None:
        """Ctrl-C: end what runs and give the memory back before the exception goes on its way."""
        self._dispatcher.cancel()
        self._resources.wait_or_give_up()
        self._release()

    def _release(self) -> None:
        self._closed = True
        self._finalizer.detach()
        self._resources.release()
