# SPDX-License-Identifier: Apache-2.0
"""Eviction on live devices: plans larger than a device's memory move arrays to the host and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.gpu_shape import OTHER_DEVICE
from support.opened import live_on
from support.running import ASSIGN_KERNEL, DTYPE, MIX, graphs, plan_by, plans, sequential

from syclsched.api import run as run_graph
from syclsched.devices import open_devices
from syclsched.errors import MemoryLimitError
from syclsched.execution import bind, execute
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Platform
from syclsched.planner.memory_limit import with_memory_limit

pytestmark = pytest.mark.sycl


def limited(platform: Platform, capacity_bytes: int) -> Platform:
    """Return the platform with this much memory in every space but the host's."""
    return replace(
        platform,
        spaces=tuple(s if s.name == HOST else replace(s, capacity_bytes=capacity_bytes) for s in platform.spaces),
    )


@pytest.mark.gpu_shape
@pytest.mark.parametrize("sub_devices", [None, 2])
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.data(), graphs())
def test_results_do_not_depend_on_how_much_memory_there_is(
    sub_devices: int | None, data: st.DataObject, graph: TaskGraph
) -> None:
    platform, devices = live_on(sub_devices)
    most = max(sum(graph.arrays[a.array].nbytes for a in t.accesses) for t in graph.tasks)
    held = sum(constant.nbytes for constant in graph.constants)
    plan = data.draw(plans(graph, limited(platform, max(most, 1) + held)))
    inputs = {name: np.arange(graph.arrays[name].shape[0], dtype=DTYPE) for name in graph.inputs()}
    expected = sequential(graph, inputs)
    written = {a.array for t in graph.tasks for a in t.accesses if a.mode.writes}
    kept = [name for name, array in graph.arrays.items() if name in written and not array.temporary]
    with execute(plan, graph, devices, inputs) as run:
        run.wait(60)
        for name in kept:
            np.testing.assert_array_equal(run.result(name), expected[name])
        assert all(nbytes <= plan.peak_bytes.get(space, 0) for space, nbytes in run.trace().peak_bytes.items())
    with bind(plan, graph, devices) as runner:
        for _ in range(2):
            found = runner(inputs)
            for name in kept:
                np.testing.assert_array_equal(found[name], expected[name])


def discrete(platform: Platform) -> Platform:
    """Return the platform as if no device and host could reach each other's memory."""
    return replace(
        platform,
        devices=tuple(replace(d, reaches=(d.space,)) for d in platform.devices),
        spaces=tuple(replace(s, host_accessible=s.name == HOST) for s in platform.spaces),
    )


SIZE, COUNT = 8192, 16


def passes(name: str) -> TaskGraph:
    """Return two passes over many arrays, and temporaries between them."""
    graph = TaskGraph(name)
    arrays = [graph.array(f"a{i}", data=np.arange(SIZE, dtype=DTYPE) + i) for i in range(COUNT)]
    for step in range(2):
        for i in range(COUNT):
            between = graph.array(f"b{step}_{i}", (SIZE,), DTYPE, temporary=True)
            graph.kernel(ASSIGN_KERNEL, name=f"s{step}_{i}", x=arrays[i], y=between)
            graph.kernel(MIX, name=f"t{step}_{i}", x=between, y=arrays[(5 * i + step) % COUNT], a=i)
    return graph


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("device", ["cpu", OTHER_DEVICE])
def test_a_graph_four_times_as_large_as_the_limit(device: str, apart: bool) -> None:
    platform = live_on(None)[0].select([device])
    graph = passes(f"passes on {device}")
    limit = COUNT * SIZE * 8 // 4
    small = with_memory_limit(discrete(platform) if apart else platform, {device: limit})
    expected = sequential(graph, graph.data)
    plan = plan_by(graph, small, lambda name: (device, 0, "opencl-c"))
    assert plan.peak_bytes[device] <= limit
    assert any(i.kind == "copy" and i.uses[1].space == HOST for _, i in plan.instructions())
    with open_devices(small) as devices:
        with execute(plan, graph, devices) as run:
            run.wait(60)
            for name in graph.data:
                np.testing.assert_array_equal(run.result(name), expected[name])
            assert_as_planned(run.counts, plan)
        assert devices.memory()[device].in_use_bytes == 0
        assert devices.memory()[device].peak_reserved_bytes <= 1.05 * limit
        with bind(plan, graph, devices) as runner:
            assert runner.replayed, runner.why_not_replayed
            for _ in range(3):
                found = runner()
                for name in graph.data:
                    np.testing.assert_array_equal(found[name], expected[name])
            last = runner.run()
            last.wait()
            assert_as_planned(last.counts, plan)
            waited = {span.instruction: set(span.waits) for span in last.trace().spans}
            planned = {i.id: set(i.waits) for _, i in plan.instructions() if i.id in waited}
            assert all(planned[number] <= waited[number] for number in waited)
            # Reports must include the waits added by the memory layout; on one lane none are needed.
            assert waited != planned or not platform.device(device).copy_lane
        assert devices.memory()[device].in_use_bytes == 0
        assert devices.memory()[device].peak_reserved_bytes <= 1.05 * limit


