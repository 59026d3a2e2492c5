# SPDX-License-Identifier: Apache-2.0
"""Latency and bandwidth of the network of a cluster, measured by the messages that runs send.

Each worker sends arrays of several sizes to each other, one pair after another unless all four ends are on different
hosts, and gets an answer without data. A message takes the time until the answer less half the time of a round trip
without data. Latency and bandwidth are fitted to these times as for other links. Then each worker sends to several at
once, and receives from several, which shows whether the messages of a worker share its port.

Messages need processor time at both ends: on a worker with few cores, tasks take longer while they move. This is
measured by the progress of computing on all cores of both workers, alone and beside messages, for one path from each
worker.

In clusters of many workers some pairs stand for all: what was not measured gets the median of what was.
"""

from __future__ import annotations

import itertools
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from syclsched.cluster.measurements.core_load import CoreLoad, CoreUse
from syclsched.cluster.platforms import NetworkPath
from syclsched.cluster.workers import ConnectedWorkers
from syclsched.errors import MeasurementError, WorkerLostError
from syclsched.model.platform import HOST, Link
from syclsched.model.profile import Count, LinkFit, Name, NonNegative, Positive
from syclsched.model.text.json_serialisation import Serialisable
from syclsched.model.text.sections import Section, sections_html, sections_text, table
from syclsched.model.text.units import format_bytes, format_ratio, format_seconds
from syclsched.profiling.measure.transfers import fit_link
from syclsched.profiling.statistics import split_spikes

if TYPE_CHECKING:
    from syclsched.cluster.node import Node
    from syclsched.cluster.transport.mailbox import HasMailbox
    from syclsched.cluster.transport.message_streams import Array

#: Sizes of the arrays that are sent. Ports whose bandwidth is limited often let some 100 kB pass faster than they do in
#: the long run, so sizes between would show a bandwidth that runs do not get.
SIZES: Final = (8, 1 << 20, 8 << 20)
#: Size of the arrays that are sent several at once: at least, and at most.
_SHARED_BYTES: Final = (64 << 10, 4 << 20)
#: Number of them.
_SHARED_COUNT: Final = 12
#: Messages of each size: at least, and at most.
_FEWEST: Final = 3
_MOST: Final = 50
#: Seconds for each size of each pair; larger arrays are not sent where one takes longer than ten times that.
SIZE_S: Final = 0.1
#: Rounds of pairs that are measured; in each, every worker sends to one other. Up to this many workers and one, these
#: are all pairs.
ROUNDS: Final = 8
#: Peers that a worker sends to at once, and receives from.
_PEERS: Final = 4
_DIRECTIONS: Final[tuple[Literal["out", "in"], ...]] = ("out", "in")
#: Size of the messages beside which both workers compute, and their number.
LOADED_BYTES: Final = 1 << 20
_LOADED_COUNT: Final = 15
#: Longest time to wait for one message.
_MESSAGE_S: Final = 60.0

_HERE: Final = "syclsched.cluster.measurements.network"

#: A pair of workers: the one that sends and the one that receives.
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class MeasuredPath(Serialisable):
    """Measured cost of messages from one worker to another, or from or to the process that connects (``host``)."""

    source: Name
    destination: Name
    fit: LinkFit
    cores: NonNegative = 0.0  # that messages want at each end while they move

    def link(self) -> Link:
        """Return it as a link between memory spaces of these names."""
        return Link(
            self.source, self.destination, self.fit.latency_s, self.fit.bandwidth_bytes_per_s, origin="measured"
        )

    def path(self) -> NetworkPath:
        """Return it as a path between machines."""
        fit = self.fit
        return NetworkPath(self.source, self.destination, fit.latency_s, fit.bandwidth_bytes_per_s, cores=self.cores)


@dataclass(frozen=True, slots=True)
class MeasuredPort(Serialisable):
    """Bandwidth of a worker's messages in one direction, to or from several others at once."""

    worker: Name
    direction: Literal["out", "in"]
    peers: Count
    bandwidth_bytes_per_s: Positive  # of all together
    alone_bytes_per_s: Positive  # of the same messages, to or from one worker after the other

    @property
    def gain(self) -> float:
        """Factor by which messages at once are faster than one after the other; 1 if they share the port."""
        return self.bandwidth_bytes_per_s / self.alone_bytes_per_s


