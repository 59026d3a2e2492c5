# SPDX-License-Identifier: Apache-2.0
"""Runs on several machines: results of one machine, errors with their cause, cancellation, and lost workers."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cluster_plans import fixed

import syclsched
from syclsched.cluster import Cluster, connect
from syclsched.cluster.calls import WorkerCall
from syclsched.cluster.planning import plan_on
from syclsched.cluster.recovery.attempt import Binding
from syclsched.costs import MemoryHistory
from syclsched.errors import (
    ArgumentError,
    ClusterError,
    ExecutionError,
    MemoryLimitError,
    RunCancelledError,
    TaskFailedError,
    UnknownArrayError,
)
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.schedule import Assignment, Schedule
from syclsched.model.text.json_serialisation import to_json
from syclsched.planning import build_plan
from syclsched.simulation import predict
from syclsched.tracing.trace_reader import read_trace

pytestmark = pytest.mark.sycl

distributed = pytest.importorskip("distributed", reason="the package distributed is not installed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect(workers=2) as made:
        yield made


def pipeline(steps: int = 6) -> tuple[TaskGraph, np.ndarray[Any, Any]]:
    """Return a chain of kernels and host functions on two arrays, and its last value."""
    graph = TaskGraph("pipeline")
    x, y = graph.array("x", (1000,)), graph.array("y", (1000,), data=np.ones(1000))
    for step in range(steps):
        graph.kernel(get("axpy"), name=f"axpy{step}", y=y, x=x, alpha=0.5)
        graph.host(_halve, name=f"halve{step}", y=y.update())
    return graph, np.arange(1000.0)


def _halve(y: Any) -> None:
    y *= 0.5


def alternately(name: str) -> str:
    """Place every task on another machine than the one before."""
    return f"node{int(name[-1]) % 2}/" + ("host" if name.startswith("halve") else "cpu")


def test_results_equal_those_of_one_machine(cluster: Cluster) -> None:
    graph, x = pipeline()
    with cluster.bind(graph, plan=fixed(cluster, graph, alternately)) as runner, syclsched.bind(graph) as alone:
        for value in (x, 2 * x):
            np.testing.assert_array_equal(runner({"x": value})["y"], alone({"x": value})["y"])


def test_a_run_is_planned_for_all_machines(cluster: Cluster) -> None:
    graph, x = pipeline()
    with cluster.run(graph, {"x": x}) as run, syclsched.run(graph, inputs={"x": x}) as alone:
        assert {device.name for device in run.plan.platform.devices} <= {
            f"{node}/{name}" for node in ("node0", "node1") for name in ("cpu", "host", "accelerator", "gpu")
        }
        np.testing.assert_allclose(run.result("y"), alone.result("y"), rtol=1e-14)
        assert run.makespan_s > 0
        assert any("alone" in each.policy for each in run.plan.candidates)


def test_plan_counts_sending_of_run_inputs_only(cluster: Cluster) -> None:
    def sent_s(**given: Any) -> dict[str, float]:
        graph = TaskGraph("inputs")
        for name in "xy":
            data = np.ones(1_000_000) if name in given else None
            graph.host(_halve, name=f"halve {name}", y=graph.array(name, (1_000_000,), data=data).update(), pure=True)
        links = cluster.plan(graph, policy="heft", calibrate=False).platform.links
        return {link.destination: link.seconds(1_000_000) for link in links if link.source == "host"}

    alone, half, none = sent_s(), sent_s(x=True), sent_s(x=True, y=True)
    assert max(none.values()) < 1e-12 < min(alone.values())
    assert half == pytest.approx({space: seconds / 2 for space, seconds in alone.items()})


def test_rows_that_were_written_on_two_machines_are_put_together(cluster: Cluster) -> None:
    graph = TaskGraph("rows")
    x = graph.array("x", (10, 3), data=np.zeros((10, 3)))
    graph.kernel(get("fill"), name="fill0", x=x[0:4], value=1.0)
    graph.kernel(get("fill"), name="fill1", x=x[4:8], value=2.0)
    plan = fixed(cluster, graph, lambda name: f"node{name[-1]}/cpu")
    with cluster.bind(graph, plan=plan) as runner:
        wanted = np.repeat([1.0, 2.0, 0.0], (4, 4, 2))[:, None] * np.ones(3)
        np.testing.assert_array_equal(runner()["x"], wanted)


def test_the_error_of_a_function_ends_all_parts(cluster: Cluster) -> None:
    graph = TaskGraph("failing")
    x, y = graph.array("x", (3,), data=np.ones(3)), graph.array("y", (3,))
    graph.host(_fails, name="first0", x=x.update())
    graph.host(_copy, name="then1", x=x.read(), y=y.write())
    plan = fixed(cluster, graph, lambda name: f"node{name[-1]}/host")
    with cluster.bind(graph, plan=plan) as runner:
        begun = time.monotonic()
        run = runner.run()
        with pytest.raises(ExecutionError, match="this function fails"):
            run.wait(60)
        assert time.monotonic() - begun < 30
        with pytest.raises(ExecutionError, match="this function fails"):
            run.result("y")


def _fails(x: Any) -> None:
    raise ValueError("this function fails")


def _copy(x: Any, y: Any) -> None:
    y[...] = x


def test_error_of_one_part_ends_others_and_names_worker(cluster: Cluster) -> None:
    graph = TaskGraph("dividing")
    x, y = graph.array("x", (3,), data=np.zeros(3)), graph.array("y", (3,), data=np.ones(3))
    graph.host(_divides, name="divide0", x=x.update())
    for number in range(40):  # ten seconds of work that wait for no message
        graph.host(_naps, name=f"nap{number}-1", y=y.update())
    with cluster.bind(graph, plan=fixed(cluster, graph, lambda name: f"node{name[-1]}/host")) as runner:
        begun = time.monotonic()
        with pytest.raises(TaskFailedError, match="ZeroDivisionError") as caught:
            runner.run().wait(60)
        assert time.monotonic() - begun < 5
        assert f"on worker {cluster.worker('node0')}" in str(caught.value)


def test_an_error_outside_of_tasks_names_its_worker(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, x = pipeline(2)
    with cluster.bind(graph, plan=fixed(cluster, graph, alternately)) as runner:
        call = runner.call_part

        def failing_on_node1(binding: Binding, machine: str, function: str, *arguments: Any) -> WorkerCall:
            if (machine, function) == ("node1", "run_part"):
                return cluster.start(machine, "support.cluster_functions:divide", 1, 0)
            return call(binding, machine, function, *arguments)

        monkeypatch.setattr(runner, "call_part", failing_on_node1)
        begun = time.monotonic()
        with pytest.raises(ClusterError, match="ZeroDivisionError") as caught:
            runner.run({"x": x}).wait(60)
        assert time.monotonic() - begun < 5
        assert caught.value.worker == str(cluster.worker("node1"))
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def _divides(x: Any) -> None:
    x[0] = 1 // int(x[0])


def _naps(y: Any) -> None:
    time.sleep(0.25)


def test_a_cancelled_run_has_no_results(cluster: Cluster) -> None:
    graph = TaskGraph("slow")
    x, y = graph.array("x", (3,), data=np.ones(3)), graph.array("y", (3,))
    graph.host(_sleeps, name="slow0", x=x.update())
    graph.host(_copy, name="then1", x=x.read(), y=y.write())
    with cluster.bind(graph, plan=fixed(cluster, graph, lambda name: f"node{name[-1]}/host")) as runner:
        run = runner.run()
        run.cancel()
        with pytest.raises(RunCancelledError):
            run.result("y", timeout=60)


def test_a_cancel_before_a_part_has_begun_is_kept(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = TaskGraph("cancelled")
    x, y = graph.array("x", (3,), data=np.ones(3)), graph.array("y", (3,), data=np.ones(3))
    for number in range(40):
        graph.host(_naps, name=f"nap{number}-0", y=y.update())
    graph.host(_copy, name="then1", x=y.read(), y=x.write())
    with cluster.bind(graph, plan=fixed(cluster, graph, lambda name: f"node{name[-1]}/host")) as runner:
        call = runner.call_part

        def cancelled_first(binding: Binding, machine: str, function: str, *arguments: Any) -> WorkerCall:
            if function == "run_part":
                call(binding, machine, "cancel_part", arguments[0], "it was cancelled").result(20)
            return call(binding, machine, function, *arguments)

        monkeypatch.setattr(runner, "call_part", cancelled_first)
        begun = time.monotonic()
        with pytest.raises(RunCancelledError):
            runner.run().wait(60)
        assert time.monotonic() - begun < 5  # of ten
        monkeypatch.undo()
        short = runner.run()
        short.cancel()
        with pytest.raises(RunCancelledError):
            short.wait(60)


def test_cancelled_wait_for_a_message_is_no_failure(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = TaskGraph("waiting")
    x, y = graph.array("x", (3,), data=np.ones(3)), graph.array("y", (3,))
    graph.host(_copy, name="first0", x=x.read(), y=y.write())
    graph.host(_halve, name="then1", y=y.update())
    with cluster.bind(graph, plan=fixed(cluster, graph, lambda name: f"node{name[-1]}/host")) as runner:
        call = runner.call_part

        def without_messages(binding: Binding, machine: str, function: str, *arguments: Any) -> WorkerCall:
            if function == "run_part":
                cancel = "support.cluster_functions:cancel_run"
                runner._workers.start(machine, cancel, arguments[0], "it was cancelled").result(20)
            return call(binding, machine, function, *arguments)

        monkeypatch.setattr(runner, "call_part", without_messages)
        with pytest.raises(RunCancelledError, match="it was cancelled"):
            runner.run().wait(60)


def test_measured_and_predicted_times_of_parts_are_shown(cluster: Cluster) -> None:
    graph, x = pipeline()
    plan = fixed(cluster, graph, alternately)
    with cluster.bind(graph, plan=plan) as runner:
        run = runner.run({"x": x})
        run.wait()
        assert {part.machine: {each.device: each.tasks for each in part.devices} for part in run.parts} == {
            "node0": {"cpu": 3, "host": 3},
            "node1": {"cpu": 3, "host": 3},
        }
        for part in run.parts:
            assert 0 < sum(each.busy_s for each in part.devices) <= part.seconds < run.makespan_s
            assert 0 < part.predicted_s <= plan.makespan_s
            assert all(each.predicted_s == pytest.approx(3e-4) for each in part.devices)
        text = str(run)
        for said in ("Run of 'pipeline' on 2 machines", "measured", "predicted", "replayed", "node1", "host", "clocks"):
            assert said in text
            assert said.replace("'", "&#x27;") in run._repr_html_()
        assert repr(run) == "<ClusterRun of 'pipeline': done>"
        runner.run({"x": x}).wait()
        assert str(run) == text  # the cancellation came in time
    late = cluster.bind(graph, plan=plan)
    unread = late.run({"x": x})
    unread.wait()
    late.close()
    assert str(unread) == repr(unread)
    with pytest.raises(ExecutionError, match="not bound here any more"):
        _ = unread.parts


def test_parts_take_turns(cluster: Cluster) -> None:
    graph, x = pipeline()
    plan = fixed(cluster, graph, alternately)
    with cluster.bind(graph, plan=plan) as plain, cluster.bind(graph, plan=plan, priority=-1, share=2) as background:
        expected = plain({"x": x})["y"]
        slow = background.run({"x": x})
        for _ in range(5):
            plain({"x": x})
        np.testing.assert_array_equal(slow.result("y"), expected)
        assert {part.replayed for part in slow.parts} == {False}
    with pytest.raises(ArgumentError, match="0 is no share"):
        cluster.run(graph, {"x": x}, share=0)


def test_a_run_has_one_trace_of_all_machines(cluster: Cluster, tmp_path: Path) -> None:
    graph, x = pipeline()
    plan = fixed(cluster, graph, alternately)
    planned = {instruction.id: instruction for _, instruction in plan.instructions()}
    with cluster.bind(graph, plan=plan) as runner:
        for _ in range(2):
            run = runner.run({"x": x})
            trace = run.trace()
            ran = {span.task: span.device for span in trace.spans if span.kind in ("launch", "host")}
            assert ran == {task.name: alternately(task.name) for task in graph.tasks}
            for span in trace.spans:
                instruction = planned[span.instruction]
                assert (span.kind, span.task) == (instruction.kind, instruction.task)
                assert span.predicted_start_s == instruction.start_s
                assert 0 <= span.start_s <= span.finish_s <= trace.makespan_s
            order = sorted((span.start_s, span.task) for span in trace.spans if span.kind in ("launch", "host"))
            assert [task for _, task in order] == [task.name for task in graph.tasks]  # each array needs the one before
            crossing = [span for span in trace.spans if len({use.space[:5] for use in span.uses}) == 2]
            assert len(crossing) == 5 and {span.kind for span in crossing} == {"copy"}
            assert sum(span.nbytes for span in crossing) == 5 * 8000
            assert trace.makespan_s < run.makespan_s
            assert trace.predicted_makespan_s == plan.makespan_s
            _, network = str(run).split("Network\n")
            columns = [re.split(r" {2,}", line.strip())[:5] for line in network.splitlines()]
            assert columns[0] == ["from", "to", "messages", "data", "predicted"]
            assert [row[:4] for row in columns[1:3]] == [
                ["node0", "node1", "3", "23.44 KiB"],
                ["node1", "node0", "2", "15.62 KiB"],
            ]
            # The plan may send the input x on from node0, which is faster on some machines.
            assert columns[1][4] in ("23.44 KiB", "31.25 KiB") and columns[2][4] == "15.62 KiB"
    assert read_trace(to_json(trace), where="here") == trace
    run.report(tmp_path / "run.html")
    run.gantt(tmp_path / "run.svg")
    assert "node1/cpu:0" in (tmp_path / "run.html").read_text()
    assert "node1/cpu:0" in (tmp_path / "run.svg").read_text()


def test_rows_that_are_sent_are_copies_of_the_trace(cluster: Cluster) -> None:
    graph = TaskGraph("rows")
    x = graph.array("x", (10, 3), data=np.zeros((10, 3)))
    graph.kernel(get("fill"), name="fill0", x=x[0:4], value=1.0)
    graph.kernel(get("scale"), name="scale1", x=x[0:4], alpha=2.0)
    graph.barrier(name="barrier0")
    graph.kernel(get("scale"), name="scale0", x=x[0:4], alpha=3.0)
    assignments = [
        Assignment("fill0", "node0/cpu", 0, "opencl-c", 0.0, 1.0),
        Assignment("scale1", "node1/cpu", 0, "opencl-c", 1.0, 2.0),
        Assignment("barrier0", "node0/host", 0, None, 2.0, 2.0),
        Assignment("scale0", "node0/cpu", 0, "opencl-c", 2.0, 3.0),
    ]
    durations = {each.task: each.finish_s - each.start_s for each in assignments}
    plan = predict(build_plan(graph, cluster.platform(), Schedule("by hand", tuple(assignments)), durations))
    with cluster.bind(graph, plan=plan) as runner:
        run = runner.run()
        np.testing.assert_array_equal(run.result("x")[:4], np.full((4, 3), 6.0))
        sent = [span for span in run.trace().spans if len({use.space[:5] for use in span.uses}) == 2]
        assert [span.nbytes for span in sent] == [96, 96]
        assert all(span.predicted_finish_s > 0 for span in sent)


def _sleeps(x: Any) -> None:
    time.sleep(0.5)


def test_wrong_inputs_are_refused_before_anything_runs(cluster: Cluster) -> None:
    graph, x = pipeline(1)
    with cluster.bind(graph, plan=fixed(cluster, graph, alternately)) as runner:
        with pytest.raises(ArgumentError, match="no value is given for x"):
            runner.run()
        with pytest.raises(UnknownArrayError, match="array 'z', which is not declared"):
            runner.run({"z": x})
        with pytest.raises(ArgumentError, match="'x'"):
            runner.run({"x": x[:-1]})
        with pytest.raises(UnknownArrayError, match="no result 'w'"):
            runner.run({"x": x}).result("w")


def test_results_of_an_earlier_run_are_refused(cluster: Cluster) -> None:
    graph, x = pipeline(1)
    with cluster.bind(graph, plan=fixed(cluster, graph, alternately)) as runner:
        first = runner.run({"x": x})
        first.wait()
        second = runner.run({"x": 2 * x})
        second.wait()
        with pytest.raises(ExecutionError, match="a later run has begun"):
            first.result("y")
        assert second.result("y").shape == x.shape


def test_a_closed_runner_refuses_runs(cluster: Cluster) -> None:
    graph, x = pipeline(1)
    runner = cluster.bind(graph, plan=fixed(cluster, graph, alternately))
    runner.close()
    runner.close()
    with pytest.raises(ExecutionError, match="the runner is closed"):
        runner.run({"x": x})


def test_run_restarts_without_killed_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = TaskGraph("killed")
    x, y = graph.array("x", (100,)), graph.array("y", (100,))
    graph.host(_sleeps, name="slow0", x=x.update())
    graph.kernel(get("copy"), name="then1", y=y, x=x)
    value = np.arange(100.0)
    with connect(workers=2) as cluster:
        process = cluster.describe()["node1"].process
        with cluster.bind(graph, plan=fixed(cluster, graph, _killed_place)) as runner:
            monkeypatch.setattr(runner, "bind_rest", _does_not_fit)
            run = runner.run({"x": value})
            os.kill(process, signal.SIGKILL)
            np.testing.assert_array_equal(run.result("y", timeout=120), value)
            assert len(run.recoveries) == 1
            assert run.trace().recoveries[0].planned == len(graph)


def _does_not_fit(*_: Any) -> Any:
    raise MemoryLimitError("the rest does not fit")


def _killed_place(name: str) -> str:
    return "node0/host" if name == "slow0" else "node1/cpu"


def test_auto_uses_one_machine_if_the_network_is_slow() -> None:
    from itertools import permutations

    from syclsched.cluster import NetworkPath, joined

    platform = syclsched.describe("xeon-8480")
    machines = {"one": platform, "two": platform}
    graph = TaskGraph("wide")
    for number in range(8):
        a = graph.array(f"a{number}", (1 << 22,), data=np.ones(1 << 22))
        graph.kernel(get("scale"), name=f"scale{number}", x=a, alpha=2.0)
    for bandwidth, count in ((1e6, 1), (1e15, 2)):
        paths = [NetworkPath(*pair, 1e-9, bandwidth) for pair in permutations(["host", *machines], 2)]
        plan = plan_on(graph, joined(machines, paths), MemoryHistory(), budget_s=0.3)
        assert len({a.device.split("/")[0] for a in plan.schedule.assignments}) == count


def test_auto_plans_once_per_kind_of_machine() -> None:
    from itertools import permutations

    from syclsched.cluster import NetworkPath, joined

    alike, other = syclsched.describe("xeon-8480"), syclsched.describe("xeon-8480,max1550")
    machines = {"one": alike, "two": other, "three": alike, "four": alike}
    paths = [NetworkPath(*pair, 1e-3, 2e6 if "three" in pair else 1e6) for pair in permutations(["host", *machines], 2)]
    graph = TaskGraph("mixed")
    x = graph.array("x", (1 << 16,), data=np.ones(1 << 16))
    for number in range(4):
        graph.kernel(get("scale"), name=f"scale{number}", x=x, alpha=2.0)
        graph.host(_halve, name=f"halve{number}", y=x.update())
    plan = plan_on(graph, joined(machines, paths), MemoryHistory(), budget_s=0.3)
    alone = [each.policy.partition(",")[0] for each in plan.candidates if " alone" in each.policy]
    assert alone == ["three alone", "two alone"]  # of three equal machines, the one that receives the inputs first
    assert {each.device.partition("/")[0] for each in plan.schedule.assignments} == {"three"}
