# SPDX-License-Identifier: Apache-2.0
"""Membership of a Dask cluster: workers under stable names, those that are lost or give no sign of life, and calls.

Dask's scheduler tells at once of a worker whose connection ends. A worker that froze or was cut off is found by its
heartbeats, which the scheduler is asked for at short intervals. Either ends the calls on that worker.
"""

from __future__ import annotations

import asyncio
import pickle
import re
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError  # Python 3.10 has two
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from syclsched.cluster.cluster_status import ClusterWorker
from syclsched.errors import ClusterError, SyclschedError, WorkerLostError, did_you_mean

if TYPE_CHECKING:
    from distributed import Client

#: Seconds in which the scheduler must answer.
SCHEDULER_S: Final = 15.0
#: Seconds between questions for heartbeats, for up to `_FEW` workers; more with more.
_WATCH_S: Final = 1.0
_FEW: Final = 50

#: Called, in a thread of its own, with a worker that is lost and the cause.
WhenLost = Callable[[ClusterWorker, str], None]


class WorkerCall:
    """A function that runs on a worker."""

    def __init__(self, worker: ClusterWorker, function: str) -> None:
        self.worker, self.function = worker, function
        self.answer: Future[tuple[bool, bytes]] = Future()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.answer.done()

    def when_done(self, call: Callable[[WorkerCall], None]) -> None:
        """Call a function when it has ended, in Dask's thread."""
        self.answer.add_done_callback(lambda _: call(self))

    def fail(self, error: SyclschedError) -> None:
        """End it with an error, unless it has ended."""
        with suppress(InvalidStateError):
            self.answer.set_exception(error)

    def settle(self, answer: Any) -> None:
        """End it with what Dask gives as its answer."""
        if isinstance(answer, OSError):
            self.fail(WorkerLostError(f"the worker is lost: {answer}", worker=str(self.worker)))
        elif isinstance(answer, BaseException):
            self.fail(ClusterError(f"{self.function} cannot be called: {answer}", worker=str(self.worker)))
        else:
            with suppress(InvalidStateError):
                self.answer.set_result(answer)

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait, and return the result or raise the error of the function.

        Raises
        ------
        WorkerLostError
            If the worker ends, or gives no sign of life, before the function has returned.
        ClusterError
            If the function does not return in time.
        """
        try:
            returned, data = self.answer.result(timeout_s)
        except FutureTimeoutError as error:
            raise ClusterError(
                f"{self.function} has not returned in {timeout_s or 0:.3g} s", worker=str(self.worker)
            ) from error
        value = pickle.loads(data)
        if returned:
            return value
        if isinstance(value, ClusterError) and value.worker == self.worker.address:
            value.worker, value.where = str(self.worker), f"worker {self.worker}"
        raise value


class Membership:
    """The workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.
    silent_s : float
        Seconds without a heartbeat after which a worker counts as lost, until it gives one again.
    """

    def __init__(self, client: Client, silent_s: float) -> None:
        self.client = client
        self.silent_s = silent_s
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}  # by Dask's name
        self._workers: dict[str, ClusterWorker] = {}  # by address
        self._beats: dict[str, tuple[float, float]] = {}  # by address: last heartbeat, and when it was seen here
        self._calls: set[WorkerCall] = set()
        self._when_lost: list[WhenLost] = []
        self._broken: str | None = None  # why the scheduler cannot be used
        self._watching: Future[None] | None = None

    # --- workers ----------------------------------------------------------------------------------

    def workers(self) -> tuple[ClusterWorker, ...]:
        """Return the workers that the scheduler knows and that give signs of life, in the order of their names."""
        known = self.refreshed()
        return tuple(each for each in self._sorted(known) if not self.silence_s(each.address))

    def known(self) -> tuple[dict[str, Any], tuple[ClusterWorker, ...]]:
        """Return what the scheduler knows of each worker, by address, and the workers, silent ones included."""
        known = self.refreshed()
        return known, self._sorted(known)

    def _sorted(self, known: dict[str, Any]) -> tuple[ClusterWorker, ...]:
        with self._lock:
            found = [self._workers[address] for address in known if address in self._workers]
        return tuple(sorted(found, key=lambda each: natural(each.name)))

    def worker(self, name: str) -> ClusterWorker:
        """Return a worker by name; see `Cluster.worker`."""
        workers = self.workers()
        for each in workers:
            if each.name == name:
                return each
        if name in self._names.values():
            raise WorkerLostError("the worker is not in the cluster any more, or gives no sign of life", worker=name)
        known = [each.name for each in workers]
        raise ClusterError(
            f"no worker {name!r}",
            where="the cluster",
            hint=f"{did_you_mean(name, known)}It has {', '.join(known) or 'no worker'}",
        )

    def known_worker(self, name: str) -> ClusterWorker:
        """Return a worker by name, without a question to the scheduler if it was there a moment ago."""
        with self._lock:
            found = next((each for each in self._workers.values() if each.name == name), None)
        return self.worker(name) if found is None or self.silence_s(found.address) else found

    def silence_s(self, address: str) -> float:
        """Return the seconds since a worker's last sign of life; 0 if that is not too long."""
        with self._lock:
            beat = self._beats.get(address)
        silent_s = 0.0 if beat is None else time.monotonic() - beat[1]
        return silent_s if silent_s > self.silent_s else 0.0

    def refreshed(self) -> dict[str, Any]:
        """Return what the scheduler knows of each worker, by address, and bring the workers up to date."""
        return self._noted(self.asked(lambda: self.client.scheduler.identity(n_workers=-1)))

    def _noted(self, answer: dict[str, Any]) -> dict[str, Any]:
        known: dict[str, Any] = answer["workers"]
        now = time.monotonic()
        gone: list[ClusterWorker] = []
        with self._lock:
            addresses = {str(info["name"]): address for address, info in known.items()}
            for dask_name in sorted(addresses, key=natural):
                self._names.setdefault(dask_name, f"node{len(self._names)}")
            before, self._workers = self._workers, {}
            for dask_name, address in addresses.items():
                kept = before.pop(address) if address in before else None
                self._workers[address] = kept or ClusterWorker(self._names[dask_name], address, dask_name)
                beat = known[address]["last_seen"]
                if self._beats.get(address, (None,))[0] != beat:
                    self._beats[address] = beat, now
            for lost in before.values():
                self._beats.pop(lost.address, None)
                gone.append(lost)
        for lost in gone:
            self._tell(lost, "Dask's scheduler has lost it")
        return known

    # --- losses -----------------------------------------------------------------------------------

    def when_lost(self, call: WhenLost) -> Callable[[], None]:
        """Call a function when a worker is lost; return what ends that."""
        self._when_lost.append(call)

        def end() -> None:
            with suppress(ValueError):
                self._when_lost.remove(call)

        return end

    def _tell(self, lost: ClusterWorker, cause: str) -> None:
        with self._lock:
            calls = [call for call in self._calls if call.worker.address == lost.address]
        for call in calls:
            call.fail(WorkerLostError(f"the worker is lost: {cause}", worker=str(lost)))
        for tell in list(self._when_lost):
            threading.Thread(target=tell, args=(lost, cause), name=f"loss of {lost.name}", daemon=True).start()

    def watch(self) -> None:
        """Begin to notice losses."""
        self.client.subscribe_topic("all", self._told)
        self._watching = asyncio.run_coroutine_threadsafe(self._watch(), self._loop)

    def _told(self, event: tuple[float, Any]) -> None:
        """Learn what has happened from the scheduler; called in Dask's thread."""
        said = event[1]
        if not isinstance(said, dict) or said.get("action") != "remove-worker":
            return
        with self._lock:
            lost = self._workers.pop(str(said.get("worker")), None)
            if lost is not None:
                self._beats.pop(lost.address, None)
        if lost is not None:
            self._tell(lost, "it left the cluster" if said.get("expected") else "Dask's scheduler has lost it")

    async def _watch(self) -> None:
        silent: set[str] = set()
        while True:
            await asyncio.sleep(_WATCH_S * max(1.0, len(self._workers) / _FEW))
            try:
                answer = await asyncio.wait_for(self.client.scheduler.identity(n_workers=-1), SCHEDULER_S)
            except Exception as error:
                self._break(f"Dask's scheduler does not answer: {error or type(error).__name__}")
                return
            self._noted(answer)
            for address, worker in list(self._workers.items()):
                silent_s = self.silence_s(address)
                if not silent_s:
                    silent.discard(address)
                elif address not in silent:
                    silent.add(address)
                    self._tell(worker, f"it has given no sign of life for {silent_s:.0f} s")

    def _break(self, cause: str) -> None:
        """Note that the scheduler is lost; all calls end."""
        with self._lock:
            self._broken = cause
            calls = list(self._calls)
        for call in calls:
            call.fail(ClusterError(cause, worker=str(call.worker)))

    def close(self) -> None:
        """End all calls with an error, and notice nothing any more."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(Exception):
                self.client.unsubscribe_topic("all")
        self._break("the connection to the cluster is closed")

    # --- calls ------------------------------------------------------------------------------------

    @property
    def _loop(self) -> Any:
        return self.client.loop.asyncio_loop

    def start(self, worker: str, function: str, arguments: bytes) -> WorkerCall:
        """Begin to call a function on a worker."""
        from syclsched.cluster.node import called

        target = self.known_worker(worker)
        call = WorkerCall(target, function)
        with self._lock:
            self._check()
            self._calls.add(call)

        async def run() -> None:
            try:
                answers = await self.client.run(
                    called, function, arguments, workers=[target.address], on_error="return"
                )
                call.settle(answers[target.address])
            except Exception as error:
                call.fail(ClusterError(f"Dask's scheduler does not answer: {error}", worker=str(target)))

        running = asyncio.run_coroutine_threadsafe(run(), self._loop)

        def ended(_: Future[Any]) -> None:
            with self._lock:
                self._calls.discard(call)
            running.cancel()  # without effect unless it ended by a loss

        call.answer.add_done_callback(ended)
        return call

    def _check(self) -> None:
        if self._broken is None and self.client.scheduler is None:
            self._broken = "Dask's client is closed"
        if self._broken is not None:
            raise ClusterError(self._broken, where="the cluster", hint="Connect anew")

    def asked(self, ask: Callable[[], Awaitable[Any]], timeout_s: float = SCHEDULER_S) -> Any:
        """Return an answer of the scheduler."""

        async def run() -> Any:
            return await ask()

        self._check()
        answer = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return answer.result(timeout_s)
        except (FutureTimeoutError, OSError) as error:
            answer.cancel()
            raise ClusterError(
                f"Dask's scheduler does not answer: {error or f'no answer in {timeout_s:.0f} s'}",
                where="the cluster",
                hint="Start the scheduler again, then connect anew",
            ) from error


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts names with numbers by the numbers."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part)
