# SPDX-License-Identifier: Apache-2.0
"""Handle of one run on several machines: its wait, its results, and its trace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from syclsched.cluster.calls import WorkerCall
from syclsched.cluster.dask_data import Place, array_of, as_future, fetch, future_of, is_remote
from syclsched.cluster.measurements.host_clocks import ClockOffset
from syclsched.cluster.measurements.part_times import PartTime, part_time, run_sections, summed
from syclsched.cluster.measurements.part_traces import merge_parts
from syclsched.cluster.monitor.run_progress import RunProgress
from syclsched.cluster.part_runner import PartTrace
from syclsched.cluster.recovery.attempt import Binding, ResultPiece, RunAttempt
from syclsched.cluster.runs.attempts import PlanBinder, RunAttempts, RunInputs
from syclsched.cluster.runs.plan_watch import Move, PlanWatch
from syclsched.devices.memory.resident_array import host_value
from syclsched.errors import (
    ClusterError,
    ExecutionError,
    RunCancelledError,
    SyclschedError,
    UnknownArrayError,
    WaitTimeoutError,
    WorkerLostError,
)
from syclsched.execution.handle.trace_merging import EngineTrace, merge_traces
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.execution.memory.inputs import gather_inputs
from syclsched.model.plan import Plan
from syclsched.model.text.sections import Section, sections_html, sections_text
from syclsched.model.trace import Trace
from syclsched.progress import Progress

if TYPE_CHECKING:
    from distributed import Future

    from syclsched.execution.handle.engine import EngineRecorder


class BoundPlan(PlanBinder, Protocol):
    """A plan bound to machines, as far as its runs use it."""

    binding: Binding
    recovers: bool

    def clocks(self, machines: Iterable[str]) -> dict[str, ClockOffset]:
        """Compare the clocks of machines with that of this process."""

    def watch(self) -> PlanWatch | None:
        """Return a watch for a run whose rest moves when machines deviate from the plan; None for another."""

    def is_last(self, run: ClusterRun) -> bool:
        """Return whether no later run has begun."""

    def names(self, binding: Binding) -> tuple[str, ...]:
        """Return the names of the results: the arrays of the user's graph that tasks write and a plan keeps."""

    def close(self) -> None:
        """Wait for the runs in flight and release the machines' memory."""


