# SPDX-License-Identifier: Apache-2.0
"""Plans bound to devices, for repeated runs with new data."""

from __future__ import annotations

import time
import weakref
from collections.abc import AsyncIterable, Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from syclsched.devices.memory.constant_uploads import uploaded_bytes
from syclsched.devices.memory.resident_array import InputValue
from syclsched.errors import ExecutionError
from syclsched.execution.core.safeguards import DEFAULT_SAFEGUARDS, Safeguards
from syclsched.execution.dispatch.prepared import PreparedPlan, prepare
from syclsched.execution.handle import run_observer
from syclsched.execution.handle.async_lock import AsyncRunLock
from syclsched.execution.handle.run import Run
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.execution.recovery.plan_recovery import PlanRecovery
from syclsched.execution.recovery.run_start import start_run
from syclsched.execution.replay.input_commands import InputSpec
from syclsched.execution.replay.instance_pool import InstancePool
from syclsched.execution.replay.replay import Replay
from syclsched.execution.runner.input_copies import InputCopies, copies_for
from syclsched.execution.runner.one_off import start
from syclsched.execution.runner.plan_binding import PlanBinding
from syclsched.execution.runner.plan_makespans import MakespanKey, PlanMakespans
from syclsched.execution.runner.recorder import KEPT_RUNS, Recorder
from syclsched.execution.runner.task_durations import DurationRecorder
from syclsched.execution.runner.zero_copy_inputs import ZeroCopyInputs
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.oneapi.fork_check import LockUnlessForked, check_not_forked, is_forked
from syclsched.progress import Progress

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices
    from syclsched.execution.replay.plan_instance import PlanInstance
    from syclsched.execution.runner.stream import Stream
    from syclsched.model.trace import Trace

#: Fast callable returned by `Runner.repeat`: takes the input arrays, returns the results or None if not eligible.
Repeat = Callable[[tuple[Any, ...]], "dict[str, NumpyArray] | None"]


class StreamOpenError(ExecutionError):
    """A stream of the runner is open, so that it takes no other work."""


