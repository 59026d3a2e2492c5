# SPDX-License-Identifier: Apache-2.0
"""Published status of runs: visible to other processes for every engine, and removed at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.library_calls import alternating
from support.onednn_calls import linear, needs_onednn
from support.opened import REFUSED, until
from support.running import MIX, plan_on

import syclsched
from syclsched.errors import StorageError, TaskFailedError
from syclsched.execution import Run, Safeguards, bind, execute
from syclsched.execution.dynamic import run_dynamically
from syclsched.execution.handle import run_observer
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.monitoring import GraphStatus, ProcessStatus, read_status_files

pytestmark = pytest.mark.sycl

ROOT = Path(__file__).resolve().parents[3]
COUNT = 6


@pytest.fixture(autouse=True)
def _monitored(runtime_folder: Path) -> Iterator[None]:
    """Allow monitoring, and assert that no file is left."""
    with syclsched.monitor():
        yield
    assert run_observer.active is None
    assert not list((runtime_folder / "syclsched").iterdir())
    assert not [thread for thread in threading.enumerate() if thread.name == "syclsched monitor"]


def own() -> ProcessStatus:
    found = read_status_files()
    assert found.unreadable == ()
    (process,) = found.processes
    assert process.pid == os.getpid()
    return process


def seen(true: Callable[[GraphStatus], bool], name: str = "gated") -> GraphStatus:
    """Wait until the published state of a graph fulfils a condition, and return it."""
    kept: list[GraphStatus] = []

    def look() -> bool:
        kept[:] = [graph for graph in own().graphs if graph.name == name]
        return bool(kept) and true(kept[0])

    until(look)
    return kept[0]


class Gate:
    """A graph of kernels with a host function that waits until the test releases it."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.graph = TaskGraph("gated")
        x = self.graph.array("x", data=np.arange(100))
        y = self.graph.array("y", data=np.arange(100))
        for n in range(COUNT):
            self.graph.kernel(MIX, name=f"before{n}", x=x, y=y, a=1)
        self.graph.host(self._wait, y=y.update(), name="gate")
        for n in range(COUNT):
            self.graph.kernel(MIX, name=f"after{n}", x=x, y=y, a=1)

    def _wait(self, y: np.ndarray[Any, Any]) -> None:
        assert self.open.wait(60)


@contextmanager
def _executed(gate: Gate, platform: Platform, devices: Any) -> Iterator[Run]:
    with execute(plan_on(gate.graph, platform, "cpu"), gate.graph, devices) as run:
        yield run


@contextmanager
def _replayed(gate: Gate, platform: Platform, devices: Any) -> Iterator[Run]:
    with bind(plan_on(gate.graph, platform, "cpu"), gate.graph, devices) as runner:
        assert runner.replayed
        with runner.run() as run:
            yield run


@contextmanager
def _dynamic(gate: Gate, platform: Platform, devices: Any) -> Iterator[Run]:
    with run_dynamically(gate.graph, devices, "eager") as run:
        yield run


@pytest.mark.parametrize("start", [_executed, _replayed, _dynamic])
def test_status_shows_a_run_in_progress_and_after_its_end(start: Any, live: tuple[Platform, Any]) -> None:
    gate = Gate()
    try:
        with start(gate, *live) as run:
            graph = seen(lambda graph: any(each.tasks_done == COUNT for each in graph.runs))
            (going,) = graph.runs
            assert (going.tasks, going.is_preparing, going.is_call) == (2 * COUNT + 1, False, False)
            assert (graph.in_flight, graph.done, graph.ended) == (1, 0, ())
            assert (graph.predicted_s is None) == (start is _dynamic)
            at = {lane.current: lane for lane in graph.lanes}
            assert at["task 'gate'"].device == "host"
            assert at["task 'gate'"].waits_for is None
            assert sum(lane.tasks_done for lane in graph.lanes) == COUNT
            gate.open.set()
            run.wait()
    finally:
        gate.open.set()
    graph = seen(lambda graph: graph.done == 1 and graph.lanes != () and graph.lanes[0].busy is not None)
    assert (graph.in_flight, graph.runs, graph.failed) == (0, (), 0)
    (ended,) = graph.ended
    assert ended.ending == "done"
    assert 0.0 < ended.seconds < 600.0
    assert sum(lane.tasks_done for lane in graph.lanes) == 2 * COUNT + 1
    busy = {lane.device: lane.busy for lane in graph.lanes if lane.kind == "host"}["host"]
    assert busy is not None
    assert 0.0 < busy <= 1.0


