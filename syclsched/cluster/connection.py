# SPDX-License-Identifier: Apache-2.0
"""Connection to a Dask cluster: functions called on its workers, and the state they are in.

Dask does what it does for every cluster: it starts workers, knows which are there, and notices those that are lost.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import syclsched
from syclsched.cluster.calls import Calls, WorkerCall
from syclsched.cluster.cluster_status import ClusterStatus, ClusterWorker, State, WorkerStatus
from syclsched.cluster.membership import Membership, WhenLost
from syclsched.cluster.transport.comm_sockets import CommSockets
from syclsched.cluster.transport.mailbox import Mailbox
from syclsched.errors import ArgumentError, ClusterError, RuntimeMissingError, SyclschedError, WorkerLostError

if TYPE_CHECKING:
    from distributed import Client
    from distributed.deploy.cluster import Cluster as DaskCluster
    from distributed.security import Security

    from syclsched.cluster.node import NodeFacts
    from syclsched.cluster.planning import ClusterPlanner
    from syclsched.cluster.runner import ClusterRun, ClusterRunner
    from syclsched.model.graph import TaskGraph
    from syclsched.model.plan import Plan
    from syclsched.model.platform import Platform

__all__ = ["Cluster", "WorkerCall", "connect"]

#: Seconds in which a scheduler and its first worker must answer.
CONNECT_S: Final = 15.0
#: Seconds in which a worker must answer what needs no work.
ANSWER_S: Final = 60.0
#: Seconds in which a worker must be reached from here; otherwise what is said to it goes through the scheduler.
REACH_S: Final = 5.0
#: Seconds without a sign of life after which a worker counts as lost.
SILENT_S: Final = 20.0

_NODE: Final = "syclsched.cluster.node"


class Cluster:
    """A Dask cluster whose workers are machines to plan for; from `connect`. A context manager.

    Functions are called on a worker by name, ``module:function``. They get the worker's
    `syclsched.cluster.node.Node` and run in a thread of their own.

    Attributes
    ----------
    client : distributed.Client
        Dask's client.
    address : str
        Destination of messages from the workers to this process; see `link`.
    mailbox : Mailbox
        Messages from this process to workers and back.
    """

    def __init__(
        self,
        client: Client,
        *,
        owned: tuple[Any, ...] = (),
        cores: Mapping[str, int] | None = None,
        local: bool = False,
        has_dashboard: bool = True,
        silent_s: float = SILENT_S,
    ) -> None:
        self.client = client
        self._members = Membership(client, silent_s, self._lose, self._break)
        self._owned = owned
        self._cores, self._local = dict(cores or {}), local
        self._has_dashboard = has_dashboard
        self._facts: dict[str, NodeFacts] = {}  # by address
        self._closed = False
        self._lock = threading.Lock()
        self._planned_by: ClusterPlanner | None = None
        self._unreachable: dict[str, str] = {}  # addresses of workers that this process cannot connect to
        self.address = f"client {uuid.uuid4().hex}"
        self._sockets = CommSockets(self.address, client.loop.asyncio_loop, client.connection_args)
        self.mailbox = Mailbox(self.address, self._sockets.connect)
        self._calls = Calls(client, self.mailbox, self._reached)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, and what `connect` started; a scheduler and workers that were there go on."""
        if self._closed:
            return
        self._closed = True
        self._members.close()
        self.mailbox.close()
        self._sockets.close()
        for each in self._owned:
            each.close()

    def __repr__(self) -> str:
        return f"<Cluster at {self.scheduler}{', closed' if self._closed else ''}>"

    @property
    def scheduler(self) -> str:
        """Address of Dask's scheduler."""
        known = self.client.scheduler
        return "" if known is None else str(known.address)

    @property
    def dashboard(self) -> str | None:
        """Address of Dask's dashboard, or None."""
        with suppress(Exception):
            if self._has_dashboard and "dashboard" in self.client.scheduler_info(n_workers=0)["services"]:
                return str(self.client.dashboard_link)
        return None

    # --- workers ----------------------------------------------------------------------------------

    @property
    def workers(self) -> tuple[ClusterWorker, ...]:
        """The workers that give signs of life, in the order of their names.

        A worker that Dask starts again under the same name of its own keeps its name here.
        """
        return self._members.workers()

    def worker(self, name: str) -> ClusterWorker:
        """Return a worker by name.

        Raises
        ------
        WorkerLostError
            If it was there before.
        ClusterError
            If there has never been such a worker.
        """
        return self._members.worker(name)

    def when_lost(self, call: WhenLost) -> Callable[[], None]:
        """Call a function, in a thread of its own, when a worker is lost; return what ends that."""
        return self._members.when_lost(call)

    # --- functions on workers ---------------------------------------------------------------------

    def call(self, worker: str, function: str, *arguments: Any, timeout_s: float = ANSWER_S, **named: Any) -> Any:
        """Call a function on a worker and return its result.

        Parameters
        ----------
        worker : str
            Name of the worker.
        function : str
            ``module:function``.
        timeout_s : float, optional
            Longest time to wait.

        Raises
        ------
        WorkerLostError
            If the worker ends, or gives no sign of life, before the function has returned.
        ClusterError
            If the function does not return in time.
        """
        return self.start(worker, function, *arguments, **named).result(timeout_s)

    def broadcast(
        self,
        function: str,
        *arguments: Any,
        workers: Iterable[str] | None = None,
        timeout_s: float = ANSWER_S,
        **named: Any,
    ) -> dict[str, Any]:
        """Call a function on several workers at once, all by default; return the results by worker.

        The first error is raised when all have ended.
        """
        names = [each.name for each in self.workers] if workers is None else list(workers)
        calls = {name: self.start(name, function, *arguments, **named) for name in names}
        end = time.monotonic() + timeout_s
        results: dict[str, Any] = {}
        first: Exception | None = None
        for name, started in calls.items():
            try:
                results[name] = started.result(max(0.0, end - time.monotonic()))
            except Exception as error:
                first = first or error
        if first is not None:
            raise first
        return results

    def start(self, worker: str, function: str, *arguments: Any, **named: Any) -> WorkerCall:
        """Begin to call a function on a worker; see `call`."""
        return self._calls.start(self._members.known_worker(worker), function, arguments, named)

    def link(self, worker: str) -> str:
        """Let a worker send messages to this process, with `address` as destination; return the worker's address.

        This process can then send to it, too. Data goes from process to process, without the scheduler.

        Raises
        ------
        WorkerLostError
            If the worker cannot be reached from here, though the scheduler can reach it.
        """
        target = self._members.known_worker(worker)
        if not self._reached(target):
            raise WorkerLostError(
                f"the worker cannot be reached from this process: {self._unreachable[target.address]}",
                worker=str(target),
            )
        return target.address

    def _reached(self, worker: ClusterWorker) -> bool:
        """Connect a worker to the mailbox, unless it is; return whether that is possible."""
        if self.mailbox.hears(worker.address):
            return True
        with self._lock:  # one connection for each worker
            if worker.address not in self._unreachable and not self.mailbox.hears(worker.address):
                try:
                    connection = self._sockets.connect(worker.address, "out", REACH_S)
                except (OSError, ClusterError) as error:
                    self._unreachable[worker.address] = str(error) or type(error).__name__
                else:
                    self.mailbox.accept(worker.address, connection)
            return worker.address not in self._unreachable

    def _lose(self, worker: ClusterWorker, cause: str) -> None:
        self._calls.lose(worker, cause)
        self.mailbox.lose(worker.address, cause)
        self._unreachable.pop(worker.address, None)

    def _break(self, error: SyclschedError) -> None:
        self._calls.close(error)

    # --- state ------------------------------------------------------------------------------------

    def describe(self, *, timeout_s: float = ANSWER_S, refresh: bool = False) -> dict[str, NodeFacts]:
        """Return what each worker says about its machine and its devices; kept after the first time."""
        workers = self.workers
        missing = [each.name for each in workers if refresh or each.address not in self._facts]
        found = self.broadcast(f"{_NODE}:describe", workers=missing, timeout_s=timeout_s)
        self._facts.update({each.address: each for each in found.values()})
        return {each.name: self._facts[each.address] for each in workers if each.address in self._facts}

    def status(self, *, timeout_s: float = ANSWER_S) -> ClusterStatus:
        """Return the state of each worker: its devices, memory, and whether it gives signs of life."""
        known, workers = self._members.known()
        silences = {each.address: self._members.silence_s(each.address) for each in workers}
        asked = [each for each in workers if not silences[each.address] and each.address not in self._facts]
        calls = {each.address: self.start(each.name, f"{_NODE}:describe") for each in asked}
        problems: dict[str, str] = {}
        end = time.monotonic() + timeout_s
        for address, started in calls.items():
            try:
                self._facts[address] = started.result(max(0.0, end - time.monotonic()))
            except ClusterError as error:
                problems[address] = error.what
        return ClusterStatus(
            self.scheduler,
            self.dashboard,
            tuple(
                self._status(each, known[each.address], silences[each.address], problems.get(each.address, ""))
                for each in workers
            ),
        )

    def _status(self, worker: ClusterWorker, info: Mapping[str, Any], silent_s: float, problem: str) -> WorkerStatus:
        used = int(info.get("metrics", {}).get("memory", 0))
        said = self._facts.get(worker.address)
        if said is None:
            unknown: State = "silent" if silent_s else "no answer"
            return WorkerStatus(worker, unknown, silent_s, used_bytes=used, problem=problem)
        found = () if said.platform is None else said.platform.compute_devices
        state: State = "silent" if silent_s else "ready" if found else "no devices"
        return WorkerStatus(
            worker,
            state,
            silent_s,
            said.host_name,
            said.process,
            said.cores,
            tuple(device.name for device in found),
            said.memory_bytes,
            used,
            said.generation,
            said.problem or problem,
        )

    # --- planning and running ---------------------------------------------------------------------

    def platform(self) -> Platform:
        """Return the platform of all machines: their devices, and the network between them, measured once.

        Raises
        ------
        EmptyPlatformError
            If no worker has a device.
        """
        return self._planner().platform()

    def plan(
        self, graph: TaskGraph, *, policy: str = "auto", calibrate: bool = True, budget_s: float | None = None
    ) -> Plan:
        """Plan a graph for all machines.

        Parameters
        ----------
        graph : TaskGraph
            The graph.
        policy : str, optional
            As for `syclsched.plan`. ``auto`` also plans for each machine alone and returns the best plan.
        calibrate : bool, optional
            Measure tasks that were never timed, on one machine of each kind.
        budget_s : float, optional
            Seconds that the search of ``auto`` may take.

        Returns
        -------
        Plan
            Its devices are ``node0/cpu`` and so on.
        """
        return self._planner().plan(graph, policy=policy, calibrate=calibrate, budget_s=budget_s)

    def bind(
        self,
        graph: TaskGraph,
        *,
        plan: Plan | None = None,
        policy: str = "auto",
        calibrate: bool = True,
        recover: bool = True,
    ) -> ClusterRunner:
        """Send each machine its part of a plan, for repeated runs with new data.

        Parameters
        ----------
        graph : TaskGraph
            The graph.
        plan : Plan, optional
            A plan for these machines; by default the graph is planned.
        policy, calibrate
            See `plan`.
        recover : bool, optional
            Whether a run that loses a worker is planned again and repeated on the machines left.

        Returns
        -------
        ClusterRunner
            ``runner(inputs)`` returns the results. A context manager that releases the machines' memory.

        Examples
        --------
        ::

            with syclsched.connect(workers=2) as cluster, cluster.bind(graph) as runner:
                print(runner({"x": x})["y"])
        """
        from syclsched.cluster.runner import ClusterRunner

        if plan is None:
            plan = self.plan(graph, policy=policy, calibrate=calibrate)
        return ClusterRunner(self, graph, plan, policy=policy, recover=recover)

    def run(
        self,
        graph: TaskGraph,
        inputs: Mapping[str, Any] | None = None,
        *,
        plan: Plan | None = None,
        policy: str = "auto",
        calibrate: bool = True,
        recover: bool = True,
    ) -> ClusterRun:
        """Plan a graph unless a plan is given, start it on all machines, and return without waiting for it.

        Parameters
        ----------
        graph : TaskGraph
            The graph.
        inputs : Mapping[str, array-like], optional
            Values of input arrays; they take precedence over those given with `TaskGraph.array`.
        plan, policy, calibrate, recover
            See `bind`.

        Returns
        -------
        ClusterRun
            Handle of the run; a context manager that releases the machines' memory.
        """
        runner = self.bind(graph, plan=plan, policy=policy, calibrate=calibrate, recover=recover)
        try:
            return runner.run(inputs, owned=True)
        except BaseException:
            runner.close()
            raise

    def _planner(self) -> ClusterPlanner:
        from syclsched.cluster.planning import ClusterPlanner

        with self._lock:
            if self._planned_by is None:
                self._planned_by = ClusterPlanner(self)
            return self._planned_by

    # --- beginning, called by `connect` -----------------------------------------------------------

    def begin(self, timeout_s: float) -> None:
        """Wait for a worker, check all workers' versions, and make them machines to plan for."""
        from syclsched.cluster.node import Node

        end = time.monotonic() + timeout_s
        while not self._members.refreshed():
            if time.monotonic() > end:
                raise ClusterError(
                    f"no worker has come in {timeout_s:.3g} s",
                    where=f"the scheduler at {self.scheduler}",
                    hint=f"Start workers: dask worker {self.scheduler}",
                )
            time.sleep(0.05)
        self._check_versions()
        self._members.asked(lambda: self.client.register_plugin(Node(self._cores, local=self._local)), ANSWER_S)
        self._members.watch()

    def _check_versions(self) -> None:
        """Refuse workers on which functions and plans of this process cannot run."""
        answers = self._members.asked(lambda: self.client.get_versions(packages=["syclsched"]), ANSWER_S)
        here = {"python": sys.version, "syclsched": syclsched.__version__}
        for worker in self.workers:
            answer = answers["workers"].get(worker.address)
            if answer is None:
                raise WorkerLostError("the worker does not answer", worker=str(worker))
            there = answer["packages"]
            if there.get("syclsched") is None:
                raise ClusterError(
                    "the worker has no package syclsched",
                    worker=str(worker),
                    hint=f"Install it there: pip install 'syclsched[cluster]=={here['syclsched']}'",
                )
            for package, meaning in (("syclsched", "syclsched"), ("python", "Python")):
                mine, its = _major_minor(here[package]), _major_minor(there[package])
                if mine != its:
                    raise ClusterError(
                        f"the worker has {meaning} {its}, and this process has {mine}",
                        worker=str(worker),
                        hint="Use the same major and minor version everywhere",
                    )


