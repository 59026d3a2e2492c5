# SPDX-License-Identifier: Apache-2.0
"""Bound plans on one-core lanes, executed by lane threads: bits, errors and traces equal to those of queues."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.opened import REFUSED, check_refused, live_on, refused_graph
from support.running import ASSIGN_KERNEL, DTYPE, SPIN, graphs, inputs_of, plan_by, plan_on, sequential

from syclsched.errors import DeadlineError, RunCancelledError, TaskFailedError, WaitTimeoutError
from syclsched.execution import bind
from syclsched.execution.replay.submission import LaneThreadSubmission
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, OpenCLSource, Operation, OperationStep, Parameter, Work
from syclsched.model.sequence import sequence_operation
from syclsched.testing import faults

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("one_core_lanes")]


@pytest.fixture
def performed(monkeypatch: pytest.MonkeyPatch) -> list[LaneThreadSubmission]:
    """Record the runs that lane threads executed."""
    seen: list[LaneThreadSubmission] = []
    start = LaneThreadSubmission.start

    def noted(submission: LaneThreadSubmission, run: Any) -> None:
        seen.append(submission)
        start(submission, run)

    monkeypatch.setattr(LaneThreadSubmission, "start", noted)
    return seen


@given(data=st.data())
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_random_graphs_have_the_bits_of_numpy(data: st.DataObject) -> None:
    platform, devices = live_on(None)
    graph = data.draw(graphs(max_tasks=40))
    tasks = {t.name: t for t in graph.tasks}

    def place(name: str) -> tuple[str, int, str | None]:
        operation = tasks[name].operation
        names = [] if operation is None else [i.name for i in operation.implementations if i.kind != "host"]
        return "cpu", data.draw(st.integers(0, 1)), data.draw(st.sampled_from(names)) if names else None

    with bind(plan_by(graph, platform, place), graph, devices) as runner:
        for seed in range(3):
            inputs = inputs_of(graph, seed)
            expected = sequential(graph, inputs)
            for name, value in runner(inputs).items():
                np.testing.assert_array_equal(value, expected[name], err_msg=name)


def ladder(steps: int = 60, turns: int = 300) -> tuple[TaskGraph, Any]:
    """Return two chains in which each step of one waits for the previous step of the other."""
    platform, _ = live_on(None)
    graph = TaskGraph("ladder")
    columns = [graph.array(f"y{c}", data=np.array([c + 1], DTYPE)) for c in range(2)]
    for step in range(steps):
        for c, y in enumerate(columns):
            graph.kernel(SPIN, name=f"t{step}_{c}", y=y, turns=turns)
            if step:
                graph.edge(f"t{step - 1}_{1 - c}", f"t{step}_{c}")
    return graph, plan_by(graph, platform, lambda name: ("cpu", int(name[-1]), "opencl-c"))


def test_lanes_wait_for_each_other_and_the_trace_shows_it(performed: list[LaneThreadSubmission]) -> None:
    _, devices = live_on(None)
    graph, plan = ladder()
    with bind(plan, graph, devices) as runner:
        for _ in range(5):
            with runner.run() as run:
                trace = run.trace()
            at = {s.task: s for s in trace.spans if s.kind == "launch"}
            assert len(at) == 120
            for step in range(1, 60):
                for c in range(2):
                    assert at[f"t{step}_{c}"].start_s >= at[f"t{step - 1}_{1 - c}"].finish_s
            for lane in plan.lanes:
                times = [(s.start_s, s.finish_s) for s in trace.spans if s.lane == lane.name]
                assert all(before[1] <= after[0] for before, after in pairwise(times))
    assert len(performed) == 5


def test_readers_of_a_sequence_wait_for_its_last_step(performed: list[LaneThreadSubmission]) -> None:
    platform, devices = live_on(None)
    step = OperationStep(SPIN, (("y", "y"), ("turns", "turns")))
    graph = TaskGraph("sequence")
    y, z = graph.array("y", data=np.ones(1, DTYPE)), graph.array("z", (1,), DTYPE)
    graph.kernel(sequence_operation([step] * 4, [("opencl-c",) * 4]), name="steps", y=y, turns=2_000_000)
    graph.kernel(ASSIGN_KERNEL, name="reader", x=y, y=z)
    plan = plan_by(
        graph, platform, lambda name: ("cpu", 1, "opencl-c") if name == "reader" else ("cpu", 0, "opencl-c*4")
    )
    with bind(plan, graph, devices) as runner:
        for _ in range(3):
            run = runner.run()
            early = run.result("y", timeout=60)
            run.wait(timeout=60)
            np.testing.assert_array_equal(run.result("z"), run.result("y"))
            np.testing.assert_array_equal(early, run.result("y"))
    assert len(performed) == 3


def test_lane_threads_observe_deadlines(performed: list[LaneThreadSubmission]) -> None:
    platform, devices = live_on(None)
    graph = TaskGraph("late")
    y = graph.array("y", data=np.ones(1, DTYPE))
    graph.kernel(SPIN, name="quick", y=y, turns=1)
    graph.kernel(SPIN, name="slow", y=y, turns=200_000_000, deadline_s=0.01)
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        run = runner.run()
        with pytest.raises(DeadlineError, match="task 'slow'"):
            run.wait(timeout=60)
    assert performed


def test_the_run_after_a_cancelled_run_completes(performed: list[LaneThreadSubmission]) -> None:
    _, devices = live_on(None)
    graph, plan = ladder(steps=400, turns=200_000)
    with bind(plan, graph, devices) as runner:
        run = runner.run()
        with pytest.raises(WaitTimeoutError):
            run.wait(timeout=0.001)
        run.cancel()
        with pytest.raises(RunCancelledError):
            run.wait(timeout=60)
        outcomes = [s.outcome for s in run.trace().spans if s.kind == "launch"]
        assert "cancelled" in outcomes
        assert "failed" not in outcomes
        again = runner.run()
        again.wait(timeout=60)
        assert all(s.outcome == "done" for s in again.trace().spans)
    assert len(performed) == 2


def test_a_refused_kernel_is_named_and_the_rest_completes(performed: list[LaneThreadSubmission]) -> None:
    platform, devices = live_on(None)
    graph = refused_graph()
    with bind(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        for _ in range(2):
            run = runner.run()
            check_refused(run)
    assert len(performed) == 2


def spun(turns: int) -> int:
    """Return the result of `SPIN` on 1, modulo 2 to the 64."""
    factor, summand, value = 6364136223846793005, 1442695040888963407, 1
    for bit in range(turns.bit_length()):
        if turns >> bit & 1:
            value = (factor * value + summand) % 2**64
        factor, summand = factor * factor % 2**64, (factor + 1) * summand % 2**64
    return value


def test_a_sequence_continues_after_a_refusal_on_another_lane(performed: list[LaneThreadSubmission]) -> None:
    platform, devices = live_on(None)
    graph = TaskGraph("refused elsewhere")
    step = OperationStep(SPIN, (("y", "y"), ("turns", "turns")))
    y, z = graph.array("y", data=np.ones(1, DTYPE)), graph.array("z", data=np.zeros(100, DTYPE))
    late = graph.array("late", data=np.ones(1, DTYPE))
    graph.kernel(sequence_operation([step] * 200, [("opencl-c",) * 200]), name="steps", y=y, turns=100_000)
    graph.kernel(SPIN, name="first", y=late, turns=5_000_000)
    graph.kernel(REFUSED, name="bad", x=graph.array("x", data=np.arange(100)), y=z, a=1)
    graph.kernel(SPIN, name="last", y=late, turns=5_000_000)
    names = {"steps": ("cpu", 0, "opencl-c*200"), "bad": ("cpu", 1, "opencl-c")}
    names |= dict.fromkeys(("first", "last"), ("cpu", 1, "opencl-c"))
    with bind(plan_by(graph, platform, names.__getitem__), graph, devices) as runner:
        for _ in range(2):
            run = runner.run()
            with pytest.raises(TaskFailedError, match=r"task 'bad' .*could not be submitted"):
                run.wait(timeout=60)
            spans = {s.task: s for s in run.trace().spans if s.kind == "launch"}
            outcome = {task: s.outcome for task, s in spans.items()}
            assert outcome == {"steps": "done", "first": "done", "bad": "failed", "last": "done"}
            # Submitted to queues after all: device times are converted to the host's clock, like those before.
            assert spans["last"].start_s >= spans["first"].finish_s > spans["first"].start_s
            assert spans["last"].duration_s > 0.0
            assert int(run.result("y")[0]) % 2**64 == spun(200 * 100_000)
    assert len(performed) == 2


def test_a_result_is_readable_before_the_run_ends(performed: list[LaneThreadSubmission]) -> None:
    platform, devices = live_on(None)
    graph = TaskGraph("early")
    early, late = graph.array("early", data=np.ones(1, DTYPE)), graph.array("late", data=np.ones(1, DTYPE))
    graph.kernel(SPIN, name="short", y=early, turns=1)
    for number in range(200):
        graph.kernel(SPIN, name=f"long{number}", y=late, turns=10_000_000)
    plan = plan_by(graph, platform, lambda name: ("cpu", int(name != "short"), "opencl-c"))
    with bind(plan, graph, devices) as runner:
        run = runner.run()
        assert run.result("early", timeout=60)[0] == 6364136223846793005 + 1442695040888963407
        assert not run.done()
        run.cancel()
    assert performed


def test_injected_faults_act_as_those_of_submissions(performed: list[LaneThreadSubmission]) -> None:
    _, devices = live_on(None)
    graph, plan = ladder(steps=4)
    with bind(plan, graph, devices) as runner:
        with faults.inject(faults.fail_submission(3)), runner.run() as run, pytest.raises(TaskFailedError):
            run.wait(timeout=60)
        runner.run().wait(timeout=60)
    assert len(performed) == 1


def test_several_runners_at_once(performed: list[LaneThreadSubmission]) -> None:
    _, devices = live_on(None)
    graph, plan = ladder(steps=30)
    expected: dict[str, Any] = {}
    wrong: list[str] = []

    def some() -> None:
        with bind(plan, graph, devices) as runner:
            for _ in range(10):
                found = runner()
                for name, value in found.items():
                    if not np.array_equal(expected.setdefault(name, value), value):
                        wrong.append(name)

    threads = [threading.Thread(target=some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    assert not wrong
    assert len(performed) == 40


HALVE = Operation(
    "halve",
    (Parameter("x", AccessMode.READ), Parameter("y", AccessMode.WRITE, like="x")),
    (
        Implementation(
            "opencl-c",
            "opencl-c",
            lambda _: OpenCLSource(
                "__kernel void halve(__global const float *x, __global float *y)"
                "{ size_t i = get_global_id(0); y[i] = x[i] * 0.5f + x[i] * x[i]; }",
                "halve",
            ),
            launch=lambda s, d: Launch(s.shapes["x"]),
        ),
    ),
    lambda _: Work(1.0, 1.0),
)


def test_subnormal_numbers_are_treated_as_by_the_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lane threads have the rounding and flushing modes of the runtime's threads."""
    platform, devices = live_on(None)
    graph = TaskGraph("tiny")
    tiny = (np.random.default_rng(0).random(1000) * 4e-38).astype("float32")
    x, y = graph.array("x", data=tiny), graph.array("y", (1000,), "float32")
    graph.kernel(HALVE, name="halve", x=x, y=y)
    plan = plan_on(graph, platform, "cpu")
    with bind(plan, graph, devices) as runner:
        ours = runner()["y"]
    monkeypatch.delenv("CL_CONFIG_CPU_TBB_NUM_WORKERS")
    with bind(plan, graph, devices) as runner:
        theirs = runner()["y"]
    np.testing.assert_array_equal(ours.view("uint32"), theirs.view("uint32"))


def test_more_lanes_than_cores_are_submitted(
    performed: list[LaneThreadSubmission], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, devices = live_on(None)
    graph, plan = ladder(steps=3)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set())
    with bind(plan, graph, devices) as runner:
        runner.run().wait(timeout=60)
    assert not performed
