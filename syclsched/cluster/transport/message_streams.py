# SPDX-License-Identifier: Apache-2.0
"""Format of messages between workers, and the connections that carry them, each in one direction.

A message is a header, the name of its run, a description of the array and the bytes of the array. Calls that block
move them without a copy: threads write from the array, and read into the memory that the mailbox gives.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from syclsched.errors import SyclschedError

Array = np.ndarray[Any, np.dtype[Any]]

#: Messages up to this size are written with their header in one call.
_SMALL_BYTES: Final = 64 << 10
#: Size of the buffer for headers and small messages.
_BUFFER_BYTES: Final = 64 << 10
#: Most bytes read by one call.
_CHUNK_BYTES: Final = 16 << 20
#: Seconds between checks of a thread that waits to send.
_CHECK_S: Final = 0.25
#: Seconds that a message that is no longer wanted may take to be sent before its connection is closed.
_GRACE_S: Final = 1.0

#: Mark, bytes of the run's name, bytes of the description, number of the message, bytes of data.
_HEADER: Final = struct.Struct("<4sHHqQ")
_MARK: Final = b"SYM1"
#: Mark of a header that asks for a sign, and the sign.
_ASK: Final = b"SYM?"
_SIGN: Final = b"\x06"
#: Seconds without use after which a connection is asked for a sign, and how long it is waited for.
_IDLE_S: Final = 1.0
_SIGN_S: Final = 1.0


def header(run: str, message: int, description: str, nbytes: int) -> bytes:
    """Return the header that precedes the bytes of an array."""
    name, text = run.encode(), description.encode()
    return _HEADER.pack(_MARK, len(name), len(text), message, nbytes) + name + text


class Connection(Protocol):
    """One direction of a connection to another worker; a socket in blocking mode."""

    socket: socket.socket
    is_plain: bool  # whether the socket is not encrypted, so that flags can be given

    def close(self) -> None:
        """Close the connection, from any thread; calls that wait for it return."""


@dataclass(slots=True)
class Place:
    """Memory that a message is read into."""

    memory: Array | None  # bytes; None if no receive wants the message
    waiter: Any = None  # the thread that waits for it


class Receiver(Protocol):
    """Consumer of the messages of a connection; called by its thread."""

    def place(self, run: str, message: int, nbytes: int, description: str, reader: Incoming) -> Place:
        """Return the memory for a message that comes in; wait while there is no room."""

    def arrived(self, run: str, message: int, place: Place, description: str, source: str) -> None:
        """Note that a message is in its place."""

    def broken(self, reader: Incoming, cause: str, unread: tuple[str, int, Place] | None) -> None:
        """Note that the connection ended, perhaps within a message."""


class Outgoing:
    """The connection on which messages are sent to one worker."""

    def __init__(self, connect: Callable[[], Connection], waiting: Callable[[], AbstractContextManager[None]]) -> None:
        self._connect, self._waiting = connect, waiting
        self._lock = threading.Lock()  # one message at a time
        self._connection: Connection | None = None
        self._runs: set[str] = set()  # whose messages were sent on it
        self._used_s = 0.0  # when the last was
        self._closed = False

    def send(
        self, run: str, header: bytes, pieces: Sequence[memoryview], timeout_s: float, check: Callable[[], None]
    ) -> None:
        """Write a message; ``check`` raises if it is not wanted any more. Raise `OSError` if it cannot be sent.

        A connection that broke since the last run is opened again. Within a run that is an error: what was sent before
        may be lost.
        """
        if not self._lock.acquire(blocking=False):
            with self._waiting():
                end = time.monotonic() + timeout_s
                while not self._lock.acquire(timeout=_CHECK_S):
                    check()
                    if time.monotonic() > end:
                        raise TimeoutError(f"no data was taken in {timeout_s:.3g} s")
        try:
            if self._connection is not None and run not in self._runs and not self._answers(self._connection):
                self._disconnect()
            nbytes = sum(each.nbytes for each in pieces)
            self._transmit(header, pieces, nbytes, timeout_s, check)
            self._used_s = time.monotonic()
            self._runs.add(run)
        finally:
            self._lock.release()

    def _answers(self, connection: Connection) -> bool:
        """Return false if a connection is known to be broken.

        What is written first to a broken connection is lost without an error. So, after a while without use, the other
        end is asked for a sign. It may come late, as from a worker that reads no further, but it does not come as an
        error.
        """
        link = connection.socket
        try:
            if connection.is_plain:
                with suppress(BlockingIOError):
                    while link.recv(1, socket.MSG_DONTWAIT):  # signs that came late
                        pass
                    return False
                if time.monotonic() - self._used_s < _IDLE_S:
                    return True
            link.settimeout(_SIGN_S)
            link.sendall(_HEADER.pack(_ASK, 0, 0, 0, 0))
            return bool(link.recv(1))
        except TimeoutError:
            return True
        except OSError:
            return False
        finally:
            with suppress(OSError):  # it has been closed
                link.settimeout(None if connection.is_plain else _CHECK_S)

    def _transmit(
        self,
        header: bytes,
        pieces: Sequence[memoryview],
        nbytes: int,
        timeout_s: float,
        check: Callable[[], None],
    ) -> None:
        connection = self._connection or self._open()
        if nbytes <= _SMALL_BYTES:
            self._write(connection, memoryview(b"".join((header, *pieces))), timeout_s, check)
            return
        pieces = [memoryview(header), *(each for each in pieces if each.nbytes)]
        for number, each in enumerate(pieces, 1):
            self._write(connection, each, timeout_s, check, more=number < len(pieces))

    def end(self, run: str) -> None:
        """Forget that messages of a run were sent."""
        self._runs.discard(run)

    def _open(self) -> Connection:
        with self._waiting():
            connection = self._connect()
        if self._closed:
            connection.close()
            raise ConnectionAbortedError("the connection was closed")
        if connection.is_plain:
            # A call that waits longer returns the number of written bytes.
            connection.socket.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, int(_CHECK_S * 1e6))
            )
        else:
            connection.socket.settimeout(_CHECK_S)
        self._connection = connection
        return connection

    def _write(
        self,
        connection: Connection,
        view: memoryview,
        timeout_s: float,
        check: Callable[[], None],
        more: bool = False,
    ) -> None:
        link = connection.socket
        if connection.is_plain:
            with suppress(BlockingIOError):
                view = view[link.send(view, socket.MSG_DONTWAIT | (socket.MSG_MORE if more else 0)) :]
            if not view.nbytes:
                return
        with self._waiting():
            waited_from = time.monotonic()
            unwanted_from: float | None = None
            while view.nbytes:
                try:
                    sent = link.send(view)
                except (BlockingIOError, TimeoutError):
                    sent = 0
                now = time.monotonic()
                if sent:
                    view = view[sent:]
                    waited_from = now
                    continue
                if self._closed:
                    raise ConnectionAbortedError("the connection was closed")
                if now - waited_from > timeout_s:
                    raise TimeoutError(f"no data was taken in {timeout_s:.3g} s")
                try:
                    check()
                except SyclschedError:
                    # A message in progress is completed, if the peer takes it: other messages follow.
                    unwanted_from = now if unwanted_from is None else unwanted_from
                    if now - unwanted_from > _GRACE_S:
                        self.close()
                        raise

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._runs.clear()
        if connection is not None:
            connection.close()


class Incoming:
    """The connection on which messages come from one worker, and the thread that reads it."""

    def __init__(self, receiver: Receiver, source: str, connection: Connection) -> None:
        self.source = source
        self._receiver, self._connection = receiver, connection
        self._socket = connection.socket
        self._plain = connection.is_plain
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0  # of what is in the buffer
        self.closed = False

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._read, name=f"messages from {self.source}", daemon=True).start()

    def close(self) -> None:
        """Close the connection; the thread ends."""
        self.closed = True
        self._connection.close()

    def _read(self) -> None:
        unread: tuple[str, int, Place] | None = None
        cause = "it closed its connection"
        try:
            while True:
                unread = None
                mark, name_bytes, description_bytes, message, nbytes = _HEADER.unpack(self._take(_HEADER.size))
                if mark == _ASK:
                    self._socket.sendall(_SIGN)
                    continue
                if mark != _MARK:
                    raise OSError("what it sends is not a message")
                run = str(self._take(name_bytes), "utf-8")
                description = str(self._take(description_bytes), "utf-8")
                place = self._receiver.place(run, message, nbytes, description, self)
                unread = (run, message, place)
                if place.memory is None:
                    self._skip(nbytes)
                else:
                    self._fill(place.memory.data)
                self._receiver.arrived(run, message, place, description, self.source)
        except EOFError:
            pass
        except (OSError, ValueError, MemoryError) as error:
            cause = f"the connection broke: {str(error) or type(error).__name__}"
        self.closed = True
        self._receiver.broken(self, cause, unread)
        self._connection.close()

    def _take(self, count: int) -> bytes:
        """Return bytes of the buffer, after reading them if need be."""
        while self._end - self._start < count:
            if self._start:
                left = self._end - self._start
                self._buffer[:left] = self._buffer[self._start : self._end]
                self._start, self._end = 0, left
            self._end += self._receive(self._view[self._end :], wait_all=False)
        start = self._start
        self._start += count
        return bytes(self._view[start : self._start])

    def _fill(self, memory: memoryview) -> None:
        """Read into memory: first the buffer's contents, then from the socket."""
        done = min(self._end - self._start, len(memory))
        memory[:done] = self._view[self._start : self._start + done]
        self._start += done
        while len(memory) - done >= _BUFFER_BYTES:
            done += self._receive(memory[done : done + _CHUNK_BYTES], wait_all=True)
        if done < len(memory):
            memory[done:] = self._take(len(memory) - done)

    def _skip(self, nbytes: int) -> None:
        scrap = memoryview(bytearray(min(nbytes, _CHUNK_BYTES)))
        while nbytes:
            part = scrap[: min(nbytes, len(scrap))]
            self._fill(part)
            nbytes -= len(part)

    def _receive(self, memory: memoryview, *, wait_all: bool) -> int:
        flags = socket.MSG_WAITALL if wait_all and self._plain else 0
        count = self._socket.recv_into(memory, len(memory), flags) if flags else self._socket.recv_into(memory)
        if not count:
            raise EOFError
        return count
