# SPDX-License-Identifier: Apache-2.0
"""The watchdog: warnings about delays, failures of overdue tasks, and runs given up because they hang."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.opened import live_on, until
from support.running import ASSIGN, DTYPE, MIX, SPIN, plan_by

from syclsched.errors import ArgumentError, DeadlineError, ExecutionError, RunCancelledError, TaskFailedError
from syclsched.execution import Safeguards, bind, execute
from syclsched.execution.core.progress import LaneProgress
from syclsched.execution.core.safeguards import DEFAULT_SAFEGUARDS
from syclsched.execution.core.thread_pool import IDLE
from syclsched.execution.dynamic import run_dynamically
from syclsched.execution.handle import resources as resources_module
from syclsched.execution.handle.engine_chain import EngineChain
from syclsched.execution.handle.resources import Resources, unfinished
from syclsched.execution.handle.watchdog import LEAST_GRACE_S, MIN_WARN_S, RunWatch
from syclsched.model.graph import TaskGraph
from syclsched.testing import faults

SIZE = 64


# --- a watchdog on a mock engine ------------------------------------------------------------------


class MockEngine:
    """A mock engine whose lane positions the test sets."""

    def __init__(self) -> None:
        self.finished = threading.Event()
        self.when_finished: Callable[[], None] | None = None
        self.lane_progress: list[LaneProgress] = []
        self.failed: dict[int, DeadlineError] = {}
        self.cancelled = False
        self.program = self.plan = self
        self.name = "made up"
        self.buffers: dict[str, object] = {}

    def positions(self) -> list[LaneProgress]:
        return self.lane_progress

    def overdue(self, number: int, error: DeadlineError) -> None:
        self.failed[number] = error

    def cancel(self) -> None:
        self.cancelled = True

    def what_is_left(self) -> str:
        return "nothing"

    def join(self, timeout_s: float | None = None) -> None:
        self.finished.wait(timeout_s)


@pytest.fixture
def engine() -> Iterator[MockEngine]:
    found = MockEngine()
    yield found
    found.finished.set()
    unfinished.difference_update([each for each in unfinished if each.engine is found])


def watch(
    engine: MockEngine, safeguards: Safeguards = DEFAULT_SAFEGUARDS, **deadlines_s: float
) -> tuple[RunWatch, Resources]:
    engines = EngineChain(engine, {int(n[1:]): s for n, s in deadlines_s.items()})  # type: ignore[arg-type]
    resources = Resources(engines, None, owns_devices=False)  # type: ignore[arg-type]
    return RunWatch(resources, safeguards), resources


def progress_at(number: int, lane: str = "cpu:0", waits_for: str | None = None, *, begun: bool = True) -> LaneProgress:
    return LaneProgress(lane, "cpu", number, f"task 't{number}'", f"t{number}", 1, 9, waits_for, begun, 0.001)


def test_a_task_that_runs_long_is_warned_of_at_growing_intervals(
    engine: MockEngine, caplog: pytest.LogCaptureFixture
) -> None:
    watching, _ = watch(engine)
    engine.lane_progress = [progress_at(1), progress_at(2, "cpu:1", "task 't1' on cpu:0")]
    for now_s in np.arange(0.0, 6 * MIN_WARN_S, 0.25):
        watching.check(float(now_s))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 3  # at about 10, 20 and 40 seconds
    assert "task 't1' has been running for 10.2 s (predicted: 0.001 s) on lane cpu:0 of device 'cpu'" in messages[0]
    assert "lane cpu:1 is at task 't2' (1 of 9), which waits for task 't1' on cpu:0" in messages[0]


def test_progressing_tasks_cause_no_warning(engine: MockEngine, caplog: pytest.LogCaptureFixture) -> None:
    watching, _ = watch(engine)
    for number in range(400):
        engine.lane_progress = [progress_at(number)]
        watching.check(0.25 * number)
    assert not caplog.records


def test_the_time_of_the_watchdog_can_be_set(engine: MockEngine, caplog: pytest.LogCaptureFixture) -> None:
    engine.lane_progress = [progress_at(1)]
    never, _ = watch(engine, Safeguards(watchdog_s=math.inf))
    soon, _ = watch(engine, Safeguards(watchdog_s=0.5))
    for now_s in (0.0, 0.4):
        soon.check(now_s)
    assert not caplog.records
    assert soon.tick_s == 0.125
    soon.check(0.6)
    assert len(caplog.records) == 1
    never.check(0.0)
    never.check(1e6)
    assert len(caplog.records) == 1


def test_late_run_is_cancelled_then_abandoned(
    engine: MockEngine,
) -> None:
    watching, resources = watch(engine, Safeguards(deadline_s=2.0))
    for now_s in (0.0, 1.9):
        watching.check(now_s)
    assert resources.late is None and not engine.cancelled
    watching.check(2.5)
    assert engine.cancelled and resources.hung is None
    assert resources.late is not None and resources.late.task is None
    assert "has taken 2.5 s, its deadline is 2 s; nothing" in str(resources.late)
    watching.check(4.4)
    assert resources.hung is None
    watching.check(4.6)
    assert resources.hung is resources.late


def test_a_run_that_was_cancelled_before_its_deadline_is_not_late(engine: MockEngine) -> None:
    watching, resources = watch(engine, Safeguards(deadline_s=2.0))
    watching.check(0.0)
    engine.cancelled = True
    watching.check(2.5)
    assert resources.late is None


def test_a_late_task_fails_and_a_run_hanging_on_it_is_abandoned(engine: MockEngine) -> None:
    watching, resources = watch(engine, n1=0.5)
    engine.lane_progress = [progress_at(1), progress_at(2, "cpu:1")]
    watching.check(0.0)
    watching.check(0.4)
    assert not engine.failed
    watching.check(0.6)
    assert engine.failed[1].task == "t1"
    assert "has been running for 0.6 s" in str(engine.failed[1])
    assert "its deadline is 0.5 s" in str(engine.failed[1])
    watching.check(100.0)
    assert resources.hung is None  # the other lane continues
    engine.lane_progress = [progress_at(1), progress_at(3, "cpu:1", "task 't1' on cpu:0")]
    watching.check(100.25)
    assert resources.finished.is_set()
    assert resources.hung is engine.failed[1]


def test_task_deadlines_begin_when_the_task_runs(engine: MockEngine) -> None:
    watching, _ = watch(engine, n1=0.5)
    for now_s in (0.0, 5.0):
        engine.lane_progress = [progress_at(1, waits_for="task 't0' on host:0")]
        watching.check(now_s)
    engine.lane_progress = [progress_at(1, begun=False)]
    watching.check(9.0)
    engine.lane_progress = [progress_at(1)]
    watching.check(10.0)
    watching.check(10.4)
    assert not engine.failed
    watching.check(10.6)
    assert engine.failed


def test_an_overdue_task_is_given_some_time_to_end(engine: MockEngine) -> None:
    watching, resources = watch(engine, n1=0.5)
    engine.lane_progress = [progress_at(1)]
    for now_s in (0.0, 0.6, 0.5 + LEAST_GRACE_S):
        watching.check(now_s)
    assert engine.failed
    assert resources.hung is None
    watching.check(0.7 + LEAST_GRACE_S)
    assert resources.hung is not None


def test_an_exceeded_run_deadline_names_the_current_task(engine: MockEngine) -> None:
    watching, resources = watch(engine, Safeguards(deadline_s=2.0))
    for now_s in np.arange(0.0, 2.3, 0.25):
        engine.lane_progress = [progress_at(int(4 * now_s))]
        watching.check(float(now_s))
    assert engine.cancelled
    assert [str(e) for e in engine.failed.values()] == [
        "task 't9': the run has taken 2.25 s, its deadline is 2 s; the task has been running for 0 s "
        "(predicted: 0.001 s) on lane cpu:0 of device 'cpu', 1 of 9 there. "
        "A kernel that was submitted cannot be stopped: give it less to do, or more time"
    ]
    for now_s in (3.0, 5.0):
        watching.check(now_s)
    assert resources.hung is not None


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, "1", True])
def test_impossible_seconds_are_refused(seconds: Any) -> None:
    for name in ("watchdog_s", "deadline_s"):
        with pytest.raises(ArgumentError, match="not a number of seconds"):
            Safeguards(**{name: seconds})
    graph = TaskGraph()
    x = graph.array("x", (1,))
    with pytest.raises(ArgumentError, match="not a number of seconds"):
        graph.host(lambda x: None, x=x.write(), deadline_s=seconds)


# --- on real queues -------------------------------------------------------------------------------

DEVICE = "cpu"
#: Instructions submitted to the device before the task that hangs: the copy of its input.
COPIES = 1


def graph_with_deadline(deadline_s: float | None) -> TaskGraph:
    """Return ``a`` and ``d`` for a device, ``b`` and ``c`` for another; ``b`` and ``d`` need ``a``."""
    graph = TaskGraph("late")
    one = np.ones(SIZE, DTYPE)
    x, y = graph.array("x", data=one), graph.array("y", data=one)
    a, b, c, d = (graph.array(name, (SIZE,), DTYPE) for name in "abcd")
    graph.kernel(ASSIGN, name="a", x=x, y=a, deadline_s=deadline_s)
    graph.kernel(ASSIGN, name="c", x=y, y=c)
    graph.kernel(ASSIGN, name="b", x=a, y=b)
    graph.kernel(ASSIGN, name="d", x=a, y=d)
    return graph


def started(graph: TaskGraph, safeguards: Safeguards = DEFAULT_SAFEGUARDS) -> Any:
    platform, live = live_on(None)
    other = next(d.name for d in platform.compute_devices if d.name != DEVICE)
    devices = {"a": DEVICE, "b": other, "c": other, "d": DEVICE}
    plan = plan_by(graph, platform, lambda name: (devices[name], 0, "library"))
    return execute(plan, graph, live, safeguards=safeguards)


def busy_threads() -> int:
    """Return the number of threads with a job."""
    return sum(thread.name != IDLE for thread in threading.enumerate())


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources_module, "GRACE_S", 0.3)


@pytest.mark.other_device
@pytest.mark.sycl
def test_late_task_fails_and_descendants_are_cancelled(release_when_late: Any) -> None:
    with faults.inject(faults.hang(DEVICE, after=COPIES)) as injection, started(graph_with_deadline(0.1)) as run:
        release_when_late(injection)
        with pytest.raises(DeadlineError, match=r"task 'a'.*its deadline is 0\.1 s") as found:
            run.wait(60)
        assert found.value.task == "a"
        np.testing.assert_array_equal(run.result("c"), np.ones(SIZE, DTYPE))
        for lost in ("a", "b", "d"):
            with pytest.raises(TaskFailedError):
                run.result(lost)
        outcomes = {s.task: s.outcome for s in run.trace().spans if s.kind == "launch"}
        assert outcomes == {"a": "failed", "b": "cancelled", "c": "done", "d": "cancelled"}


@pytest.mark.other_device
@pytest.mark.sycl
def test_memory_of_an_abandoned_hanging_run_is_freed_at_its_end(watchdog_time: Any) -> None:
    before = busy_threads()
    with faults.inject(faults.hang(DEVICE, after=COPIES)) as injection:
        run = started(graph_with_deadline(0.1))
        run.result("c")
        watchdog_time(lambda: True)
        with pytest.raises(DeadlineError, match="task 'a'"):
            run.wait(60)
        assert run.done()
        with pytest.raises(ExecutionError, match="given up"):
            run.trace()
        np.testing.assert_array_equal(run.result("c"), np.ones(SIZE, DTYPE))
        with pytest.raises(TaskFailedError):
            run.result("b")
        run.close()
        engine = run._resources.engine
        assert not engine.finished.is_set()
        assert len(engine.buffers)
        injection.release()
        engine.join(60)
    assert not len(engine.buffers)
    until(lambda: busy_threads() <= before + 1)  # the watchdog's own thread


@pytest.mark.other_device
@pytest.mark.sycl
@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize("how", ["close", "interrupt"])
def test_a_hung_device_blocks_neither_close_nor_an_interrupt(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with faults.inject(faults.hang(DEVICE, after=COPIES)) as injection:
        run = started(graph_with_deadline(None))
        if how == "close":
            run.close()
        else:

            def interrupt(timeout: float | None) -> None:
                raise KeyboardInterrupt

            monkeypatch.setattr(run, "_wait_finished", interrupt)
            with pytest.raises(KeyboardInterrupt):
                run.wait()
        assert run.done()
        injection.release()
        run._resources.engine.join(60)


@pytest.mark.other_device
@pytest.mark.sycl
def test_the_deadline_of_a_run_ends_it(watchdog_time: Any) -> None:
    with faults.inject(faults.hang(DEVICE, after=COPIES)) as injection:
        run = started(graph_with_deadline(None), Safeguards(deadline_s=0.3))
        run.result("c")
        watchdog_time(lambda: injection.injected)
        with pytest.raises(DeadlineError, match=r"task 'a'.*the run has taken .*its deadline is 0\.3 s"):
            run.wait(60)
        run.close()
        injection.release()
        run._resources.engine.join(60)


@pytest.mark.sycl
def test_a_bound_plan_has_deadlines(release_when_late: Any) -> None:
    platform, live = live_on(None)
    graph = TaskGraph("bound")
    x, y = graph.array("x", data=np.ones(SIZE, DTYPE)), graph.array("y", data=np.ones(SIZE, DTYPE))
    graph.kernel(MIX, name="first", x=x, y=y, a=1, deadline_s=0.1)
    graph.kernel(MIX, name="second", x=x, y=y, a=1)
    plan = plan_by(graph, platform, lambda name: (DEVICE, 0, "opencl-c"))
    with bind(plan, graph, live) as runner:
        for late in (True, False, True):
            if not late:
                assert runner({})["y"][0] == 1 + 3 * (1 + 3)
                continue
            with faults.inject(faults.hang(DEVICE, after=2 * COPIES)) as injection, runner.run() as run:
                release_when_late(injection)
                with pytest.raises(DeadlineError, match="task 'first'"):
                    run.wait(60)


@pytest.mark.sycl
def test_a_hung_bound_plan_blocks_neither_the_next_run_nor_close() -> None:
    platform, live = live_on(None)
    graph = TaskGraph("bound")
    x, y = graph.array("x", data=np.ones(SIZE, DTYPE)), graph.array("y", data=np.ones(SIZE, DTYPE))
    graph.kernel(MIX, name="first", x=x, y=y, a=1, deadline_s=0.1)
    plan = plan_by(graph, platform, lambda name: (DEVICE, 0, "opencl-c"))
    runner = bind(plan, graph, live)
    with faults.inject(faults.hang(DEVICE, after=2 * COPIES)) as injection:
        run = runner.run()
        with pytest.raises(DeadlineError, match="task 'first'"):
            run.wait(60)
        for again in (runner.run, lambda: runner.stream([{}])):
            with pytest.raises(ExecutionError, match="given up"):
                again()
        runner.close()
        assert not run._resources.engine.finished.is_set()
        injection.release()
        run._resources.engine.join(60)
    assert run.hang_error is None


@pytest.mark.sycl
def test_a_host_function_has_a_deadline() -> None:
    platform, live = live_on(None)
    go_on = threading.Event()
    graph = TaskGraph("host")
    x = graph.array("x", (4,), "float64")
    y = graph.array("y", (4,), "float64")
    graph.host(lambda x: go_on.wait(60), x=x.write(), name="waits", deadline_s=0.1)
    graph.host(lambda x, y: None, x=x.read(), y=y.write(), name="after")
    plan = plan_by(graph, platform, lambda name: ("host", 0, graph.find_task(name).operation.implementations[0].name))  # type: ignore[union-attr]
    run = execute(plan, graph, live)
    with pytest.raises(DeadlineError, match=r"task 'waits'.*on lane host:0"):
        run.wait(60)
    go_on.set()
    run.close()
    with pytest.raises((TaskFailedError, ExecutionError, RunCancelledError)):
        run.result("y")


@pytest.mark.sycl
def test_a_dynamic_run_has_deadlines(release_when_late: Any) -> None:
    platform, live = live_on(None)
    graph = TaskGraph("live")
    y, z, other = graph.array("y", data=np.ones(1, DTYPE)), graph.array("z", (1,), DTYPE), graph.array("other", (4,))
    graph.kernel(SPIN, name="a", y=y, turns=1, deadline_s=0.1)
    graph.host(lambda y, z: None, y=y.read(), z=z.write(), name="b")
    graph.host(lambda other: other.fill(1.0), other=other.write(), name="c")
    hangs = [faults.hang(d.name, after=COPIES) for d in platform.compute_devices]
    with faults.inject(*hangs) as injection, run_dynamically(graph, live, "eager") as run:
        release_when_late(injection)
        with pytest.raises(DeadlineError, match=r"task 'a'.*its deadline is 0\.1 s"):
            run.wait(60)
        assert run.result("other")[0] == 1.0
        with pytest.raises(TaskFailedError):
            run.result("z")
