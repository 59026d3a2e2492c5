# SPDX-License-Identifier: Apache-2.0
"""Connection to a Dask cluster: its workers under stable names, functions called on them, and the state they are in.

Dask does what it does for every cluster: it starts workers, knows which are there, and notices those that are lost.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal

import syclsched
from syclsched.errors import ArgumentError, ClusterError, RuntimeMissingError, WorkerLostError, did_you_mean
from syclsched.model.text.sections import Section, facts, sections_html, sections_text, table
from syclsched.model.text.units import format_bytes, plural

if TYPE_CHECKING:
    from distributed import Client
    from distributed.deploy.cluster import Cluster as DaskCluster
    from distributed.security import Security

    from syclsched.cluster.node import NodeFacts

#: Seconds in which a scheduler and its first worker must answer.
CONNECT_S: Final = 15.0
#: Seconds in which a worker must answer what needs no work.
ANSWER_S: Final = 60.0
#: Seconds without a sign of life after which a worker counts as silent.
SILENT_S: Final = 10.0

_NODE: Final = "syclsched.cluster.node"

State = Literal["ready", "silent", "no devices"]

#: Called with a worker that is lost and the cause.
WhenLost = Callable[["ClusterWorker", str], None]


@dataclass(frozen=True, slots=True)
class ClusterWorker:
    """A worker: its name here, its address, and what Dask calls it."""

    name: str
    address: str
    dask_name: str


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """State of a worker."""

    worker: ClusterWorker
    state: State
    silent_s: float  # since its last sign of life
    host_name: str = ""
    process: int = 0
    cores: int = 0
    devices: tuple[str, ...] = ()
    memory_bytes: int = 0  # of the machine
    used_bytes: int = 0  # by the worker's process
    generation: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """State of a cluster and of its workers."""

    scheduler: str
    dashboard: str | None
    workers: tuple[WorkerStatus, ...]

    def __str__(self) -> str:
        return sections_text(self._sections())

    def _repr_html_(self) -> str:
        return sections_html(self._sections())

    def _sections(self) -> list[Section]:
        rows: list[tuple[str, ...]] = [
            (
                each.worker.name,
                each.worker.address,
                each.host_name,
                str(each.cores),
                ", ".join(each.devices) or "none",
                format_bytes(each.memory_bytes),
                format_bytes(each.used_bytes),
                each.state if each.state != "silent" else f"silent for {each.silent_s:.0f} s",
                each.problem,
            )
            for each in self.workers
        ]
        headings: tuple[str, ...] = ("worker", "address", "host", "cores", "devices", "memory", "used", "state")
        if any(each.problem for each in self.workers):
            headings = (*headings, "problem")
        else:
            rows = [row[:-1] for row in rows]
        pairs = [("scheduler", self.scheduler), ("dashboard", self.dashboard or "none")]
        return [
            facts(f"Cluster of {plural(len(self.workers), 'worker')}", pairs),
            table("Workers", headings, rows, numbers=(3, 5, 6)),
        ]


class Cluster:
    """A Dask cluster whose workers are machines to plan for; from `connect`. A context manager.

    Functions are called on a worker by name, ``module:function``. They get the worker's
    `syclsched.cluster.node.Node` and run in a thread of their own.
    """

    def __init__(
        self, client: Client, owned: tuple[Any, ...], cores: Mapping[str, int], *, has_dashboard: bool
    ) -> None:
        self.client = client
        self._has_dashboard = has_dashboard
        self._owned = owned
        self._cores = dict(cores)
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}  # by Dask's name
        self._workers: tuple[ClusterWorker, ...] = ()
        self._when_lost: list[WhenLost] = []
        self._facts: dict[str, NodeFacts] = {}  # by address
        self._closed = False

    # --- life -------------------------------------------------------------------------------------

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
        with suppress(Exception):
            self.client.unsubscribe_topic("all")
        for each in self._owned:
            each.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else ", ".join(each.name for each in self._workers)
        return f"<Cluster at {self.scheduler}: {state}>"

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
        """The workers that Dask's scheduler knows, in the order of their names."""
        self._identity()
        return self._workers

    def worker(self, name: str) -> ClusterWorker:
        """Return a worker by name.

        Raises
        ------
        WorkerLostError
            If it was there before.
        ClusterError
            If there has never been such a worker.
        """
        workers = self.workers
        for each in workers:
            if each.name == name:
                return each
        if name in self._names.values():
            raise WorkerLostError("the worker is not in the cluster any more", worker=name)
        known = [each.name for each in workers]
        raise ClusterError(
            f"no worker {name!r}",
            where=f"the cluster at {self.scheduler}",
            hint=f"{did_you_mean(name, known)}It has {', '.join(known) or 'no worker'}",
        )

    def when_lost(self, call: WhenLost) -> Callable[[], None]:
        """Call a function, in Dask's thread, when a worker is lost; return what ends that."""
        self._when_lost.append(call)

        def end() -> None:
            with suppress(ValueError):
                self._when_lost.remove(call)

        return end

    def _identity(self) -> dict[str, Any]:
        """Return what the scheduler knows of each worker, by address, and bring names up to date."""
        answer = self._asked(lambda: self.client.scheduler.identity(n_workers=-1), CONNECT_S)
        known: dict[str, Any] = answer["workers"]
        with self._lock:
            by_dask_name = {str(info["name"]): address for address, info in known.items()}
            for dask_name in sorted(by_dask_name, key=_natural):
                self._names.setdefault(dask_name, f"node{len(self._names)}")
            found = [ClusterWorker(self._names[name], address, name) for name, address in by_dask_name.items()]
            self._workers = tuple(sorted(found, key=lambda each: _natural(each.name)))
        return known

    def _watch(self) -> None:
        """Learn at once of workers that are lost."""

        def told(event: tuple[float, Any]) -> None:
            said = event[1]
            if not isinstance(said, dict) or said.get("action") != "remove-worker":
                return
            with self._lock:
                lost = next((each for each in self._workers if each.address == said.get("worker")), None)
                self._workers = tuple(each for each in self._workers if each is not lost)
            if lost is not None:
                cause = "it left the cluster" if said.get("expected") else "Dask's scheduler has lost it"
                for call in list(self._when_lost):
                    call(lost, cause)

        self.client.subscribe_topic("all", told)

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
            If the worker ends before the function has returned, or does not answer in time.
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
        results, first = {}, None
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
        from distributed.protocol.pickle import dumps

        from syclsched.cluster.node import called

        target = self._known(worker)
        packed = dumps((arguments, named))
        loop = self.client.loop.asyncio_loop

        async def run() -> Any:
            answers = await self.client.run(called, function, packed, workers=[target.address], on_error="return")
            return answers[target.address]

        return WorkerCall(target, function, asyncio.run_coroutine_threadsafe(run(), loop))

    def _known(self, name: str) -> ClusterWorker:
        with self._lock:
            found = next((each for each in self._workers if each.name == name), None)
        return found or self.worker(name)

    def _asked(self, ask: Callable[[], Any], timeout_s: float) -> Any:
        """Return the scheduler's answer."""

        async def run() -> Any:
            return await ask()

        if self._closed:
            raise ClusterError("the connection is closed", where="the cluster")
        loop = self.client.loop.asyncio_loop
        answer = asyncio.run_coroutine_threadsafe(run(), loop)
        try:
            return answer.result(timeout_s)
        except (TimeoutError, OSError) as error:
            answer.cancel()
            raise ClusterError(
                f"Dask's scheduler does not answer: {error or f'no answer in {timeout_s:.0f} s'}",
                where=self.scheduler,
                hint="Start the scheduler again, then connect anew",
            ) from error

    # --- state ------------------------------------------------------------------------------------

    def describe(self, *, timeout_s: float = ANSWER_S, refresh: bool = False) -> dict[str, NodeFacts]:
        """Return what each worker says about its machine and its devices; kept after the first time."""
        workers = self.workers
        missing = [each.name for each in workers if refresh or each.address not in self._facts]
        if missing:
            found = self.broadcast(f"{_NODE}:describe", workers=missing, timeout_s=timeout_s)
            self._facts.update({each.address: each for each in found.values()})
        return {each.name: self._facts[each.address] for each in workers}

    def status(self, *, timeout_s: float = ANSWER_S) -> ClusterStatus:
        """Return the state of each worker: its devices, memory, and last sign of life."""
        known = self._identity()
        statuses = []
        now = time.time()
        for worker in self._workers:
            info = known[worker.address]
            silent_s = max(0.0, now - info["last_seen"])
            if silent_s <= SILENT_S and worker.address not in self._facts:
                with suppress(ClusterError):
                    described = self.call(worker.name, f"{_NODE}:describe", timeout_s=timeout_s)
                    self._facts[worker.address] = described
            said = self._facts.get(worker.address)
            used = int(info.get("metrics", {}).get("memory", 0))
            if said is None:
                statuses.append(WorkerStatus(worker, "silent", silent_s, used_bytes=used))
                continue
            found = () if said.platform is None else said.platform.compute_devices
            state: State = "silent" if silent_s > SILENT_S else "ready" if found else "no devices"
            statuses.append(
                WorkerStatus(
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
                    said.problem,
                )
            )
        return ClusterStatus(self.scheduler, self.dashboard, tuple(statuses))

    # --- beginning, called by `connect` -------------------------------------------------------------

    def _begin(self, timeout_s: float) -> None:
        from syclsched.cluster.node import Node

        end = time.monotonic() + timeout_s
        while not self._identity():
            if time.monotonic() > end:
                raise ClusterError(
                    f"no worker has come in {timeout_s:.0f} s",
                    where=f"the scheduler at {self.scheduler}",
                    hint="Start workers with: dask worker " + self.scheduler,
                )
            time.sleep(0.05)
        self._check_versions()
        self._asked(lambda: self.client.register_plugin(Node(self._cores)), ANSWER_S)
        self._watch()

    def _check_versions(self) -> None:
        """Refuse workers on which functions and plans of this process cannot run."""
        answers = self._asked(lambda: self.client.get_versions(packages=["syclsched"]), ANSWER_S)
        here = {"python": sys.version, "syclsched": syclsched.__version__}
        for worker in self._workers:
            answer = answers["workers"].get(worker.address)
            if answer is None:
                raise WorkerLostError("the worker does not answer", worker=f"{worker.name} ({worker.address})")
            there = answer["packages"]
            named = f"{worker.name} ({worker.address})"
            if there.get("syclsched") is None:
                raise ClusterError(
                    "the worker has no package syclsched",
                    worker=named,
                    hint=f"Install it there: pip install 'syclsched[cluster]=={here['syclsched']}'",
                )
            for package, meaning in (("syclsched", "syclsched"), ("python", "Python")):
                mine, its = _major_minor(here[package]), _major_minor(there[package])
                if mine != its:
                    raise ClusterError(
                        f"the worker has {meaning} {its}, and this process has {mine}",
                        worker=named,
                        hint="Use the same major and minor version everywhere",
                    )


