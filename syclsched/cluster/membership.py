# SPDX-License-Identifier: Apache-2.0
"""Membership of a Dask cluster: workers under stable names, and those that are lost or give no sign of life.

Dask's scheduler immediately reports a worker whose connection ends. A worker that froze or was cut off is found by its
heartbeats, which the scheduler is asked for at short intervals.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # Python 3.10 has two
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from syclsched.errors import ClusterError, SyclschedError, WorkerLostError, did_you_mean

if TYPE_CHECKING:
    from distributed import Client

#: Seconds in which the scheduler must answer.
SCHEDULER_S: Final = 15.0
#: Seconds between questions for heartbeats, for up to `_FEW` workers; more with more.
_WATCH_S: Final = 1.0
_FEW: Final = 50

#: Seconds in which Dask's client must be connected again to a scheduler that it has lost.
_RECONNECT_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class ClusterWorker:
    """A worker: its name here, its address, and its name in Dask."""

    name: str
    address: str
    dask_name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


#: Called, in a thread of its own, with a worker that is lost and the cause.
WhenLost = Callable[[ClusterWorker, str], None]


class Membership:
    """The workers of a cluster.

    Those without a heartbeat for ``silent_s`` seconds count as lost until they give one again. ``lost`` is called at
    once, in Dask's thread, with a worker that is lost and the cause; ``broken`` with an error when the scheduler is
    lost.
    """

    def __init__(
        self, client: Client, silent_s: float, lost: WhenLost, broken: Callable[[SyclschedError], None]
    ) -> None:
        self.client = client
        self.silent_s = silent_s
        self._lost, self._tell_broken = lost, broken
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}  # by Dask's name
        self._workers: dict[str, ClusterWorker] = {}  # by address
        self._beats: dict[str, tuple[float, float]] = {}  # by address: last heartbeat, and when it was seen here
        self._when_lost: list[WhenLost] = []
        self._broken: str | None = None  # why the scheduler cannot be used
        self._watching: Future[None] | None = None

    # --- workers ----------------------------------------------------------------------------------

    def workers(self) -> tuple[ClusterWorker, ...]:
        """Return the workers that the scheduler lists and that send heartbeats, in the order of their names."""
        known = self.refreshed()
        return tuple(each for each in self._sorted(known) if not self.silence_s(each.address))

    def seen(self) -> tuple[ClusterWorker, ...]:
        """Return the workers that were there a moment ago, without a question to the scheduler."""
        with self._lock:
            found = tuple(self._workers.values())
        return tuple(each for each in found if not self.silence_s(each.address))

    def known(self) -> tuple[dict[str, Any], tuple[ClusterWorker, ...]]:
        """Return the scheduler's information on each worker, by address, and the workers, silent ones included."""
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
        """Return the scheduler's information on each worker, by address, and update the workers."""
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
            self._report_loss(lost, "Dask's scheduler has lost it")
        return known

    # --- losses -----------------------------------------------------------------------------------

    def when_lost(self, call: WhenLost) -> Callable[[], None]:
        """Call a function when a worker is lost; return a function that ends the subscription."""
        self._when_lost.append(call)

        def end() -> None:
            with suppress(ValueError):
                self._when_lost.remove(call)

        return end

    def _report_loss(self, lost: ClusterWorker, cause: str) -> None:
        self._lost(lost, cause)
        for tell in list(self._when_lost):
            threading.Thread(target=tell, args=(lost, cause), name=f"loss of {lost.name}", daemon=True).start()

    def watch(self) -> None:
        """Begin to notice losses."""
        self.client.subscribe_topic("all", self._on_scheduler_event)
        self._watching = asyncio.run_coroutine_threadsafe(self._watch(), self._loop)

    def _on_scheduler_event(self, event: tuple[float, Any]) -> None:
        """Receive an event from the scheduler; called in Dask's thread."""
        said = event[1]
        if not isinstance(said, dict) or said.get("action") != "remove-worker":
            return
        with self._lock:
            lost = self._workers.pop(str(said.get("worker")), None)
            if lost is not None:
                self._beats.pop(lost.address, None)
        if lost is not None:
            self._report_loss(lost, "it left the cluster" if said.get("expected") else "Dask's scheduler has lost it")

    async def _watch(self) -> None:
        silent: set[str] = set()
        while True:
            await asyncio.sleep(_WATCH_S * max(1.0, len(self._workers) / _FEW))
            try:
                answer = await self._scheduler_identity()
            except Exception as error:
                self._break(f"Dask's scheduler does not answer: {str(error) or type(error).__name__}")
                return
            self._noted(answer)
            for address, worker in list(self._workers.items()):
                silent_s = self.silence_s(address)
                if not silent_s:
                    silent.discard(address)
                elif address not in silent:
                    silent.add(address)
                    self._report_loss(worker, f"it has given no sign of life for {silent_s:.0f} s")

    async def _scheduler_identity(self) -> Any:
        """Return the scheduler's information on its workers; raise an error if the scheduler is lost."""
        asking = asyncio.ensure_future(self.client.scheduler.identity(n_workers=-1))
        begun = connected = time.monotonic()
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=_WATCH_S / 2)
                now = time.monotonic()
                if self.client.status == "running":
                    connected = now
                if now - connected > _RECONNECT_S or now - begun > SCHEDULER_S:
                    raise ConnectionError("the connection to it is lost" if now - connected else "it is silent")
            return asking.result()
        finally:
            asking.cancel()

    def _break(self, cause: str) -> None:
        """Note that the scheduler is lost."""
        self._broken = cause
        self._tell_broken(ClusterError(cause, where="the cluster", hint="Connect anew"))

    def close(self) -> None:
        """Notice nothing any more."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(Exception):
                self.client.unsubscribe_topic("all")
        self._break("the connection to the cluster is closed")

    # --- questions to the scheduler -----------------------------------------------------------------

    @property
    def _loop(self) -> Any:
        return self.client.loop.asyncio_loop

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
                f"Dask's scheduler does not answer: {str(error) or f'no answer in {timeout_s:.0f} s'}",
                where="the cluster",
                hint="Start the scheduler again, then connect anew",
            ) from error


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts names with numbers by the numbers."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part)
