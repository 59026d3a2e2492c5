# SPDX-License-Identifier: Apache-2.0
"""Handle of one run on several machines: its wait, its results, and its repetition when a worker is lost."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from syclsched.cluster.calls import WorkerCall
from syclsched.cluster.dask_data import Place, array_of, as_future, fetch, future_of, is_remote, send_inputs
from syclsched.cluster.measurements.host_clocks import ClockOffset
from syclsched.cluster.measurements.part_times import PartTime, part_time, run_sections
from syclsched.cluster.measurements.part_traces import merge_parts
from syclsched.cluster.monitor.run_progress import RunProgress
from syclsched.cluster.part_runner import PartReport, PartTrace
from syclsched.cluster.parts import DividedPlan, Piece
from syclsched.errors import (
    ClusterError,
    ExecutionError,
    RunCancelledError,
    UnknownArrayError,
    WaitTimeoutError,
    WorkerLostError,
)
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.execution.memory.inputs import gather_inputs
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.recovery import Recovery
from syclsched.model.text.sections import Section, sections_html, sections_text
from syclsched.model.trace import Trace
from syclsched.progress import Progress

if TYPE_CHECKING:
    from distributed import Client, Future

    from syclsched.execution.handle.engine import EngineRecorder

#: Longest time that the other parts of a failed run may take to end.
END_S: Final = 30.0
#: Seconds between looks at whether a run has been cancelled or its machines are late.
_LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Binding:
    """A plan whose parts are bound on their machines."""

    key: str
    plan: Plan
    graph: TaskGraph  # in the form the plan was made for
    divided: DividedPlan


class BoundPlan(Protocol):
    """A plan bound to machines, as far as its runs use it."""

    binding: Binding
    recovers: bool

    @property
    def client(self) -> Client:
        """Dask's client."""

    def call(self, machine: str, function: str, *arguments: Any) -> WorkerCall:
        """Begin to call a function of `syclsched.cluster.part_runner` on a machine."""

    def clocks(self, machines: Iterable[str]) -> dict[str, ClockOffset]:
        """Compare the clocks of machines with that of this process."""

    def rebind(self) -> Binding:
        """Plan for the machines that are left, and bind there."""

    def is_last(self, run: ClusterRun) -> bool:
        """Return whether no later run has begun."""

    def address(self, machine: str) -> str:
        """Return Dask's address of a machine's worker."""

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
        Told of the tasks that are done, as for `ClusterRunner.run`.
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
        self._binding = runner.binding
        self._inputs = self._checked()
        self._ended, self._ending, self._gathering = threading.Event(), threading.Lock(), threading.Lock()
        self._when_ended: list[Callable[[], None]] = []
        self._error: BaseException | None = None
        self._cancelled = False
        self._reports: dict[str, PartReport] = {}
        self._trace: Trace | None = None
        self._losses: list[Recovery] = []
        self._clock_error_s = 0.0
        self._seconds = 0.0
        self._progress = RunProgress(self, f"run of {self.plan.name!r}", progress)
        self._begin()
        self._progress.start()
        self._thread = threading.Thread(target=self._watch, name="syclsched cluster run", daemon=True)
        self._thread.start()

    @property
    def plan(self) -> Plan:
        """The plan of the run."""
        return self._binding.plan

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
        """Names of the workers that were lost, after each of which the run was repeated."""
        return tuple(name for loss in self._losses for name in loss.left_out)

    @property
    def parts(self) -> tuple[PartTime, ...]:
        """Times of each machine's part and of its devices, measured and predicted; asked for before the next run.

        ``print(run)`` shows them as tables.
        """
        trace = self.trace()
        return tuple(
            part_time(self.plan, name, self._reports[name].seconds, self._reports[name].replayed, trace)
            for name in self._binding.divided.parts
        )

    def trace(self) -> Trace:
        """Return one trace of all machines; asked for before the next run.

        The clocks of the machines are compared after the run. Copies between machines begin when they are sent.

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
        if self._trace is None:
            self._trace = self._merged_trace()
        return self._trace

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
        return self._runner.names(self._binding)

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
            self._cancel_parts(self._binding.divided.parts, "it was cancelled")

    def ask_parts(self) -> dict[str, WorkerCall]:
        """Begin to ask the machines for the states of their parts; return the calls."""
        given = self._binding.key, self._run_key
        with suppress(ClusterError):
            return {name: self._runner.call(name, "statuses_of_parts", *given) for name in self._binding.divided.parts}
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

        If one of them has been lost since the end of the run, the run is repeated on the machines left.

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
                    self._repeat_ended(loss)
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
        name, places, graph = _name_of(array), self._places(array), self._binding.graph
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
        results, joined = self._binding.divided.results, self._binding.graph.joined
        parts = joined[name][0].parts if name not in results and name in joined else (name,)
        if not all(part in results for part in parts):
            kept = ", ".join(self.names)
            raise UnknownArrayError(
                f"no result {name!r}", where=f"plan {self.plan.name!r}", hint=f"The run keeps {kept or 'none'}"
            )
        return tuple(parts)

    def _places(self, array: Any) -> list[Place] | None:
        """Return the places of a result's pieces; None if no task has written some of them."""
        pieces = [(part, piece) for part in self._parts_of(array) for piece in self._binding.divided.results[part]]
        if not all(piece.machine for _, piece in pieces):
            return None
        return [
            (self._runner.address(piece.machine), self._binding.key, self._run_key, part, piece.rows)
            for part, piece in pieces
        ]

    def _sections(self) -> list[Section] | None:
        """Return the times of the run as sections; None if it is not at its end, or its machines have no times."""
        if not self.done or self._error is not None:
            return None
        try:
            parts, trace = self.parts, self.trace()
        except ExecutionError:  # the machines' memory is released, or has a later run
            return None
        return run_sections(self.plan, trace, self._seconds, parts, self.recoveries, self._clock_error_s)

    def _merged_trace(self) -> Trace:
        """Gather the traces of the parts, and compare the machines' clocks."""
        calls = {
            name: self._runner.call(name, "trace_of_part", self._binding.key, self._run_key)
            for name in self._binding.divided.parts
        }
        parts: dict[str, PartTrace] = {name: call.result() for name, call in calls.items()}
        clocks = self._runner.clocks(parts)
        self._clock_error_s = max(clock.error_ns for clock in clocks.values()) * 1e-9
        merged = merge_parts(self.plan, self._binding.divided.messages, parts, clocks)
        return replace(merged, recoveries=tuple(self._losses))

    def _checked(self) -> dict[str, NumpyArray]:
        """Return the given inputs as arrays of the planned graph's shapes and dtypes; note those that Dask has."""
        graph = self._binding.graph
        self._remote: dict[str, Future] = {}
        given: Any = dict(self._given) if isinstance(self._given, Mapping) else self._given
        for name in [name for name, value in (given or {}).items() if is_remote(value)]:
            future = as_future(self._runner.client, given.pop(name))
            if name in graph.arrays:
                self._remote[name] = future
            else:  # an array that the plan has in parts, or none
                given[name] = fetch(future)
        needed = tuple(name for name in graph.inputs() if name not in self._remote)
        values = gather_inputs(self._binding.plan, graph, given, needed=needed)
        return {name: value for name, value in values.items() if value is not graph.data.get(name)}

    def _gathered(self, name: str) -> NumpyArray:
        declared = self._binding.graph.arrays[name]
        made: NumpyArray = np.empty(declared.shape, declared.dtype)
        for piece in self._binding.divided.results[name]:
            rows = ... if piece.rows is None else slice(*piece.rows)
            made[rows] = self._piece(name, piece)
        return made

    def _piece(self, name: str, piece: Piece) -> NumpyArray:
        if piece.machine:
            call = self._runner.call(
                piece.machine, "result_of_part", self._binding.key, self._run_key, name, piece.rows
            )
            found: NumpyArray = call.result()
            return found
        given = self._inputs.get(name, self._binding.graph.data.get(name))
        if name in self._remote:
            given = fetch(self._remote[name])
        if given is None:
            raise UnknownArrayError(f"no task writes array {name!r}, and it has no value", where=self.plan.name)
        value: NumpyArray = np.asarray(given)
        return value if piece.rows is None else value[slice(*piece.rows)]

    def _begin(self) -> None:
        """Start the parts."""
        self._run_key = uuid.uuid4().hex
        self._reports = {}
        self._calls: queue.SimpleQueue[tuple[str, WorkerCall]] = queue.SimpleQueue()
        parts = self._binding.divided.parts
        if self._remote:
            brought = [
                (self._runner.address(name), self._binding.key, self._run_key, each, None)
                for name, part in parts.items()
                for each in part.inputs
                if each in self._remote
            ]
            send_inputs(self._runner.client, self._remote, brought)
        self._begun_s = time.perf_counter()
        for name, part in parts.items():
            given = {each: self._inputs[each] for each in part.inputs if each in self._inputs}
            call = self._runner.call(name, "run_part", self._binding.key, self._run_key, given)
            call.when_done(partial(self._note, name))

    def _note(self, machine: str, call: WorkerCall) -> None:
        self._calls.put((machine, call))

    def _watch(self) -> None:
        """Wait for the end of the run."""
        error = self._outcome()
        self._error = self._progress.end() or error
        with self._ending:
            self._ended.set()
        for call in self._when_ended:
            call()

    def _outcome(self) -> BaseException | None:
        """Wait for the parts; on a failure end the others, and repeat the run if a worker is lost. Return its error."""
        error: BaseException | None
        try:
            while True:
                error = self._parts_ended()
                if not isinstance(error, WorkerLostError) or not self._may_be_repeated:
                    break
                self._repeat(error)
        except BaseException as failure:
            error = failure
        self._seconds = time.perf_counter() - self._begun_s
        if error is not None and self._cancelled:
            return RunCancelledError("the run was cancelled", where=f"plan {self.plan.name!r}")
        return error

    @property
    def _may_be_repeated(self) -> bool:
        return self._runner.recovers and not self._cancelled

    def _repeat(self, loss: WorkerLostError) -> None:
        """Begin again on the machines that are left."""
        lost_s = time.perf_counter()
        self._binding = self._runner.rebind()
        self._inputs = self._checked()
        self._begin()
        tasks, took_s = len(self._binding.graph.tasks), time.perf_counter() - lost_s
        left_out = (loss.worker or "a worker",)
        self._losses.append(Recovery("device", loss.what, left_out=left_out, planned=tasks, took_s=took_s))

    def _repeat_ended(self, loss: WorkerLostError) -> None:
        """Repeat a run whose results were lost with a worker after its end."""
        if not self._may_be_repeated or not self._runner.is_last(self):
            raise loss
        self._repeat(loss)
        self._trace, self._error = None, self._outcome()

    def _parts_ended(self) -> BaseException | None:
        """Wait for the end of all parts; return the first error that is a cause and no consequence."""
        left, errors, until_s = set(self._binding.divided.parts), list[BaseException](), float("inf")
        while left and time.perf_counter() < until_s:
            try:
                name, call = self._calls.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            left.discard(name)
            try:
                self._reports[name] = call.result()
            except Exception as error:  # of whatever kind a worker has raised
                errors.append(call.named(error))
                if len(errors) == 1:
                    until_s = time.perf_counter() + END_S
                    self._cancel_parts(left, f"the part on {name} failed: {error}")
        lost = [error for error in errors if isinstance(error, WorkerLostError)]
        causes = [error for error in errors if not isinstance(error, RunCancelledError)]
        return next(iter([*lost, *causes, *errors]), None)

    def _cancel_parts(self, machines: Iterable[str], cause: str) -> None:
        for name in machines:
            with suppress(ClusterError):
                self._runner.call(name, "cancel_part", self._binding.key, self._run_key, cause)


def _name_of(array: Any) -> str:
    name: str = array if isinstance(array, str) else array.name
    return name
