# SPDX-License-Identifier: Apache-2.0
"""Measurement of a cluster's network."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from syclsched.cluster import Cluster, connect
from syclsched.cluster.measurements.network import (
    MeasuredPath,
    MeasuredPort,
    NetworkProfile,
    answer,
    measure_network,
    rounds_of,
    time_messages,
)
from syclsched.errors import MeasurementError
from syclsched.model.platform import HOST, Link
from syclsched.model.profile import LinkFit
from syclsched.model.text.json_serialisation import from_json, to_json

pytest.importorskip("distributed", reason="the package distributed is not installed")

SIZES = (8, 100_000, 500_000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect(workers=3) as made:
        yield made


class SlowMailbox:
    """A mailbox on a network of known latency and bandwidth."""

    def __init__(self, latency_s: float, bytes_per_s: float) -> None:
        self.latency_s, self.bytes_per_s = latency_s, bytes_per_s
        self.messages: dict[int, queue.SimpleQueue[np.ndarray | None]] = {}
        self.lock = threading.Lock()
        self.other: SlowMailbox

    def place(self, message: int) -> queue.SimpleQueue[np.ndarray | None]:
        with self.lock:
            return self.messages.setdefault(message, queue.SimpleQueue())

    def send(self, run: str, message: int, destination: str, data: np.ndarray | None) -> None:
        time.sleep(self.latency_s + (0 if data is None else data.nbytes) / self.bytes_per_s)
        self.other.place(message).put(data)

    def receive(self, run: str, message: int, into: np.ndarray | None, timeout_s: float, *, source: str) -> None:
        found = self.place(message).get(timeout=timeout_s)
        if into is not None and found is not None:
            np.copyto(into, found)

    def end(self, run: str) -> None:
        pass


class TestFit:
    def test_a_known_message_cost_is_measured(self) -> None:
        near, far = SlowMailbox(2e-3, 50e6), SlowMailbox(2e-3, 1e9)
        near.other, far.other = far, near
        answering = threading.Thread(target=answer, args=(SimpleNamespace(mailbox=far), "near", "run"))
        answering.start()
        points, _ = time_messages(SimpleNamespace(mailbox=near), "far", "run", SIZES, 0.05)
        answering.join(10)
        assert not answering.is_alive()
        assert [size for size, _ in points] == list(SIZES)
        for size, seconds in points:
            assert 0.4 < seconds / (2e-3 + size / 50e6) < 5.0  # a busy machine sleeps for longer

    def test_large_arrays_are_not_sent_where_they_take_too_long(self) -> None:
        near, far = SlowMailbox(1e-4, 1e6), SlowMailbox(1e-4, 1e6)
        near.other, far.other = far, near
        threading.Thread(target=answer, args=(SimpleNamespace(mailbox=far), "near", "run"), daemon=True).start()
        sizes = (8, 50_000, 50_000_000)
        points, _ = time_messages(SimpleNamespace(mailbox=near), "far", "run", sizes, 1e-3)
        assert [size for size, _ in points] == [8, 50_000]


class TestRounds:
    @pytest.mark.parametrize("count", [2, 3, 4, 7])
    def test_rounds_have_all_pairs_once(self, count: int) -> None:
        names = [f"node{n}" for n in range(count)]
        rounds = list(rounds_of(names))
        assert sorted(itertools.chain(*rounds)) == sorted(itertools.permutations(names, 2))
        for pairs in rounds:
            assert sorted(source for source, _ in pairs) == sorted(destination for _, destination in pairs) == names

    def test_one_worker_has_no_pairs(self) -> None:
        assert list(rounds_of(["node0"])) == []


class TestProfile:
    profile = NetworkProfile(
        ("a", "b", "c"),
        (
            MeasuredPath("a", "b", LinkFit(1e-4, 1e9)),
            MeasuredPath("b", "a", LinkFit(3e-4, 3e9)),
            MeasuredPath("c", "a", LinkFit(2e-4, 2e9), cores=0.5),
            MeasuredPath(HOST, "a", LinkFit(1e-3, 1e8)),
        ),
        (MeasuredPort("a", "out", 2, 1.1e9, 1e9),),
    )

    def test_links_are_measured(self) -> None:
        assert self.profile.links()[0] == Link("a", "b", 1e-4, 1e9, origin="measured")
        assert len(self.profile.links()) == 3

    def test_other_paths_have_the_median_of_their_kind(self) -> None:
        paths = {(each.source, each.destination): each for each in self.profile.network_paths()}
        assert sorted(paths) == sorted(itertools.permutations([HOST, "a", "b", "c"], 2))
        assert (paths["a", "b"].latency_s, paths["a", "b"].measured) == (1e-4, True)
        guessed = paths["b", "c"]
        assert (guessed.latency_s, guessed.bandwidth_bytes_per_s, guessed.measured) == (2e-4, 2e9, False)
        assert (paths["c", HOST].latency_s, paths["c", HOST].measured) == (1e-3, False)
        assert len(self.profile.network_paths(["a", "d"])) == 6
        assert (paths["c", "a"].cores, guessed.cores) == (0.5, 0.0)

    def test_an_empty_profile_has_no_network_paths(self) -> None:
        with pytest.raises(MeasurementError, match=r"nothing like it was measured"):
            NetworkProfile(("a", "b"), ()).network_paths()

    def test_a_profile_is_printed_and_restored_from_json(self) -> None:
        text = str(self.profile)
        for part in ("Network", "100.0 µs", "953.7 MiB/s", "Ports", "out", "1.10"):
            assert part in text
        assert from_json(NetworkProfile, to_json(self.profile), where="a test") == self.profile
        assert "<table>" in self.profile._repr_html_()


class TestCluster:
    def test_all_pairs_of_a_cluster(self, cluster: Cluster) -> None:
        told: list[tuple[int, int, str]] = []
        found = measure_network(cluster, sizes=SIZES, size_s=0.01, tell=lambda *each: told.append(each))
        names = [each.name for each in cluster.workers]
        pairs = {(each.source, each.destination) for each in found.paths}
        assert pairs == set(itertools.permutations([HOST, *names], 2)) - {(HOST, HOST)}
        for path in found.paths:
            assert [size for size, _ in path.fit.points] == list(SIZES)
            assert path.fit.seconds(500_000) > path.fit.seconds(8) > 0
        assert {(each.worker, each.direction) for each in found.ports} == set(itertools.product(names, ("out", "in")))
        assert all(each.peers == 2 and each.gain > 0 for each in found.ports)
        assert [done for done, _, _ in told] == list(range(len(told)))
        assert {total for _, total, _ in told} == {len(told)}
        assert all(path.measured for path in found.network_paths())

    def test_unmeasured_pairs_get_the_median(self, cluster: Cluster) -> None:
        found = measure_network(cluster, sizes=(8, 10_000), size_s=0.001, rounds=1)
        between = [each for each in found.paths if HOST not in (each.source, each.destination)]
        assert len(between) == 3
        assert [each.measured for each in found.network_paths(["node0", "node2"])].count(False) == 1

    def test_sizes_that_cannot_be_fitted(self, cluster: Cluster) -> None:
        for sizes in ((8,), (8, 8), (100, 8), (0, 8)):
            with pytest.raises(MeasurementError, match="two or more sizes are needed"):
                measure_network(cluster, sizes=sizes)