@dataclass(frozen=True, slots=True)
class NetworkProfile(Serialisable):
    """Measured network of a cluster; ``print`` shows it as tables."""

    workers: tuple[Name, ...]
    paths: tuple[MeasuredPath, ...]
    ports: tuple[MeasuredPort, ...] = ()

    def __str__(self) -> str:
        return sections_text(self._sections())

    def _repr_html_(self) -> str:
        return sections_html(self._sections())

    def links(self) -> tuple[Link, ...]:
        """Return the measured links between workers."""
        return tuple(each.link() for each in self._between_workers())

    def network_paths(self, machines: Sequence[str] | None = None) -> tuple[NetworkPath, ...]:
        """Return the path between each two machines, and from and to ``host``.

        What was not measured has the median latency and bandwidth of what was, of its kind.

        Parameters
        ----------
        machines : sequence of str, optional
            The machines; all workers by default.
        """
        measured = {(each.source, each.destination): each.path() for each in self.paths}
        names = [HOST, *(self.workers if machines is None else machines)]
        return tuple(
            measured.get(pair) or self._typical(pair, HOST in pair) for pair in itertools.permutations(names, 2)
        )

    def _typical(self, pair: Pair, with_host: bool) -> NetworkPath:
        alike = [each for each in self.paths if (HOST in (each.source, each.destination)) == with_host]
        if not alike:
            raise MeasurementError("nothing like it was measured", where=f"the network from {pair[0]} to {pair[1]}")
        return NetworkPath(
            *pair,
            statistics.median(each.fit.latency_s for each in alike),
            statistics.median(each.fit.bandwidth_bytes_per_s for each in alike),
            measured=False,
            cores=statistics.median(each.cores for each in alike),
        )

    def _between_workers(self) -> list[MeasuredPath]:
        return [each for each in self.paths if HOST not in (each.source, each.destination)]

    def _sections(self) -> list[Section]:
        rows = [
            (
                each.source,
                each.destination,
                format_seconds(each.fit.latency_s),
                f"{format_bytes(each.fit.bandwidth_bytes_per_s)}/s",
                f"{each.cores:.2f}",
                format_ratio(each.fit.residual),
            )
            for each in self.paths
        ]
        ports = [
            (
                each.worker,
                each.direction,
                str(each.peers),
                f"{format_bytes(each.bandwidth_bytes_per_s)}/s",
                f"{each.gain:.2f}",
            )
            for each in self.ports
        ]
        of_paths = ("from", "to", "latency", "bandwidth", "cores", "error of the fit")
        found = [table("Network", of_paths, rows, numbers=(2, 3, 4, 5))]
        if ports:
            of_ports = ("worker", "direction", "peers", "bandwidth at once", "gain over one by one")
            found.append(table("Ports", of_ports, ports, numbers=(2, 3, 4)))
        return found


def measure_network(
    cluster: ConnectedWorkers,
    *,
    sizes: Sequence[int] = SIZES,
    size_s: float = SIZE_S,
    rounds: int = ROUNDS,
    tell: Callable[[int, int, str], None] | None = None,
) -> NetworkProfile:
    """Measure latency and bandwidth of the pairs of workers of an otherwise idle cluster, in each direction.

    ``sizes`` are ascending bytes of arrays, measured for ``size_s`` seconds each. In each of the ``rounds`` every
    worker sends to one other; pairs that are left out get the median of the others. ``tell(done, total, what)`` is
    called before each measurement. Raises `MeasurementError` for unusable sizes, and `WorkerLostError`.
    """
    if len(set(sizes)) < 2 or sorted(sizes) != list(sizes) or sizes[0] < 1:
        raise MeasurementError("two or more sizes are needed, ascending", where="sizes", hint=f"Such as {SIZES}")
    return _Survey(cluster, tuple(sizes), size_s, rounds, tell or (lambda done, total, what: None)).profile()


