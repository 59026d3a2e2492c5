# SPDX-License-Identifier: Apache-2.0
"""Dynamic policies on live devices: equal bits for all decisions, and executed plans that are proved race-free."""

from __future__ import annotations

import asyncio
import ctypes
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.gpu_shape import OTHER_DEVICE
from support.opened import refused_beside
from support.running import ASSIGN, DTYPE, JUDGE, MIX, SPIN, graphs, inputs_of, sequential, with_host
from support.starting import POLICIES, Anywhere, live_called, start

from syclsched.costs import CostModel
from syclsched.errors import PolicyError, RunCancelledError, TaskFailedError, WaitTimeoutError
from syclsched.execution.dynamic import dynamic_engine
from syclsched.execution.dynamic.data.submission_lookahead import SubmissionLookahead
from syclsched.execution.dynamic.dynamic_start import execute_dynamic
from syclsched.execution.handle.resources import unfinished
from syclsched.execution.lanes.lanes import HostLane
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, NativeCall
from syclsched.model.platform import HOST, Platform
from syclsched.planning import verify
from syclsched.scheduling import build_problem
from syclsched.scheduling.dynamic import Decision, PolicyState
from syclsched.scheduling.tables import NOTHING
from syclsched.testing import faults

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("compiled_policies")]


@pytest.fixture(params=["all", "cpu"])
def live(request: pytest.FixtureRequest) -> tuple[Platform, Any]:
    """Devices with memory of their own, or lanes of one device, where compiled policies run."""
    devices = live_called(request.param)
    return devices.platform, devices


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    yield
    assert not [r for r in unfinished if not r.engine.cancelled]


def check(graph: Any, live: Any, policy: str, **options: Any) -> Any:
    """Run a graph, compare every array with NumPy, and verify that the executed plan has no race."""
    inputs = inputs_of(graph, len(graph))
    untouched = {name: value.copy() for name, value in inputs.items()}
    expected = sequential(graph, inputs)
    with start(graph, live, policy, inputs, **options) as run:
        run.wait(60)
        kept = set(run._resources.engine.program.final_buffers) & set(graph.arrays)
        kept |= {name for name in graph.segments() if not graph.arrays[name].temporary and name in graph.inputs()}
        for name in sorted(kept):
            assert np.array_equal(run.result(name), expected[name]), name
        verify(run.plan, graph)
        trace = run.trace()
        assert {s.task for s in trace.spans} >= {t.name for t in graph.tasks}
        assert all(s.outcome == "done" for s in trace.spans)
        plan = run.plan
    for name, value in inputs.items():
        assert np.array_equal(value, untouched[name]), name
    return plan


@given(data=st.data())
@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.parametrize("where", ["all", "parts", "cpu", "halves"])
def test_random_graphs_have_the_bits_of_numpy(where: str, submission: None, data: st.DataObject) -> None:
    live = live_called(where)
    graph = data.draw(graphs(ranges=data.draw(st.booleans())))
    check(graph, live, data.draw(st.sampled_from(POLICIES)))


def rounds(length: int, size: int, wide: int) -> TaskGraph:
    """Return a graph that mixes arrays with each other repeatedly, so that all are needed to the end."""
    graph = TaskGraph("rounds")
    arrays = [graph.array(f"a{i}", data=np.arange(size, dtype=DTYPE) * i) for i in range(wide)]
    for step in range(length):
        for i in range(wide):
            graph.kernel(MIX, name=f"t{step}_{i}", x=arrays[(i + step) % wide], y=arrays[(i + step + 1) % wide], a=i)
    return graph


@pytest.mark.gpu_shape
@pytest.mark.parametrize("policy", ["eager", "stealing", "anywhere"])
def test_arrays_that_exceed_memory_are_evicted_and_restored(live: tuple[Platform, Any], policy: str) -> None:
    graph = rounds(3, 1000, 8)
    limits = {"cpu": 3 * 8000, OTHER_DEVICE: 2 * 8000}
    plan = check(graph, live[1], policy, memory_limits=limits)
    assert all(plan.peak_bytes.get(space, 0) <= limit for space, limit in limits.items())
    assert any(i.kind == "free" for _, i in plan.instructions())


def test_task_that_never_fits_fails_by_name(live: tuple[Platform, Any]) -> None:
    graph = TaskGraph("large")
    large = graph.array("large", data=np.zeros(1000, DTYPE))
    small = [graph.array(f"s{i}", data=np.arange(10, dtype=DTYPE)) for i in range(2)]
    graph.kernel(SPIN, name="too_large", y=large, turns=1)
    graph.kernel(MIX, name="fits", x=small[0], y=small[1], a=2)
    with start(graph, live[1], "eager", memory_limits={"cpu": 200, OTHER_DEVICE: 200}) as run:
        with pytest.raises(TaskFailedError, match="too_large") as caught:
            run.wait(60)
        assert "8000 bytes" in str(caught.value)
        assert np.array_equal(run.result("s1"), sequential_of(graph, "fits")["s1"])