def assert_as_planned(counts: Any, plan: Plan) -> None:
    """Assert that the peak is the plan's within 5 %, and that other memory is as small."""
    for space, planned in plan.peak_bytes.items():
        assert 0.95 * planned <= counts.peak_bytes[space] <= planned
        assert counts.held_bytes[space] <= 1.05 * planned


def test_a_memory_limit_by_space_is_applied_or_refused() -> None:
    platform = live_on(None)[0].select(["cpu"])
    graph = passes("passes by name")
    expected = sequential(graph, graph.data)
    asked: dict[str, Any] = {"policy": "single:cpu", "calibrate": False}
    with run_graph(graph, platform, memory_limit={"cpu": "256KiB"}, **asked) as run:
        np.testing.assert_array_equal(run.result("a3"), expected["a3"])
        run.wait()
        assert 0 < run.counts.peak_bytes["cpu"] <= 2**18
    with run_graph(graph, platform, memory_limit={"cpu": "100KiB"}, **asked) as run:  # some are used in host memory
        np.testing.assert_array_equal(run.result("a3"), expected["a3"])
        run.wait()
        assert 0 < run.counts.peak_bytes["cpu"] <= 100 << 10
    with pytest.raises(MemoryLimitError, match=r"65536 bytes .*needed at once, there are 61440"):
        run_graph(graph, platform, memory_limit={"cpu": "60KiB"}, **asked)
    large = plan_by(graph, platform, lambda name: ("cpu", 0, "opencl-c"))
    with pytest.raises(MemoryLimitError, match="Plan again with this limit"):
        run_graph(graph, platform, plan=large, memory_limit="256KiB")


def test_arrays_are_evicted_in_turn_with_memory_for_two() -> None:
    platform, devices = live_on(None)
    device = platform.compute_devices[0]
    graph = TaskGraph("turns")
    arrays = [graph.array(f"a{i}", data=np.arange(1000, dtype=DTYPE) + i) for i in range(6)]
    for step in range(30):
        graph.kernel(MIX, name=f"t{step}", x=arrays[step % 6], y=arrays[(5 * step + 1) % 6], a=step)
    capacity = 2 * arrays[0].nbytes
    plan = plan_by(graph, limited(platform, capacity), lambda name: (device.name, 0, "opencl-c"))
    back = [i for _, i in plan.instructions() if i.kind == "copy" and i.uses[1].space == HOST]
    assert len(back) > 6
    assert plan.peak_bytes[device.space] == capacity
    expected = sequential(graph, {f"a{i}": np.arange(1000, dtype=DTYPE) + i for i in range(6)})
    with execute(plan, graph, devices) as run:
        run.wait(60)
        for name in graph.arrays:
            np.testing.assert_array_equal(run.result(name), expected[name])
        assert run.trace().peak_bytes[device.space] <= capacity