def test_status_shows_that_a_delayed_run_waits(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    gate, background = Gate(), TaskGraph("background")
    z = background.array("z", data=np.arange(100))
    for n in range(200):
        background.kernel(MIX, name=f"t{n}", x=background.array(f"x{n}", data=np.arange(100)), y=z, a=1)
    how = Safeguards(priority=-3, share=0.5)
    try:
        with _executed(gate, platform, devices) as run:
            seen(lambda graph: graph.in_flight == 1)
            plan = plan_on(background, platform, "cpu", task_s=1e-2)  # so long that one may start meanwhile
            with execute(plan, background, devices, safeguards=how) as slow:
                graph = seen(lambda graph: any(each.waits for each in graph.runs), "background")
                assert [(each.priority, each.share) for each in graph.runs] == [(-3, 0.5)]
                gate.open.set()
                run.wait()
                slow.wait()
    finally:
        gate.open.set()


def test_runs_in_flight_of_a_stream_are_counted(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    gate = Gate()
    with bind(plan_on(gate.graph, platform, "cpu"), gate.graph, devices) as runner:
        try:
            with runner.stream([{}] * 3, in_flight=2, results=["y"]) as stream:
                reader = threading.Thread(target=lambda: list(stream))
                reader.start()
                assert len(seen(lambda graph: graph.in_flight == 2).runs) == 2
                gate.open.set()
                reader.join(60)
        finally:
            gate.open.set()
    assert seen(lambda graph: graph.done == 3).in_flight == 0


@needs_onednn
def test_calls_of_compiled_code_are_counted(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = alternating(COUNT, 64, linear())
    with bind(plan_on(graph, platform, "cpu"), graph, devices, trace=False) as runner:
        for _ in range(3):
            runner({"y": np.arange(64, dtype=np.float32)})
        assert runner.handed_over_ns is not None  # those runs were such calls
    called = seen(lambda graph: graph.done == 3, graph.name)
    assert [run.ending for run in called.ended] == ["done"] * 3
    # The progress of their lanes is invisible.
    tasks = [(lane.tasks_done, lane.tasks, lane.busy) for lane in called.lanes if lane.tasks]
    assert tasks == [(COUNT, COUNT, None)]
    assert [0.0 < (lane.predicted_busy or 0.0) <= 1.0 for lane in called.lanes if lane.tasks] == [True]


def test_a_run_in_flight_before_monitoring_is_seen(live: tuple[Platform, Any]) -> None:
    gate = Gate()
    try:
        with _executed(gate, *live) as run:
            seen(lambda graph: graph.in_flight == 1)
            with syclsched.monitor():  # allowed already: no change
                assert seen(lambda graph: graph.in_flight == 1).done == 0
            gate.open.set()
            run.wait()
    finally:
        gate.open.set()
    assert seen(lambda graph: graph.in_flight == 0).done == 1


def test_failed_and_cancelled_runs_are_named_so(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("failing")
    x, y = graph.array("x", data=np.arange(100)), graph.array("y", data=np.arange(100))
    graph.kernel(REFUSED, name="bad", x=x, y=y, a=1)
    with pytest.raises(TaskFailedError), execute(plan_on(graph, platform, "cpu"), graph, devices):
        pass
    assert [run.ending for run in seen(lambda graph: graph.failed == 1, "failing").ended] == ["failed"]
    gate = Gate()
    with _executed(gate, *live) as run:
        seen(lambda graph: graph.in_flight == 1)
        run.cancel()
        gate.open.set()
        run.join()
        run.close()
    assert [run.ending for run in seen(lambda graph: graph.cancelled == 1).ended] == ["cancelled"]


def test_memory_is_seen_by_space(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    gate = Gate()
    try:
        with _executed(gate, platform, devices):
            seen(lambda graph: graph.in_flight == 1)
            spaces = {each.space: each for each in own().memory}
            assert spaces
            assert all(each.in_use_bytes <= each.peak_bytes for each in spaces.values())
            gate.open.set()
    finally:
        gate.open.set()


PROGRAM = """
import os, sys, threading
sys.path.insert(0, sys.argv[1])
import numpy as np
import syclsched

permission = syclsched.monitor()
graph = syclsched.TaskGraph("elsewhere")
y = graph.array("y", data=np.zeros(8))
graph.host(lambda y: sys.stdin.readline(), y=y.update(), name="wait")
with syclsched.run(graph, policy="single:host", calibrate=False) as run:
    run.wait()
if os.fork() == 0:  # the child leaves the file of its parent alone, also at its exit
    permission.close()
    sys.exit(0)
os.wait()
print("ended", flush=True)
sys.stdin.readline()
"""


def test_another_process_is_seen_until_it_ends(runtime_folder: Path) -> None:
    def other() -> ProcessStatus | None:
        return next((process for process in read_status_files().processes if process.pid == child.pid), None)

    def graphs() -> tuple[GraphStatus, ...]:
        return () if (process := other()) is None else process.graphs

    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(ROOT)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    ) as child:  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        until(lambda: child.poll() is not None or any(graph.in_flight for graph in graphs()), 300)
        (graph,) = graphs()
        assert (graph.name, graph.in_flight) == ("elsewhere", 1)
        assert "task 'wait'" in [lane.current for lane in graph.lanes] or graph.runs[0].tasks_done == 0
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "ended\n"
        until(lambda: graphs() and graphs()[0].done == 1)
        _, errors = child.communicate("\n", timeout=120)
        assert child.returncode == 0, errors
    assert other() is None
    assert len(list((runtime_folder / "syclsched").iterdir())) == 1  # of this process


def test_a_killed_process_is_cleaned_up(runtime_folder: Path) -> None:
    program = "import sys, syclsched; syclsched.monitor(); print('allowed', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "allowed\n"
        assert len(list((runtime_folder / "syclsched").iterdir())) == 2
        child.kill()
        child.wait()
    assert [process.pid for process in read_status_files().processes] == [os.getpid()]
    assert len(list((runtime_folder / "syclsched").iterdir())) == 1


def test_permissions_hold_until_the_last_is_withdrawn() -> None:
    with syclsched.monitor() as outer, syclsched.monitor() as inner:
        inner.close()
        inner.close()
        assert inner.closed
        assert not outer.closed
        assert own().graphs == ()
        assert repr(outer) == f"<Monitoring of process {os.getpid()}: allowed>"


def test_an_unsafe_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys, syclsched; syclsched.monitor()"
    folder = tmp_path / "unsafe"
    (folder / "syclsched").mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    (folder / "syclsched").chmod(0o777)
    ended = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
        capture_output=True, text=True, cwd=ROOT, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert StorageError.__name__ in ended.stderr
    assert "can be written to by everyone" in ended.stderr
