# SPDX-License-Identifier: Apache-2.0
"""Offsets between the clocks of machines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from syclsched.cluster import Cluster, connect
from syclsched.cluster.measurements import host_clocks
from syclsched.cluster.measurements.host_clocks import ClockOffset, clock_offsets
from syclsched.cluster.transport.comm_sockets import CommSockets

pytest.importorskip("distributed", reason="the package distributed is not installed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect(workers=1) as made:
        yield made


def test_processes_of_one_machine_have_one_clock(cluster: Cluster) -> None:
    found = clock_offsets(cluster)["node0"]
    assert abs(found.offset_ns) <= found.error_ns < 50_000_000


def test_offset_is_found(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead_ns = 5_000_000_000
    clock = host_clocks.now_ns
    monkeypatch.setattr(host_clocks, "now_ns", lambda: clock() + ahead_ns)  # in this process, not on the worker
    found = clock_offsets(cluster, readings=5)["node0"]
    assert abs(found.offset_ns + ahead_ns) <= found.error_ns
    begun_ns = clock()
    assert found.here_ns(begun_ns) == pytest.approx(begun_ns + ahead_ns, abs=found.error_ns)


def test_offset_by_calls(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: CommSockets, peer: str, direction: str = "in", timeout_s: float = 1.0) -> None:
        raise ConnectionRefusedError("no route to host")

    monkeypatch.setattr(CommSockets, "connect", refuse)
    with connect(cluster.scheduler) as apart:
        found = clock_offsets(apart, readings=3)["node0"]
    assert abs(found.offset_ns) <= found.error_ns


def test_times_are_converted() -> None:
    assert ClockOffset("node0", 40, 3).here_ns(100) == 60
