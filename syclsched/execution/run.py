# SPDX-License-Identifier: Apache-2.0
"""A run as its caller sees it: results, waiting, cancelling, trace, and giving everything back."""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections.abc import Callable, Generator, Mapping
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.errors import ArgumentError, ExecutionError, RunCancelledError, UnknownArrayError, WaitTimeoutError
from syclsched.execution.buffers import LiveBuffer, NumpyArray
from syclsched.execution.engine import Engine
from syclsched.execution.reading import Like, assemble, covers, read
from syclsched.execution.records import Counts, make_trace
from syclsched.execution.resources import Resources, Waits
from syclsched.execution.safeguards import USUAL, Safeguards
from syclsched.execution.statuses import failed_status
from syclsched.execution.waiting import SLICE_S, after, wait_flag
from syclsched.execution.watchdog import WATCHDOG, Watch
from syclsched.model.access import RowRange
from syclsched.model.binding import existing
from syclsched.model.plan import Plan, PlannedRows
from syclsched.model.recovery import Recovery
from syclsched.model.task import ArrayRows
from syclsched.model.trace import Trace
from syclsched.oneapi.forked import check_not_forked

if TYPE_CHECKING:
    from syclsched.execution.recorder import Recorder
    from syclsched.execution.recovery.recovering import Recovering

_SHORTEST_NAP_S, _LONGEST_NAP_S = 20e-6, 2e-3


def _record(resources: Resources, recorder: Recorder, generation: int) -> None:
    if resources.hung is None:
        recorder.add(resources.engine, generation)


def _not_kept(array: str) -> UnknownArrayError:
    return UnknownArrayError(
        "it is temporary, its value is not kept",
        where=f"array {array!r}",
        hint="Declare it without temporary=True and do not free() it",
    )


