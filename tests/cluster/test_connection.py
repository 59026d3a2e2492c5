# SPDX-License-Identifier: Apache-2.0
"""Connections to Dask clusters whose workers are processes of this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.opened import until

import syclsched
from syclsched.cluster import Cluster, connect
from syclsched.cluster.measurements.network import measure_network
from syclsched.cluster.membership import Membership
from syclsched.cluster.transport.comm_sockets import CommSockets
from syclsched.errors import ArgumentError, ClusterError, DeadlineError, RuntimeMissingError, WorkerLostError
from syclsched.model.platform import HOST

distributed = pytest.importorskip("distributed", reason="the package distributed is not installed")

FUNCTIONS = "support.cluster_functions"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect(workers=2) as made:
        yield made


@pytest.mark.parametrize(("late", "is_lost"), [(1, False), (3, True)])
def test_worker_that_comes_between_a_question_and_its_answer(
    monkeypatch: pytest.MonkeyPatch, late: int, is_lost: bool
) -> None:
    ask, asked = Membership.asked, []

    def answers_of_earlier(members: Membership, *given: Any) -> Any:
        found = ask(members, *given)
        if isinstance(found, dict) and "client" in found:  # versions
            asked.append(found)
            if len(asked) <= late:
                found["workers"].popitem()
        return found

    monkeypatch.setattr(Membership, "asked", answers_of_earlier)
    if is_lost:
        with pytest.raises(WorkerLostError, match="does not answer"):
            connect(workers=2)
    else:
        with connect(workers=2) as made:
            assert len(made.workers) == 2
    assert len(asked) == late + (not is_lost)


class TestWorkers:
    def test_names_are_in_order_and_stable(self, cluster: Cluster) -> None:
        workers = cluster.workers
        assert [each.name for each in workers] == ["node0", "node1"]
        assert [each.dask_name for each in workers] == ["0", "1"]
        assert cluster.workers == workers
        assert cluster.worker("node1") == workers[1]

    def test_unknown_worker(self, cluster: Cluster) -> None:
        with pytest.raises(ClusterError, match=r"no worker 'node7'.*It has node0, node1"):
            cluster.call("node7", f"{FUNCTIONS}:sleep", 0.0)

    def test_each_has_a_core_of_its_own(self, cluster: Cluster) -> None:
        found = cluster.broadcast(f"{FUNCTIONS}:thread_and_cores")
        assert len({process for _, process, _ in found.values()}) == 2
        if len(os.sched_getaffinity(0)) >= 2:
            cores = [held for _, _, held in found.values()]
            assert all(len(each) == 1 for each in cores)
            assert cores[0] != cores[1]

    def test_description(self, cluster: Cluster) -> None:
        facts = cluster.describe()
        for worker in cluster.workers:
            said = facts[worker.name]
            assert (said.address, said.version) == (worker.address, syclsched.__version__)
            assert said.platform is not None
            assert said.platform.compute_devices
            assert said.platform.generation == said.generation != ""

    def test_status(self, cluster: Cluster) -> None:
        status = cluster.status()
        assert [each.state for each in status.workers] == ["ready", "ready"]
        assert all(each.used_bytes > 0 and each.devices for each in status.workers)
        text = str(status)
        for part in ("Cluster of 2 workers", "dashboard    none", "node0", cluster.workers[1].address, "ready"):
            assert part in text
        assert "<table>" in status._repr_html_()


class TestCalls:
    def test_functions_run_concurrently_in_threads(self, cluster: Cluster) -> None:
        begin = time.monotonic()
        calls = [cluster.start("node0", f"{FUNCTIONS}:sleep", 1.0) for _ in range(4)]
        name, _, _ = cluster.call("node0", f"{FUNCTIONS}:thread_and_cores")
        assert name == "syclsched call"
        assert not any(call.done for call in calls)
        assert [call.result(10) for call in calls] == [1.0] * 4
        assert time.monotonic() - begin < 3.5

    def test_errors_of_calls_keep_their_type_and_fields(self, cluster: Cluster) -> None:
        with pytest.raises(DeadlineError, match=r"task 't7': too late\. Wait longer") as caught:
            cluster.call("node0", f"{FUNCTIONS}:late")
        assert caught.value.task == "t7"

    def test_errors_that_cannot_be_sent_are_described(self, cluster: Cluster) -> None:
        with pytest.raises(ClusterError, match=r"worker node1 \(tcp://.*\): Unpicklable: it has a lock"):
            cluster.call("node1", f"{FUNCTIONS}:unsendable")

    def test_time_is_bounded(self, cluster: Cluster) -> None:
        with pytest.raises(ClusterError, match=r"worker node0 .*sleep has not returned in 0\.1 s"):
            cluster.call("node0", f"{FUNCTIONS}:sleep", 0.5, timeout_s=0.1)

    def test_arrays_go_from_worker_to_worker(self, cluster: Cluster) -> None:
        first, second = cluster.workers
        for run, size in (("small", 1), ("large", 300_000)):
            there = cluster.start("node1", f"{FUNCTIONS}:sum_numbers", first.address, run, 20, size)
            back = cluster.start("node0", f"{FUNCTIONS}:sum_numbers", second.address, run + " back", 20, size)
            cluster.call("node0", f"{FUNCTIONS}:send_numbers", second.address, run, 20, size)
            cluster.call("node1", f"{FUNCTIONS}:send_numbers", first.address, run + " back", 20, size)
            assert there.result(20) == back.result(20) == 190.0 * size

    def test_arrays_go_to_workers_and_back(self, cluster: Cluster) -> None:
        data, back = np.arange(200_000.0), np.zeros(200_000)
        for name in ("node0", "node1", "node0"):
            address, run = cluster.link(name), f"there and back {time.monotonic()}"
            call = cluster.start(name, f"{FUNCTIONS}:send_back", cluster.address, run, data.size)
            cluster.mailbox.send(run, 0, address, data)
            cluster.mailbox.receive(run, 1, back, 20.0, source=address)
            call.result(20)
            np.testing.assert_array_equal(back, 2 * data)


class TestUnreachable:
    """This process can connect to the scheduler, but not to the workers."""

    @pytest.fixture
    def apart(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
        def refuse(self: CommSockets, peer: str, direction: str = "in", timeout_s: float = 1.0) -> None:
            raise ConnectionRefusedError("no route to host")

        monkeypatch.setattr(CommSockets, "connect", refuse)
        with connect(cluster.scheduler) as made:
            yield made

    def test_calls_go_through_the_scheduler(self, apart: Cluster) -> None:
        data = np.arange(10_000.0)
        np.testing.assert_array_equal(apart.call("node1", f"{FUNCTIONS}:doubled", data), 2 * data)
        with pytest.raises(DeadlineError, match="too late"):
            apart.call("node1", f"{FUNCTIONS}:late")
        with pytest.raises(ClusterError, match=r"worker node0 .*sleep has not returned in 0\.1 s"):
            apart.call("node0", f"{FUNCTIONS}:sleep", 0.5, timeout_s=0.1)

    def test_messages_are_refused(self, apart: Cluster) -> None:
        with pytest.raises(WorkerLostError, match=r"node0 .*cannot be reached from this process: no route to host"):
            apart.link("node0")

    def test_network_is_measured_by_calls(self, apart: Cluster) -> None:
        found = measure_network(apart, sizes=(8, 1_000_000), size_s=0.01, rounds=1)
        assert {(HOST, "node0"), ("node1", HOST)} < {(each.source, each.destination) for each in found.paths}
        assert all(path.fit.latency_s >= 0 for path in found.paths)


class TestConnecting:
    def test_workers_of_an_existing_cluster_outlive_a_connection(self, cluster: Cluster) -> None:
        with connect(cluster.scheduler) as second:
            assert second.workers == cluster.workers
            assert second.call("node1", f"{FUNCTIONS}:sleep", 0.0) == 0.0
        with pytest.raises(ClusterError, match="the connection to the cluster is closed"):
            second.call("node1", f"{FUNCTIONS}:sleep", 0.0)
        with connect(cluster.client) as third:
            assert third.workers == cluster.workers
        assert cluster.call("node1", f"{FUNCTIONS}:sleep", 0.0) == 0.0

    def test_a_missing_scheduler_is_an_error(self) -> None:
        begin = time.monotonic()
        with pytest.raises(ClusterError, match=r"tcp://127.0.0.1:1: no Dask scheduler answers in 0\.5 s"):
            connect("tcp://127.0.0.1:1", timeout_s=0.5)
        assert time.monotonic() - begin < 5.0

    def test_no_address(self) -> None:
        with pytest.raises(ClusterError, match="nowhere: not the address of a scheduler"):
            connect("nowhere", timeout_s=1.0)

    @pytest.mark.parametrize("given", [{}, {"cluster": "tcp://127.0.0.1:1", "workers": 2}, {"workers": 0}])
    def test_contradictory_connect_arguments_are_refused(self, given: dict[str, Any]) -> None:
        with pytest.raises(ArgumentError, match="connect"):
            connect(**given)

    def test_a_cluster_without_workers_is_an_error(self) -> None:
        with (
            distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty,
            pytest.raises(ClusterError, match=r"no worker has come in 0\.3 s.*Start workers: dask worker"),
        ):
            connect(empty.scheduler_address, timeout_s=0.3)

    def test_script_without_a_guard(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text("from syclsched.cluster.connection import connect\nconnect(workers=1)\n")
        ended = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": _paths()},
        )
        assert ended.returncode == 1
        assert "this machine: the workers cannot be started: Nanny failed to start." in ended.stderr
        assert "under `if __name__ == '__main__':`" in ended.stderr

    def test_other_version(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        here = syclsched.__version__.rpartition(".")[0]
        monkeypatch.setattr(syclsched, "__version__", "9.8.7")
        with pytest.raises(
            ClusterError, match=rf"worker node0 \(tcp.*the worker has syclsched {here}, and .* has 9\.8"
        ):
            connect(cluster.scheduler)

    def test_package_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "distributed", None)
        with pytest.raises(RuntimeMissingError, match=r"pip install 'syclsched\[cluster\]'"):
            connect(workers=1)

    def test_encrypted(self, tmp_path: Path) -> None:
        certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
        openssl = shutil.which("openssl")
        if openssl is None:
            pytest.skip("openssl is not installed, which makes the certificate")
        request = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -keyout {key} -out {certificate}"
        subprocess.run([openssl, *request.split()], check=True, capture_output=True)
        ends = {f"tls_{who}_{what}": str(path) for who in ("client", "scheduler", "worker")
                for what, path in (("cert", certificate), ("key", key))}  # fmt: skip
        security = distributed.Security(tls_ca_file=str(certificate), require_encryption=True, **ends)
        with connect(workers=2, security=security) as made:
            first, second = made.workers
            assert first.address.startswith("tls://")
            summed = made.start("node1", f"{FUNCTIONS}:sum_numbers", first.address, "run", 5, 300_000)
            made.call("node0", f"{FUNCTIONS}:send_numbers", second.address, "run", 5, 300_000)
            assert summed.result(20) == 3_000_000.0
            assert made.call("node0", f"{FUNCTIONS}:is_encrypted")


class TestLosses:
    def test_killed_and_frozen_workers(self) -> None:
        with connect(workers=2, silent_s=4.0) as made:
            first, second = made.workers
            processes = {name: found[1] for name, found in made.broadcast(f"{FUNCTIONS}:thread_and_cores").items()}
            told: list[tuple[str, str]] = []
            made.when_lost(lambda worker, cause: told.append((worker.name, cause)))

            # Killed: the call on it ends, and so do waits for its messages.
            running = made.start("node1", f"{FUNCTIONS}:sleep", 60.0)
            made.call("node1", f"{FUNCTIONS}:send_numbers", first.address, "run", 1, 1)
            waiting = made.start("node0", f"{FUNCTIONS}:receive_nothing", second.address)
            time.sleep(0.2)
            os.kill(processes["node1"], signal.SIGKILL)
            with pytest.raises(WorkerLostError, match=r"worker node1 \(tcp://"):
                running.result(20)
            with pytest.raises(WorkerLostError, match=r"closed its connection|connection broke"):
                waiting.result(20)
            until(lambda: any(name == "node1" for name, _ in told))

            # Dask starts it again, with the same name and another address.
            until(lambda: len(made.workers) == 2)
            again = made.worker("node1")
            assert again.address != second.address
            until(lambda: made.call("node1", f"{FUNCTIONS}:sleep", 0.0) == 0.0)

            # Frozen: detected by missing heartbeats.
            told.clear()
            running = made.start("node0", f"{FUNCTIONS}:sleep", 0.5)
            os.kill(processes["node0"], signal.SIGSTOP)
            try:
                begin = time.monotonic()
                with pytest.raises(WorkerLostError, match=r"node0 \(.*has given no sign of life for \d s"):
                    running.result(20)
                assert time.monotonic() - begin < 15.0
                assert [each.name for each in made.workers] == ["node1"]
                status = made.status(timeout_s=0.0)
                assert [each.state for each in status.workers] == ["silent", "no answer"]
                assert "silent for" in str(status)
                with pytest.raises(WorkerLostError, match="gives no sign of life"):
                    made.call("node0", f"{FUNCTIONS}:sleep", 0.0)
            finally:
                os.kill(processes["node0"], signal.SIGCONT)
            until(lambda: len(made.workers) == 2)
            assert made.call("node0", f"{FUNCTIONS}:sleep", 0.0) == 0.0

    def test_scheduler_is_killed(self, tmp_path: Path) -> None:
        said = tmp_path / "scheduler.json"
        dask = [sys.executable, "-m", "dask"]
        alone = {**os.environ, "PYTHONPATH": _paths()}
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": alone}
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(said)]
        with subprocess.Popen([*dask, "scheduler", *options], **quiet) as scheduler:
            options = ["--scheduler-file", str(said), "--host", "127.0.0.1", "--no-dashboard", "--no-nanny"]
            with subprocess.Popen([*dask, "worker", *options, "--nthreads", "1"], **quiet) as worker:
                try:
                    until(said.exists)
                    with connect(_address(said), timeout_s=30.0) as made:
                        assert made.call("node0", f"{FUNCTIONS}:thread_and_cores")[1] == worker.pid
                        running = made.start("node0", f"{FUNCTIONS}:sleep", 60.0)
                        scheduler.kill()
                        begin = time.monotonic()
                        with pytest.raises(ClusterError, match=r"Dask's scheduler|the worker is lost"):
                            running.result(40)
                        with pytest.raises(ClusterError, match=r"Dask's scheduler|the worker is lost"):
                            made.call("node0", f"{FUNCTIONS}:sleep", 0.0)
                        assert time.monotonic() - begin < 30.0
                finally:
                    scheduler.kill()
                    worker.kill()

    def test_interrupt_ends_the_workers(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "from syclsched.cluster.connection import connect\n"
            "if __name__ == '__main__':\n"
            "    with connect(workers=1) as cluster:\n"
            f"        print(cluster.call('node0', '{FUNCTIONS}:thread_and_cores')[1], flush=True)\n"
            f"        cluster.call('node0', '{FUNCTIONS}:sleep', 60.0)\n"
        )
        with subprocess.Popen(
            [sys.executable, str(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": _paths()},
        ) as running:
            assert running.stdout is not None
            worker = int(running.stdout.readline())
            time.sleep(0.3)
            os.killpg(running.pid, signal.SIGINT)  # as a terminal does
            _, said = running.communicate(timeout=30)
        assert running.returncode in (-signal.SIGINT, 130), said
        assert said.count("Traceback") == 1, said
        until(lambda: not Path(f"/proc/{worker}").exists())


def _paths() -> str:
    """Return the import paths of this package and of the test helpers, for other processes."""
    return os.pathsep.join(str(each) for each in (Path(__file__).parents[1], Path(syclsched.__file__).parents[1]))


def _address(file: Path) -> str:
    """Return the address that a scheduler writes to a file, once it is complete."""
    end = time.monotonic() + 30.0
    while True:
        try:
            return str(json.loads(file.read_text())["address"])
        except ValueError:
            assert time.monotonic() < end
            time.sleep(0.02)
