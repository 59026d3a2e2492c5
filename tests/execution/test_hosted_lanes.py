# SPDX-License-Identifier: Apache-2.0
"""Bound plans with tasks on several host lanes: replayed at once, with the results and errors of one lane."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.hosted import LONG_S, SIZE, Live, arrays_of, bound, outcomes, plus_one
from support.opened import live_on, until
from support.running import ASSIGN, ASSIGN_KERNEL, DTYPE, MIX, Gate, check_spans, graphs, inputs_of, plan_by, sequential

from syclsched.errors import DeadlineError, RunCancelledError, SyclschedError, TaskFailedError
from syclsched.execution import bind
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform

pytestmark = pytest.mark.sycl


def on_lanes(graph: TaskGraph, platform: Platform, lane_of: Callable[[str], int], lanes: int = 2) -> Plan:
    """Plan functions on the given host lanes, and kernels on the CPU device."""

    def place(name: str) -> tuple[str, int, str | None]:
        first = graph.find_task(name).operation.implementations[0]  # type: ignore[union-attr]
        return ("host", lane_of(name), first.name) if first.kind == "host" else ("cpu", 0, first.name)

    return plan_by(graph, platform.with_host_lanes(lanes), place)


@given(data=st.data(), in_flight=st.sampled_from([None, 1, 3]))
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.parametrize("sub_devices", [None, 2])
def test_random_graphs_have_the_bits_of_the_sequential_program(
    sub_devices: int | None, data: st.DataObject, in_flight: int | None
) -> None:
    found, devices = live_on(sub_devices)
    platform = found.with_host_lanes(3)
    graph = data.draw(graphs(ranges=data.draw(st.booleans())))
    only_host = data.draw(st.booleans())

    def place(name: str) -> tuple[str, int, str | None]:
        operation = graph.find_task(name).operation
        fitting = [
            d
            for d in platform.devices
            if d.is_host or (not only_host and operation is not ASSIGN and d.name.startswith("cpu"))
        ]
        chosen = data.draw(st.sampled_from(fitting))
        lane = data.draw(st.integers(0, chosen.lanes - 1))
        kinds = (
            [] if operation is None else [i for i in operation.implementations if (i.kind == "host") == chosen.is_host]
        )
        return chosen.name, lane, kinds[0].name if kinds else None

    plan = plan_by(graph, platform, place)
    inputs = [inputs_of(graph, seed) for seed in range(3)]
    expected = [sequential(graph, each) for each in inputs]
    with bind(plan, graph, devices) as runner:
        assert runner.replayed or (not only_host and "several lanes of the host" in str(runner.why_not_replayed))
        for turn in (0, 1, 0):
            with runner.run(inputs[turn]) as run:
                run.wait()
                for name in runner._bound.prepared.results:
                    np.testing.assert_array_equal(run.result(name), expected[turn][name], err_msg=name)
                trace = run.trace()
                check_spans(trace, graph)
        for results, wanted in zip(runner.stream(inputs, in_flight=in_flight), expected, strict=True):
            assert isinstance(results, dict)
            for name, value in results.items():
                np.testing.assert_array_equal(value, wanted[name], err_msg=name)


def test_functions_of_two_lanes_run_at_the_same_time(live: Live) -> None:
    platform, devices = live
    meeting = threading.Barrier(2, timeout=LONG_S)
    graph = TaskGraph("meeting")
    for name, array in zip("ab", arrays_of(graph, *"xy"), strict=True):
        graph.host(lambda y: (meeting.wait(), plus_one(y)), name=name, y=array.update())
    with bound(on_lanes(graph, platform, "ab".index), graph, devices) as runner:
        for _ in range(3):
            found = runner()
            assert all((found[name] == np.arange(SIZE) + 1).all() for name in "xy")


def test_a_lane_waits_for_functions_of_another_and_for_kernels(live: Live) -> None:
    platform, devices = live
    order: list[str] = []
    graph = TaskGraph("there and back")
    x, y, z = arrays_of(graph, *"xyz")
    graph.kernel(MIX, name="kernel", x=x, y=y, a=1)
    for n in range(12):
        graph.host(lambda y, n=n: (order.append(f"h{n}"), plus_one(y)), name=f"h{n}", y=y.update())
    graph.host(plus_one, name="beside", y=z.update())
    graph.kernel(MIX, name="last", x=z, y=y, a=2)
    plan = on_lanes(graph, platform, lambda name: int(name[1:]) % 2 if name != "beside" else 0)
    with bound(plan, graph, devices) as runner:
        for _ in range(3):
            order.clear()
            np.testing.assert_array_equal(runner()["y"], sequential(_twin(12), graph.data)["y"])
            assert order == [f"h{n}" for n in range(12)]


def _twin(length: int) -> TaskGraph:
    graph = TaskGraph("twin")
    x, y, z = arrays_of(graph, *"xyz")
    graph.kernel(MIX, name="kernel", x=x, y=y, a=1)
    for n in range(length):
        graph.host(plus_one, name=f"h{n}", y=y.update())
    graph.host(plus_one, name="beside", y=z.update())
    graph.kernel(MIX, name="last", x=z, y=y, a=2)
    return graph


def test_kernels_that_would_wait_for_the_other_lane_are_dispatched(live: Live) -> None:
    platform, devices = live
    gate = Gate()
    graph = TaskGraph("apart")
    x, y, z = arrays_of(graph, *"xyz")
    graph.host(gate, name="a", y=x.update())
    graph.host(plus_one, name="b", y=y.update())
    graph.kernel(MIX, name="behind b", x=y, y=z, a=1)
    with bind(on_lanes(graph, platform, "ab".index), graph, devices) as runner:
        assert "several lanes of the host would wait for more of them" in str(runner.why_not_replayed)
        run = runner.run()
        assert gate.entered.wait(LONG_S)
        n = np.arange(SIZE)
        np.testing.assert_array_equal(run.result("z", timeout=LONG_S), 3 * n + n + 1 + n)
        gate.opened.set()
        run.wait()


def test_a_raising_function_cancels_descendants_on_every_lane(live: Live) -> None:
    platform, devices = live
    graph = TaskGraph("raises")
    x, y, z = arrays_of(graph, *"xyz")
    bad = [True]

    def judge(y: Any) -> None:
        if bad[0]:
            raise ValueError("no good")
        y += 1

    graph.host(judge, name="bad", y=x.update())
    graph.host(lambda x, y: plus_one(y), name="child", x=x.read(), y=y.update())
    graph.host(plus_one, name="other", y=z.update())
    graph.kernel(MIX, name="grandchild", x=z, y=y, a=0)
    lanes = {"bad": 0, "child": 1, "other": 1}
    with bound(on_lanes(graph, platform, lanes.__getitem__), graph, devices) as runner:
        for turn in range(3):
            bad[0] = turn != 1
            run = runner.run()
            if bad[0]:
                with pytest.raises(TaskFailedError, match="no good"):
                    run.wait()
                assert outcomes(run) == {
                    "bad": "failed",
                    "child": "cancelled",
                    "other": "done",
                    "grandchild": "cancelled",
                }
                np.testing.assert_array_equal(run.result("z"), np.arange(SIZE) + 1)
            else:
                run.wait()
                np.testing.assert_array_equal(run.result("y"), sequential(graph, graph.data)["y"])


def test_cancelled_while_functions_run_on_both_lanes(live: Live) -> None:
    platform, devices = live
    gates = Gate(), Gate()
    graph, same = _gated(gates), _gated((plus_one, plus_one))
    with bound(on_lanes(graph, platform, lambda name: int(name[-1])), graph, devices) as runner:
        run = runner.run()
        for gate in gates:
            assert gate.entered.wait(LONG_S)
        run.cancel()
        gates[1].opened.set()
        assert not run.done()  # the other function still runs on the run's memory
        gates[0].opened.set()
        with pytest.raises(RunCancelledError):
            run.wait()
        wanted = {"gate0": "done", "gate1": "done", "later0": "cancelled", "later1": "cancelled", "last": "cancelled"}
        assert outcomes(run) == wanted
        np.testing.assert_array_equal(runner()["y"], sequential(same, same.data)["y"])


def _gated(functions: tuple[Callable[..., Any], ...]) -> TaskGraph:
    graph = TaskGraph("cancelled")
    x, y = arrays_of(graph, *"xy")
    for n, array in enumerate((x, y)):
        graph.host(functions[n], name=f"gate{n}", y=array.update())
        graph.host(plus_one, name=f"later{n}", y=array.update())
    graph.kernel(MIX, name="last", x=x, y=y, a=0)
    return graph


def test_a_stream_of_functions_on_two_lanes(live: Live) -> None:
    platform, devices = live
    called: dict[str, list[int]] = {"a": [], "b": []}

    def judge(name: str) -> Callable[..., None]:
        def call(x: Any, y: Any) -> None:
            called[name].append(int(x[0]))
            if x[0] == 5 and name == "b":
                raise ValueError("five")
            y[...] = x + 1

        return call

    graph = TaskGraph("stream")
    w, x, y, z = (graph.array(name, (SIZE,), DTYPE) for name in "wxyz")
    graph.kernel(ASSIGN_KERNEL, name="first", x=x, y=w)
    graph.host(judge("a"), name="a", x=w.read(), y=y.write())
    graph.host(judge("b"), name="b", x=w.read(), y=z.write())
    graph.kernel(MIX, name="last", x=y, y=z, a=0)
    with bound(on_lanes(graph, platform, "ab".index), graph, devices) as runner:
        inputs = [{"x": np.full(SIZE, n)} for n in range(9)]
        found = list(runner.stream(inputs, in_flight=3, return_exceptions=True))
        assert len(found) == 9
        assert called["a"] == called["b"] == list(range(9))
        for n, each in enumerate(found):
            if n == 5:
                assert isinstance(each, SyclschedError) and "five" in str(each)
            else:
                assert isinstance(each, dict)
                assert (each["z"] == sequential(graph, inputs[n])["z"]).all()


def test_a_stream_that_is_left_while_functions_run(live: Live) -> None:
    platform, devices = live
    gates = Gate(), Gate()
    graph = TaskGraph("left")
    x, y = (graph.array(name, (SIZE,), DTYPE) for name in "xy")
    for n, array in enumerate((x, y)):
        graph.host(gates[n], name=f"gate{n}", y=array.update())
    graph.kernel(MIX, name="behind", x=x, y=y, a=0)
    inputs = inputs_of(graph, 0)
    with bound(on_lanes(graph, platform, lambda name: int(name[-1])), graph, devices) as runner:
        stream = runner.stream([inputs] * 5, in_flight=2)
        for _ in range(2):
            stream._begin(lambda: inputs)
        for gate in gates:
            assert gate.entered.wait(LONG_S)
        closing = threading.Thread(target=stream.close)
        closing.start()
        for gate in gates:
            gate.opened.set()
        closing.join(LONG_S)
        assert not closing.is_alive()
        np.testing.assert_array_equal(runner(inputs)["x"], inputs["x"] + 1)


def test_a_function_past_its_deadline_beside_another_lane(live: Live, watchdog_time: Any) -> None:
    platform, devices = live
    gate = Gate()
    watchdog_time(lambda: gate.entered.is_set() and not gate.opened.is_set())
    graph = TaskGraph("late")
    x, y, z = arrays_of(graph, *"xyz")
    graph.host(gate, name="gate", y=y.update(), deadline_s=0.05)
    graph.host(lambda x, y: plus_one(x), name="child", y=y.read(), x=x.update())
    graph.host(plus_one, name="other", y=z.update())
    lanes = {"gate": 0, "child": 1, "other": 1}
    with bound(on_lanes(graph, platform, lanes.__getitem__), graph, devices) as runner:
        run = runner.run()
        assert gate.entered.wait(LONG_S)
        until(lambda: run._resources.engine._overdue)  # type: ignore[attr-defined]
        gate.opened.set()
        with pytest.raises(DeadlineError, match=r"task 'gate'.*its deadline is 0\.05 s"):
            run.wait()
        assert outcomes(run) == {"gate": "failed", "child": "cancelled", "other": "done"}
        runner.run().wait()


def test_dropped_while_functions_run(live: Live) -> None:
    platform, devices = live
    gates = Gate(), Gate()
    graph = TaskGraph("dropped")
    for n, array in enumerate(arrays_of(graph, *"xy")):
        graph.host(gates[n], name=f"gate{n}", y=array.update())
    runner = bound(on_lanes(graph, platform, lambda name: int(name[-1])), graph, devices)
    instances = runner._bound.instances
    runner.run()
    for gate in gates:
        assert gate.entered.wait(LONG_S)
    del runner
    for gate in gates:
        gate.opened.set()
    assert instances is not None
    until(lambda: instances.idle, LONG_S)
