# SPDX-License-Identifier: Apache-2.0
"""Clusters as users see them: `connect`, and the machines that it returns, on which graphs are planned and run."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from syclsched.cluster.measurements.node_profiles import NodeProfile, profile_machines
from syclsched.cluster.monitor.cluster_status import ClusterStatus, read_status
from syclsched.cluster.planning import ClusterPlanner
from syclsched.cluster.runs.cluster_run import ClusterRun
from syclsched.cluster.runs.runner import ClusterRunner
from syclsched.cluster.workers import ANSWER_S, ConnectedWorkers
from syclsched.errors import ArgumentError, ClusterError, RuntimeMissingError
from syclsched.execution.core.safeguards import Safeguards
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.progress import Progress, reported

if TYPE_CHECKING:
    from distributed import Client
    from distributed.deploy.cluster import Cluster as DaskCluster
    from distributed.security import Security

__all__ = ["Cluster", "connect"]

#: Seconds in which a scheduler and its first worker must answer.
CONNECT_S: Final = 15.0
#: Seconds without a sign of life after which a worker counts as lost.
SILENT_S: Final = 20.0


class Cluster(ConnectedWorkers):
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
        super().__init__(client, cores=cores, local=local, has_dashboard=has_dashboard, silent_s=silent_s)
        self._owned = owned
        self._planner = ClusterPlanner(self)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, and processes that `connect` started; other schedulers and workers continue."""
        if self._closed:
            return
        super().close()
        for each in self._owned:
            each.close()

    def __repr__(self) -> str:
        return f"<Cluster at {self.scheduler}{', closed' if self._closed else ''}>"

    def status(self, *, timeout_s: float = ANSWER_S) -> ClusterStatus:
        """Return the state of each worker: its devices, memory, heartbeats, and the clients' bound plans and runs."""
        return read_status(self, timeout_s)

    # --- planning and running ---------------------------------------------------------------------

    def platform(self) -> Platform:
        """Return the platform of all machines: their devices, and the network between them, measured once.

        Raises
        ------
        EmptyPlatformError
            If no worker has a device.
        """
        return self._planner.platform()

    def profile(self, *, quick: bool = False, progress: Progress | bool | None = None) -> tuple[NodeProfile, ...]:
        """Measure the devices of one machine of each kind, and store the profiles on all machines of that kind.

        Parameters
        ----------
        quick : bool, optional
            Measure in a third of the time, with wider spreads.
        progress : callable or bool, optional
            Called before each measurement as ``progress(done, total, step)``; see `syclsched.progress.Progress`.

        Returns
        -------
        tuple of NodeProfile
            For each kind, where it was measured, and the remarks.
        """
        with reported("profiles of the machines", progress) as tell:
            return profile_machines(self, quick=quick, progress=tell)

    def plan(
        self,
        graph: TaskGraph,
        *,
        policy: str = "auto",
        calibrate: bool = True,
        budget_s: float | None = None,
        progress: Progress | bool | None = None,
    ) -> Plan:
        """Plan a graph for all machines.

        Parameters
        ----------
        graph : TaskGraph
            The graph.
        policy : str, optional
            As for `syclsched.plan`. ``auto`` also plans for each machine alone and returns the best plan. ``hybrid``
            and ``hybrid:POLICY`` are ``auto`` and the policy here; see `bind`.
        calibrate : bool, optional
            Measure tasks that were never timed, on one machine of each kind.
        budget_s : float, optional
            Seconds that the search of ``auto`` may take. By default its usual effort, and five seconds for graphs with
            more than a million tasks times devices.
        progress : callable or bool, optional
            Called before each step as ``progress(done, total, step)``: finding devices, measuring the network and
            tasks, planning. See `syclsched.progress.Progress`.

        Returns
        -------
        Plan
            Its devices are ``node0/cpu`` and so on.
        """
        with reported(f"planning of {graph.name!r}", progress) as tell:
            return self._planner.plan(graph, policy=policy, calibrate=calibrate, budget_s=budget_s, progress=tell)

    def bind(
        self,
        graph: TaskGraph,
        *,
        plan: Plan | None = None,
        policy: str = "auto",
        calibrate: bool = True,
        recover: bool = True,
        priority: int = 0,
        share: float | None = None,
        dynamic: str | None = None,
        progress: Progress | bool | None = None,
    ) -> ClusterRunner:
        """Send each machine its part of a plan, for repeated runs with new data.

        Parameters
        ----------
        graph : TaskGraph
            The graph.
        plan : Plan, optional
            A plan for these machines; by default the graph is planned.
        policy, calibrate
            See `plan`. With ``hybrid`` or ``hybrid:POLICY``, the rest of a run is planned anew while it runs: when a
            machine takes longer than planned, or a worker joins, if it then ends earlier.
        recover : bool, optional
            Whether a run that loses a worker continues on the machines left, from the values that they have.
        priority, share : optional
            As for `syclsched.run`, on each machine, beside the runs of all clients of the cluster.
        dynamic : str, optional
            Dynamic policy, as for `syclsched.run`. The plan says on which machine each task runs; the policy chooses
            its device there, and the order, at run time. ``hybrid`` follows the plan until task times deviate from it.
        progress : callable or bool, optional
            As for `plan`, and called with the parts that are bound.

        Returns
        -------
        ClusterRunner
            ``runner(inputs)`` returns the results. A context manager that releases the machines' memory.

        Raises
        ------
        MemoryLimitError
            If a part does not fit in its machine's memory beside what is bound there already, by whatever client.

        Examples
        --------
        ::

            with syclsched.connect(workers=2) as cluster, cluster.bind(graph) as runner:
                print(runner({"x": x})["y"])
        """
        from syclsched.execution.dynamic import check_name

        safeguards = Safeguards(priority=priority, share=share)
        if dynamic is not None:
            check_name(dynamic)
            safeguards.check_dynamic()
        grows = plan is None
        if plan is None:
            plan = self.plan(graph, policy=policy, calibrate=calibrate, progress=progress)
            calibrate = False
        with reported(f"preparation of {graph.name!r}", progress) as tell:
            if dynamic is not None and calibrate:  # it needs the times of all devices, not only those of the plan
                self._planner.measure(graph, tell)
            return ClusterRunner(
                self,
                self._planner,
                graph,
                plan,
                policy=policy,
                recover=recover,
                safeguards=safeguards,
                dynamic=dynamic,
                grows=grows,
                progress=tell,
            )

    def run(
        self,
        graph: TaskGraph,
        inputs: Mapping[str, Any] | None = None,
        *,
        plan: Plan | None = None,
        policy: str = "auto",
        calibrate: bool = True,
        recover: bool = True,
        priority: int = 0,
        share: float | None = None,
        dynamic: str | None = None,
        progress: Progress | bool | None = None,
    ) -> ClusterRun:
        """Plan a graph unless a plan is given, start it on all machines, and return without waiting for it.

        Parameters
        ----------
        graph : TaskGraph
            The graph.
        inputs : Mapping[str, array-like], optional
            Values of input arrays; they take precedence over those given with `TaskGraph.array`.
        plan, policy, calibrate, recover, priority, share, dynamic
            See `bind`.
        progress : callable or bool, optional
            As for `bind`, and for `ClusterRunner.run`: tasks done, the time left and bytes sent.

        Returns
        -------
        ClusterRun
            Handle of the run; a context manager that releases the machines' memory.
        """
        runner = self.bind(
            graph,
            plan=plan,
            policy=policy,
            calibrate=calibrate,
            recover=recover,
            priority=priority,
            share=share,
            dynamic=dynamic,
            progress=progress,
        )
        try:
            return runner.run(inputs, owned=True, progress=progress)
        except BaseException:
            runner.close()
            raise


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

    Dask runs pickled code from any process that may connect to its scheduler or workers: close their ports to others,
    or use ``security``.

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
