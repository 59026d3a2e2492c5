# SPDX-License-Identifier: Apache-2.0
"""Clusters whose workers are on different hosts of a network that is limited or cut."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.network_hosts import NetworkHosts, why_not
from support.opened import until

import syclsched
from syclsched.cluster import Cluster, connect
from syclsched.cluster.measurements.network import measure_network
from syclsched.errors import WorkerLostError

pytest.importorskip("distributed", reason="the package distributed is not installed")

FUNCTIONS = "support.cluster_functions"
WORKERS = 3
PORT = 8786


@pytest.fixture(scope="module")
def hosts() -> Iterator[NetworkHosts]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with NetworkHosts(1 + WORKERS) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(hosts: NetworkHosts) -> Iterator[Cluster]:
    paths = os.pathsep.join(str(each) for each in (Path(__file__).parents[1], Path(syclsched.__file__).parents[1]))
    dask = [sys.executable, "-m", "dask"]
    options = {"env": {**os.environ, "PYTHONPATH": paths}, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = f"tcp://{hosts.address(0)}:{PORT}"
    hosts.start(0, [*dask, "scheduler", "--host", hosts.address(0), "--port", str(PORT), "--no-dashboard"], **options)
    for host in range(1, 1 + WORKERS):
        command = [
            *dask,
            "worker",
            scheduler,
            "--host",
            hosts.address(host),
            "--name",
            f"host{host}",
            "--nthreads",
            "1",
        ]
        hosts.start(host, [*command, "--no-nanny", "--no-dashboard"], **options)
    with hosts.inside(0), connect(scheduler, timeout_s=60.0, silent_s=4.0) as made:
        until(lambda: len(made.workers) == WORKERS)
        yield made


def moved(cluster: Cluster, run: str) -> float:
    """Send arrays from the first worker to the second, and return their sum."""
    first, second = cluster.worker("node0"), cluster.worker("node1")
    summed = cluster.start(second.name, f"{FUNCTIONS}:sum_numbers", first.address, run, 5, 100_000)
    cluster.call(first.name, f"{FUNCTIONS}:send_numbers", second.address, run, 5, 100_000)
    return float(summed.result(30))


def test_arrays_go_from_host_to_host(cluster: Cluster) -> None:
    assert moved(cluster, "whole network") == 1_000_000.0


def test_limits_of_ports_are_found(hosts: NetworkHosts, cluster: Cluster) -> None:
    slow = next(each for each in cluster.workers if each.dask_name == "host1")
    for host in range(1, 1 + WORKERS):
        hosts.limit(host, 200 if host == 1 else 800)
    found = measure_network(cluster, sizes=(8, 1 << 19, 2 << 20), size_s=0.05)
    for path in found.paths:
        megabits = 200 if slow.name in (path.source, path.destination) else 800
        # Headers take 5 % of the rate, and a busy machine more; the two rates stay apart.
        assert 0.3 < path.fit.bandwidth_bytes_per_s * 8e-6 / (0.95 * megabits) < 1.2
    for port in found.ports:
        assert port.peers == WORKERS - 1
        if port.worker == slow.name:  # messages of one port share its rate
            assert 0.4 < port.bandwidth_bytes_per_s * 8e-6 / (0.95 * 200) < 1.3
            assert port.gain < 1.4


def test_worker_that_is_cut_off(hosts: NetworkHosts, cluster: Cluster) -> None:
    cut = next(each for each in cluster.workers if each.dask_name == "host2")
    other = next(each for each in cluster.workers if each.dask_name == "host3")
    running = cluster.start(cut.name, f"{FUNCTIONS}:sleep", 60.0)
    waiting = cluster.start(other.name, f"{FUNCTIONS}:receive_nothing", cut.address)
    told: list[str] = []
    end = cluster.when_lost(lambda worker, cause: told.append(worker.name))
    begin = time.monotonic()
    hosts.cut(2)
    try:
        with pytest.raises(WorkerLostError, match=r"has given no sign of life for \d+ s"):
            running.result(30)
        assert time.monotonic() - begin < 15.0
        assert [each.name for each in cluster.workers] == sorted({"node0", "node1", "node2"} - {cut.name})
        until(lambda: told == [cut.name])
        cluster.call(other.name, f"{FUNCTIONS}:lose_peer", cut.address, "it was cut off")
        with pytest.raises(WorkerLostError, match="it was cut off"):
            waiting.result(10)
    finally:
        end()
        hosts.join(2)
    until(lambda: len(cluster.workers) == WORKERS)
    assert moved(cluster, "whole network again") == 1_000_000.0