class Run:
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
        self._dispatcher = dispatcher
        self._recovering = recovering
        self._live = live
        self._values = values
        self._joined = joined or {}
        self._resources = Resources(dispatcher, live, owns_devices=owns_devices)
        self._trace: Trace | None = None
        self._closed = False
        self._reported = False
        self._keep = keep
        self._finalizer = weakref.finalize(self, self._resources.abandon)
        self._finalizer.atexit = False  # at the exit all runs are ended, and waited for
        WATCHDOG.watch(Watch(self._resources, safeguards, deadlines_s or {}), self._resources)
        dispatcher.start()

    @property
    def constant_bytes(self) -> dict[str, int]:
        """Bytes of constants in device memory by memory space, in the form in which implementations take them."""
        return dict(self.counts.constant_bytes)

    @property
    def plan(self) -> Plan:
        """What is run; of a run that decides as it goes what has happened, once it is over."""
        return self._dispatcher.program.plan if self._recovering is None else self._recovering.plan

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

    def done(self) -> bool:
        """Return whether the run has ended, well or not."""
        return self._resources.finished.is_set()

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

    def result(self, array: Any, like: Like = "numpy", timeout: float | None = None) -> Any:
        """Return an array's last value; waits only for the tasks that write it.

        Parameters
        ----------
        array : LogicalArray, ArrayRows or str
            An array of the graph, not a temporary one; or some rows of it, ``a[0:100]``.
        like : str, optional
            ``numpy`` (a copy), ``dpnp`` or ``usm_ndarray`` (the run's own memory once the run has ended, which then
            lives as long as the array).
        timeout : float, optional
            Seconds; no limit if not given.

        Returns
        -------
        numpy.ndarray, dpnp.ndarray or dpctl.tensor.usm_ndarray
            The value.

        Raises
        ------
        ArgumentError
            If there are no such rows.
        UnknownArrayError
            If the graph has no such array, or its value is not kept.
        TaskFailedError, RunCancelledError
            If the value was never made because a task failed, or the run was cancelled.
        WaitTimeoutError
            If the time was up; the run goes on.
        ExecutionError
            If the run is closed.
        """
        if like not in ("numpy", "dpnp", "usm_ndarray"):
            raise ArgumentError(f"like={like!r} is none of 'numpy', 'dpnp', 'usm_ndarray'", where="result()")
        check_not_forked(self._where)
        whole = array.array if isinstance(array, ArrayRows) else array
        name = whole if isinstance(whole, str) else whole.name
        rows = existing(array.rows, array.array, "result()") if isinstance(array, ArrayRows) else None
        if self._closed:
            raise ExecutionError("the run is closed, its memory is given back", where=f"array {name!r}")
        if self._recovering is None:
            return self._found(self._dispatcher, name, rows, like, timeout)
        return self._recovering.ask(lambda engine, left_s: self._found(engine, name, rows, like, left_s), timeout)

    def _found(self, engine: Engine, name: str, rows: RowRange | None, like: Like, timeout: float | None) -> Any:
        """Return an array's last value, or that of some rows, from an engine that has it."""
        if self._recovering is not None:
            self._recovering.check_not_lost(name, rows)
        if name in engine.program.segments:
            live = self._rows(engine, name, rows, timeout)
        elif rows is not None:
            return self._found(engine, name, None, like, timeout)[rows[0] : rows[1]]
        elif name in self._joined:
            return self._together(name, like, timeout)
        elif name in engine.program.final_buffers:
            live = self._value(engine, name, timeout)
        else:
            return self._untouched(name, like)
        if isinstance(live, np.ndarray):
            return self._given_out(live, like)
        return read(live, like, self._any_queue() if like != "numpy" else None, share=self.done() and engine.lasting)

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
    def recoveries(self) -> tuple[Recovery, ...]:
        """What broke so far and was recovered from, in order."""
        return () if self._recovering is None else self._recovering.recoveries

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

    def _wait_instruction(self, engine: Engine, number: int, array: str, timeout: float | None) -> None:
        """Wait until an instruction has completed, without holding up the dispatcher or any lane."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self.done():
            engine.counts.host_waits += 1
        while not engine.wait_submitted(number, SLICE_S):
            self._check_time(array, timeout, deadline)
        # An event's own wait can neither be timed nor interrupted.
        begun = time.monotonic()
        while not engine.is_complete(number):
            self._check_time(array, timeout, deadline)
            time.sleep(min(_LONGEST_NAP_S, max(_SHORTEST_NAP_S, (time.monotonic() - begun) / 16)))
        if engine.any_failed():  # what depends on it ran all the same, and is noted at the end
            wait_flag(self._resources.finished if self._recovering is None else engine.finished, None)

    def _check_time(self, array: str, timeout: float | None, deadline: float | None) -> None:
        """Raise if the time is up, or the run was given up."""
        if deadline is not None and time.monotonic() >= deadline:
            raise WaitTimeoutError(f"not there {after(timeout)}: {self._what_is_left()}", where=f"array {array!r}")
        if self._resources.hung is not None:
            self._raise_failure()

    def _what_is_left(self) -> str:
        return self._dispatcher.what_is_left()

    def _check_value(self, dispatcher: Engine, array: str, writer: int) -> None:
        """Raise if an array's last value was never made, or was made from what a failed task left."""
        buffer, _ = dispatcher.program.final_buffers[array]
        if dispatcher.event(writer) is None and dispatcher.error is not None:
            self._raise_failure()
        never = not dispatcher.passed(writer)
        if never or dispatcher.failures.is_lost(buffer):
            self._raise_failure()
            raise RunCancelledError("its value was never made", where=f"array {array!r}")
        for piece in dispatcher.statuses_behind(array):
            error = failed_status(piece, dispatcher.buffers)
            if error is not None:
                self._reported = True
                raise error

    def _raise_failure(self) -> None:
        dispatcher = self._dispatcher
        error = dispatcher.error or dispatcher.failures.first or self._resources.hung
        if error is not None:
            self._reported = True
            raise error
        if dispatcher.cancelled and not dispatcher.through:
            self._reported = True
            raise RunCancelledError("the run was cancelled", where=f"plan {self.plan.name!r}")

    def _value(self, engine: Engine, name: str, timeout: float | None) -> LiveBuffer:
        """Wait for the last value of an array or a segment, and return where it is."""
        finals = engine.program.final_buffers
        writer = finals[name][1]
        if writer is not None:
            try:
                self._wait_instruction(engine, writer, name, timeout)
            except KeyboardInterrupt:
                self._interrupted()
                raise
            self._check_value(engine, name, writer)
        live = engine.buffers.get(finals[name][0])
        if live is None:
            raise ExecutionError("its memory is gone", where=f"array {name!r}")
        return live

    def _rows(self, engine: Engine, name: str, rows: RowRange | None, timeout: float | None) -> LiveBuffer | NumpyArray:
        """Wait for rows of an array that has segments; return the buffer they lie in, or put them together.

        Rows that no task touches have the value that was given for them.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        program = engine.program
        whole = next(a for a in self.plan.arrays if a.name == name)
        if whole.temporary:
            raise _not_kept(name)
        start, stop = rows or (0, whole.shape[0])
        pieces: list[tuple[PlannedRows, LiveBuffer]] = []
        spaces = set()
        for segment in program.segments[name]:
            assert segment.rows is not None
            if segment.rows.start < stop and start < segment.rows.stop:
                left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
                pieces.append((segment.rows, self._value(engine, segment.name, left_s)))
                spaces.add(program.final_buffers[segment.name][0][1])
        if len(spaces) == 1 and covers([each for each, _ in pieces], start, stop):
            live = engine.buffers[name, spaces.pop()]
            return live if rows is None else live.part(start, stop)
        return assemble(whole, (start, stop), pieces, self._values.get(name))

    def _untouched(self, name: str, like: Like) -> Any:
        """Return the value of an array that no task touches, or say why there is none."""
        planned = next((a for a in self.plan.arrays if a.name == name), None)
        # What is planned and touched by nothing that is left was rescued, if something broke.
        if planned is not None and (planned.temporary or not self.recoveries or name not in self._values):
            raise _not_kept(name)
        if name not in self._values:
            raise UnknownArrayError("no task writes it, and no value was given for it", where=f"array {name!r}")
        return self._given_out(self._values[name].copy(), like)

    def _together(self, name: str, like: Like, timeout: float | None) -> Any:
        """Return the value of an array that is held in parts, one after another along axis 0."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if any(array.temporary for array in self.plan.arrays if array.name in self._joined[name]):
            raise _not_kept(name)
        parts = [
            self.result(part, timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
            for part in self._joined[name]
        ]
        return self._given_out(np.concatenate(parts), like)

    def _given_out(self, value: NumpyArray, like: Like) -> Any:
        if like == "numpy":
            return value
        from dpctl import tensor

        array = tensor.asarray(value, sycl_queue=self._any_queue())
        if like == "usm_ndarray":
            return array
        import dpnp

        return dpnp.asarray(array)

    @cached_property
    def _where(self) -> str:
        return f"plan {self.plan.name!r}"

    def _any_queue(self) -> Any:
        return self._live.allocator_queue(self.plan.platform.compute_devices[0].space)

    def _interrupted(self) -> None:
        """Ctrl-C: end what runs and give the memory back before the exception goes on its way."""
        self._dispatcher.cancel()
        self._resources.wait_or_give_up()
        self._release()

    def _release(self) -> None:
        self._closed = True
        self._finalizer.detach()
        self._resources.release()
