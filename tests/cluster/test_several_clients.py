# SPDX-License-Identifier: Apache-2.0
"""Several clients of one cluster: their runs, progress, and the memory that all their plans take."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cluster_plans import fixed
from support.opened import until

from syclsched.cluster import Cluster, ClusterRunner, connect
from syclsched.errors import MemoryLimitError, RunCancelledError
from syclsched.model.graph import TaskGraph

pytestmark = pytest.mark.sycl

pytest.importorskip("distributed", reason="the package distributed is not installed")

FUNCTIONS = "support.cluster_functions"
MIB = 1 << 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect(workers=2) as made:
        yield made


@pytest.fixture
def other(cluster: Cluster) -> Iterator[Cluster]:
    """Connect a second client."""
    with connect(cluster.scheduler) as made:
        yield made


def _through(x: Any, *, gate: str) -> None:
    """Wait for a file, and count the call."""
    while not os.path.exists(gate):
        time.sleep(0.005)
    x += 1.0


def on_host(name: str) -> str:
    return f"node{name[-1]}/host"


def gated(name: str, gates: list[Path], size: int = 1) -> TaskGraph:
    """Return on each machine a task for each gate, with a message to the other machine before the last one."""
    graph = TaskGraph(name)
    arrays = [graph.array(f"x{each}", data=np.zeros(size)) for each in range(2)]
    sent = graph.array("sent", (1000,))
    for step, gate in enumerate(gates):
        for number, x in enumerate(arrays):
            graph.host(partial(_through, gate=str(gate)), name=f"step{step}-{number}", x=x.update())
        if step == len(gates) - 2:
            graph.host(_fill, name="fill0", x=sent.write())
            graph.host(_look, name="look1", x=sent.read(), y=arrays[1].update())
    return graph


def _fill(x: Any) -> None:
    x[...] = 1.0


def _look(x: Any, y: Any) -> None:
    y += 0.0 * x[0]


def bound(cluster: Cluster, graph: TaskGraph, **how: Any) -> ClusterRunner:
    return cluster.bind(graph, plan=fixed(cluster, graph, on_host), **how)


def test_steps_before_a_run_are_reported(other: Cluster) -> None:
    graph = TaskGraph("steps")
    graph.host(_fill, name="fill", x=graph.array("x", (1000,)).write(), pure=True)
    told: list[tuple[int, int, str]] = []
    with other.bind(graph, progress=lambda *step: told.append(step)):
        pass
    steps = [step for _, _, step in told]
    order = ["finding the devices", "network, node0 to node1", "measuring tasks on node0", "verification"]
    assert [step for step in steps if step in order][:4] == order
    assert any(step.startswith("binding the part of node") for step in steps) and steps[-1] == ""
    assert all(0 <= done <= total for done, total, _ in told)


def test_a_run_reports_completed_tasks_and_sent_bytes(cluster: Cluster, tmp_path: Path) -> None:
    gates = [tmp_path / f"gate{number}" for number in range(4)]
    graph, told = gated("told", gates), list[tuple[int, int, str]]()
    with bound(cluster, graph) as runner:
        run = runner.run(progress=lambda *step: told.append(step))
        assert told[0][:2] == (0, 10)
        for gate in gates[:3]:
            gate.touch()
        until(lambda: told[-1][0] == 8)
        assert "left, 7.812 KiB sent" in told[-1][2]
        gates[3].touch()
        run.wait(60)
        assert told[-1] == (10, 10, "")
        assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
        seen = len(told)
        runner()
        assert len(told) == seen


def test_an_error_of_the_progress_ends_the_run(cluster: Cluster, tmp_path: Path) -> None:
    def refuse(done: int, total: int, step: str, /) -> None:
        raise ValueError("no more of this")

    with bound(cluster, gated("refused", [tmp_path / "gate", tmp_path / "never"])) as runner:
        (tmp_path / "gate").touch()
        run = runner.run(progress=refuse)
        (tmp_path / "never").touch()
        with pytest.raises(ValueError, match="no more of this"):
            run.wait(60)


def test_an_interrupt_ends_the_bar_and_cancels_the_run(cluster: Cluster, tmp_path: Path) -> None:
    main, told = threading.get_ident(), list[str]()

    def interrupt(done: int, total: int, step: str, /) -> None:
        told.append(step)
        if len(told) == 2:
            signal.pthread_kill(main, signal.SIGINT)

    gates = [tmp_path / "first", tmp_path / "second", tmp_path / "third"]
    with bound(cluster, gated("interrupted", gates)) as runner:
        run = runner.run(progress=interrupt)
        with pytest.raises(KeyboardInterrupt):
            run.wait()
        ended = len(told)
        assert not any(thread.name == "syclsched cluster progress" for thread in threading.enumerate())
        for gate in gates:  # running tasks end
            gate.touch()
        with pytest.raises(RunCancelledError):
            run.wait(60)
        assert len(told) == ended


def test_status_lists_the_parts_of_each_client(cluster: Cluster, other: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    urgent, nightly = gated("urgent", [gate] * 2, 100_000), gated("nightly", [gate] * 2)
    with bound(cluster, urgent) as first, bound(other, nightly, priority=-1, share=2.0) as second:
        idle = cluster.status().workers[0].parts
        assert [(part.graph, part.running) for part in idle] == [("urgent", False), ("nightly", False)]
        run = first.run()
        until(lambda: all(worker.parts[0].running for worker in cluster.status().workers))
        late = second.run()
        until(lambda: any(part.waits for worker in cluster.status().workers for part in worker.parts))
        for worker in other.status().workers:
            mine, theirs = worker.parts
            assert mine.client == theirs.client and mine.client.endswith(f", process {os.getpid()}")
            assert (mine.priority, mine.share, theirs.priority, theirs.share) == (0, None, -1, 2.0)
            assert (mine.running, mine.tasks_done, mine.tasks, mine.waits) == (True, 0, 3, False)
            assert mine.memory_bytes["host"] == 2 * 800_000 + 8000 and mine.elapsed_s > 0
        text = str(cluster.status())
        for said in ("Graphs", "urgent", mine.client, "runs, ", "waits for its turn", "0 of 3", "host 1.534 MiB"):
            assert said in text
        gate.touch()
        run.wait(60)
        late.wait(60)
    assert all(worker.parts == () for worker in cluster.status().workers)
    assert "Graphs" not in str(cluster.status())


def sums(name: str, nbytes: dict[str, int]) -> TaskGraph:
    """Return a task on each of some machines that writes an array of a given size."""
    graph = TaskGraph(name)
    for node, size in nbytes.items():
        graph.host(_fill, name=f"fill{node[-1]}", x=graph.array(f"x{node[-1]}", (size // 8,)).write())
    return graph


@pytest.fixture
def small_memory(cluster: Cluster) -> Iterator[None]:
    cluster.broadcast(f"{FUNCTIONS}:limit_memory", 4 * MIB)
    cluster.describe(refresh=True)
    yield
    cluster.broadcast(f"{FUNCTIONS}:limit_memory", None)
    cluster.describe(refresh=True)


@pytest.mark.usefixtures("small_memory")
def test_plans_of_all_clients_together_fit_in_memory(cluster: Cluster, other: Cluster) -> None:
    mine, theirs = sums("mine", {"node1": 3 * MIB}), sums("theirs", {"node0": MIB, "node1": 2 * MIB})
    until(lambda: not any(worker.parts for worker in cluster.status().workers))  # of clients of other tests
    with bound(cluster, mine) as runner:
        with pytest.raises(MemoryLimitError) as caught:
            bound(other, theirs)
        said, me = str(caught.value), runner_client()
        assert f"worker {cluster.worker('node1')}" in said
        assert f"graph 'theirs' of {me} needs 2.000 MiB of memory 'host', and 1.000 MiB of 4.000 MiB are left" in said
        assert f"graph 'mine' of {me} holds 3.000 MiB" in said and "close runners that are not used" in said
        parts = [[part.graph for part in worker.parts] for worker in cluster.status().workers]
        assert parts == [[], ["mine"]]  # no machine keeps a part of the refused plan
        np.testing.assert_array_equal(runner()["x1"], np.ones(3 * MIB // 8))
        with bound(other, sums("small", {"node1": MIB})) as beside:
            np.testing.assert_array_equal(beside()["x1"], np.ones(MIB // 8))
    with bound(other, theirs) as runner:
        np.testing.assert_array_equal(runner()["x1"], np.ones(2 * MIB // 8))


def runner_client() -> str:
    from syclsched.cluster.runs.runner import _client

    return _client()


@pytest.mark.usefixtures("small_memory")
def test_runs_in_flight_of_a_stream_count(cluster: Cluster, other: Cluster) -> None:
    graph = sums("stream", {"node0": MIB})
    with bound(cluster, sums("mine", {"node0": 2 * MIB})), bound(other, graph) as runner:
        with pytest.raises(MemoryLimitError, match=r"graph 'stream' of .* holds 1\.000 MiB"):
            runner.stream([{}] * 3, in_flight=3)
        assert [results["x0"][0] for results in runner.stream([{}] * 3, in_flight=2)] == [1.0] * 3


def test_memory_of_a_client_that_is_gone_is_released(cluster: Cluster, tmp_path: Path) -> None:
    cluster.broadcast(f"{FUNCTIONS}:await_clients", 0.05)
    gone = connect(cluster.scheduler)
    runner = bound(gone, gated("left behind", [tmp_path / "gate", tmp_path / "never"]))
    runner.run()
    until(lambda: all(part.running for worker in cluster.status().workers for part in worker.parts))
    gone.close()
    (tmp_path / "gate").touch()
    until(lambda: all(worker.parts == () for worker in cluster.status().workers))
