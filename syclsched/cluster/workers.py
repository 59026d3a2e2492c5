# SPDX-License-Identifier: Apache-2.0
"""Connection to the workers of a Dask cluster: functions called there, messages, and facts of their machines.

Dask has its usual part: it starts workers, lists the present ones, and notices those that are lost.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import syclsched
from syclsched.cluster.calls import Calls, WorkerCall
from syclsched.cluster.membership import ClusterWorker, Membership, WhenLost
from syclsched.cluster.transport.comm_sockets import CommSockets
from syclsched.cluster.transport.mailbox import Mailbox
from syclsched.errors import ClusterError, SyclschedError, WorkerLostError

if TYPE_CHECKING:
    from distributed import Client

    from syclsched.cluster.node import NodeFacts

#: Seconds in which a worker must answer a request that needs no work.
ANSWER_S: Final = 60.0
#: Seconds in which a worker must be reached from here; otherwise messages to it go through the scheduler.
REACH_S: Final = 5.0

#: Function on each worker that gives its `NodeFacts`.
DESCRIBE: Final = "syclsched.cluster.node:describe"
#: Questions for versions before a worker without an answer counts as lost.
_VERSION_TRIES: Final = 3


class ConnectedWorkers:
    """The workers of a Dask cluster, called and sent messages by this process.

    Functions are called on a worker by name, ``module:function``. They get the worker's
    `syclsched.cluster.node.Node` and run in a thread of their own.

    Base of `Cluster`, which documents the parts that users see.
    """

    def __init__(
        self,
        client: Client,
        *,
        cores: Mapping[str, int] | None = None,
        local: bool = False,
        has_dashboard: bool = True,
        silent_s: float,
    ) -> None:
        self.client = client
        #: The workers that are there.
        self.members = Membership(client, silent_s, self._lose, self._break)
        #: Facts that workers have given of their machines, by address; see `describe`.
        self.facts: dict[str, NodeFacts] = {}
        self._cores, self._local = dict(cores or {}), local
        self._has_dashboard = has_dashboard
        self._closed = False
        self._lock = threading.Lock()
        self._unreachable: dict[str, str] = {}  # addresses of workers that this process cannot connect to
        self.address = f"client {uuid.uuid4().hex}"
        self._sockets = CommSockets(self.address, client.loop.asyncio_loop, client.connection_args)
        self.mailbox = Mailbox(self.address, self._sockets.connect)
        self._calls = Calls(client, self.mailbox, self._reached)

    def close(self) -> None:
        """End the connection; the scheduler and its workers continue."""
        self._closed = True
        self.members.close()
        self.mailbox.close()
        self._sockets.close()

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
        return self.members.workers()

    def worker(self, name: str) -> ClusterWorker:
        """Return a worker by name; raise `WorkerLostError` if it is lost, `ClusterError` if it is unknown."""
        return self.members.worker(name)

    def when_lost(self, call: WhenLost) -> Callable[[], None]:
        """Call a function, in a thread of its own, when a worker is lost; return a function that ends this."""
        return self.members.when_lost(call)

    # --- functions on workers ---------------------------------------------------------------------

    def call(self, worker: str, function: str, *arguments: Any, timeout_s: float = ANSWER_S, **named: Any) -> Any:
        """Call a function, ``module:function``, on a worker and return its result.

        Raises `WorkerLostError` if the worker ends or gives no sign of life, `ClusterError` if the function takes too
        long.
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
        return self._calls.start(self.members.known_worker(worker), function, arguments, named)

    def link(self, worker: str) -> str:
        """Let a worker send messages to this process, with `address` as destination; return the worker's address.

        This process can then send to it, too. Data goes from process to process, without the scheduler. Raises
        `WorkerLostError` if the worker cannot be reached from here, though the scheduler can reach it.
        """
        target = self.members.known_worker(worker)
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

    def describe(
        self, *, workers: Collection[str] | None = None, timeout_s: float = ANSWER_S, refresh: bool = False
    ) -> dict[str, NodeFacts]:
        """Return the descriptions of the machines and devices of all or some workers; kept after the first call."""
        asked = [each for each in self.workers if workers is None or each.name in workers]
        missing = [each.name for each in asked if refresh or each.address not in self.facts]
        found = self.broadcast(DESCRIBE, workers=missing, timeout_s=timeout_s)
        self.facts.update({each.address: each for each in found.values()})
        return {each.name: self.facts[each.address] for each in asked if each.address in self.facts}

    # --- beginning, called by `connect` -----------------------------------------------------------

    def begin(self, timeout_s: float) -> None:
        """Wait for a worker, check all workers' versions, and make them machines to plan for."""
        from syclsched.cluster.node import Node

        end = time.monotonic() + timeout_s
        while not self.members.refreshed():
            if time.monotonic() > end:
                raise ClusterError(
                    f"no worker has come in {timeout_s:.3g} s",
                    where=f"the scheduler at {self.scheduler}",
                    hint=f"Start workers: dask worker {self.scheduler}",
                )
            time.sleep(0.05)
        self._check_versions()
        self.members.asked(lambda: self.client.register_plugin(Node(self._cores, local=self._local)), ANSWER_S)
        self.members.watch()

    def _check_versions(self) -> None:
        """Refuse workers on which functions and plans of this process cannot run."""
        for _ in range(_VERSION_TRIES):  # a worker may come between a question and its answer
            answers = self.members.asked(lambda: self.client.get_versions(packages=["syclsched"]), ANSWER_S)
            if all(answers["workers"].get(worker.address) for worker in self.workers):
                break
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


def _major_minor(version: str) -> str:
    return ".".join(version.split()[0].split(".")[:2])