class Runner:
    """A plan prepared for repeated runs; made by `bind`. Use it in a ``with`` statement, or `close` it.

    The plan is verified and its kernels are compiled once. If all its work can be submitted at once (`replayed`), its
    memory is allocated once, too, and each run is submitted to the devices by compiled code, hundreds of instructions
    in one call.

    One run is in flight at a time: `run` waits for the previous one. Results of a replayed run are in the runner's
    memory; they can be read until the next run begins.

    Parameters
    ----------
    plan, graph, devices, trace, owns_devices, safeguards, recover
        As for `bind`.
    measure : bool, optional
        Whether the times of tasks in recorded runs go into the history.
    makespan_key : callable, optional
        Returns the history key of the plan's makespans; they are not measured without it.
    progress : callable, optional
        Called with the kernels that are compiled; see `syclsched.progress.Progress`.
    """

    def __init__(
        self,
        plan: Plan,
        graph: TaskGraph,
        devices: OpenDevices,
        *,
        trace: bool | int | Literal["exact"] = True,
        owns_devices: bool = False,
        safeguards: Safeguards = DEFAULT_SAFEGUARDS,
        recover: bool = False,
        measure: bool = False,
        makespan_key: MakespanKey | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._recorder = Recorder(KEPT_RUNS if trace is True or isinstance(trace, str) else int(trace))
        self._first = prepare(plan, graph)
        self._devices = devices
        self._trace, self._exact = bool(trace), trace == "exact"
        self._safeguards = safeguards
        self._owns_devices = owns_devices
        self._lock = LockUnlessForked(f"plan {plan.name!r}")
        self._last: Run | None = None
        self._closed = False
        self._stream: weakref.ref[Stream] | None = None
        self._coroutines = AsyncRunLock()
        # A task cannot be repeated on a donated input that it has overwritten.
        donated = any(array.donated for array in graph.arrays.values())
        self._recovery = PlanRecovery(self._first, devices, enabled=recover and not safeguards.stepped and not donated)
        self._makespan_key = makespan_key if safeguards.measurable else None
        self._measures = safeguards.measurable and ((measure and self._trace) or makespan_key is not None)
        #: Input buffers that the user can write directly.
        self.zero_copy_inputs = ZeroCopyInputs(devices)
        self._bind_or_recover(self._first, progress)

    def _bind_or_recover(self, prepared: PreparedPlan, progress: Progress | None = None) -> None:
        """Bind a plan; after failed allocations again, without the devices that failed too often."""
        latest = prepared

        def attempt(_: int) -> None:
            nonlocal latest
            latest = self._recovery.replanned() or latest
            self._bind(latest, progress)

        self._recovery.retrying(attempt)

    def _bind(self, prepared: PreparedPlan, progress: Progress | None) -> None:
        """Compile a plan, and prepare it for replay if it is eligible."""
        self._recovery.plan = prepared.plan
        # A plan that takes this one's place after failures has other makespans.
        is_own = self._makespan_key is not None and prepared is self._first
        makespans = PlanMakespans(self._makespan_key) if is_own and self._makespan_key is not None else None
        self._durations = DurationRecorder(prepared, makespans=makespans) if self._measures else None
        self._timed_calls = None if makespans is None else self._durations
        self._bound = PlanBinding(prepared, self._devices, self._safeguards, trace=self._trace, progress=progress)
        self._bound.allocate()

    @property
    def plan(self) -> Plan:
        """The plan of the runs; after failures, one without the devices that were excluded."""
        return self._recovery.plan

    @property
    def replayed(self) -> bool:
        """Whether runs are replayed by compiled code; `why_not_replayed` says why not."""
        return self._bound.instances is not None

    @property
    def why_not_replayed(self) -> str | None:
        """Reason why runs are dispatched instead of replayed; None if they are replayed."""
        return self._bound.why_not_replayed

    @property
    def lacks_memory(self) -> bool:
        """Whether runs are dispatched as memory allocated beforehand, with gaps between arrays, would not fit."""
        return self._bound.lacks_memory

    @property
    def why_not_on_threads(self) -> str | None:
        """Reason why the lanes use their devices' queues; None if lane threads execute the work, each on a core."""
        return self._bound.why_not_on_threads

    @property
    def constant_bytes(self) -> dict[str, int]:
        """Bytes of constants in device memory, by memory space, in the implementations' own format."""
        return uploaded_bytes(self._bound.executables.values())

    def buffer(self, name: str) -> InputValue:
        """Return the buffer in which kernels read an input, to be written before a run instead of passing a value.

        Parameters
        ----------
        name : str
            An input used in place: declared with ``usm="shared"``, ``usm="host"`` or ``donated=True``, or with a value
            in memory of these kinds.

        Returns
        -------
        numpy.ndarray or ResidentArray
            The input's value in all later runs that are passed no other; in the device's own memory, an object with
            ``read()`` and ``write(value)``. Do not use it while a run is in flight.

        Raises
        ------
        UnknownArrayError, ArgumentError
            If the array does not exist, or the plan does not read it in place.
        """
        with self._lock:
            self._check_open()
            return self.zero_copy_inputs.view(self._bound.prepared, name)

    def run(self, inputs: Mapping[str, Any] | None = None) -> Run:
        """Start a run with new data; return at once.

        Parameters
        ----------
        inputs : Mapping[str, array-like], optional
            As for `execute`.

        Returns
        -------
        Run
            The run, in flight.

        Raises
        ------
        UnknownArrayError, ArgumentError
            If inputs are missing or unknown, or have another shape or dtype.
        ExecutionError
            If the runner is closed.

        Examples
        --------
        >>> import numpy as np
        >>> import syclsched
        >>> from syclsched.kernels import get
        >>> graph = syclsched.TaskGraph()
        >>> x, y = graph.array("x", (3,)), graph.array("y", (3,))
        >>> task = graph.kernel(get("copy"), y=y, x=x)
        >>> with syclsched.bind(graph) as runner:
        ...     run = runner.run({"x": np.arange(3.0)})
        ...     print(run.result(y))
        [0. 1. 2.]
        """
        with self._lock:
            return self._begin(self._checked_inputs(inputs))

    def _checked_inputs(self, inputs: Mapping[str, Any] | None) -> dict[str, InputValue]:
        """Wait for the previous run, and return checked inputs for the next."""
        check_not_forked(f"plan {self.plan.name!r}")
        self._check_open()
        values = self.zero_copy_inputs.values(self._bound.prepared, inputs)
        if self._last is not None:
            self._last.join()
        self._check_not_hung()
        self._stream = None  # it is closed and has no instance in flight
        self._replan_if_outdated()
        return values

    def _begin(self, values: dict[str, InputValue]) -> Run:
        instances = self._bound.instances
        if instances is None:
            self._last = self._measured(self.start_dispatched(values))
        else:
            if self._last is not None:
                self._last.close_before_next()
            replay = instances.generations[0].replay(values, record=self._trace, time_each_call=self._exact)
            self._last = self._measured(self.start_replay(replay, values))
        self._last.record_in(self._recorder)
        return self._last

    def _run_in_one_call(
        self, values: dict[str, InputValue], names: tuple[str, ...]
    ) -> dict[str, NumpyArray] | Run | None:
        """Run by one C call: return the results, a run still in progress or failed, or None if not eligible."""
        if self._bound.instances is None or not self._bound.one_call_eligible:
            return None
        if self._last is not None:
            self._last.close_before_next()
            self._last = None
        generation = self._bound.instances.generations[0]
        return self._run_by_call(lambda given: generation.run_blocking(given, names), values, generation)

    def _run_by_call(
        self, run_call: Callable[[Any], dict[str, NumpyArray] | None], given: Any, generation: PlanInstance
    ) -> dict[str, NumpyArray] | Run | None:
        """Make a one-call run on the first instance; see `_run_in_one_call` for the return value."""
        begun_s = 0.0 if self._timed_calls is None else time.perf_counter()
        observer, results = run_observer.active, None
        call = None if observer is None else observer.call_began(self.plan)
        try:
            results = run_call(given)
        except BaseException:  # Ctrl-C
            unfinished = generation.take_over()
            if unfinished is not None:
                self._last = self.start_replay(unfinished, dict(generation.given))
                self._last.close()
            raise
        finally:
            if call is not None:
                call.end(completed=results is not None)
        if results is not None:
            if self._timed_calls is not None:
                self._note_call(begun_s)
            return results
        unfinished = generation.take_over()
        if unfinished is None:
            return None
        self._last = self._measured(self.start_replay(unfinished, dict(generation.given)))
        return self._last

    def build_chains(self) -> None:
        """Build the chains of small kernels now; otherwise the first run does it, with the compiler in memory."""
        with self._lock:
            if self._bound.instances is not None:
                self._bound.instances.generations[0].build_chains()

    @property
    def handed_over_ns(self) -> tuple[int, int] | None:
        """The caller's `time.thread_time_ns` when it had handed over the last call; None if it was no one-call run.

        The second number has the processor time of the thread that submitted the rest added.
        """
        return (
            None
            if self._bound.instances is None or self._last is not None
            else self._bound.instances.generations[0].native_runs.handed_ns
        )

    def traces(self) -> tuple[Trace, ...]:
        """Return traces of the last completed runs, the oldest first.

        Returns
        -------
        tuple of Trace
            Of at most 16 runs, or of the number given by ``trace`` in `bind`; older traces are dropped.
        """
        return tuple(recording.trace() for recording in self._recorder.recordings)

    @property
    def outdated(self) -> bool:
        """Whether the plan uses devices that have been excluded, and a plan without them may exist."""
        return self._recovery.outdated

    def _replan_if_outdated(self) -> None:
        """Replan for later runs if devices that the plan uses have been excluded."""
        prepared = self._recovery.replanned()
        if prepared is None:
            return
        if self._last is not None:
            self._last.close_before_next()
        self._bound.release()
        self._bound.instances = None
        self._bind_or_recover(prepared)

    def renew(self) -> tuple[PreparedPlan, InstancePool | None]:
        """Replan if need be, for a stream with no instance in flight; return the plan and its instance pool."""
        with self._lock:
            self._replan_if_outdated()
            return self._bound.prepared, self._bound.instances

    def stream(
        self,
        inputs: Iterable[Mapping[str, Any] | None] | AsyncIterable[Mapping[str, Any] | None],
        *,
        in_flight: int | None = None,
        results: Iterable[str] | None = None,
        return_exceptions: bool = False,
    ) -> Stream:
        """Run with one input after another, with several instances in flight.

        Parameters
        ----------
        inputs : iterable or async iterable of mappings
            As for `run`, one for each run; the next one is requested when an instance is idle. Its arrays must not be
            changed until its results have been returned.
        in_flight : int, optional
            Number of instances, each with memory of its own; by default as many as keep the lanes busy and fit in
            memory.
        results : iterable of str, optional
            Names of arrays; by default all arrays that tasks write and the plan keeps.
        return_exceptions : bool, optional
            Return errors in place of results, instead of raising them.

        Returns
        -------
        Stream
            Iterate over it with ``for`` or ``async for``. It yields results in order, each a dict of arrays that the
            caller owns.

        Raises
        ------
        MemoryLimitError
            If this number of instances does not fit in memory; the error names the sizes and the number that fits.
        ArgumentError
            If ``in_flight`` is less than 1.
        ExecutionError
            If the runner is closed or has another open stream.

        Examples
        --------
        >>> import numpy as np
        >>> import syclsched
        >>> from syclsched.kernels import get
        >>> graph = syclsched.TaskGraph()
        >>> x, y = graph.array("x", (3,)), graph.array("y", (3,))
        >>> task = graph.kernel(get("copy"), y=y, x=x)
        >>> with syclsched.bind(graph) as runner:
        ...     for results in runner.stream({"x": np.full(3, value)} for value in (1.0, 2.0)):
        ...         print(results["y"])
        [1. 1. 1.]
        [2. 2. 2.]
        """
        from syclsched.execution.runner.stream_opening import open_stream

        with self._lock:
            self._check_open()
            if self._last is not None:
                self._last.join()
            self._check_not_hung()
            if self._last is not None:
                self._last.close_before_next()
            names = self._bound.prepared.results if results is None else tuple(results)

            def attempt(failed: int) -> Stream:
                self._replan_if_outdated()
                instances, count = self._bound.instances, in_flight
                if instances is not None and count is None and failed > 1:
                    count = len(instances.generations)  # there is no memory for more
                return open_stream(self, self._bound.prepared, instances, inputs, names, count, return_exceptions)

            stream = self._recovery.retrying(attempt)
            self._stream = weakref.ref(stream)
            return stream

    def start_dispatched(self, values: dict[str, InputValue]) -> Run:
        """Start a run by the dispatcher, with checked inputs."""
        return start(
            self._bound.prepared,
            self._devices,
            values,
            trace=self._trace,
            safeguards=self._safeguards,
            recover=self._recovery.enabled,
            health=self._recovery.health,
            executables=self._bound.executables,
            recoveries=self._recovery.take_unreported(),
        )

    def _measured(self, run: Run) -> Run:
        """Have a run's task times recorded in the history, if wanted."""
        if self._durations is not None:
            run.record_in(self._durations)
        return run

    def start_replay(self, replay: Replay, values: dict[str, InputValue]) -> Run:
        """Start a replay, with checked inputs."""
        try:
            return start_run(
                replay,
                self._bound.prepared,
                self._devices,
                values,
                keep=self,
                safeguards=self._safeguards,
                recover=self._recovery.enabled,
                health=self._recovery.health,
                recoveries=self._recovery.take_unreported(),
            )
        except BaseException:  # Ctrl-C: no caller has the run, so nothing else would cancel it
            replay.cancel()
            raise

    @property
    def recorder(self) -> Recorder:
        """Recorder of the last runs."""
        return self._recorder

    @property
    def durations(self) -> DurationRecorder | None:
        """Recorder of task durations for the history; None if they are not wanted."""
        return self._durations

    def _check_open(self) -> None:
        """Raise if the runner is closed or has an open stream."""
        if self._closed:
            raise ExecutionError("the runner is closed", where=f"plan {self.plan.name!r}")
        if self._stream is not None and (stream := self._stream()) is not None and not stream.closed:
            raise StreamOpenError(
                "a stream of the runner is open",
                where=f"plan {self.plan.name!r}",
                hint="Read it to its end, or close() it; another `bind` of the plan has lanes of its own",
            )

    def _check_not_hung(self) -> None:
        """Raise if a run that was given up still uses the memory of the next run."""
        if self._bound.instances is None:
            return
        try:
            self._bound.instances.settle()
        except ExecutionError as error:
            raise error from (None if self._last is None else self._last.hang_error)

    async def run_async(self, inputs: Mapping[str, Any] | None = None) -> Run:
        """Run with new data and wait in a coroutine, without a waiting thread.

        Runs requested by several coroutines are executed one after another.

        Parameters
        ----------
        inputs : Mapping[str, array-like], optional
            As for `execute`.

        Returns
        -------
        Run
            The completed run. Its results can be read until the next run begins: before the next ``await``.

        Raises
        ------
        TaskFailedError, RunCancelledError, ExecutionError
            As `Run.wait` and `run`.
        """
        return await self._coroutines.take(lambda: self.run(inputs))

    async def call_async(
        self, inputs: Mapping[str, Any] | None = None, results: Iterable[str] | None = None
    ) -> dict[str, NumpyArray]:
        """Run with new data, wait in a coroutine, and return the results: `__call__` for coroutines.

        Several coroutines may call one runner, for instance by ``asyncio.gather``: each gets the results of its own
        inputs.

        Parameters
        ----------
        inputs, results
            As for `__call__`.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays that the caller owns.
        """
        names = self._bound.prepared.results if results is None else tuple(results)
        run = await self.run_async(inputs)
        # No other coroutine runs before the next await, so the next run has not begun.
        return run.read_results(names)

    def __call__(
        self, inputs: Mapping[str, Any] | None = None, results: Iterable[str] | None = None
    ) -> dict[str, NumpyArray]:
        """Run with new data, wait for the end, and return the results.

        Parameters
        ----------
        inputs : Mapping[str, array-like], optional
            As for `execute`.
        results : iterable of str, optional
            Names of arrays; by default all arrays that tasks write and the plan keeps.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays that the caller owns.
        """
        names = self._bound.prepared.results if results is None else tuple(results)
        with self._lock:
            return self._results_of(self._checked_inputs(inputs), names)

    def repeat(self, inputs: Sequence[InputSpec], names: tuple[str, ...]) -> Repeat | None:
        """Return a fast callable for repeated calls with the same input shapes and dtypes; None if not eligible.

        Parameters
        ----------
        inputs, names
            As for `PlanInstance.repeat`.
        """
        with self._lock:
            instances = self._bound.instances
            needed = frozenset(each.name for each in inputs if each.name is not None)
            # Buffers read in place stay where they are.
            if instances is None or self._bound.repeatable_inputs != needed | self.zero_copy_inputs.views.keys():
                return None
            generation = instances.generations[0]
            run_call = generation.repeat(inputs, names)
            if run_call is None:
                return None

        lock, health = self._lock, self._recovery.health

        def call_again(arrays: tuple[Any, ...]) -> dict[str, NumpyArray] | None:
            lock.acquire()
            try:
                is_idle = self._last is None and self._stream is None and not self._closed
                if not is_idle or self._bound.instances is not instances or (health.left_out and self.outdated):
                    return None
                found = self._run_by_call(run_call, arrays, generation)
                return found if found is None or isinstance(found, dict) else found.collect_results(names)
            finally:
                lock.release()

        return call_again

    def input_copies(self, names: Collection[str], least_s: float) -> InputCopies | None:
        """Return memory to copy inputs of the next run to devices while one computes; None if that is not worthwhile.

        It is not where copies are predicted to take less than ``least_s`` seconds, or the memory is too small.
        """
        with self._lock:
            instances = self._bound.instances
            if self._closed or instances is None:
                return None
            targets = instances.generations[0].copied.targets
            wanted = {name: each for name, each in targets.items() if name in names}
            return copies_for(self._bound.prepared.plan, wanted, self._devices, least_s, self._forget_copies)

    def _forget_copies(self) -> None:
        with self._lock:
            if self._bound.instances is not None and not self._closed:
                for each in self._bound.instances.generations:
                    each.forget_copied()

    def _results_of(self, values: dict[str, InputValue], names: tuple[str, ...]) -> dict[str, NumpyArray]:
        begun_s = time.perf_counter()
        found = self._run_in_one_call(values, names)
        if isinstance(found, dict):
            return found
        results = (self._begin(values) if found is None else found).collect_results(names)
        if self._timed_calls is not None and not self._trace:
            self._note_call(begun_s)
        return results

    def _note_call(self, begun_s: float) -> None:
        """Measure the makespan of a call that has ended and records no times; only the first few are wanted."""
        if self._timed_calls is not None and not self._timed_calls.add_call(time.perf_counter() - begun_s):
            self._timed_calls = None

    def close(self, timeout: float | None = None) -> None:
        """Wait for the last run, and release the memory; close the devices if the runner owns them.

        A stalled run is given up, see `Run.join`; its memory is released when it ends.

        Parameters
        ----------
        timeout : float, optional
            Seconds after which the last run is given up even if it is not stalled.
        """
        if is_forked():  # the parent process owns the resources
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            stream = None if self._stream is None else self._stream()
            if stream is not None:
                stream.close()
            if self._last is not None:
                self._last.join(timeout)
                self._last.close()
            self._bound.release()
            self.zero_copy_inputs.views.clear()
            if self._owns_devices:
                self._devices.close()

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        how = "closed" if self._closed else "replayed" if self.replayed else f"dispatched: {self.why_not_replayed}"
        return f"<Runner of {self.plan.name!r}: {how}>"


#: Verifies a plan and prepares it for repeated runs with new data.
bind = Runner
