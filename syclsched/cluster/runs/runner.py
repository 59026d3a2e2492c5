# SPDX-License-Identifier: Apache-2.0
"""Plans bound to the machines of a cluster, for repeated runs with new data.

Each machine is sent its part of the plan once. A run costs one call to each machine; the parts then exchange data among
themselves, without this process. Results stay where they were made until they are asked for.

If a worker is lost, the rest of the run is planned for the machines that are left, and continues there
(`syclsched.cluster.runs.attempts`); the next run has a plan of the whole graph for them.
"""

from __future__ import annotations

import getpass
import os
import socket
import threading
import time
import uuid
import weakref
from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from syclsched.cluster.calls import WorkerCall
from syclsched.cluster.measurements.host_clocks import ClockOffset, clock_offsets
from syclsched.cluster.part_runner import PartPolicy
from syclsched.cluster.part_runner import receive as receive_message
from syclsched.cluster.part_runner import send as send_message
from syclsched.cluster.parts import check_machines, divide
from syclsched.cluster.planning import ClusterPlanner, Expected, followed
from syclsched.cluster.recovery.attempt import Binding, RemainingRun, RunAttempt
from syclsched.cluster.recovery.remaining import RunLineage
from syclsched.cluster.runs.attempts import END_S, MOST_LOSSES
from syclsched.cluster.runs.cluster_run import ClusterRun
from syclsched.cluster.runs.generations import BindingsInTurn
from syclsched.cluster.runs.plan_watch import PlanWatch
from syclsched.cluster.workers import ConnectedWorkers
from syclsched.errors import ArgumentError, ExecutionError, SyclschedError, WorkerLostError
from syclsched.execution.core.safeguards import DEFAULT_SAFEGUARDS, Safeguards
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.execution.runner.recorder import Recorder
from syclsched.execution.runner.stream import Stream, StreamConfig
from syclsched.execution.runner.stream_launchers import check_stream_memory
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Platform
from syclsched.model.platform_parts.machines import qualified
from syclsched.progress import Progress
from syclsched.rewrites import planned_graph
from syclsched.scheduling.registry import AUTO

if TYPE_CHECKING:
    from distributed import Client

#: Longest wait of a part for one message, in seconds.
MESSAGE_TIMEOUT_S: Final = 600.0
#: Functions called on each machine.
_ON_MACHINE: Final = "syclsched.cluster.part_runner"