def connect(
    cluster: str | Client | DaskCluster | None = None,
    *,
    workers: int | None = None,
    security: Security | bool | None = None,
    timeout_s: float = CONNECT_S,
    silent_s: float = SILENT_S,
    dashboard: bool = False,
) -> Cluster:
    """Connect to the machines of a Dask cluster, or start a local one.

    Dask runs pickled code for whoever may connect to its scheduler or workers: close their ports to others, or use
    ``security``.

    Parameters
    ----------
    cluster : str, distributed.Client or Dask cluster, optional
        Address of a scheduler, such as ``tcp://host:8786``; a client; or a cluster that Dask has started.
    workers : int, optional
        Instead: number of workers to start on this machine. Each is a process with one thread, bound to a core of its
        own if there are enough.
    security : distributed.Security or bool, optional
        Certificates for encrypted connections (TLS). True makes temporary ones for a local cluster.
    timeout_s : float, optional
        Longest time to wait for the scheduler, and then for a worker.
    silent_s : float, optional
        Seconds without a sign of life after which a worker counts as lost, because it froze or was cut off.
    dashboard : bool, optional
        Whether a local cluster has Dask's dashboard, on a free port.

    Returns
    -------
    Cluster
        Close it, or use it in a ``with`` block.

    Raises
    ------
    RuntimeMissingError
        If Dask is not installed.
    ClusterError
        If there is no scheduler or no worker, or if a worker's versions do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import syclsched
    >>> from syclsched.kernels import get
    >>> graph = syclsched.TaskGraph()
    >>> x = graph.array("x", data=np.arange(4.0))
    >>> task = graph.kernel(get("scale"), x=x, alpha=2.0)
    >>> with syclsched.connect(workers=1) as cluster, cluster.run(graph) as run:
    ...     print(run.result(x))
    [0. 2. 4. 6.]
    """
    distributed = _distributed()
    if (cluster is None) == (workers is None):
        raise ArgumentError(
            "give either a cluster or a number of workers",
            where="connect",
            hint="connect('tcp://host:8786') or connect(workers=2)",
        )
    owned: list[Any] = []
    cores: dict[str, int] = {}
    try:
        if workers is not None:
            if workers < 1:
                raise ArgumentError(f"{workers} workers cannot be started", where="connect", hint="Start at least one")
            cores = _cores_for(workers)
            cluster = _local_cluster(distributed, workers, security, dashboard)
            owned.append(cluster)
        if isinstance(cluster, distributed.Client):
            client = cluster
            if client.asynchronous:
                raise ArgumentError(
                    "the client is asynchronous", where="connect", hint="Make it with asynchronous=False"
                )
        else:
            kept = security if workers is None else None
            if isinstance(cluster, str):
                _reach(cluster, timeout_s, kept)
            client = distributed.Client(
                cluster, timeout=timeout_s, security=kept, set_as_default=False, name="syclsched"
            )
            owned.insert(0, client)
        connection = Cluster(
            client,
            owned=tuple(owned),
            cores=cores,
            local=workers is not None,
            has_dashboard=dashboard or workers is None,
            silent_s=silent_s,
        )
        connection.begin(timeout_s)
    except BaseException as error:
        for each in owned:
            with suppress(Exception):
                each.close()
        if isinstance(error, OSError) and not isinstance(error, ClusterError):
            raise ClusterError(
                f"no Dask scheduler answers in {timeout_s:.3g} s: {error}",
                where=str(cluster),
                hint="Check the address, and that `dask scheduler` runs there",
            ) from error
        if isinstance(error, ValueError):
            raise ClusterError(
                f"not the address of a scheduler: {error}", where=str(cluster), hint="For instance tcp://host:8786"
            ) from error
        raise
    return connection


