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
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from distributed import WorkerPlugin

from syclsched import __version__
from syclsched.api import discover
from syclsched.cluster.mailbox import Mailbox
from syclsched.errors import ClusterError, SyclschedError

if TYPE_CHECKING:
    from distributed import Worker
    from distributed.comm import Comm

    from syclsched.model.platform import Platform

#: Name of the extension on each worker.
NAME: Final = "syclsched"
#: Operation of Dask's workers that opens a connection for messages.
_OPERATION: Final = "syclsched_messages"
#: Seconds in which a connection to another worker must be open.
CONNECT_S: Final = 30.0
_READY: Final = b"\x06"


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
        self._open: set[_CommSocket] = set()
        if self._local and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        core = self._cores.get(str(worker.name))
        if core is not None:
            _pin(core)
        self.mailbox = Mailbox(self.address, self._connect)
        worker.handlers[_OPERATION] = self._accept

    async def teardown(self, worker: Worker) -> None:
        """End on a worker."""
        worker.handlers.pop(_OPERATION, None)
        self.mailbox.close()
        for closed in list(self._open):
            closed.close()
        with self._lock:
            values, self.values = self.values, {}
        for value in values.values():
            close = getattr(value, "close", None)
            if callable(close):
                await self.in_thread(close)

    # --- connections for messages -------------------------------------------------------------------

    def _connect(self, peer: str) -> _CommSocket:
        """Open a connection to another worker; called in a thread that sends."""
        opening = asyncio.run_coroutine_threadsafe(self._dial(peer), self._loop)
        try:
            connection = opening.result(CONNECT_S)
        except TimeoutError as error:
            opening.cancel()
            raise ConnectionError(f"no connection in {CONNECT_S:.0f} s") from error
        link = connection.socket
        link.settimeout(CONNECT_S)
        try:
            if link.recv(1) != _READY:
                raise ConnectionError("the worker does not accept messages")
        except OSError:
            connection.close()
            raise
        link.settimeout(None)
        return connection

    async def _dial(self, peer: str) -> _CommSocket:
        from distributed.core import connect

        comm = await connect(peer, timeout=CONNECT_S, **self.worker.connection_args)
        try:
            await comm.write({"op": _OPERATION, "sender": self.address, "reply": False})
            return self._detached(comm)
        except BaseException:
            comm.abort()
            raise

    async def _accept(self, comm: Comm, sender: str) -> Any:
        """Take over a connection that another worker has opened; an operation of Dask's worker."""
        from distributed.core import Status

        connection = self._detached(comm)
        try:
            connection.socket.sendall(_READY)
            self.mailbox.accept(sender, connection)
            await connection.ended.wait()
        finally:
            connection.close()
        return Status.dont_reply

    def _detached(self, comm: Comm) -> _CommSocket:
        connection = _CommSocket(comm, self._loop, self._open.discard)
        self._open.add(connection)
        return connection

    def connections(self) -> tuple[_CommSocket, ...]:
        """Return the connections for messages that are open, in both directions."""
        return tuple(self._open)

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


class _CommSocket:
    """The socket of a connection that Dask's comm layer has opened, secured and handed over to threads.

    Dask's event loop does not read or write it any more. Blocking calls of threads move data without a copy and
    without the loop, which costs more than the message.
    """

    def __init__(self, comm: Comm, loop: asyncio.AbstractEventLoop, on_close: Callable[[_CommSocket], None]) -> None:
        stream: Any = getattr(comm, "stream", None)
        link = getattr(stream, "socket", None)
        if link is None:
            raise ClusterError(
                f"messages between workers need TCP, and not {comm.peer_address.partition('://')[0]}",
                hint="Start Dask's workers with the protocol tcp:// or tls://",
            )
        if stream.writing() or stream.reading():
            raise ConnectionError("the connection is in use")
        stream.io_loop.remove_handler(link.fileno())
        link.setblocking(True)
        self.socket: socket.socket = link
        self.is_plain = not isinstance(link, ssl.SSLSocket)
        self.ended = asyncio.Event()
        self._comm, self._loop, self._on_close = comm, loop, on_close
        self._closed = False

    def close(self) -> None:
        """Close the connection, from any thread."""
        if self._closed:
            return
        self._closed = True
        with suppress(OSError):
            # Not that of ssl, which would let the threads go on with the data of another connection.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self.ended.set()
        self._on_close(self)
        self._comm.abort()