def sequential_of(graph: TaskGraph, *names: str) -> dict[str, Any]:
    """Return NumPy's results of some of a graph's tasks."""
    part = TaskGraph("part")
    arrays = {name: part.array(name, data=np.array(graph.data[name])) for name in graph.data}
    for name in names:
        task = graph.find_task(name)
        scalars = task.signature.scalars if task.signature else {}
        part.kernel(task.operation, name=name, **{p: arrays[a] for p, a in task.arguments.items()}, **scalars)
    return sequential(part, part.data)


# --- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_a_raising_host_function_cancels_only_dependent_tasks(live: tuple[Platform, Any], policy: str) -> None:
    def bad(y: Any) -> None:
        raise ValueError("no good")

    graph = TaskGraph("bad")
    x, y, z = (graph.array(n, data=np.arange(50, dtype=DTYPE)) for n in "xyz")
    graph.kernel(with_host(bad), name="bad", y=y)
    graph.kernel(MIX, name="after", x=y, y=x, a=1)
    graph.kernel(MIX, name="apart", x=z, y=graph.array("w", data=np.ones(50, DTYPE)), a=3)
    with start(graph, live[1], policy) as run:
        with pytest.raises(TaskFailedError, match="no good") as caught:
            run.wait(60)
        assert caught.value.task == "bad"
        with pytest.raises(TaskFailedError):
            run.result("x")
        assert np.array_equal(run.result("w"), 3 * np.arange(50) + 3 + np.arange(50))
        outcomes = {s.task: s.outcome for s in run.trace().spans if s.kind != "copy"}
    assert outcomes["bad"] == "failed" and outcomes["after"] == "cancelled" and outcomes["apart"] == "done"


@dataclass
class Placed(Anywhere):
    """A policy that starts each task on a given lane as soon as the lane is free."""

    lanes: dict[int, int] = field(default_factory=dict)

    def decide(self, state: PolicyState) -> list[Decision]:
        free = [task for task in state.ready if state.lanes[self.lanes[task]].running == NOTHING]
        return [Decision(free[0], self.lanes[free[0]], start=True)] if free else []


@pytest.mark.parametrize("fault", ["which cannot run it", "which does not exist", "not ready or has been started"])
def test_a_decision_that_cannot_be_carried_out_is_refused(live: tuple[Platform, Any], fault: str) -> None:
    """Before, a task on a lane that cannot run it was taken for a barrier: the run ended without its result."""
    graph = TaskGraph("refused")
    x, y = (graph.array(n, data=np.arange(4, dtype=DTYPE)) for n in "xy")
    graph.kernel(MIX, name="first", x=x, y=y, a=1)
    graph.kernel(with_host(lambda y: None), name="second", y=y)
    problem = build_problem(graph, live[1].platform, CostModel(live[1].platform, None))
    device_of = [device for device, _ in problem.processors]
    lanes = {
        task: device_of.index(int(np.argmin(seconds))) for task, seconds in enumerate(problem.tables.task_seconds())
    }
    if fault == "which cannot run it":
        lanes = {
            task: device_of.index(int(np.argmax(seconds))) for task, seconds in enumerate(problem.tables.task_seconds())
        }
        assert np.isinf(problem.tables.seconds.max(axis=1)).any()
    elif fault == "which does not exist":
        lanes = dict.fromkeys(lanes, len(device_of))

    @dataclass
    class Wrong(Anywhere):
        """A policy that starts tasks on given lanes, in one case whether ready or not."""

        def decide(self, state: PolicyState) -> list[Decision]:
            tasks = list(lanes) if "not ready" in fault else state.ready
            return [Decision(task, lanes[task], start=True) for task in tasks]

    with execute_dynamic(graph, problem, live[1], Wrong()) as run, pytest.raises(PolicyError, match=fault) as caught:
        run.wait(60)
    assert caught.value.where == "policy 'anywhere'"


