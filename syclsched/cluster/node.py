# SPDX-License-Identifier: Apache-2.0
"""Extension of a Dask worker that makes it a machine to plan for: its mailbox, its devices, and functions called there.

Dask's event loop only opens connections. Everything else runs in threads of its own, so the worker keeps answering.
Needs the package distributed; `syclsched.cluster.connection` imports it on first use.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import pickle
import platform as python_platform
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from distributed import WorkerPlugin

from syclsched import __version__
from syclsched.api import discover
from syclsched.cluster.comm_sockets import OPERATION, CommSockets, Direction
from syclsched.cluster.mailbox import Mailbox
from syclsched.errors import ClusterError, SyclschedError

if TYPE_CHECKING:
    from distributed import Worker
    from distributed.comm import Comm

    from syclsched.model.platform import Platform

#: Name of the extension on each worker.
NAME: Final = "syclsched"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a worker says about its machine."""

    address: str
    host_name: str
    process: int
    cores: int  # that the process may use
    python: str
    numpy: str
    version: str
    memory_bytes: int
    generation: str = ""
    platform: Platform | None = None
    problem: str = ""  # why there is no platform


class Node(WorkerPlugin):  # type: ignore[misc]  # distributed is not checked
    """One worker of a cluster; Dask makes a copy of it on each worker.

    Parameters
    ----------
    cores : dict, optional
        Core that each worker is bound to, by Dask's names of the workers.
    local : bool, optional
        Whether the process that connects has started the workers: they leave Ctrl-C to it.

    Attributes
    ----------
    address : str
        Of the worker.
    mailbox : Mailbox
        Its messages.
    sockets : CommSockets
        Its connections for them.
    values : dict
        Free for the functions that are called here; they lock it themselves.
    """

    name = NAME
    idempotent = True

    def __init__(self, cores: dict[str, int] | None = None, *, local: bool = False) -> None:
        self._cores = dict(cores or {})
        self._local = local

    def __getstate__(self) -> dict[str, Any]:
        return {"_cores": self._cores, "_local": self._local}

    # --- life, called by Dask ---------------------------------------------------------------------

    async def setup(self, worker: Worker) -> None:
        """Begin on a worker."""
        self.worker = worker
        self.address: str = worker.address
        self.values: dict[str, Any] = {}
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._platform: Platform | None = None
        if self._local and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        core = self._cores.get(str(worker.name))
        if core is not None:
            _pin(core)
        self.sockets = CommSockets(self.address, self._loop, worker.connection_args)
        self.mailbox = Mailbox(self.address, self.sockets.connect)
        worker.handlers[OPERATION] = self._accept

    async def teardown(self, worker: Worker) -> None:
        """End on a worker."""
        worker.handlers.pop(OPERATION, None)
        self.mailbox.close()
        self.sockets.close()
        with self._lock:
            values, self.values = self.values, {}
        for value in values.values():
            close = getattr(value, "close", None)
            if callable(close):
                await self.in_thread(close)

    async def _accept(self, comm: Comm, sender: str, direction: Direction) -> Any:
        """Take over a connection for messages; an operation of Dask's worker."""
        if direction == "in":
            return await self.sockets.accept(comm, partial(self.mailbox.accept, sender))
        return await self.sockets.accept(comm, partial(self.mailbox.adopt, sender))

    # --- functions called from outside ------------------------------------------------------------

    async def in_thread(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a function in a thread of its own."""
        done: Future[Any] = Future()

        def call() -> None:
            try:
                result = function(*arguments, **named)
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(result)

        threading.Thread(target=call, name=getattr(function, "__name__", "call"), daemon=True).start()
        return await asyncio.wrap_future(done)

    @property
    def platform(self) -> Platform:
        """The machine's devices, with the profiles stored there; found on first use.

        Raises
        ------
        ClusterError
            If there are none.
        """
        with self._lock:
            if self._platform is None:
                try:
                    self._platform = discover()
                except SyclschedError as error:
                    raise ClusterError(f"no device can be used: {error}", worker=self.address) from error
            return self._platform

    def describe(self, *, devices: bool = True) -> NodeFacts:
        """Return what this machine is; without ``devices`` the SYCL runtime is not loaded."""
        found, problem = None, ""
        if devices:
            try:
                found = self.platform
            except ClusterError as error:
                problem = error.what
        return NodeFacts(
            address=self.address,
            host_name=socket.gethostname(),
            process=os.getpid(),
            cores=len(os.sched_getaffinity(0)),
            python=python_platform.python_version(),
            numpy=np.__version__,
            version=__version__,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            generation="" if found is None else found.generation,
            platform=found,
            problem=problem,
        )


def describe(node: Node, *, devices: bool = True) -> NodeFacts:
    """Return what a machine is; see `Node.describe`."""
    return node.describe(devices=devices)


def lose_peer(node: Node, peer: str, cause: str) -> None:
    """Tell a worker that another is lost."""
    node.mailbox.lose(peer, cause)


def forget_losses(node: Node) -> None:
    """Use all workers again that were lost."""
    node.mailbox.restore()


def cancel_run(node: Node, run: str, cause: str) -> None:
    """End all waits for messages of a run on a worker."""
    node.mailbox.cancel(run, cause)


def end_run(node: Node, run: str) -> None:
    """Drop all messages of a run on a worker."""
    node.mailbox.end(run)


async def called(function: str, arguments: bytes, *, dask_worker: Worker) -> tuple[bool, bytes]:
    """Call a function named ``module:name`` with the worker's `Node`; run by Dask's worker.

    Returns whether it returned, and what it returned or raised, pickled: errors of tasks are ours to report.
    """
    from distributed.protocol.pickle import dumps

    def call() -> tuple[bool, bytes]:
        try:
            node = dask_worker.plugins.get(NAME)
            if node is None:
                raise ClusterError("the worker is not part of this cluster any more", worker=dask_worker.address)
            module, _, name = function.partition(":")
            positional, named = pickle.loads(arguments)
            return True, dumps(getattr(importlib.import_module(module), name)(node, *positional, **named))
        except BaseException as error:
            return False, _pickled_error(error, dask_worker.address)

    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[bool, bytes]] = loop.create_future()

    def run() -> None:
        answer = call()
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_settle, done, answer)

    threading.Thread(target=run, name=f"syclsched {function}", daemon=True).start()
    return await done


def _settle(done: asyncio.Future[tuple[bool, bytes]], answer: tuple[bool, bytes]) -> None:
    if not done.done():
        done.set_result(answer)


def _pickled_error(error: BaseException, address: str) -> bytes:
    from distributed.protocol.pickle import dumps

    try:
        data: bytes = dumps(error)
        pickle.loads(data)
    except Exception:
        data = dumps(ClusterError(f"{type(error).__name__}: {error}", worker=address))
    return data


def _pin(core: int) -> None:
    """Bind all threads of this process to one core."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError):
            os.sched_setaffinity(int(thread), {core})