def _distributed() -> Any:
    """Import and return the package ``distributed``; raise `RuntimeMissingError` if that fails."""
    try:
        import distributed
    except ImportError as error:
        raise RuntimeMissingError(
            f"the package distributed cannot be imported: {error}", hint="pip install 'syclsched[cluster]'"
        ) from error
    return distributed


def _local_cluster(distributed: Any, workers: int, security: Any, dashboard: bool) -> Any:
    """Start workers on this machine."""
    try:
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,  # plans have limits of their own
            dashboard_address=":0",
            scheduler_kwargs={"dashboard": dashboard},
            security=security,
            silence_logs=50,
        )
    except RuntimeError as error:
        raise ClusterError(
            f"the workers cannot be started: {error}",
            where="this machine",
            hint="A script that starts workers does so under `if __name__ == '__main__':`, as each worker imports it",
        ) from error


def _reach(address: str, timeout_s: float, security: Any) -> None:
    """Raise `OSError` unless a scheduler answers; a client that fails to begin would not end for seconds."""
    from distributed.comm import connect
    from distributed.security import Security

    async def reach() -> None:
        comm = await connect(address, timeout=timeout_s, **(security or Security()).get_connection_args("client"))
        await comm.close()

    outcome: Future[None] = Future()

    def call() -> None:
        try:
            outcome.set_result(asyncio.run(reach()))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=call, daemon=True).start()  # a notebook's thread has an event loop already
    outcome.result()


def _cores_for(workers: int) -> dict[str, int]:
    """Return the core that each local worker is bound to, by Dask's name; none if there are too few cores."""
    cores = sorted(os.sched_getaffinity(0))
    return {str(n): cores[n] for n in range(workers)} if workers <= len(cores) else {}


def _major_minor(version: str) -> str:
    return ".".join(version.split()[0].split(".")[:2])