@pytest.mark.parametrize("where", ["host", "device"])
def test_tasks_behind_a_skipped_task_wait_for_its_predecessors(live: tuple[Platform, Any], where: str) -> None:
    """The order is an explicit edge: accesses do not imply it, and before, nothing was waited for any more."""

    def bad(y: Any) -> None:
        raise ValueError("no good")

    graph = TaskGraph("through")
    w, x, y, z = (graph.array(n, data=np.arange(4, dtype=DTYPE)) for n in "wxyz")
    graph.kernel(SPIN, name="before", y=x, turns=20_000_000)
    graph.kernel(with_host(bad), name="bad", y=y)
    graph.kernel(MIX, name="left_out", x=z, y=y, a=1)
    graph.kernel(ASSIGN, name="behind", x=w, y=z)
    graph.edge("before", "left_out")
    problem = build_problem(graph, live[1].platform, CostModel(live[1].platform, None))
    hosts = [n for n, (device, _) in enumerate(problem.processors) if problem.devices[device] == HOST]
    others = [n for n in range(len(problem.processors)) if n not in hosts]
    left_out = hosts[0] if where == "host" else others[0]
    at = {"before": others[0], "bad": hosts[0], "left_out": left_out, "behind": others[-1]}
    policy = Placed(lanes={n: at[name] for n, name in enumerate(problem.names)})
    with execute_dynamic(graph, problem, live[1], policy) as run:
        with pytest.raises(TaskFailedError, match="no good"):
            run.wait(60)
        span = {s.task: s for s in run.trace().spans if s.kind in ("launch", "host")}
        assert np.array_equal(run.result("z"), np.arange(4))
    assert "left_out" not in span or span["left_out"].outcome == "cancelled"
    assert span["behind"].start_s > span["before"].finish_s - 1e-3


def test_a_kernel_that_the_runtime_refuses_fails_by_name(live: tuple[Platform, Any], submission: None) -> None:
    graph = refused_beside(3)
    with start(graph, live[1], "eager") as run:
        with pytest.raises(TaskFailedError, match="refused") as caught:
            run.wait(60)
        assert caught.value.task == "refused"
        with pytest.raises(TaskFailedError):
            run.result("x")
        left = [f"before{i}" for i in range(3)] + [f"apart{i}" for i in range(3)]
        assert np.array_equal(run.result("z"), sequential_of(graph, *left)["z"])


def test_a_status_is_read_in_every_memory_space(live: tuple[Platform, Any]) -> None:
    graph = TaskGraph("judged")
    x = graph.array("x", data=np.array([-1], DTYPE))
    status, y = graph.array("status", (1,), "int32"), graph.array("y", data=np.arange(5, dtype=DTYPE))
    graph.kernel(JUDGE, name="judge", x=x, status=status)
    graph.kernel(MIX, name="apart", x=y, y=graph.array("z", data=np.ones(5, DTYPE)), a=1)
    with start(graph, live[1], "dmdas") as run, pytest.raises(TaskFailedError, match="x is negative"):
        run.wait(60)


def test_a_cancelled_run_raises_run_cancelled_error(live: tuple[Platform, Any]) -> None:
    entered, opened = threading.Event(), threading.Event()

    def gate(y: Any) -> None:
        entered.set()
        assert opened.wait(60)

    graph = TaskGraph("cancelled")
    x, y = (graph.array(n, data=np.arange(50, dtype=DTYPE)) for n in "xy")
    graph.kernel(with_host(gate), name="gate", y=y)
    for i in range(200):
        graph.kernel(MIX, name=f"t{i}", x=y, y=x, a=i)
    run = start(graph, live[1], "eager")
    assert entered.wait(60)
    with pytest.raises(WaitTimeoutError, match="gate"):
        run.wait(0.05)
    run.cancel()
    opened.set()
    with pytest.raises(RunCancelledError):
        run.wait(60)
    run.close()


