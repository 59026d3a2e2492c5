# SPDX-License-Identifier: Apache-2.0
"""Messages of array data between the workers of a cluster, over one connection for each direction of each pair.

Each message belongs to a run and has a number. It may arrive before a receive waits for it. The bytes of an array are
written from the array itself, and read into the array that waits for them, or else into memory that is kept until
a receive asks for the message.

A thread reads from each connection at once whatever comes, so no two workers wait for each other. Only while more than
`WINDOW_BYTES` have come and not been asked for, and no thread of this worker waits for a message or to send one, it
reads no further: the sender then waits. This limits memory, and no cycle of waits can arise, since a worker whose
threads all wait reads without limit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

import numpy as np

from syclsched.cluster.transport.message_streams import Array, Connection, Incoming, Outgoing, Place, header
from syclsched.cluster.transport.spare_memory import SpareMemory
from syclsched.errors import ClusterError, RunCancelledError, SyclschedError, WorkerLostError

#: Bytes of messages that no receive has asked for, beyond which a worker that computes reads no further.
WINDOW_BYTES: Final = 256 << 20
#: Longest a send waits, in all, for a peer that takes nothing; a receive has its own limit.
SEND_TIMEOUT_S: Final = 600.0

#: Seconds between checks of a reader that waits for room.
_CHECK_S: Final = 0.25
#: Seconds that a transfer that is no longer wanted may take to finish before its connection is closed.
_GRACE_S: Final = 1.0
#: Ended runs whose late messages are recognised.
_ENDED_RUNS: Final = 4096

#: Data of a message without data.
_NOTHING: Final = np.empty(0, np.uint8)


@dataclass(slots=True)
class _Waiter:
    """A thread that waits for a message."""

    into: Array
    source: str | None
    done: threading.Lock = field(default_factory=threading.Lock)
    error: SyclschedError | None = None
    claimed: bool = False  # whether its array is being written
    reader: Incoming | None = None  # by this reader, if it comes from another worker

    def __post_init__(self) -> None:
        self.done.acquire()

    def finish(self, error: SyclschedError | None = None) -> None:
        """Let the thread continue; without effect if it has been released."""
        if self.done.locked():
            self.error = error
            self.done.release()


@dataclass(slots=True)
class _Run:
    """Messages of a run."""

    arrived: dict[int, tuple[Array, str]] = field(default_factory=dict)  # bytes and description
    waiting: dict[int, _Waiter] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    coming: set[int] = field(default_factory=set)  # those being read into memory of the mailbox
    lost: dict[str, str] = field(default_factory=dict)  # workers lost during the run, by address, with the cause
    cause: str | None = None  # of its cancellation


class Mailbox:
    """The messages of one worker; usable from any thread.

    ``connect`` is called with a worker's address, from the thread that sends first, and returns the connection to it,
    or raises `OSError`. The module describes the window.
    """

    def __init__(self, address: str, connect: Callable[[str], Connection], *, window_bytes: int = WINDOW_BYTES) -> None:
        self.address = address
        self._connect = connect
        self._window_bytes = window_bytes
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)  # to read further
        self._runs: dict[str, _Run] = {}
        self._listeners: dict[str, Callable[[str, int, Array], None]] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._outgoing: dict[str, Outgoing] = {}
        self._incoming: dict[str, Incoming] = {}
        self._spare = SpareMemory(window_bytes)
        self._when_lost: list[Callable[[str, str], object]] = []
        self._kept_bytes = 0  # that no receive has asked for yet
        self._blocked = 0  # threads that wait here
        self._closed = False

    # --- sending ----------------------------------------------------------------------------------

    def send(
        self, run: str, message: int, destination: str, data: Array | None, timeout_s: float = SEND_TIMEOUT_S
    ) -> None:
        """Send an array, or None for a message without data; return when the array may be changed.

        The message has a number, which is used once for each destination. A contiguous array is not copied. Raises
        `RunCancelledError`, or `WorkerLostError` if the other worker cannot be reached or takes no data in time.
        """
        data = _NOTHING if data is None else data
        description = _description(data)
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._check(run)
        if destination == self.address:
            self._deliver(run, message, flat, description)
            return
        self._send(run, message, destination, description, [flat.data], timeout_s)

    def send_pieces(self, run: str, message: int, destination: str, pieces: Sequence[memoryview]) -> None:
        """Send bytes in pieces to another worker, for a function that listens to the run; see `send` and `listen`."""
        self._check(run)
        self._send(run, message, destination, "", pieces, SEND_TIMEOUT_S)

    def _send(
        self,
        run: str,
        message: int,
        destination: str,
        description: str,
        pieces: Sequence[memoryview],
        timeout_s: float,
    ) -> None:
        peer = self._peer(destination, run)
        nbytes = sum(each.nbytes for each in pieces)
        try:
            peer.send(run, header(run, message, description, nbytes), pieces, timeout_s, lambda: self._check(run))
        except OSError as error:
            cause = f"the connection broke: {str(error) or type(error).__name__}"
            self.lose(destination, cause)
            raise _lost_error(destination, f"message {message} of run {run!r} was not sent", cause) from error

    def _peer(self, destination: str, run: str) -> Outgoing:
        with self._lock:
            if self._closed:
                raise ClusterError("the worker is closing", worker=self.address)
            lost = self._state(run).lost.get(destination)
            if lost is not None:
                raise _lost_error(destination, "nothing can be sent", lost)
            peer = self._outgoing.get(destination)
            if peer is None:
                peer = Outgoing(partial(self._connect, destination), self._waiting)
                self._outgoing[destination] = peer
        return peer

    # --- receiving --------------------------------------------------------------------------------

    def receive(
        self, run: str, message: int, into: Array | None, timeout_s: float, *, source: str | None = None
    ) -> None:
        """Wait for a message and write it into an array of the same shape and element type.

        There is no array for a message without data. The wait ends when the ``source``, given by its address, is lost.
        Raises `RunCancelledError`, `WorkerLostError`, or `ClusterError` if the message does not come in time, is
        another array than expected, or has been fetched before.
        """
        into = np.empty(0, np.uint8) if into is None else into
        with self._lock:
            state = self._state(run)
            if message in state.arrived:
                memory, description = state.arrived.pop(message)
                self._kept_bytes -= memory.nbytes
                self._room.notify_all()
                waiter = None
            else:
                self._check_wanted(run, state, message, source)
                waiter = state.waiting[message] = _Waiter(into, source)
                self._blocked += 1
                self._room.notify_all()
        if waiter is None:
            mismatch = _mismatch_error(into, description, message)
            if mismatch is not None:
                raise mismatch
            _write(into, memory)
            self._spare.release(memory)
            return
        try:
            in_time = waiter.done.acquire(timeout=min(max(0.0, timeout_s), threading.TIMEOUT_MAX))
        except BaseException:
            self._abandon(state, message, waiter)
            raise
        finally:
            with self._lock:
                self._blocked -= 1
        if not in_time and not self._abandon(state, message, waiter):
            raise ClusterError(
                f"message {message} of run {run!r} has not come in {timeout_s:.3g} s", worker=source or self.address
            )
        if waiter.error is not None:
            raise waiter.error

    def _check_wanted(self, run: str, state: _Run, message: int, source: str | None) -> None:
        """Refuse to wait for a message that cannot come; the lock is held."""
        if state.cause is not None:
            raise RunCancelledError(f"the run was cancelled: {state.cause}", where=f"run {run!r}")
        if message in state.waiting or (message in state.seen and message not in state.coming):
            raise ClusterError(f"message {message} of run {run!r} was asked for twice", worker=self.address)
        lost = None if source is None else state.lost.get(source)
        if source is not None and lost is not None:
            raise _lost_error(source, f"message {message} of run {run!r} cannot come", lost)
        if self._closed:
            raise ClusterError("the worker is closing", worker=self.address)

    def _abandon(self, state: _Run, message: int, waiter: _Waiter) -> bool:
        """Stop waiting, so that nothing is written to the array any more; return whether the message has come."""
        with self._lock:
            if state.waiting.get(message) is waiter:
                del state.waiting[message]
            if not waiter.claimed:
                return not waiter.done.locked()
        if not waiter.done.acquire(timeout=_GRACE_S):  # it is coming in right now
            if waiter.reader is not None:
                waiter.reader.close()
            waiter.done.acquire()
        return True

    # --- runs -------------------------------------------------------------------------------------

    def cancel(self, run: str, cause: str) -> None:
        """End all waits of a run with an error, and drop its messages."""
        with self._lock:
            if run in self._ended:
                return
            state = self._state(run)
            if state.cause is None:
                state.cause = cause
            self._drop(state, RunCancelledError(f"the run was cancelled: {state.cause}", where=f"run {run!r}"))

    def listen(self, run: str, call: Callable[[str, int, Array], None]) -> None:
        """Give the messages of a run to a function, in the thread that reads them, instead of keeping them.

        It is called with the sender, the message's number and its bytes, and must not wait.
        """
        with self._lock:
            self._listeners[run] = call

    def end(self, run: str) -> None:
        """Forget a run; drop its messages, also those that come later."""
        with self._lock:
            state = self._runs.pop(run, None)
            for peer in self._outgoing.values():
                peer.end(run)
            self._ended[run] = None
            while len(self._ended) > _ENDED_RUNS:
                self._ended.popitem(last=False)
            if state is not None:
                self._drop(state, RunCancelledError("the run has ended", where=f"run {run!r}"))

    def _drop(self, state: _Run, error: SyclschedError) -> None:
        self._kept_bytes -= sum(memory.nbytes for memory, _ in state.arrived.values())
        state.arrived.clear()
        for number, waiter in list(state.waiting.items()):
            if not waiter.claimed:  # else it is woken when the data is in
                del state.waiting[number]
                waiter.finish(error)
        self._room.notify_all()

    def _state(self, run: str) -> _Run:
        if run in self._ended:
            raise RunCancelledError("the run has ended", where=f"run {run!r}")
        state = self._runs.get(run)
        if state is None:
            state = self._runs[run] = _Run()
        return state

    def _check(self, run: str) -> None:
        """Raise an error if a run has been cancelled or has ended."""
        with self._lock:
            cause = self._state(run).cause
        if cause is not None:
            raise RunCancelledError(f"the run was cancelled: {cause}", where=f"run {run!r}")

    # --- peers ------------------------------------------------------------------------------------

    def accept(self, source: str, connection: Connection) -> None:
        """Read messages from a connection that another worker has opened."""
        reader = Incoming(self, source, connection)
        with self._lock:
            closed = self._closed
            before = self._incoming.get(source)
            if not closed:
                self._restore(source)
                self._incoming[source] = reader
        if before is not None:
            before.close()
        if closed:
            connection.close()
        else:
            reader.start()

    def hears(self, peer: str) -> bool:
        """Return whether another end has a connection to send here."""
        with self._lock:
            return peer in self._incoming

    def adopt(self, peer: str, connection: Connection) -> None:
        """Send messages for another end on a connection that it has opened, since it cannot be connected to."""
        sender = Outgoing(lambda: connection, self._waiting)
        with self._lock:
            self._restore(peer)
            before, self._outgoing[peer] = self._outgoing.get(peer), sender
            closed = self._closed
        if before is not None:
            before.close()
        if closed:
            connection.close()

    def lose(self, peer: str, cause: str) -> None:
        """Note that a worker is lost: end all waits for its messages, and send it nothing more in the present runs."""
        with self._lock:
            outgoing = self._outgoing.pop(peer, None)
            incoming = self._incoming.pop(peer, None)
            for state in self._runs.values():
                state.lost.setdefault(peer, cause)
                for number, waiter in list(state.waiting.items()):
                    if waiter.source == peer and not waiter.claimed:
                        del state.waiting[number]
                        waiter.finish(_lost_error(peer, f"message {number} cannot come", cause))
            self._room.notify_all()
            told = list(self._when_lost)
        for each in (outgoing, incoming):
            if each is not None:
                each.close()
        for tell in told:
            tell(peer, cause)

    def when_lost(self, call: Callable[[str, str], object]) -> Callable[[], None]:
        """Call a function with the address and cause of each lost worker or client; return a function that ends this.

        It must not wait.
        """
        with self._lock:
            self._when_lost.append(call)

        def end() -> None:
            with self._lock, suppress(ValueError):
                self._when_lost.remove(call)

        return end

    def _restore(self, peer: str) -> None:
        """Use a worker again that was lost and has connected; the lock is held."""
        for state in self._runs.values():
            state.lost.pop(peer, None)

    @property
    def kept_bytes(self) -> int:
        """Bytes of messages that have come, or are coming, and that no receive has asked for."""
        return self._kept_bytes

    def close(self) -> None:
        """Close all connections, and end all waits with an error."""
        with self._lock:
            self._closed = True
            ends: list[Outgoing | Incoming] = [*self._outgoing.values(), *self._incoming.values()]
            self._outgoing, self._incoming = {}, {}
            for state in self._runs.values():
                self._drop(state, ClusterError("the worker is closing", worker=self.address))
            self._runs = {}
        self._spare.clear()
        for end in ends:
            end.close()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Note that a thread waits here, during which all that comes is read."""
        with self._lock:
            self._blocked += 1
            self._room.notify_all()
        try:
            yield
        finally:
            with self._lock:
                self._blocked -= 1

    # --- called by readers ------------------------------------------------------------------------

    def place(self, run: str, message: int, nbytes: int, description: str, reader: Incoming | None) -> Place:
        """Return the memory for a message that comes in; wait while there is no room."""
        with self._lock:
            if run in self._listeners:
                return Place(np.empty(nbytes, np.uint8))
            while True:
                state = None if run in self._ended or self._closed else self._state(run)
                if state is None or state.cause is not None or message in state.seen:
                    return Place(None)
                waiter = state.waiting.get(message)
                if waiter is not None:
                    place = self._claim(state, message, waiter, nbytes, description, reader)
                    state.seen.add(message)
                    return place
                if self._blocked or self._kept_bytes + nbytes <= max(self._window_bytes, nbytes) or reader is None:
                    break
                if reader.closed:
                    return Place(None)
                self._room.wait(_CHECK_S)
            memory = self._spare.acquire(nbytes)
            state.seen.add(message)
            state.coming.add(message)
            self._kept_bytes += nbytes
        return Place(memory)

    def _claim(
        self, state: _Run, message: int, waiter: _Waiter, nbytes: int, description: str, reader: Incoming | None
    ) -> Place:
        """Return the array of a thread that waits as the place of a message; the lock is held."""
        mismatch = _mismatch_error(waiter.into, description, message)
        if mismatch is not None:
            del state.waiting[message]
            waiter.finish(mismatch)
            return Place(None)
        if waiter.into.flags.c_contiguous:
            place = Place(waiter.into.reshape(-1).view(np.uint8), waiter)
        else:
            place = Place(self._spare.acquire(nbytes), waiter)
        waiter.claimed, waiter.reader = True, reader
        del state.waiting[message]
        return place

    def arrived(self, run: str, message: int, place: Place, description: str, source: str) -> None:
        """Note that a message is in its place."""
        memory, waiter = place.memory, place.waiter
        if memory is None:
            return
        listener = self._listeners.get(run)
        if listener is not None:
            listener(source, message, memory)
            return
        if waiter is not None:
            if not waiter.into.flags.c_contiguous:
                _write(waiter.into, memory)
                self._spare.release(memory)
            waiter.finish()
            return
        with self._lock:
            state = self._runs.get(run)
            if state is not None:
                state.coming.discard(message)
            if state is None or state.cause is not None:
                self._kept_bytes -= memory.nbytes
                return
            waiter = state.waiting.pop(message, None)
            if waiter is None:
                state.arrived[message] = (memory, description)
                return
            self._kept_bytes -= memory.nbytes  # a receive has begun to wait meanwhile
            waiter.claimed = True
        mismatch = _mismatch_error(waiter.into, description, message)
        if mismatch is None:
            _write(waiter.into, memory)
        waiter.finish(mismatch)
        self._spare.release(memory)

    def broken(self, reader: Incoming, cause: str, unread: tuple[str, int, Place] | None) -> None:
        """Note that a connection ended, perhaps within a message."""
        with self._lock:
            ended = self._incoming.get(reader.source) is reader and not self._closed
            if unread is not None:
                run, message, place = unread
                state = self._runs.get(run)
                waiter: _Waiter | None = place.waiter
                if place.memory is not None and state is not None:
                    state.seen.discard(message)
                if waiter is None and place.memory is not None and run not in self._listeners:
                    self._kept_bytes -= place.memory.nbytes
                    if state is not None:
                        state.coming.discard(message)
                        waiter = state.waiting.pop(message, None)
                if waiter is not None:
                    waiter.finish(
                        WorkerLostError(f"message {message} of run {run!r} came in part: {cause}", worker=reader.source)
                    )
        if ended:
            self.lose(reader.source, cause)

    def _deliver(self, run: str, message: int, flat: Array, description: str) -> None:
        """Give a message to this worker itself."""
        place = self.place(run, message, flat.nbytes, description, None)
        if place.memory is not None:
            np.copyto(place.memory, flat)
            self.arrived(run, message, place, description, self.address)


class HasMailbox(Protocol):
    """A worker, or the process that connects."""

    address: str
    mailbox: Mailbox


def _lost_error(peer: str, what: str, cause: str) -> WorkerLostError:
    return WorkerLostError(f"{what}, since the worker is lost: {cause}", worker=peer)


def _description(data: Array) -> str:
    """Return element type and shape of an array, which sender and receiver must agree on."""
    return f"{data.dtype.str}{data.shape}"


def _mismatch_error(into: Array, description: str, message: int) -> ClusterError | None:
    """Return the error of a message that does not fit the array that waits for it."""
    expected = _description(into)
    if description == expected:
        return None
    return ClusterError(f"message {message} is an array {description}, not {expected} as expected")


def _write(into: Array, memory: Array) -> None:
    """Write bytes into an array of any layout."""
    np.copyto(into, memory.view(into.dtype).reshape(into.shape) if into.nbytes else into)
