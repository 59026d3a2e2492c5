# SPDX-License-Identifier: Apache-2.0
"""Connections for messages: opened, authenticated and encrypted by Dask's comm layer, then driven by threads.

Dask's event loop does not read or write such a connection any more. Blocking calls of threads move data without a copy
and without the loop, which would cost more than a small message.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError  # Python 3.10 has two
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

from syclsched.errors import ClusterError

if TYPE_CHECKING:
    from distributed.comm import Comm

#: Operation of Dask's workers that takes over a connection for messages.
OPERATION: Final = "syclsched_messages"
#: Seconds in which a connection must be open.
CONNECT_S: Final = 30.0

_READY: Final = b"\x06"

#: Direction of the messages, as seen by the worker that is connected to.
Direction = Literal["in", "out"]


class CommSocket:
    """The socket of a connection that Dask has opened; a `Connection`."""

    def __init__(self, comm: Comm, loop: asyncio.AbstractEventLoop, on_close: Callable[[CommSocket], None]) -> None:
        stream: Any = getattr(comm, "stream", None)
        link = getattr(stream, "socket", None)
        if link is None:
            raise ClusterError(
                f"messages need TCP, and not {comm.peer_address.partition('://')[0]}",
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
            # Not that of ssl, which would let threads continue with bytes that are still encrypted.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self.ended.set()
        self._on_close(self)
        self._comm.abort()


class CommSockets:
    """The connections of one end, whose ``name`` is a worker's address or the name of a client.

    ``connection_args`` are Dask's arguments for connections, such as certificates.
    """

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, connection_args: Mapping[str, Any]) -> None:
        self._name, self._loop, self._connection_args = name, loop, connection_args
        self._open: set[CommSocket] = set()

    def connect(self, peer: str, direction: Direction = "in", timeout_s: float = CONNECT_S) -> CommSocket:
        """Open a connection to a worker; called in a thread of ours. Raise `OSError` if that fails."""
        opening = asyncio.run_coroutine_threadsafe(self._dial(peer, direction, timeout_s), self._loop)
        try:
            connection = opening.result(timeout_s)
        except FutureTimeoutError as error:
            opening.cancel()
            raise ConnectionError(f"no connection in {timeout_s:.3g} s") from error
        link = connection.socket
        link.settimeout(timeout_s)
        try:
            if link.recv(1) != _READY:
                raise ConnectionError("the worker does not accept messages")
        except OSError:
            connection.close()
            raise
        link.settimeout(None)
        return connection

    async def _dial(self, peer: str, direction: Direction, timeout_s: float) -> CommSocket:
        from distributed.core import connect

        comm = await connect(peer, timeout=timeout_s, **self._connection_args)
        try:
            await comm.write({"op": OPERATION, "sender": self._name, "direction": direction, "reply": False})
            return self._detached(comm)
        except BaseException:
            comm.abort()
            raise

    async def accept(self, comm: Comm, take: Callable[[CommSocket], None]) -> Any:
        """Take over a connection that another end has opened, until it is closed; run by Dask's worker."""
        from distributed.core import Status

        connection = self._detached(comm)
        try:
            connection.socket.sendall(_READY)
            take(connection)
            await connection.ended.wait()
        finally:
            connection.close()
        return Status.dont_reply

    def _detached(self, comm: Comm) -> CommSocket:
        connection = CommSocket(comm, self._loop, self._open.discard)
        self._open.add(connection)
        return connection

    def __iter__(self) -> Any:
        return iter(tuple(self._open))

    def close(self) -> None:
        """Close all connections."""
        for each in self:
            each.close()
