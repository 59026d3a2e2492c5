# SPDX-License-Identifier: Apache-2.0
"""Messages between mailboxes that are connected within one process."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from support.opened import until

from syclsched.cluster.transport.mailbox import Mailbox
from syclsched.errors import ClusterError, RunCancelledError, WorkerLostError


class SocketConnection:
    """A socket as a mailbox connection."""

    is_plain = True

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.ended = threading.Event()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.ended.set()


class Network:
    """Mailboxes that open connections over the loopback device."""

    def __init__(self) -> None:
        self.boxes: dict[str, Mailbox] = {}
        self.ends: list[socket.socket] = []

    def add(self, name: str, **options: Any) -> Mailbox:
        self.boxes[name] = Mailbox(name, lambda peer: self.connect(name, peer), **options)
        return self.boxes[name]

    def pair(self) -> tuple[SocketConnection, SocketConnection]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            near = socket.create_connection(server.getsockname())
            far, _ = server.accept()
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.ends.append(end)
        return SocketConnection(near), SocketConnection(far)

    def connect(self, name: str, peer: str) -> SocketConnection:
        if peer not in self.boxes:
            raise ConnectionRefusedError(f"no worker at {peer}")
        near, far = self.pair()
        self.boxes[peer].accept(name, far)
        return near

    def raw(self, name: str, peer: str) -> socket.socket:
        """Return a socket that a mailbox takes for its connection from a worker."""
        near, far = self.pair()
        self.boxes[peer].accept(name, far)
        return near.socket

    def close(self) -> None:
        for box in self.boxes.values():
            box.close()
        for end in self.ends:
            end.close()


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()


@pytest.fixture
def a(network: Network) -> Mailbox:
    return network.add("a")


@pytest.fixture
def b(network: Network) -> Mailbox:
    return network.add("b")


def in_thread(call: Callable[[], object]) -> Future[object]:
    """Call a function on a new thread."""
    outcome: Future[object] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome


def header(run: str, message: int, data: np.ndarray) -> bytes:
    """Return the header of an array message, as a worker of another version would write it."""
    said = f"{data.dtype.str}{data.shape}".encode()
    return struct.pack("<4sHHqQ", b"SYM1", len(run), len(said), message, data.nbytes) + run.encode() + said


ARRAYS = {
    "one number": np.array(3.5),
    "nothing": np.empty((0, 3), np.float32),
    "a few bytes": np.arange(7, dtype=np.uint8),
    "more than the buffer": np.arange(50_000, dtype=np.float64),
    "a megabyte": np.arange(1 << 18, dtype=np.int32).reshape(512, 512),
    "columns first": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "every second": np.arange(20.0)[::2],
    "truth values": np.array([True, False, True]),
    "complex": np.array([1 + 2j, 3 - 4j], np.complex64),
    "half precision": np.arange(9, dtype=np.float16).reshape(3, 3),
    "dates": np.array(["2026-01-01", "2026-02-03"], "M8[s]"),
}


class TestArrays:
    @pytest.mark.parametrize("data", ARRAYS.values(), ids=ARRAYS)
    @pytest.mark.parametrize("first", ["the receiver", "the message"])
    def test_array_arrives_as_it_was_sent(self, a: Mailbox, b: Mailbox, data: np.ndarray, first: str) -> None:
        into = np.zeros_like(data)
        if first == "the receiver":
            received = in_thread(lambda: b.receive("run", 5, into, 10.0, source="a"))
            time.sleep(0.01)
            a.send("run", 5, "b", data)
        else:
            a.send("run", 5, "b", data)
            until(lambda: b.kept_bytes == data.nbytes)
            received = in_thread(lambda: b.receive("run", 5, into, 10.0, source="a"))
        received.result(10)
        assert into.tobytes() == data.tobytes()
        assert b.kept_bytes == 0

    def test_array_may_change_after_it_was_sent(self, a: Mailbox, b: Mailbox) -> None:
        data = np.zeros(1 << 20)
        sent = in_thread(lambda: (a.send("run", 0, "b", data), data.fill(1.0)))
        into = np.ones(1 << 20)
        b.receive("run", 0, into, 10.0)
        sent.result(10)
        assert not into.any()

    def test_array_of_any_layout_is_written(self, a: Mailbox, b: Mailbox) -> None:
        whole = np.zeros((4, 6))
        for number, first in enumerate(("receiver", "message")):
            data = np.arange(12.0).reshape(4, 3) + number
            received = in_thread(lambda: b.receive("run", number, whole[:, ::2], 10.0))  # noqa: B023
            if first == "receiver":
                time.sleep(0.01)
            a.send("run", number, "b", data)
            received.result(10)
            np.testing.assert_array_equal(whole[:, ::2], data)
            assert not whole[:, 1::2].any()

    def test_message_without_data(self, a: Mailbox, b: Mailbox) -> None:
        a.send("run", 0, "b", None)
        b.receive("run", 0, None, 10.0)

    def test_worker_sends_to_itself(self, a: Mailbox) -> None:
        data, into = np.arange(5.0), np.zeros(5)
        a.send("run", 0, "a", data)
        a.receive("run", 0, into, 1.0)
        np.testing.assert_array_equal(into, data)
        received = in_thread(lambda: a.receive("run", 1, into, 10.0))
        time.sleep(0.01)
        a.send("run", 1, "a", data + 1)
        received.result(10)
        np.testing.assert_array_equal(into, data + 1)

    @pytest.mark.parametrize("first", ["the receiver", "the message"])
    def test_other_array_than_expected_is_an_error(self, a: Mailbox, b: Mailbox, first: str) -> None:
        into = np.zeros(4)
        if first == "the message":
            a.send("run", 3, "b", np.zeros((2, 2)))
            until(lambda: b.kept_bytes > 0)
        received = in_thread(lambda: b.receive("run", 3, into, 10.0))
        if first == "the receiver":
            time.sleep(0.01)
            a.send("run", 3, "b", np.zeros((2, 2)))
        with pytest.raises(ClusterError, match=r"message 3 is an array <f8\(2, 2\), not <f8\(4,\)"):
            received.result(10)
        a.send("run", 4, "b", np.ones(4))  # later messages arrive
        b.receive("run", 4, into, 10.0)
        assert into.all()

    def test_many_threads_and_sizes(self, a: Mailbox, b: Mailbox) -> None:
        draw = np.random.default_rng(5)
        sent = {n: draw.integers(0, 256, size, np.uint8) for n, size in enumerate(draw.integers(0, 200_000, 120))}
        got: dict[int, np.ndarray] = {n: np.zeros_like(data) for n, data in sent.items()}

        def move(which: int) -> None:
            for number in draw_order[which::4]:
                if which % 2:
                    a.send("run", number, "b", sent[number])
                    b.receive("run", number, got[number], 20.0, source="a")
                else:
                    b.send("run", number, "a", sent[number])
                    a.receive("run", number, got[number], 20.0, source="b")

        draw_order = [int(n) for n in draw.permutation(len(sent))]
        for moved in [in_thread(lambda which=which: move(which)) for which in range(4)]:
            moved.result(30)
        assert all(np.array_equal(got[n], data) for n, data in sent.items())
        assert a.kept_bytes == b.kept_bytes == 0


class TestRuns:
    def test_runs_have_numbers_of_their_own(self, a: Mailbox, b: Mailbox) -> None:
        into = np.zeros(1)
        for run in ("first", "second"):
            a.send(run, 0, "b", np.array([len(run)]).astype(float))
        for run in ("second", "first"):
            b.receive(run, 0, into, 10.0)
            assert into[0] == len(run)

    def test_message_is_received_once(self, a: Mailbox, b: Mailbox) -> None:
        into = np.zeros(1)
        a.send("run", 0, "b", np.ones(1))
        a.send("run", 0, "b", np.full(1, 2.0))
        a.send("run", 1, "b", None)
        b.receive("run", 1, None, 10.0)
        b.receive("run", 0, into, 10.0)
        assert into[0] == 1.0
        with pytest.raises(ClusterError, match="asked for twice"):
            b.receive("run", 0, into, 10.0)
        assert b.kept_bytes == 0

    def test_cancellation_ends_waits_and_drops_messages(self, a: Mailbox, b: Mailbox) -> None:
        a.send("run", 0, "b", np.zeros(1000))
        a.send("other", 0, "b", np.zeros(10))
        until(lambda: b.kept_bytes == 8080)
        received = in_thread(lambda: b.receive("run", 1, np.zeros(1), 30.0))
        time.sleep(0.01)
        b.cancel("run", "task 'x' failed")
        with pytest.raises(RunCancelledError, match=r"run 'run': the run was cancelled: task 'x' failed"):
            received.result(5)
        assert b.kept_bytes == 80
        for call in (lambda: b.receive("run", 2, None, 30.0), lambda: b.send("run", 0, "a", None)):
            with pytest.raises(RunCancelledError, match="task 'x' failed"):
                call()
        b.receive("other", 0, np.zeros(10), 10.0)

    def test_late_messages_of_an_ended_run_are_dropped(self, a: Mailbox, b: Mailbox) -> None:
        received = in_thread(lambda: b.receive("run", 1, None, 30.0))
        time.sleep(0.01)
        b.end("run")
        with pytest.raises(RunCancelledError, match="the run has ended"):
            received.result(5)
        a.send("run", 0, "b", np.zeros(100_000))
        a.send("next", 0, "b", None)
        b.receive("next", 0, None, 10.0)
        assert b.kept_bytes == 0

    def test_wait_is_bounded(self, a: Mailbox, b: Mailbox) -> None:
        begin = time.monotonic()
        with pytest.raises(ClusterError, match=r"worker a: message 7 of run 'run' has not come in 0\.05 s"):
            b.receive("run", 7, np.zeros(1), 0.05, source="a")
        assert time.monotonic() - begin < 2.0
        a.send("run", 7, "b", np.ones(1))  # the message may be asked for again
        b.receive("run", 7, np.zeros(1), 10.0)


class TestEnds:
    def test_messages_to_a_client_use_its_own_connection(self, network: Network, b: Mailbox) -> None:
        """The client accepts no connections; it opens the connection on which the worker sends to it."""
        client = Mailbox("client", lambda peer: network.connect("client", peer))
        near, far = network.pair()
        assert not client.hears("b")
        client.accept("b", near)
        b.adopt("client", far)
        assert client.hears("b")
        b.send("run", 0, "client", np.arange(3.0))
        into = np.zeros(3)
        client.receive("run", 0, into, 10.0, source="b")
        np.testing.assert_array_equal(into, [0.0, 1.0, 2.0])
        client.send("run", 1, "b", None)
        b.receive("run", 1, None, 10.0, source="client")
        told: list[tuple[str, str]] = []
        end = b.when_lost(lambda peer, cause: told.append((peer, cause)))
        client.close()
        until(lambda: told == [("client", "it closed its connection")])
        end()
        with pytest.raises(WorkerLostError, match="client"):
            for _ in range(100):
                b.send("run", 2, "client", np.zeros(1000))

    def test_listener_gets_the_messages_of_its_run(self, a: Mailbox, b: Mailbox) -> None:
        heard: list[tuple[str, int, bytes]] = []
        b.listen("requests", lambda source, number, data: heard.append((source, number, data.tobytes())))
        for number, text in enumerate((b"one", b"", b"three" * 100_000)):
            a.send("requests", number, "b", np.frombuffer(text, np.uint8))
        a.send("run", 0, "b", None)
        b.receive("run", 0, None, 10.0)
        assert heard == [("a", 0, b"one"), ("a", 1, b""), ("a", 2, b"three" * 100_000)]
        assert b.kept_bytes == 0


class TestLosses:
    def test_waits_for_a_closed_worker_end(self, network: Network, a: Mailbox, b: Mailbox) -> None:
        network.add("c").send("run", 9, "b", None)
        a.send("run", 0, "b", None)
        b.receive("run", 0, None, 10.0)
        waits = {source: in_thread(lambda s=source: b.receive("run", ord(s), None, 30.0, source=s)) for source in "ac"}
        time.sleep(0.01)
        a.close()
        with pytest.raises(WorkerLostError, match=r"worker a: message 97 cannot come.*closed its connection") as caught:
            waits["a"].result(5)
        assert caught.value.worker == "a"
        with pytest.raises(WorkerLostError, match="cannot come"):
            b.receive("run", 1, None, 30.0, source="a")
        with pytest.raises(WorkerLostError, match="nothing can be sent"):
            b.send("run", 1, "a", None)
        assert not waits["c"].done()
        network.boxes["c"].send("run", ord("c"), "b", None)
        waits["c"].result(5)

    def test_sending_to_an_unknown_worker_is_an_error(self, a: Mailbox) -> None:
        with pytest.raises(WorkerLostError, match=r"worker nobody: message 4 of run 'run' was not sent.*no worker at"):
            a.send("run", 4, "nobody", np.zeros(1))

    def test_returning_worker_is_used(self, a: Mailbox, b: Mailbox) -> None:
        a.send("run", 0, "b", None)
        b.receive("run", 0, None, 10.0)
        for box, peer in ((a, "b"), (b, "a")):
            box.lose(peer, "the network was cut")
            with pytest.raises(WorkerLostError, match="since the worker is lost"):
                box.send("run", 1, peer, None)
        a.send("next run", 0, "b", None)
        b.receive("next run", 0, None, 10.0, source="a")
        b.send("run", 1, "a", None)  # the new connection is not lost, in earlier runs neither
        a.receive("run", 1, None, 10.0, source="b")

    def test_connection_that_broke_between_two_runs_is_opened_again(
        self, network: Network, a: Mailbox, b: Mailbox
    ) -> None:
        a.send("first", 0, "b", None)
        b.receive("first", 0, None, 10.0)
        for box in (a, b):
            box.end("first")
        b.lose("a", "the network was cut")
        until(lambda: network.ends[0].recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"")
        a.send("second", 0, "b", None)
        b.receive("second", 0, None, 10.0)

    def test_idle_connection_is_probed_before_use(self, network: Network, a: Mailbox) -> None:
        network.boxes["b"] = _ResettingWorker()  # type: ignore[assignment]  # takes all that comes, and breaks then
        a.send("first", 0, "b", None)
        time.sleep(1.1)
        a.end("first")
        b = network.boxes["b"] = Mailbox("b", lambda peer: network.connect("b", peer))
        a.send("second", 0, "b", None)
        b.receive("second", 0, None, 10.0)
        time.sleep(1.1)
        a.send("third", 0, "b", None)  # the connection is not broken
        b.receive("third", 0, None, 10.0)
        assert len(network.ends) == 4

    def test_connection_that_broke_within_a_run_is_an_error(self, a: Mailbox, b: Mailbox) -> None:
        a.send("run", 0, "b", None)
        b.receive("run", 0, None, 10.0)
        b.lose("a", "the network was cut")
        with pytest.raises(WorkerLostError, match="the connection broke"):
            for number in range(1, 100):
                a.send("run", number, "b", np.zeros(1000))
                time.sleep(0.001)

    @pytest.mark.parametrize("first", ["the receiver", "the message"])
    def test_connection_that_breaks_within_a_message(self, network: Network, b: Mailbox, first: str) -> None:
        data, into = np.ones(100_000), np.zeros(100_000)
        link = network.raw("a", "b")
        if first == "the message":
            link.sendall(header("run", 0, data) + data.tobytes()[:300_000])
            until(lambda: b.kept_bytes == data.nbytes)
        received = in_thread(lambda: b.receive("run", 0, into, 30.0, source="a"))
        time.sleep(0.02)
        if first == "the receiver":
            link.sendall(header("run", 0, data) + data.tobytes()[:300_000])
        link.shutdown(socket.SHUT_RDWR)
        with pytest.raises(WorkerLostError, match=r"worker a: message 0 of run 'run' came in part"):
            received.result(5)
        assert b.kept_bytes == 0
        network.add("a").send("run", 0, "b", data)  # the message is sent again, and received once
        b.receive("run", 0, into, 10.0)
        assert into.all()

    def test_array_is_not_written_after_the_wait(self, network: Network, b: Mailbox) -> None:
        data, into = np.ones(100_000), np.zeros(100_000)
        link = network.raw("a", "b")
        received = in_thread(lambda: b.receive("run", 0, into, 0.1, source="a"))
        time.sleep(0.02)
        link.sendall(header("run", 0, data) + data.tobytes()[:400_000])
        with pytest.raises(WorkerLostError, match="came in part"):
            received.result(5)
        into[:] = 0.0
        with contextlib.suppress(OSError):
            link.sendall(data.tobytes()[400_000:])
        time.sleep(0.05)
        assert not into.any()

    def test_invalid_message_closes_the_connection(self, network: Network, b: Mailbox) -> None:
        received = in_thread(lambda: b.receive("run", 0, None, 30.0, source="a"))
        time.sleep(0.01)
        network.raw("a", "b").sendall(b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n")
        with pytest.raises(WorkerLostError, match="what it sends is not a message"):
            received.result(5)

    def test_sending_to_a_worker_that_does_not_read_times_out(self, network: Network, a: Mailbox) -> None:
        network.boxes["frozen"] = _Frozen()  # type: ignore[assignment]
        begin = time.monotonic()
        with pytest.raises(WorkerLostError, match=r"worker frozen.*no data was taken in 0.3 s"):
            a.send("run", 0, "frozen", np.zeros(16 << 20, np.uint8), timeout_s=0.3)
        assert time.monotonic() - begin < 3.0

    def test_cancellation_ends_a_send_that_is_stuck(self, network: Network, a: Mailbox) -> None:
        network.boxes["frozen"] = _Frozen()  # type: ignore[assignment]
        sent = in_thread(lambda: a.send("run", 0, "frozen", np.zeros(16 << 20, np.uint8)))
        until(lambda: bool(network.ends))
        time.sleep(0.05)
        second = in_thread(lambda: a.send("run", 1, "frozen", np.zeros(1)))
        a.cancel("run", "another worker failed")
        for each in (sent, second):
            with pytest.raises(RunCancelledError, match="another worker failed"):
                each.result(5)


class _Frozen:
    """A worker that accepts connections and reads nothing."""

    def accept(self, name: str, connection: SocketConnection) -> None:
        pass

    def close(self) -> None:
        pass


class _ResettingWorker:
    """A worker whose connection breaks without notice at the data after its first message."""

    def accept(self, name: str, connection: SocketConnection) -> None:
        def read() -> None:
            connection.socket.recv(1000)
            connection.socket.recv(1)
            # Closing a socket with unread data resets the connection.
            connection.socket.close()

        threading.Thread(target=read, daemon=True).start()

    def close(self) -> None:
        pass


class TestMemory:
    def test_a_worker_that_computes_reads_no_more_than_its_window(self, network: Network, a: Mailbox) -> None:
        b = network.add("b", window_bytes=8 << 20)
        data = np.zeros(6 << 20, np.uint8)
        sent = in_thread(lambda: [a.send("run", n, "b", data) for n in range(6)])
        time.sleep(0.3)
        assert b.kept_bytes <= 8 << 20
        assert not sent.done()
        for n in range(6):
            b.receive("run", n, np.empty_like(data), 10.0)
        sent.result(5)
        assert b.kept_bytes == 0

    def test_workers_sending_first_do_not_deadlock(self, network: Network) -> None:
        boxes = {name: network.add(name, window_bytes=1 << 20) for name in ("a", "b", "c")}
        data = np.arange(12 << 20, dtype=np.uint8)

        def work(name: str) -> None:
            others = [other for other in boxes if other != name]
            for other in others:
                boxes[name].send("run", ord(name), other, data)
            for other in others:
                into = np.zeros_like(data)
                boxes[name].receive("run", ord(other), into, 20.0, source=other)
                assert np.array_equal(into, data)

        for each in [in_thread(lambda name=name: work(name)) for name in boxes]:
            each.result(30)
