# SPDX-License-Identifier: Apache-2.0
"""A running plan: waiting, cancelling, results, trace and release."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from syclsched.devices.memory.resident_array import InputValue
from syclsched.errors import ExecutionError, WaitTimeoutError
from syclsched.execution.core.execution_records import Counts
from syclsched.execution.core.safeguards import DEFAULT_SAFEGUARDS, Safeguards
from syclsched.execution.core.waiting import elapsed_text, wait_flag
from syclsched.execution.handle import run_observer
from syclsched.execution.handle.engine import Engine, EngineRecorder, RunRecovery
from syclsched.execution.handle.engine_chain import EngineChain
from syclsched.execution.handle.resources import Resources, StallDetector
from syclsched.execution.handle.result_access import ResultAccess
from syclsched.execution.handle.trace_merging import EngineTrace
from syclsched.execution.handle.watchdog import WATCHDOG, RunWatch
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.interrupts import call_in_callback
from syclsched.model.text.sections import Section, sections_html, sections_text
from syclsched.model.trace import Trace
from syclsched.model.views.drawing import MAX_PICTURED, chart_png
from syclsched.oneapi.fork_check import check_not_forked

if TYPE_CHECKING:
    import asyncio

    from syclsched.devices.opened_devices import OpenDevices


def _record(resources: Resources, recorder: EngineRecorder, generation: int) -> None:
    if resources.hung is None:
        engines = resources.engines
        recorder.add(engines.active, generation, engines.earlier, engines.recoveries)


class Run(ResultAccess):
    """A plan being executed. Made by `execute`; use it in a ``with`` statement, or call `close`.

    Leaving the ``with`` block waits for the run and frees its memory; after an exception the run is cancelled first. A
    run that is garbage-collected is cancelled. If a run failed and nothing has waited for it, asked for a result or its
    trace, or closed it, an `UnseenFailureWarning` says so when it is garbage-collected or the interpreter exits.

    Parameters
    ----------
    engine : Engine
        The engine of the run, not yet started.
    devices : OpenDevices
        The devices of the run.
    values : dict of str to numpy.ndarray
        Inputs, and values of arrays that no task accesses.
    owns_devices : bool
        Whether to close the devices with the run.
    joined : Mapping[str, tuple of str], optional
        Arrays that are held in parts, with the names of their parts in order.
    keep : object, optional
        An object to keep alive as long as the run.
    safeguards : Safeguards, optional
        Checks and time limits of the run.
    deadlines_s : Mapping[int, float], optional
        Deadlines of tasks in seconds, by instruction number.
    recovery : RunRecovery, optional
        Recovery of the run after failures; not recovered by default.
    """

    def __init__(
        self,
        engine: Engine,
        devices: OpenDevices,
        values: dict[str, InputValue],
        *,
        owns_devices: bool = False,
        joined: Mapping[str, tuple[str, ...]] | None = None,
        keep: Any = None,
        safeguards: Safeguards = DEFAULT_SAFEGUARDS,
        deadlines_s: Mapping[int, float] | None = None,
        recovery: RunRecovery | None = None,
    ) -> None:
        resources = Resources(EngineChain(engine, deadlines_s, recovery), devices, owns_devices=owns_devices)
        super().__init__(resources, devices, values, joined)
        self._recorded: EngineTrace | None = None
        self._keep = keep
        self._finalizer = weakref.finalize(self, call_in_callback, self._resources.abandon)
        self._finalizer.atexit = False  # `resources` ends all runs at interpreter exit
        WATCHDOG.watch(RunWatch(self._resources, safeguards), self._resources)
        observer = run_observer.active
        if observer is not None:
            observer.began(self._resources)
        engine.start()

    @property
    def constant_bytes(self) -> dict[str, int]:
        """Bytes of constants in device memory, by memory space, in the implementations' own format."""
        return dict(self.counts.constant_bytes)

    # --- waiting ----------------------------------------------------------------------------------

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the run; its errors are not raised.

        A stalled run is given up: after ten minutes without progress that are also at least 30 times the predicted
        duration of the running tasks.

        Parameters
        ----------
        timeout : float, optional
            Seconds after which the run is given up in any case.
        """
        self._resources.wait_unless_stalled(timeout)

    def waits(self) -> StallDetector:
        """Return a stall detector for callers that poll the run themselves."""
        return StallDetector(self._resources)

    @property
    def hang_error(self) -> ExecutionError | None:
        """The reason why the run was given up; None if it was not, or its engine has ended since."""
        return None if self._engines.ended else self._resources.hung

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the whole run.

        Parameters
        ----------
        timeout : float, optional
            Seconds; no limit if not given.

        Raises
        ------
        TaskFailedError
            If a task failed: the first one in the plan's order. Tasks that do not depend on it have been executed.
        RunCancelledError
            If the run was cancelled before all tasks were executed.
        WaitTimeoutError
            If the time limit was reached; the run continues.
        ExecutionError
            If the run itself failed, for instance to compile a kernel; or was given up because it hangs.
        """
        try:
            self._wait_finished(timeout)
        except KeyboardInterrupt:
            self._interrupted()
            raise
        self._raise_unless_replaced()

    def settle(self, future: asyncio.Future[None]) -> None:
        """Set a future's result (None) in its event loop when the run has ended, with or without an error."""
        loop = future.get_loop()

        def resolve() -> None:
            if not future.done():
                future.set_result(None)

        def resolve_in_loop() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed without waiting for the run
                loop.call_soon_threadsafe(resolve)

        self._resources.when_ended(resolve_in_loop)

    def when_ended(self, call: Callable[[], None]) -> None:
        """Register a callback for the end of the run, on any thread; call it at once if the run has ended."""
        self._resources.when_ended(call)

    def record_in(self, recorder: EngineRecorder, generation: int = 0) -> None:
        """Add the run's recording to a recorder when the run has ended, before waits for it return."""
        self._resources.before_end(partial(_record, self._resources, recorder, generation))

    async def wait_async(self, timeout: float | None = None) -> None:
        """Wait for the whole run in a coroutine, without a waiting thread.

        Parameters
        ----------
        timeout : float, optional
            Seconds; no limit if not given.

        Raises
        ------
        TaskFailedError, RunCancelledError, WaitTimeoutError, ExecutionError
            As `wait`.
        """
        import asyncio  # imports fifty modules, which only coroutines need

        check_not_forked(self._where)
        ended = asyncio.get_running_loop().create_future()
        self.settle(ended)
        if timeout is None:
            await ended
        else:
            await asyncio.wait([ended], timeout=timeout)
            if not self.done():
                raise self._timed_out(timeout)
        if self._outputs is None:
            self._raise_failure()
        else:
            await asyncio.to_thread(self._raise_unless_replaced)

    def __await__(self) -> Generator[Any, None, Run]:
        """Wait as `wait_async` without a limit; ``await run`` returns the run."""
        yield from self.wait_async().__await__()
        return self

    def trace(self) -> Trace:
        """Wait for the end of the run, with or without an error, and return its trace.

        Returns
        -------
        Trace
            Includes failed and cancelled instructions, marked as such.

        Raises
        ------
        ExecutionError
            If the run was started with ``trace=False``, or was given up.

        Examples
        --------
        >>> import numpy as np
        >>> import syclsched
        >>> from syclsched.kernels import get
        >>> graph = syclsched.TaskGraph()
        >>> task = graph.kernel(get("scale"), name="double", x=graph.array("x", data=np.ones(10)), alpha=2.0)
        >>> with syclsched.run(graph) as run:
        ...     trace = run.trace()
        >>> {span.task for span in trace.spans if span.kind in ("launch", "host")}
        {'double'}
        """
        return self._recording().trace

    @property
    def trace_origin_ns(self) -> int:
        """Clock of this machine (`time.perf_counter_ns`) at the trace's time 0, to place it beside other records."""
        return self._recording().origin_ns

    def story(self, task: str) -> str:
        """Describe a task's execution: when it was ready, its waits, its device, and its times.

        Waits for the run to end.

        Parameters
        ----------
        task : str
            Name of the task.

        Returns
        -------
        str
            A few lines, with predicted times beside measured ones.

        Raises
        ------
        GraphError
            If no such task ran.
        ExecutionError
            As `trace`.

        Examples
        --------
        >>> import numpy as np
        >>> import syclsched
        >>> from syclsched.kernels import get
        >>> graph = syclsched.TaskGraph()
        >>> task = graph.kernel(get("scale"), name="double", x=graph.array("x", data=np.ones(10)), alpha=2.0)
        >>> with syclsched.run(graph) as run:
        ...     run.wait()
        ...     print(run.story("double"))
        task 'double' (scale) ...
        """
        from syclsched.tracing.analysis.task_history import describe_task

        return describe_task(self.trace(), task)

    def report(self, path: str | Path) -> None:
        """Write one HTML page about the run, to open in a browser; it needs no network.

        It has the predicted above the measured Gantt chart (to zoom, with the history of each task), the memory in use,
        the reasons of idle lanes, the critical path, the compared plans and the errors of the prediction. Waits for the
        run to end.

        Parameters
        ----------
        path : str or Path
            The file to write, as ``run.html``.

        Raises
        ------
        StorageError
            If the file cannot be written.
        ExecutionError
            As `trace`.
        """
        from syclsched.tracing import save_report

        save_report(self.trace(), path, self.plan)

    def gantt(self, path: str | Path | None = None) -> Any:
        """Draw the run as a Gantt chart, predicted above measured times. Waits for the run to end.

        Parameters
        ----------
        path : str or Path, optional
            File to write, as PNG, SVG or PDF by its ending.

        Returns
        -------
        matplotlib.figure.Figure
            The chart; notebooks show it.

        Raises
        ------
        ExecutionError
            As `trace`.

        Examples
        --------
        >>> import syclsched
        >>> graph = syclsched.TaskGraph("two")
        >>> x = graph.array("x", (1000,), "float64")
        >>> task = graph.host(lambda x: x.fill(1.0), x=x.write(), name="fill")
        >>> task = graph.host(lambda x: x.sum(), x=x.read(), name="sum")
        >>> with syclsched.run(graph) as run:
        ...     figure = run.gantt()
        >>> len(figure.axes)
        2
        """
        return self.trace().gantt(path)

    @property
    def counts(self) -> Counts:
        """Counters of the run so far."""
        return self._engines.counts

    # --- ending -----------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Stop submitting; submitted kernels still complete. Returns at once; `wait` then raises."""
        self._engines.cancel()

    def close(self) -> None:
        """Cancel the rest of the run, wait for submitted kernels, and free the memory.

        A run that does not end within a minute is given up; its memory is freed when it ends.
        """
        check_not_forked(self._where)
        if self._closed:
            return
        if self._resources.hung is not None or not self._resources.finished.is_set():
            self._engines.cancel()
            self._resources.wait_or_fail()
        self._release()

    def close_before_next(self) -> None:
        """Close the run of a runner that starts another one; warn if it failed and no caller has seen the error."""
        self._resources.warn_if_unseen()
        self.close()

    def collect_results(self, names: Iterable[str]) -> dict[str, NumpyArray]:
        """Wait, return results by name, and close the run in any case."""
        try:
            self.wait()
            return self.read_results(names)
        finally:
            self.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._closed and not self._resources.reported:
                self.wait()
        finally:
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "done" if self.done() else "running"
        return f"<Run of {self.plan.name!r}: {state}>"

    def __str__(self) -> str:
        sections = self._report_sections()
        return repr(self) if sections is None else sections_text(sections)

    def _repr_html_(self) -> str:
        sections = self._report_sections()
        if sections is None:
            return sections_html([Section(repr(self), ())])
        spans = len(self.trace().spans)
        return sections_html(sections, chart_png(self.gantt()) if spans <= MAX_PICTURED else None)

    # --- inside -----------------------------------------------------------------------------------

    def _report_sections(self) -> list[Section] | None:
        """Return the report of the run as sections; None if it is not at its end, or was not recorded."""
        from syclsched.tracing.report_content import report_sections
        from syclsched.tracing.run_report import make_report

        if not self.done() or self._resources.hung is not None or not self._resources.engine.recording:
            return None
        return report_sections(make_report(self.trace(), self.plan))

    def _recording(self) -> EngineTrace:
        """Wait for the end of the run and return its trace."""
        self._wait_finished(None)
        if self._resources.hung is not None:
            raise ExecutionError("the run was given up: there is no trace", where=self._where) from self._resources.hung
        if not self._resources.engine.recording:
            raise ExecutionError("the run was started with trace=False", where=f"plan {self.plan.name!r}")
        self._resources.mark_reported()
        if self._recorded is None:
            self._recorded = self._engines.trace()
        return self._recorded

    def _wait_finished(self, timeout: float | None) -> None:
        check_not_forked(self._where)
        finished = self._resources.finished
        if finished.is_set():
            return
        self._resources.engine.counts.host_waits += 1
        if not wait_flag(finished, timeout):
            raise self._timed_out(timeout)

    def _timed_out(self, timeout: float | None) -> WaitTimeoutError:
        return WaitTimeoutError(f"not done {elapsed_text(timeout)}: {self._what_is_left()}", where=self._where)

    def _interrupted(self) -> None:
        """Handle Ctrl-C: end the run and free its memory before the exception is raised."""
        self._engines.cancel()
        self._resources.wait_or_fail()
        self._release()

    def _release(self) -> None:
        self._closed = True
        self._finalizer.detach()
        self._resources.release()