@pytest.mark.parametrize("policy", ["eager", "anywhere"])
def test_an_error_after_cancellation_does_not_block_the_end(
    live: tuple[Platform, Any], policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, opened, ahead = threading.Event(), threading.Event(), threading.Event()
    begin = HostLane.start

    def gate(y: Any) -> None:
        entered.set()
        assert opened.wait(60)
        raise ValueError("no good")

    def starts(lane: HostLane, node: Any, *others: Any) -> None:
        begin(lane, node, *others)
        if node.instruction.task != "gate":
            ahead.set()

    monkeypatch.setattr(HostLane, "start", starts)

    graph = TaskGraph("cancelled")
    graph.kernel(with_host(gate), name="gate", y=graph.array("y", data=np.arange(50, dtype=DTYPE)))
    for i in range(6):  # given to the host's thread early, and returned by it
        graph.kernel(with_host(lambda y: None), name=f"t{i}", y=graph.array(f"y{i}", data=np.arange(50, dtype=DTYPE)))
    run = start(graph, live[1], policy)
    assert entered.wait(60)
    assert ahead.wait(60)
    run.cancel()
    opened.set()
    with pytest.raises((RunCancelledError, TaskFailedError)):
        run.wait(60)
    run.close()


def test_results_are_readable_before_the_run_ends(live: tuple[Platform, Any]) -> None:
    opened = threading.Event()

    def gate(y: Any) -> None:
        assert opened.wait(60)

    graph = TaskGraph("early")
    x, y = (graph.array(n, data=np.arange(50, dtype=DTYPE)) for n in "xy")
    graph.kernel(MIX, name="early", x=graph.array("z", data=np.ones(50, DTYPE)), y=x, a=2)
    graph.kernel(with_host(gate), name="gate", y=y)
    with start(graph, live[1], "eager") as run:
        assert np.array_equal(run.result("x", timeout=60), 2 + 4 * np.arange(50))
        assert not run.done()
        opened.set()
        run.wait(60)


def test_ten_threads_run_at_once(live: tuple[Platform, Any]) -> None:
    graph = rounds(3, 100, 4)
    expected = sequential(graph, graph.data)
    wrong: list[str] = []

    def one(policy: str) -> None:
        with start(graph, live[1], policy) as run:
            run.wait(300)
            wrong.extend(name for name in expected if not np.array_equal(run.result(name), expected[name]))

    threads = [threading.Thread(target=one, args=(POLICIES[i % len(POLICIES)],)) for i in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong


def test_a_run_can_be_awaited(live: tuple[Platform, Any]) -> None:
    graph = rounds(2, 10, 3)

    async def one() -> Any:
        with start(graph, live[1], "dmdas") as run:
            await run
            return run.result("a0")

    assert np.array_equal(asyncio.run(one()), sequential(graph, graph.data)["a0"])


def test_hybrid_policy_replans_the_rest_if_durations_deviate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dynamic_engine, "SubmissionLookahead", lambda: SubmissionLookahead(2, 4, 1.0))
    graph = TaskGraph("takes longer")
    for number in range(48):
        y = graph.array(f"y{number % 6}", data=np.ones(1, DTYPE)) if number < 6 else graph.arrays[f"y{number % 6}"]
        graph.kernel(SPIN, name=f"t{number}", y=y, turns=400_000 * (1 + number % 3))
    with start(graph, live_called("cpu"), "hybrid") as run:
        run.wait(60)
        assert run.counts.replanned
        verify(run.plan, graph)
        assert {s.task for s in run.trace().spans if s.kind == "launch"} == {t.name for t in graph.tasks}


@pytest.mark.parametrize("count", [1, 2])
def test_commands_returned_after_a_refusal_keep_their_order(count: int) -> None:
    """Copies that were returned are submitted before the library calls that wait for them."""
    graph = TaskGraph("behind a refusal")
    x, y = graph.array("x", (64,), DTYPE), graph.array("y", (64,), DTYPE)
    for number in range(count):
        graph.barrier(name=f"barrier{number}")
    graph.kernel(ASSIGN, name="assign", x=x, y=y)
    graph.kernel(MIX, name="mix", x=x, y=y, a=1)
    inputs = {"x": np.arange(64) - 7}
    expected = sequential(graph, inputs)["y"]
    for _ in range(5):
        refused = faults.fail_submission(1, device="cpu", times=count)
        with faults.inject(refused) as seen, start(graph, live_called("cpu"), "eager", inputs) as run:
            with pytest.raises(TaskFailedError, match="barrier0"):
                run.wait(60)
            assert len(seen.injected) == count
            np.testing.assert_array_equal(run.result("y"), expected)


class Kept:
    """Memory that a library call points to."""


@pytest.mark.gpu_shape
@pytest.mark.parametrize("policy", ["eager", "hybrid"])
def test_arguments_of_library_calls_live_until_completion(live: tuple[Platform, Any], policy: str) -> None:
    @ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 6)
    def function(*_: int) -> int:
        return 0

    kept: list[weakref.ref[Kept]] = []

    class Called:
        def native(self, queue: Any, arguments: Any) -> NativeCall:
            token = Kept()
            kept.append(weakref.ref(token))
            return NativeCall(ctypes.cast(function, ctypes.c_void_p).value or 0, (), token)

        def __call__(self, queue: Any, arguments: Any, depends: list[Any]) -> Any:
            raise AssertionError("Python is not to be asked")

    library = replace(ASSIGN, implementations=(Implementation("library", "library", lambda _: Called()),))
    graph = TaskGraph("calls")
    x = graph.array("x", (10,), DTYPE)
    for number in range(20):
        graph.kernel(library, x=x, y=graph.array(f"y{number}", (10,), DTYPE), name=f"t{number}")
    with start(graph, live[1], policy, {"x": np.arange(10)}) as run:
        run.wait()
        assert len(kept) == 20 and all(each() is not None for each in kept)
