# SPDX-License-Identifier: Apache-2.0
"""Bound plans with host tasks: replayed with the bits of dispatched runs, while devices continue."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.gpu_shape import OTHER_DEVICE
from support.hosted import LONG_S, SIZE, Live, arrays_of, bound, chain, outcomes, plus_one, two_lanes
from support.opened import live_on
from support.running import ASSIGN, ASSIGN_KERNEL, DTYPE, MIX, Gate, graphs, inputs_of, plan_by, plan_on, sequential

from syclsched.errors import (
    WaitTimeoutError,
)
from syclsched.execution import Runner, execute
from syclsched.model.graph import TaskGraph
from syclsched.testing import faults

pytestmark = pytest.mark.sycl


# --- the same bits ----------------------------------------------------------------------------------


@given(data=st.data(), in_flight=st.sampled_from([None, 1, 2, 4]))
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.parametrize(("sub_devices", "device"), [(None, "cpu"), (2, "cpu"), (None, OTHER_DEVICE), (None, "")])
def test_random_graphs_have_the_bits_of_dispatched_runs(
    sub_devices: int | None, device: str, data: st.DataObject, in_flight: int | None
) -> None:
    platform, devices = live_on(sub_devices)
    graph = data.draw(graphs(ranges=data.draw(st.booleans())))

    def place(name: str) -> tuple[str, int, str | None]:
        operation = graph.find_task(name).operation
        fitting = [d for d in platform.devices if d.is_host or (operation is not ASSIGN and d.name.startswith(device))]
        chosen = data.draw(st.sampled_from(fitting))
        lane = data.draw(st.integers(0, chosen.lanes - 1))
        if operation is None:
            return chosen.name, lane, None
        return (
            chosen.name,
            lane,
            next(i.name for i in operation.implementations if (i.kind == "host") == chosen.is_host),
        )

    plan = plan_by(graph, platform, place)
    inputs = [inputs_of(graph, seed) for seed in range(3)]
    expected = [sequential(graph, each) for each in inputs]
    with execute(plan, graph, devices, inputs[0]) as run, bound(plan, graph, devices) as runner:
        run.wait()
        names = runner._bound.prepared.results
        dispatched = {name: run.result(name) for name in names}
        for turn in (0, 1, 0):
            untouched = {name: value.copy() for name, value in inputs[turn].items()}
            replayed = runner.run(inputs[turn])
            replayed.wait()
            for name in names:
                np.testing.assert_array_equal(replayed.result(name), expected[turn][name], err_msg=name)
            trace = replayed.trace()
            assert {s.task for s in trace.spans if s.kind != "copy"} == {t.name for t in graph.tasks}
            assert all(s.outcome == "done" and s.start_s <= s.finish_s <= trace.makespan_s for s in trace.spans)
            for name, value in untouched.items():
                np.testing.assert_array_equal(inputs[turn][name], value, err_msg=f"input {name} was written to")
        for name, value in dispatched.items():
            np.testing.assert_array_equal(value, expected[0][name], err_msg=name)
        for found, wanted in zip(runner.stream(inputs, in_flight=in_flight), expected, strict=True):
            assert isinstance(found, dict)
            for name, value in found.items():
                np.testing.assert_array_equal(value, wanted[name], err_msg=name)


def test_two_contexts_that_meet_on_the_host_are_replayed(live: Live) -> None:
    platform, devices = live
    others = [d.name for d in platform.compute_devices if d.name != "cpu"]
    if not others:
        pytest.skip("there is one device only")
    graph = TaskGraph("meet")
    x, y, z = arrays_of(graph, *"xyz")
    graph.kernel(MIX, name="here", x=x, y=y, a=2)
    graph.host(lambda y, z: np.copyto(z, y), name="over", y=y.read(), z=z.write())
    graph.kernel(MIX, name="there", x=x, y=z, a=3)
    where = {"here": "cpu", "over": "host", "there": others[0]}
    plan = plan_by(
        graph,
        platform,
        lambda n: (where[n], 0, "opencl-c" if n != "over" else graph.find_task(n).operation.implementations[0].name),
    )
    with bound(plan, graph, devices) as runner:
        for _ in range(3):
            np.testing.assert_array_equal(runner()["z"], sequential(graph, graph.data)["z"])


# --- concurrency ------------------------------------------------------------------------------------


def test_a_device_continues_while_a_host_function_runs(live: Live) -> None:
    platform, devices = live
    gate = Gate()
    graph = TaskGraph("beside")
    x, y, z = arrays_of(graph, *"xyz")
    graph.host(gate, name="gate", y=y.update())
    graph.kernel(ASSIGN_KERNEL, name="beside", x=x, y=z)
    graph.kernel(MIX, name="behind", x=x, y=y, a=1)
    with bound(two_lanes(graph, platform, "beside"), graph, devices) as runner, runner.run() as run:
        assert gate.entered.wait(LONG_S)
        np.testing.assert_array_equal(run.result("z", timeout=LONG_S), graph.data["x"])
        with pytest.raises(WaitTimeoutError, match="lane host:0 is at task 'gate'"):
            run.result("y", timeout=0.01)
        gate.opened.set()
        run.wait()
        assert outcomes(run) == dict.fromkeys(("gate", "behind", "beside"), "done")


def test_a_host_function_waits_only_for_its_dependencies(live: Live) -> None:
    platform, devices = live
    called = threading.Event()
    graph = TaskGraph("hangs beside")
    x, y, z = arrays_of(graph, *"xyz")
    graph.kernel(ASSIGN_KERNEL, name="first", x=x, y=y)
    graph.kernel(ASSIGN_KERNEL, name="second", x=x, y=z)  # hangs
    graph.host(lambda y: called.set(), name="step", y=y.update())
    plan = plan_on(graph, platform, "cpu")
    before = [i.task for _, i in plan.instructions() if i.kind in ("copy", "launch")].index("second")
    with bound(plan, graph, devices) as runner, faults.inject(faults.hang("cpu", after=before)) as injection:
        run = runner.run()
        assert called.wait(LONG_S)
        assert not run.done()
        injection.release()
        run.wait()
        assert outcomes(run) == dict.fromkeys(("first", "second", "step"), "done")


def test_no_thread_is_started_for_a_run(live: Live) -> None:
    platform, devices = live
    graph = chain(9, {2, 5, 8})
    with bound(plan_on(graph, platform, "cpu"), graph, devices, trace=False) as runner:
        runner(inputs_of(graph, 0))
        before = {t.ident for t in threading.enumerate()}
        for seed in range(20):
            runner(inputs_of(graph, seed))
        assert {t.ident for t in threading.enumerate()} <= before


def test_a_plan_of_the_host_alone(live: Live) -> None:
    platform, devices = live
    graph = TaskGraph("host alone")
    y = graph.array("y", (SIZE,), DTYPE)
    graph.host(plus_one, name="a", y=y.update())
    graph.host(plus_one, name="b", y=y.update())
    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        for seed in range(3):
            inputs = inputs_of(graph, seed)
            run = runner.run(inputs)
            np.testing.assert_array_equal(run.result("y"), inputs["y"] + 2)
            run.wait()
            assert outcomes(run) == {"a": "done", "b": "done"}


def test_a_coroutine_awaits_a_hosted_run(live: Live) -> None:
    platform, devices = live
    graph = chain(5, {1, 3})

    async def several(runner: Runner) -> None:
        for seed in range(3):
            inputs = inputs_of(graph, seed)
            run = await runner.run_async(inputs)
            np.testing.assert_array_equal(run.result("y"), sequential(graph, inputs)["y"])

    with bound(plan_on(graph, platform, "cpu"), graph, devices) as runner:
        asyncio.run(several(runner))