class ClusterRun:
    """Handle of one run on several machines, for waiting and results.

    Parameters
    ----------
    runner : BoundPlan
        The bound plan.
    inputs : Mapping[str, array-like] or None
        As for `ClusterRunner.run`.
    owned : bool, optional
        Whether closing the run also closes the runner.
    progress : callable or bool, optional
        Called with the tasks that are done, as for `ClusterRunner.run`.
    """

    def __init__(
        self,
        runner: BoundPlan,
        inputs: Mapping[str, Any] | None,
        *,
        owned: bool = False,
        progress: Progress | bool | None = False,
    ) -> None:
        self._runner, self._given, self._owned = runner, inputs, owned
        self._ended, self._ending, self._gathering = threading.Event(), threading.Lock(), threading.Lock()
        self._when_ended: list[Callable[[], None]] = []
        self._error: BaseException | None = None
        self._cancelled = False
        self._traces: list[tuple[RunAttempt, EngineTrace]] = []
        self._clock_error_s = 0.0
        self._seconds = 0.0
        self._begun_s = time.perf_counter()
        self._attempts = RunAttempts(runner, runner.binding, self._checked, runner.watch())
        self._progress = RunProgress(self, f"run of {self.plan.name!r}", progress)
        self._progress.start()
        self._thread = threading.Thread(target=self._watch, name="syclsched cluster run", daemon=True)
        self._thread.start()

    @property
    def plan(self) -> Plan:
        """The plan with which the run began."""
        return self._attempts.first.plan

    @property
    def done(self) -> bool:
        """Whether the run has ended, with or without an error."""
        return self._ended.is_set()

    @property
    def makespan_s(self) -> float:
        """Seconds from the call to the machines to the last one's answer."""
        self.wait()
        return self._seconds

    @property
    def recoveries(self) -> tuple[str, ...]:
        """Names of the workers that were lost, after each of which the run went on on the machines left.

        The recoveries in ``run.trace()`` say how many tasks were left, and which were done again.
        """
        return tuple(name for loss in self._attempts.losses for name in loss.left_out)

    @property
    def parts(self) -> tuple[PartTime, ...]:
        """Times of each machine's part and of its devices, measured and predicted; asked for before the next run.

        ``print(run)`` shows them as tables. If the run went on after a loss, they are sums of what is known.
        """
        self.trace()
        found: dict[str, list[PartTime]] = {}
        for attempt, recorded in self._traces:
            for name in attempt.binding.divided.parts:
                report = attempt.reports.get(name)
                if report is not None:
                    time = part_time(attempt.binding.plan, name, report.seconds, report.replayed, recorded.trace)
                    found.setdefault(name, []).append(time)
        return tuple(summed(times) for times in found.values())

    def trace(self) -> Trace:
        """Return one trace of all machines; asked for before the next run.

        The clocks of the machines are compared after the run. Copies between machines begin when they are sent. What a
        lost worker has done is not in it.

        Returns
        -------
        Trace
            Lanes, devices and memory spaces are called as in the plan: ``node0/cpu``.

        Raises
        ------
        ExecutionError
            If a later run has begun, or the runner is closed.
        """
        self.wait()
        if not self._traces:
            self._traces = [(attempt, self._merged(attempt)) for attempt in self._attempts.all]
        return merge_traces([recorded for _, recorded in self._traces], self._attempts.losses)

    def report(self, path: str | Path) -> None:
        """Write one HTML page about the run on all machines, to open in a browser; see `Trace.report`."""
        self.trace().report(path, self.plan)

    def gantt(self, path: str | Path | None = None) -> Any:
        """Draw the run on all machines as a Gantt chart, predicted above measured times; see `Trace.gantt`."""
        return self.trace().gantt(path)

    def __repr__(self) -> str:
        state = "in flight" if not self.done else "failed" if self._error is not None else "done"
        return f"<ClusterRun of {self.plan.name!r}: {state}>"

    def __str__(self) -> str:
        sections = self._sections()
        return repr(self) if sections is None else sections_text(sections)

    def _repr_html_(self) -> str:
        return sections_html(self._sections() or [Section(repr(self), ())])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the results: the arrays that tasks write and the plan keeps."""
        return self._runner.names(self._attempts.first)

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end of the run, and raise its error if it failed; Ctrl-C cancels it."""
        try:
            ended = self._ended.wait(timeout)
        except KeyboardInterrupt:
            self.cancel()
            self._progress.end()
            raise
        if not ended:
            raise WaitTimeoutError(f"the run has not ended in {timeout:g} s", where=f"plan {self.plan.name!r}")
        if self._error is not None:
            raise self._error

    def join(self) -> None:
        """Wait for the end of the run, without raising its error."""
        self._ended.wait()

    def when_ended(self, call: Callable[[], None]) -> None:
        """Register a callback for the end of the run, on any thread; call it at once if the run has ended."""
        with self._ending:
            if not self._ended.is_set():
                self._when_ended.append(call)
                return
        call()

    def record_in(self, recorder: EngineRecorder, generation: int = 0) -> None:
        """Do nothing: the machines record the run, and `trace` asks them."""

    def read_results(self, names: Iterable[str]) -> dict[str, NumpyArray]:
        """Return several results by their names; see `result`."""
        return {name: self.result(name) for name in names}

    def cancel(self) -> None:
        """End the run early; its results cannot be asked for then."""
        if not self._ended.is_set():
            self._cancelled = True
            self._attempts.cancel("it was cancelled")

    @property
    def plan_in_progress(self) -> Plan:
        """The plan of the run; after a loss or a move, of the remaining tasks."""
        return self._attempts.last.binding.plan

    def ask_parts(self) -> dict[str, WorkerCall]:
        """Begin to ask the machines for the states of their parts; return the calls."""
        attempt = self._attempts.last
        parts = attempt.binding.divided.parts
        with suppress(ClusterError):
            return {m: self._runner.call_part(attempt.binding, m, "statuses_of_parts", attempt.run) for m in parts}
        return {}

    def close(self) -> None:
        """Wait for the end of the run; release the machines' memory if the run was started by `Cluster.run`."""
        self.join()
        if self._owned:
            self._runner.close()

    def __enter__(self) -> ClusterRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.cancel()
        self.close()

    def result(self, array: Any, timeout: float | None = None) -> NumpyArray:
        """Return the value of an array, gathered from the machines that have it.

        If one of them has been lost since the end of the run, what is needed is computed again on the machines left.

        Parameters
        ----------
        array : LogicalArray or str
            An array that is not temporary.
        timeout : float, optional
            Longest time to wait for the run, in seconds.

        Returns
        -------
        numpy.ndarray
            In memory of its own.

        Raises
        ------
        UnknownArrayError
            If there is no such array, or its value is not kept.
        """
        while True:
            parts = self._parts_of(array, timeout)
            with self._gathering:
                try:
                    found = [self._gathered(part) for part in parts]
                except WorkerLostError as loss:
                    self._recover_ended(loss)
                    continue
            return found[0] if len(found) == 1 else np.concatenate(found)

    def future(self, array: Any) -> Future:
        """Return the value of an array as a Dask future; it is copied on the worker that has it, and stays there.

        Parameters
        ----------
        array : LogicalArray or str
            An array that is not temporary.

        Returns
        -------
        distributed.Future
            Valid after later runs, too. Dask's tasks and runs of other graphs can use it as an input.
        """
        client, places = self._runner.client, self._places(array)
        return client.scatter(self.result(array)) if places is None else future_of(client, places)

    def dask_array(self, array: Any) -> Any:
        """Return the value of an array as a Dask array, with a block for each machine that has rows of it.

        Parameters
        ----------
        array : LogicalArray or str
            An array that is not temporary.

        Returns
        -------
        dask.array.Array
            Compute it with the cluster's client: ``cluster.client.compute(found.sum()).result()``.
        """
        name, places, graph = _name_of(array), self._places(array), self._attempts.first.graph
        declared = graph.joined[name][0].whole if name not in graph.arrays else graph.arrays[name]
        if places is None:
            import dask.array

            return dask.array.from_array(self.result(name))
        return array_of(self._runner.client, places, declared.shape, declared.dtype)

    # --- inside -----------------------------------------------------------------------------------

    def _parts_of(self, array: Any, timeout: float | None = None) -> tuple[str, ...]:
        """Wait for the run; return the arrays of the plan that hold a result: itself, or its parts in order."""
        name = _name_of(array)
        self.wait(timeout)
        first = self._attempts.first
        results, joined = first.divided.results, first.graph.joined
        parts = joined[name][0].parts if name not in results and name in joined else (name,)
        if not all(part in results for part in parts):
            kept = ", ".join(self.names)
            raise UnknownArrayError(
                f"no result {name!r}", where=f"plan {self.plan.name!r}", hint=f"The run keeps {kept or 'none'}"
            )
        return tuple(parts)

    def _places(self, array: Any) -> list[Place] | None:
        """Return the places of a result's pieces; None if no task has written some of them."""
        pieces = [(part, piece) for part in self._parts_of(array) for piece in self._attempts.pieces(part)]
        if not all(piece.machine for _, piece in pieces):
            return None
        return [
            (self._runner.address(made.binding, piece.machine), made.binding.key, made.run, part, piece.rows)
            for part, piece in pieces
            for made in (piece.attempt,)
            if made is not None
        ]

    def _sections(self) -> list[Section] | None:
        """Return the times of the run as sections; None if it is not at its end, or its machines have no times."""
        if not self.done or self._error is not None:
            return None
        try:
            parts, trace = self.parts, self.trace()
        except ExecutionError:  # the machines' memory is released, or has a later run
            return None
        return run_sections(self.plan, trace, self._seconds, parts, self._clock_error_s)

    def _merged(self, attempt: RunAttempt) -> EngineTrace:
        """Gather the traces of the parts of an attempt, and compare the machines' clocks."""
        binding, is_last = attempt.binding, attempt is self._attempts.last
        calls = {
            name: self._runner.call_part(binding, name, "trace_of_part", attempt.run)
            for name in binding.divided.parts
            if is_last or name in attempt.states
        }
        parts: dict[str, PartTrace] = {name: call.result() for name, call in calls.items()}
        clocks = self._runner.clocks(parts)
        self._clock_error_s = max([self._clock_error_s, *(clock.error_ns * 1e-9 for clock in clocks.values())])
        return merge_parts(binding.plan, binding.divided.messages, parts, clocks)

    def _checked(self, binding: Binding) -> RunInputs:
        """Return the given inputs as arrays of the planned graph's shapes and dtypes, and those that Dask has."""
        graph = binding.graph
        remote: dict[str, Future] = {}
        given: Any = dict(self._given) if isinstance(self._given, Mapping) else self._given
        for name in [name for name, value in (given or {}).items() if is_remote(value)]:
            future = as_future(self._runner.client, given.pop(name))
            if name in graph.arrays:
                remote[name] = future
            else:  # an array that the plan has in parts, or none
                given[name] = fetch(future)
        needed = tuple(name for name in graph.inputs() if name not in remote)
        values = gather_inputs(binding.plan, graph, given, needed=needed)
        own = {n: host_value(value) for n, value in values.items() if value is not graph.data.get(n)}
        return RunInputs(own, remote)

    def _gathered(self, name: str) -> NumpyArray:
        declared = self._attempts.first.graph.arrays[name]
        made: NumpyArray = np.empty(declared.shape, declared.dtype)
        for piece in self._attempts.pieces(name):
            rows = ... if piece.rows is None else slice(*piece.rows)
            made[rows] = self._piece(name, piece)
        return made

    def _piece(self, name: str, piece: ResultPiece) -> NumpyArray:
        if piece.attempt is not None:
            binding, asked = piece.attempt.binding, (piece.attempt.run, name, piece.rows)
            found: NumpyArray = self._runner.call_part(binding, piece.machine, "result_of_part", *asked).result()
            return found
        inputs = self._attempts.inputs
        given = inputs.here.get(name, self._attempts.first.graph.data.get(name))
        if name in inputs.remote:
            given = fetch(inputs.remote[name])
        if given is None:
            raise UnknownArrayError(f"no task writes array {name!r}, and it has no value", where=self.plan.name)
        value: NumpyArray = np.asarray(given)
        return value if piece.rows is None else value[slice(*piece.rows)]

    def _watch(self) -> None:
        """Wait for the end of the run."""
        error = self._outcome()
        self._error = self._progress.end() or error
        with self._ending:
            self._ended.set()
        for call in self._when_ended:
            call()

    def _outcome(self, error: BaseException | None = None) -> BaseException | None:
        """Wait for the parts, and continue with the rest after each loss of a worker; return the error of the run.

        A loss after the end of the run is given as ``error``.
        """
        try:
            error = error or self._attempts.wait()
            while not self._cancelled:
                if isinstance(error, WorkerLostError) and self._may_recover:
                    error = self._after(error)
                elif error is None and self._attempts.move is not None:
                    error = self._after(self._attempts.move)
                else:
                    break
        except BaseException as failure:
            error = failure
        self._seconds = time.perf_counter() - self._begun_s
        if self._cancelled and (error is not None or self._attempts.move is not None):
            return RunCancelledError("the run was cancelled", where=f"plan {self.plan.name!r}")
        return error

    @property
    def _may_recover(self) -> bool:
        return self._runner.recovers and not self._cancelled and self._attempts.may_recover

    def _after(self, loss: WorkerLostError | Move) -> BaseException | None:
        """Continue after a loss, or move the rest, and wait; return the final error."""
        attempts = self._attempts
        try:
            goes_on = attempts.follow(loss) if isinstance(loss, Move) else attempts.recover(loss)
            if goes_on and self._cancelled:
                attempts.cancel("it was cancelled")
            return attempts.wait() if goes_on else None
        except WorkerLostError as another:
            return another
        except SyclschedError as error:
            if isinstance(loss, Move):
                raise
            loss.hint = f"The run could not go on: {error}"
            raise loss from error

    def _recover_ended(self, loss: WorkerLostError) -> None:
        """Compute again the results lost with a worker after the end of the run."""
        if not self._may_recover or not self._runner.is_last(self):
            raise loss
        seconds, self._traces = self._seconds, []
        error = self._outcome(loss)
        if isinstance(error, KeyboardInterrupt):
            self._attempts.cancel("it was cancelled")
            raise error
        self._error = error
        self._seconds = seconds if error is None else self._seconds


def _name_of(array: Any) -> str:
    name: str = array if isinstance(array, str) else array.name
    return name
