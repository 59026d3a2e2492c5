# SPDX-License-Identifier: Apache-2.0
"""Launches fused into one: eligible tasks, and results equal to single launches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.gpu_shape import OTHER_DEVICE
from support.opened import live_on
from support.running import DTYPE, MIX, graphs, inputs_of, plan_by, sequential

from syclsched.devices.programs import joined_launches
from syclsched.errors import TaskFailedError
from syclsched.execution import bind
from syclsched.execution.core.program import MEMORY_KINDS, Program
from syclsched.execution.replay import launch_fusion
from syclsched.execution.replay.host_sync import plan_host_sync
from syclsched.execution.replay.launch_fusion import fuse_launches
from syclsched.model.graph import TaskGraph
from syclsched.testing import faults

pytestmark = pytest.mark.sycl

IMPLEMENTATION = "opencl-c"


@pytest.fixture(autouse=True)
def _however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_fusion, "MIN_SAVED_LAUNCHES", 1)
    monkeypatch.setattr(launch_fusion, "MAX_DURATION_S", 10.0)  # predicted times in plans made by hand


def wide(width: int = 4, steps: int = 3) -> TaskGraph:
    """Return independent columns of tasks."""
    graph = TaskGraph("wide")
    pairs = [[graph.array(f"{n}{c}", (32,), DTYPE) for n in "xy"] for c in range(width)]
    for step in range(steps):
        for column, (x, y) in enumerate(pairs):
            graph.kernel(MIX, name=f"t{step}_{column}", x=x, y=y, a=step + column)
    return graph


def on_lanes(graph: TaskGraph, platform: Any, lanes: int, device: str = "cpu") -> Any:
    return plan_by(graph, platform, lambda name: (device, int(name.rpartition("_")[2]) % lanes, IMPLEMENTATION))


def units_of(
    plan: Any, graph: TaskGraph, most: int = 8, possible: Any = lambda _, __: True, at_a_time: int = 0
) -> list[tuple[str, ...]]:
    program = Program(plan)
    nodes = [program.nodes[i.id] for _, i in plan.instructions() if i.kind not in MEMORY_KINDS]
    levels = plan_host_sync(program).of
    kind = "same", most, at_a_time
    units = fuse_launches(program, nodes, lambda _: kind, frozenset(graph.edges), {}, levels, possible)
    assert sorted(node.id for unit in units for node in unit) == sorted(node.id for node in nodes)
    return [
        tuple(node.instruction.task or "" for node in unit) for unit in units if unit[0].instruction.kind == "launch"
    ]


def together(units: list[tuple[str, ...]], first: str, second: str) -> bool:
    return any(first in unit and second in unit for unit in units)


def test_adjacent_independent_launches_are_fused() -> None:
    platform, _ = live_on(None)
    graph = wide()
    # In the first step each task follows the copies of its inputs, submitted after those of earlier tasks.
    assert units_of(on_lanes(graph, platform, 1), graph) == [
        ("t0_0",),
        ("t0_1",),
        ("t0_2",),
        ("t0_3", "t1_0", "t1_1", "t1_2"),
        ("t1_3", "t2_0", "t2_1", "t2_2"),
        ("t2_3",),
    ]
    assert max(len(unit) for unit in units_of(on_lanes(graph, platform, 1), graph, most=3)) == 3
    on_two = units_of(on_lanes(graph, platform, 2), graph)
    assert all(len({int(name[-1]) % 2 for name in unit}) == 1 for unit in on_two)
    assert together(on_two, "t1_2", "t2_0")


def test_launches_joined_by_an_edge_are_not_fused() -> None:
    platform, _ = live_on(None)
    graph = wide(steps=2)
    assert together(units_of(on_lanes(graph, platform, 1), graph), "t1_0", "t1_1")
    graph.edge("t1_0", "t1_1")
    units = units_of(on_lanes(graph, platform, 1), graph)
    assert not together(units, "t1_0", "t1_1")
    assert together(units, "t1_1", "t1_2")


def test_launches_connected_through_another_lane_are_not_fused() -> None:
    platform, _ = live_on(None)
    graph = wide(width=3)
    assert together(units_of(on_lanes(graph, platform, 2), graph), "t1_2", "t2_0")
    graph.edge("t1_2", "t2_1")  # on the other lane
    graph.edge("t2_1", "t2_0")
    assert not together(units_of(on_lanes(graph, platform, 2), graph), "t1_2", "t2_0")


def test_long_launches_are_not_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    platform, _ = live_on(None)
    graph = wide()
    plan = on_lanes(graph, platform, 1)
    longest_s = max(i.duration_s for _, i in plan.instructions() if i.kind == "launch")
    assert longest_s > 0
    monkeypatch.setattr(launch_fusion, "MAX_DURATION_S", longest_s / 2)
    assert all(len(unit) == 1 for unit in units_of(plan, graph))
    assert all(len(unit) == 1 for unit in units_of(plan, graph, at_a_time=1))


def test_long_launches_that_leave_compute_units_idle_are_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    platform, _ = live_on(None)
    graph = wide()
    plan = on_lanes(graph, platform, 1)
    monkeypatch.setattr(launch_fusion, "MAX_DURATION_S", 0.0)
    monkeypatch.setattr(launch_fusion, "MIN_SAVED_LAUNCHES", 100)
    units = units_of(plan, graph, at_a_time=2)
    assert ("t0_3", "t1_0") in units and ("t1_1", "t1_2") in units
    assert max(map(len, units)) == 2
    assert units_of(plan, graph, at_a_time=100) == units_of(plan, graph, at_a_time=8)
    assert all(len(unit) == 1 for unit in units_of(plan, graph, possible=lambda _, __: False, at_a_time=2))


def test_launches_that_do_not_compile_together_are_not_fused() -> None:
    platform, _ = live_on(None)
    graph = wide()
    asked: list[int] = []

    def never(_: Any, count: int) -> bool:
        asked.append(count)
        return False

    assert all(len(unit) == 1 for unit in units_of(on_lanes(graph, platform, 1), graph, possible=never))
    assert asked == [4]  # once for all equal tasks


def test_launches_are_not_fused_if_too_few_are_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    platform, devices = live_on(None)
    graph = wide()
    monkeypatch.setattr(launch_fusion, "MIN_SAVED_LAUNCHES", 1000)
    monkeypatch.setattr(joined_launches, "joined_source", None)  # its launch fails
    with bind(on_lanes(graph, platform, 1), graph, devices) as runner:
        inputs = inputs_of(graph, 1)
        expected = sequential(graph, inputs)
        for name, value in runner(inputs).items():
            np.testing.assert_array_equal(value, expected[name], err_msg=name)


@given(data=st.data())
@settings(
    max_examples=examples(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@pytest.mark.parametrize("device", ["cpu", OTHER_DEVICE])
def test_random_graphs_have_the_bits_of_numpy(device: str, data: st.DataObject) -> None:
    platform, devices = live_on(None)
    graph = data.draw(graphs(max_tasks=30))
    tasks = {t.name: t for t in graph.tasks}

    def place(name: str) -> tuple[str, int, str | None]:
        operation = tasks[name].operation
        if operation is None:
            return device, 0, None
        which = IMPLEMENTATION if operation is MIX else operation.implementations[0].name
        return device, data.draw(st.integers(0, 1)), which

    with bind(plan_by(graph, platform, place), graph, devices) as runner:
        for seed in range(3):
            inputs = inputs_of(graph, seed)
            expected = sequential(graph, inputs)
            for name, value in runner(inputs).items():
                np.testing.assert_array_equal(value, expected[name], err_msg=name)


@pytest.mark.parametrize("lanes", [1, 2])
def test_one_submission_for_several_and_a_time_for_each(lanes: int) -> None:
    platform, devices = live_on(None)
    graph = wide(width=6, steps=4)
    inputs = inputs_of(graph, 1)
    expected = sequential(graph, inputs)
    with bind(on_lanes(graph, platform, lanes), graph, devices) as runner:
        assert runner.replayed
        for _ in range(2):
            with runner.run(inputs) as run:
                trace = run.trace()
                for name, value in expected.items():
                    np.testing.assert_array_equal(run.result(name), value)
            launches = [s for s in trace.spans if s.kind == "launch"]
            assert len(launches) == 24
            assert trace.submissions < len(trace.spans) - 10
            for lane in {s.lane for s in launches}:
                times = [(s.start_s, s.finish_s) for s in launches if s.lane == lane]
                assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(times))


def test_refused_fused_launches_are_retried_singly_and_named() -> None:
    platform, devices = live_on(None)
    graph = wide(width=4, steps=2)
    inputs = inputs_of(graph, 2)
    expected = sequential(graph, inputs)
    with bind(on_lanes(graph, platform, 1), graph, devices) as runner:
        runner.run(inputs).wait()
        with faults.inject(faults.fail_submission(1)), runner.run(inputs) as run:
            with pytest.raises(TaskFailedError, match="t0_"):
                run.wait()
            readable = 0
            for column in range(4):
                try:
                    value = run.result(f"y{column}")
                except TaskFailedError:
                    continue
                readable += 1
                np.testing.assert_array_equal(value, expected[f"y{column}"])
            assert readable == 3
        np.testing.assert_array_equal(runner(inputs)["y0"], expected["y0"])