class ClusterRunner:
    """A plan bound to the machines of a cluster; made by `Cluster.bind`. Use it in a ``with`` statement, or `close` it.

    One run is in flight at a time, but in a `stream`. Results can be read until the next run begins.

    Parameters
    ----------
    workers : ConnectedWorkers
        The machines.
    planner : ClusterPlanner
        Plans again for the machines left.
    graph : TaskGraph
        The graph as the user made it.
    plan : Plan
        Its plan for these machines.
    policy : str, optional
        Policy for planning again.
    recover : bool, optional
        Whether a run that loses a worker continues on the machines left.
    message_timeout_s : float, optional
        Longest wait for one message between two machines.
    safeguards : Safeguards, optional
        Limits of the parts' runs.
    dynamic : str, optional
        Dynamic policy that decides each part while it runs.
    grows : bool, optional
        Whether a run uses workers that have joined since the last one: the graph is then planned again.
    progress : Progress, optional
        Called with the parts that are bound.
    """

    def __init__(
        self,
        workers: ConnectedWorkers,
        planner: ClusterPlanner,
        graph: TaskGraph,
        plan: Plan,
        *,
        policy: str = AUTO,
        recover: bool = True,
        message_timeout_s: float = MESSAGE_TIMEOUT_S,
        safeguards: Safeguards = DEFAULT_SAFEGUARDS,
        dynamic: str | None = None,
        grows: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._workers, self._planner = workers, planner
        self._graph, self.recovers = graph, recover
        self._message_timeout_s, self._safeguards = message_timeout_s, safeguards
        self._lock = threading.Lock()
        self._last: ClusterRun | None = None
        self._stream: weakref.ref[Stream] | None = None
        self._others: list[ClusterRunner] = []  # further bindings, of streams
        self._rests: list[Binding] = []  # of the rests of the last run
        self._outdated = False  # whether the graph must be planned again for the workers that are there
        self._grows, self._unusable = grows, frozenset[str]()  # workers that joined, and could not be planned for
        self._closed = False
        self._policy, self._dynamic = policy, dynamic
        begun_s = time.perf_counter()
        self.binding = self._bind(plan, progress=progress)
        #: Seconds that binding took last; for the rest of a run with planning.
        self.move_s = time.perf_counter() - begun_s

    @property
    def plan(self) -> Plan:
        """The plan of the runs; after the loss of a worker, one for the machines left."""
        return self.binding.plan

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        owned: bool = False,
        progress: Progress | bool | None = False,
    ) -> ClusterRun:
        """Start a run with new data; return at once.

        Parameters
        ----------
        inputs : Mapping[str, array-like], optional
            Values of input arrays; they take precedence over those given with `TaskGraph.array`. Futures and arrays of
            Dask are brought to the machines first.
        owned : bool, optional
            Whether closing the run also closes this runner.
        progress : callable or bool, optional
            Called, some times a second, with the number of done tasks of all machines, the time left and the bytes
            sent, in a thread of its own; True shows a bar, None one in notebooks. See `syclsched.progress.Progress`.

        Returns
        -------
        ClusterRun
            The run, in flight.

        Raises
        ------
        UnknownArrayError, ArgumentError
            If inputs are missing or unknown, or have another shape or dtype.
        ExecutionError
            If the runner is closed.
        """
        with self._lock:
            self._check_open()
            if self._grows:
                self._use_joined()
            return self._begin(inputs, owned=owned, progress=progress)

    def __call__(self, inputs: Mapping[str, Any] | None = None) -> dict[str, NumpyArray]:
        """Run with new data, wait, and return all results."""
        run = self.run(inputs)
        try:
            return run.read_results(run.names)
        except BaseException:  # Ctrl-C
            run.cancel()
            raise

    def stream(
        self,
        inputs: Iterable[Mapping[str, Any] | None] | AsyncIterable[Mapping[str, Any] | None],
        *,
        in_flight: int = 2,
        results: Iterable[str] | None = None,
        return_exceptions: bool = False,
    ) -> Stream:
        """Run with one input after another, with several runs in flight.

        Parameters
        ----------
        inputs : iterable or async iterable of mappings
            As for `run`, one for each run; the next one is requested when a binding is idle.
        in_flight : int, optional
            Number of runs in flight. Each has a binding of the plan, with memory of its own on all machines.
        results : iterable of str, optional
            Names of arrays; by default all arrays that tasks write and the plan keeps.
        return_exceptions : bool, optional
            Return errors in place of results, instead of raising them.

        Returns
        -------
        Stream
            Iterate over it with ``for`` or ``async for``. It yields results in order, each a dict of arrays that the
            caller owns. It has no trace.

        Raises
        ------
        MemoryLimitError
            If this number of bindings does not fit in the machines' memory; the error names the sizes and the
            number that fits.
        ArgumentError
            If ``in_flight`` is less than 1, or a dynamic policy decides the runs.
        ExecutionError
            If the runner is closed or has another open stream.
        """
        if self._dynamic is not None:  # each of its runs may take all memory
            raise ArgumentError("under a dynamic policy one run is in flight at a time", where="stream")
        with self._lock:
            self._check_open()
            if in_flight < 1:
                raise ArgumentError(f"in_flight is {in_flight}", where="stream", hint="Give at least 1")
            check_stream_memory(self.plan.platform, self.plan.needed_bytes, in_flight, self.plan.name)
            while len(self._others) < in_flight - 1:
                self._others.append(
                    ClusterRunner(
                        self._workers,
                        self._planner,
                        self._graph,
                        self.plan,
                        policy=self._policy,
                        recover=self.recovers,
                        message_timeout_s=self._message_timeout_s,
                        safeguards=self._safeguards,
                    )
                )
            starts = [self._begin, *(other.run for other in self._others[: in_flight - 1])]
            config = StreamConfig(
                BindingsInTurn(starts), lambda given: dict(given or {}), in_flight, lambda: None, None
            )
            names = self.names(self.binding) if results is None else tuple(results)
            stream = Stream(
                config,
                inputs,
                names,
                Recorder(0),
                renew=lambda: config,
                outdated=lambda: False,
                return_exceptions=return_exceptions,
            )
            self._stream = weakref.ref(stream)
            return stream

    def close(self) -> None:
        """Wait for the runs in flight and release the machines' memory."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            stream = None if self._stream is None else self._stream()
            if stream is not None:
                stream.close()
            for other in self._others:
                other.close()
            if self._last is not None:
                self._last.cancel()
                self._last.join()
            self._release_all()

    def __enter__(self) -> ClusterRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside -----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        """Raise if the runner is closed or has an open stream."""
        if self._closed:
            raise ExecutionError("the runner is closed", where=f"plan {self.plan.name!r}")
        if self._stream is not None and (stream := self._stream()) is not None and not stream.closed:
            raise ExecutionError(
                "a stream of the runner is open",
                where=f"plan {self.plan.name!r}",
                hint="Read it to its end, or close() it; another `bind` of the plan has bindings of its own",
            )

    def _begin(
        self,
        inputs: Mapping[str, Any] | None,
        *,
        owned: bool = False,
        progress: Progress | bool | None = False,
    ) -> ClusterRun:
        """Start a run when the last one has ended."""
        if self._last is not None:
            self._last.join()
        if any(self._is_new(machine, self.binding.addresses) for machine in self.binding.divided.parts):
            self._outdated = True
        self._renew()
        self._last = ClusterRun(self, inputs, owned=owned, progress=progress)
        return self._last

    def _renew(self) -> None:
        """Drop the data of the last run, and bind a plan for the present machines if some were lost."""
        for binding in self._rests:
            self._release(binding)
        self._rests = []
        for tries_left in range(MOST_LOSSES, -1, -1) if self._outdated else ():
            try:
                self.rebind()
                return
            except WorkerLostError:
                if not tries_left:
                    raise

    def _use_joined(self) -> None:
        """Plan again if workers have joined, and bind that plan; keep the binding if they cannot be planned for."""
        joined = self.names_there() - self.binding.addresses.keys() - self._unusable
        if not joined or self._outdated:
            return
        if self._last is not None:
            self._last.join()
        before = self.binding.plan
        try:
            plan = self._planner.plan(self._graph, policy=self._policy, calibrate=True)
            self._outdated = True
            self._release_all()
            self.binding = self._bind(plan)
        except SyclschedError:
            self._unusable |= joined
            if self._outdated:  # the other workers still have their parts
                self.binding = self._bind(before)
        self._outdated = False

    def _bind(self, plan: Plan, rest: RemainingRun | None = None, progress: Progress | None = None) -> Binding:
        """Send each machine its part of the graph, or of the rest of a run, and bind it there."""
        addresses = {worker.name: worker.address for worker in self._workers.workers}
        check_machines(plan, addresses)
        key = uuid.uuid4().hex
        graph, held = (planned_graph(plan, self._graph), {}) if rest is None else (rest.graph, rest.held)
        divided = divide(plan, graph, partial(send_message, part=key), partial(receive_message, part=key), held)
        binding = Binding(key, plan, graph, divided, addresses)
        dynamic = None if self._dynamic is None else PartPolicy(self._dynamic, self._planner.times)
        try:
            common = addresses, self._message_timeout_s, self._safeguards, dynamic, _client(), self._workers.address
            calls = [
                self._workers.start(name, f"{_ON_MACHINE}:bind_part", key, part, *common)
                for name, part in divided.parts.items()
            ]
            for number, call in enumerate(calls):
                if progress is not None:
                    progress(number, len(calls), f"binding the part of {call.worker.name}")
                try:
                    call.result()
                except Exception as error:
                    raise call.named(error) from error.__cause__
            if progress is not None:
                progress(len(calls), len(calls), "")
        except BaseException:
            self._release(binding)
            raise
        return binding

    def call_part(self, binding: Binding, machine: str, function: str, *arguments: Any) -> WorkerCall:
        """Begin to call a function of `syclsched.cluster.part_runner` for a part that is bound on a machine."""
        self._check_bound(binding, machine)
        return self._workers.start(machine, f"{_ON_MACHINE}:{function}", binding.key, *arguments)

    def _check_bound(self, binding: Binding, machine: str) -> None:
        """Raise an error if a machine has another worker than that on which its part was bound."""
        if self._is_new(machine, binding.addresses):
            raise WorkerLostError("the worker was started again", worker=binding.addresses[machine])

    def _is_new(self, machine: str, addresses: Mapping[str, str]) -> bool:
        """Return whether a machine has another worker than that at its address of before."""
        there = {worker.name: worker.address for worker in self._workers.members.seen()}
        return machine in there and there[machine] != addresses.get(machine)

    def _release(self, binding: Binding) -> None:
        for name in binding.divided.parts:
            try:
                self.call_part(binding, name, "release_part").result(END_S)
            except SyclschedError:
                continue  # a lost worker has nothing to release

    def clocks(self, machines: Iterable[str]) -> dict[str, ClockOffset]:
        """Compare the clocks of machines with that of this process."""
        return clock_offsets(self._workers, machines)

    def _release_all(self) -> None:
        for binding in (*self._rests, self.binding):
            self._release(binding)
        self._rests = []

    def rebind(self) -> Binding:
        """Plan the whole graph for the machines that are there, and bind it there."""
        self._outdated = True
        self._release_all()
        self.binding = self._bind(self._planner.plan(self._graph, policy=self._policy, calibrate=True))
        self._outdated = False
        return self.binding

    def left(self, addresses: Mapping[str, str], lost: Collection[str]) -> frozenset[str]:
        """Return the machines that are left of those at some addresses, without those that are known to be lost."""
        there = {worker.name: worker.address for worker in self._workers.workers}
        return frozenset(n for n, address in addresses.items() if there.get(n) == address and address not in lost)

    def bind_rest(
        self,
        lineage: RunLineage,
        attempts: list[RunAttempt],
        machines: Collection[str],
        slowness: Mapping[str, float],
    ) -> tuple[RemainingRun, Binding | None]:
        """Plan the rest of a run for some machines, and bind it there; no binding if nothing is left to do."""
        if self._dynamic is not None:
            raise ExecutionError(
                "parts under a dynamic policy do not say what they have", where=f"plan {self.plan.name!r}"
            )
        begun_s = time.perf_counter()
        self._outdated = True
        platform = self._planner.platform(left=machines or None, like=attempts[0].binding.plan.platform)
        rest = lineage.rest(attempts, platform)
        if not any(task.operation is not None for task in rest.graph.tasks):
            return rest, None
        placed = {
            name: qualified(each.holders[0].machine, HOST)
            for name, found in rest.starts.items()
            for each in found
            if each.holders
        }
        expected = Expected(lineage.times, placed, slowness)
        binding = self._bind(self._planner.plan_rest(rest.graph, platform, expected), rest)
        self._rests.append(binding)
        self.move_s = time.perf_counter() - begun_s
        return rest, binding

    def watch(self) -> PlanWatch | None:
        """Return a watch for a run whose rest moves when machines deviate from the plan; None for another."""
        return None if followed(self._policy) is None or self._dynamic is not None else PlanWatch(self)

    def platform(self) -> Platform:
        """Return the platform of the machines that are there; a new one is measured first, which takes a while."""
        return self._planner.platform()

    def names_there(self) -> frozenset[str]:
        """Return the names of the workers that are there."""
        return frozenset(worker.name for worker in self._workers.members.seen())

    def predicted_s(
        self,
        lineage: RunLineage,
        done: Collection[str],
        machines: Mapping[str, str],
        platform: Platform,
        slowness: Mapping[str, float],
    ) -> tuple[float, float]:
        """Return the time that the rest takes if each task stays on its machine, and on all machines of a platform."""
        undone = lineage.estimate_remaining(done, machines, platform)
        placed = {name: qualified(machine, HOST) for name, machine in undone.placed.items()}
        expected = Expected(lineage.times, placed, slowness)
        stay_s, move_s = (self._planner.makespan_s(undone.graph, platform, expected, stay) for stay in (machines, None))
        return stay_s, move_s

    def is_last(self, run: ClusterRun) -> bool:
        """Return whether no later run has begun."""
        return self._last is run and not self._closed

    @property
    def client(self) -> Client:
        """Dask's client."""
        return self._workers.client

    def address(self, binding: Binding, machine: str) -> str:
        """Return Dask's address of the worker on which a part is bound."""
        self._check_bound(binding, machine)
        return self._workers.worker(machine).address

    def names(self, binding: Binding) -> tuple[str, ...]:
        """Return the names of the results: the arrays of the user's graph that tasks write and a plan keeps."""
        results, joined = binding.divided.results, binding.graph.joined
        written = [name for name, pieces in results.items() if any(piece.machine for piece in pieces)]
        whole = [name for name, found in joined.items() if set(found[0].parts) & set(written) and name not in results]
        return tuple(name for name in (*written, *whole) if name in self._graph.arrays or name in self._graph.joined)


def _client() -> str:
    """Return the client that binds plans: user, host and process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user has no name
        user = f"user {os.getuid()}"
    return f"{user}@{socket.gethostname()}, process {os.getpid()}"