class _Survey:
    """Measurement of one cluster."""

    def __init__(
        self,
        cluster: ConnectedWorkers,
        sizes: tuple[int, ...],
        size_s: float,
        rounds: int,
        tell: Callable[[int, int, str], None],
    ) -> None:
        self._cluster, self._sizes, self._size_s, self._tell = cluster, sizes, size_s, tell
        self._addresses = {each.name: each.address for each in cluster.workers}
        self._names = list(self._addresses)
        found = cluster.broadcast("syclsched.cluster.node:describe", devices=False)
        self._hosts = {name: said.host_name for name, said in found.items()}
        self._rounds = list(itertools.islice(rounds_of(self._names), max(1, rounds)))
        self._limit_s = _MESSAGE_S + 20 * size_s * len(sizes)

    def profile(self) -> NetworkProfile:
        paths: list[MeasuredPath] = []
        steps = [group for pairs in self._rounds for group in self._groups(pairs)]
        sharing = self._names if len(self._names) > 2 else []
        senders = self._names[: 2 * ROUNDS]
        total, done = len(steps) + 2 * len(sharing[: 2 * ROUNDS]) + len(senders), 0
        for group in steps:
            self._tell(done, total, ", ".join(f"{source} to {destination}" for source, destination in group))
            paths += self._measured(group, loaded=group[0] in self._rounds[0])
            done += 1
        loaded = set(self._rounds[0]) if self._rounds else set()
        cores = [each.cores for each in paths if (each.source, each.destination) in loaded]
        typical = statistics.median(cores) if cores else 0.0
        paths = [each if (each.source, each.destination) in loaded else replace(each, cores=typical) for each in paths]
        fits = {(each.source, each.destination): each.fit for each in paths}
        ports: list[MeasuredPort] = []
        for name in sharing[: 2 * ROUNDS]:
            for direction in _DIRECTIONS:
                self._tell(done, total, f"several at once {'from' if direction == 'out' else 'to'} {name}")
                ports.append(self._port(name, direction, fits))
                done += 1
        for name in senders:
            self._tell(done, total, f"{HOST} to {name} and back")
            paths += self._to_host(name)
            done += 1
        return NetworkProfile(tuple(self._names), tuple(paths), tuple(ports))

    def _groups(self, pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
        """Yield the pairs of a round in groups that are measured at once: their ends share no host."""
        left = list(pairs)
        while left:
            group: list[Pair] = []
            busy: set[str] = set()
            for pair in left:
                ends = {self._hosts[end] for end in pair}
                if not ends & busy:
                    group.append(pair)
                    busy |= ends
            left = [pair for pair in left if pair not in group]
            yield group

    def _measured(self, group: Sequence[Pair], *, loaded: bool) -> list[MeasuredPath]:
        calls = []
        for source, destination in group:
            run = f"network {uuid.uuid4().hex}"
            answers = self._cluster.start(destination, f"{_HERE}:answer", self._addresses[source], run)
            sends = self._cluster.start(
                source,
                f"{_HERE}:time_messages",
                self._addresses[destination],
                run,
                self._sizes,
                self._size_s,
                loaded=loaded,
            )
            calls.append((source, destination, sends, answers))
        found = []
        for source, destination, sends, answers in calls:
            points, sending = sends.result(self._limit_s)
            fit, receiving = fit_link(points), answers.result(self._limit_s)
            seconds = fit.seconds(LOADED_BYTES)
            cores = statistics.mean((sending.core_demand(seconds), receiving.core_demand(seconds)))
            found.append(MeasuredPath(source, destination, fit, cores))
        return found

    def _port(self, name: str, direction: Literal["out", "in"], fits: Mapping[Pair, LinkFit]) -> MeasuredPort:
        """Measure messages between one worker and several others, at once."""
        place = self._names.index(name)
        others = [*self._names[place + 1 :], *self._names[:place]][:_PEERS]
        pairs = [(name, other) if direction == "out" else (other, name) for other in others]
        alone = [self._typical(fits, pair) for pair in pairs]
        least, most = _SHARED_BYTES
        wanted = min(fit.bandwidth_bytes_per_s for fit in alone) * self._size_s / len(pairs)
        size = int(min(most, max(least, wanted)))
        run = f"ports {uuid.uuid4().hex}"
        calls = []
        for source, into in pairs:
            given = f"{run} {source} {into}", size
            calls.append(self._cluster.start(into, f"{_HERE}:receive_messages", self._addresses[source], *given))
            calls.append(self._cluster.start(source, f"{_HERE}:send_messages", self._addresses[into], *given))
        spans = [call.result(self._limit_s) for call in calls]
        ends = spans[direction == "out" :: 2]  # of the one worker, by one clock
        together_s = max(end for _, end in ends) - min(begin for begin, _ in ends)
        return MeasuredPort(
            name,
            direction,
            len(pairs),
            len(pairs) * _SHARED_COUNT * size / together_s,
            len(pairs) * size / sum(fit.seconds(size) for fit in alone),
        )

    @staticmethod
    def _typical(fits: Mapping[Pair, LinkFit], pair: Pair) -> LinkFit:
        known = fits.get(pair)
        if known is not None:
            return known
        return LinkFit(
            statistics.median(fit.latency_s for fit in fits.values()),
            statistics.median(fit.bandwidth_bytes_per_s for fit in fits.values()),
        )

    def _to_host(self, name: str) -> list[MeasuredPath]:
        """Measure how inputs are given and results fetched: by messages, or else as arguments and results of calls."""
        try:
            address = self._cluster.link(name)
        except WorkerLostError:
            to_worker, from_worker = self._calls_to(name), self._calls_from(name)
        else:
            run = f"network {uuid.uuid4().hex}"
            answers = self._cluster.start(name, f"{_HERE}:answer", self._cluster.address, run)
            to_worker, _ = time_messages(self._cluster, address, run, self._sizes, self._size_s)
            answers.result(self._limit_s)
            run = f"network {uuid.uuid4().hex}"
            sends = self._cluster.start(
                name, f"{_HERE}:time_messages", self._cluster.address, run, self._sizes, self._size_s
            )
            answer(self._cluster, address, run)
            from_worker, _ = sends.result(self._limit_s)
        return [MeasuredPath(HOST, name, fit_link(to_worker)), MeasuredPath(name, HOST, fit_link(from_worker))]

    def _calls_to(self, name: str) -> list[tuple[int, float]]:
        return self._calls(lambda size: self._cluster.call(name, f"{_HERE}:note", _touched(size)))

    def _calls_from(self, name: str) -> list[tuple[int, float]]:
        return self._calls(lambda size: self._cluster.call(name, f"{_HERE}:make_array", size))

    def _calls(self, call: Callable[[int], object]) -> list[tuple[int, float]]:
        points = []
        for size in self._sizes:
            times: list[float] = []
            end = time.perf_counter() + self._size_s
            while len(times) < _FEWEST or (time.perf_counter() < end and len(times) < _MOST):
                begin = time.perf_counter()
                call(size)
                times.append(time.perf_counter() - begin)
            points.append((size, statistics.median(split_spikes(times)[0])))
        return points


def rounds_of(names: Sequence[str]) -> Iterator[list[Pair]]:
    """Yield rounds of ordered pairs: in each, every name sends once and receives once; all rounds have all pairs.

    In round k each name sends to the one k places further.
    """
    count = len(names)
    for step in range(1, count):
        yield [(names[place], names[(place + step) % count]) for place in range(count)]


# --- on the workers -------------------------------------------------------------------------------


#: Control message: bytes of each message, their number, and whether to compute beside them; no messages end the
#: measurement.
_CONTROL: Final = 3


def time_messages(
    node: HasMailbox, peer: str, run: str, sizes: Sequence[int], size_s: float, *, loaded: bool = False
) -> tuple[list[tuple[int, float]], CoreUse]:
    """Send arrays to another worker that runs `answer`; return for each size the seconds of a message.

    With ``loaded``, also return the use of cores at this end by messages of `LOADED_BYTES`.
    """
    numbers = itertools.count()
    try:
        trips = _round_trips(node, peer, run, 0, size_s, numbers)
        half_s = statistics.median(split_spikes(trips)[0]) / 2
        points = []
        for size in sizes:
            times = _round_trips(node, peer, run, size, size_s, numbers)
            seconds = statistics.median(split_spikes(times)[0]) - half_s
            points.append((size, max(seconds, half_s)))
            if seconds > 10 * size_s and len(points) > 1:
                break
        use = CoreUse()
        if loaded:
            data = _touched(LOADED_BYTES)
            with CoreLoad() as load:
                _timed(node, peer, run, data, _LOADED_COUNT, numbers, load)
                use = load.measured_use(_LOADED_COUNT)
        _control(node, peer, run, 0, 0, numbers)
        return points, use
    finally:
        node.mailbox.end(run)


def answer(node: HasMailbox, peer: str, run: str) -> CoreUse:
    """Receive the messages of `time_messages` on another worker, and answer each.

    Return the use of cores at this end by the messages beside which it was to compute.
    """
    numbers, use = itertools.count(), CoreUse()
    control = np.empty(_CONTROL, np.int64)
    try:
        while True:
            node.mailbox.receive(run, next(numbers), control, _MESSAGE_S, source=peer)
            size, count, loaded = control.tolist()
            if not count:
                return use
            into = _touched(size)
            with CoreLoad() if loaded else nullcontext() as load:
                node.mailbox.send(run, -next(numbers) - 1, peer, None)
                if load is not None:
                    load.start_measurement()
                for _ in range(count):
                    node.mailbox.receive(run, next(numbers), into, _MESSAGE_S, source=peer)
                    node.mailbox.send(run, -next(numbers) - 1, peer, None)
                if load is not None:
                    use = load.measured_use(count)
    finally:
        node.mailbox.end(run)


def _round_trips(
    node: HasMailbox, peer: str, run: str, size: int, size_s: float, numbers: Iterator[int]
) -> list[float]:
    """Return the seconds of several messages with their answers; the first ones are not counted."""
    data = _touched(size)
    first = _timed(node, peer, run, data, 2, numbers)[-1]
    count = int(min(_MOST, max(_FEWEST, size_s / max(first, 1e-6))))
    return _timed(node, peer, run, data, count, numbers)


def _timed(
    node: HasMailbox,
    peer: str,
    run: str,
    data: Array,
    count: int,
    numbers: Iterator[int],
    load: CoreLoad | None = None,
) -> list[float]:
    _control(node, peer, run, data.nbytes, count, numbers, loaded=load is not None)
    node.mailbox.receive(run, -next(numbers) - 1, None, _MESSAGE_S, source=peer)
    if load is not None:
        load.start_measurement()
    times: list[float] = []
    for _ in range(count):
        begin = time.perf_counter()
        node.mailbox.send(run, next(numbers), peer, data)
        node.mailbox.receive(run, -next(numbers) - 1, None, _MESSAGE_S, source=peer)
        times.append(time.perf_counter() - begin)
    return times


def _control(
    node: HasMailbox, peer: str, run: str, size: int, count: int, numbers: Iterator[int], *, loaded: bool = False
) -> None:
    node.mailbox.send(run, next(numbers), peer, np.array([size, count, loaded], np.int64))


def send_messages(node: Node, peer: str, run: str, size: int) -> tuple[float, float]:
    """Send arrays to another worker, one after the other; return the times of the begin and of the last arrival."""
    data = _touched(size)
    try:
        node.mailbox.receive(run, -1, None, _MESSAGE_S, source=peer)
        begin = time.perf_counter()
        for number in range(_SHARED_COUNT):
            node.mailbox.send(run, number, peer, data)
        node.mailbox.receive(run, -2, None, _MESSAGE_S, source=peer)
        return begin, time.perf_counter()
    finally:
        node.mailbox.end(run)


def receive_messages(node: Node, peer: str, run: str, size: int) -> tuple[float, float]:
    """Receive the messages of `send_messages`; return the times of the request and of the last arrival."""
    into = _touched(size)
    try:
        begin = time.perf_counter()
        node.mailbox.send(run, -1, peer, None)
        for number in range(_SHARED_COUNT):
            node.mailbox.receive(run, number, into, _MESSAGE_S, source=peer)
        end = time.perf_counter()
        node.mailbox.send(run, -2, peer, None)
        return begin, end
    finally:
        node.mailbox.end(run)


def note(node: Node, data: Array) -> None:
    """Take an array and return nothing."""


def make_array(node: Node, size: int) -> Array:
    """Return an array of this many bytes."""
    return _touched(size)


def _touched(size: int) -> Array:
    """Return an array whose pages are in memory."""
    return np.ones(size, np.uint8)