class WorkerCall:
    """A function that runs on a worker."""

    def __init__(self, worker: ClusterWorker, function: str, answer: Future[Any]) -> None:
        self.worker, self.function = worker, function
        self._answer = answer

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._answer.done()

    def when_done(self, call: Callable[[WorkerCall], None]) -> None:
        """Call a function when it has ended, in Dask's thread."""
        self._answer.add_done_callback(lambda _: call(self))

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait, and return the result or raise the error of the function; see `Cluster.call`."""
        named = f"{self.worker.name} ({self.worker.address})"
        try:
            answer = self._answer.result(timeout_s)
        except TimeoutError as error:
            raise WorkerLostError(
                f"no answer in {timeout_s:.3g} s from {self.function}" if timeout_s is not None else "no answer",
                worker=named,
            ) from error
        except OSError as error:
            raise ClusterError(f"Dask's scheduler is lost: {error}", worker=named) from error
        if isinstance(answer, OSError):
            raise WorkerLostError(f"the worker is lost: {answer}", worker=named) from answer
        if isinstance(answer, BaseException):
            raise ClusterError(f"{self.function} cannot be called: {answer}", worker=named) from answer
        returned, data = answer
        value = pickle.loads(data)
        if returned:
            return value
        if isinstance(value, ClusterError) and value.worker == self.worker.address:
            value.worker = named
            value.where = f"worker {named}"
        raise value


def connect(
    cluster: str | Client | DaskCluster | None = None,
    *,
    workers: int | None = None,
    security: Security | bool | None = None,
    timeout_s: float = CONNECT_S,
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
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,  # plans have limits of their own
                dashboard_address=":0",
                scheduler_kwargs={"dashboard": dashboard},
                security=security,
                silence_logs=50,
            )
            owned.append(cluster)
        if isinstance(cluster, distributed.Client):
            client = cluster
        else:
            kept = security if workers is None else None
            if isinstance(cluster, str):
                _reach(cluster, timeout_s, kept)
            client = distributed.Client(
                cluster, timeout=timeout_s, security=kept, set_as_default=False, name="syclsched"
            )
            owned.insert(0, client)
        connection = Cluster(client, tuple(owned), cores, has_dashboard=dashboard or workers is None)
        connection._begin(timeout_s)
    except BaseException as error:
        for each in owned:
            with suppress(Exception):
                each.close()
        if isinstance(error, OSError) and not isinstance(error, ClusterError):
            raise ClusterError(
                f"no Dask scheduler answers in {timeout_s:.0f} s: {error}",
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


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts names with numbers by the numbers."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part)


def _major_minor(version: str) -> str:
    return ".".join(version.split()[0].split(".")[:2])
