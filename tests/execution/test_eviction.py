# SPDX-License-Identifier: Apache-2.0
"""Plans that do not fit into a device's memory, run on live devices: arrays go to the host and come back."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import DTYPE, MIX, graphs, plan_by, plans, sequential

from syclsched.api import with_lanes
from syclsched.devices import discover, open_devices
from syclsched.execution import execute
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Platform

pytestmark = pytest.mark.sycl


@lru_cache(maxsize=1)
def live() -> tuple[Platform, Any]:
    platform = with_lanes(discover(), 2)
    return platform, open_devices(platform)


def limited(platform: Platform, capacity_bytes: int) -> Platform:
    """The platform with so much memory in every space but the host's."""
    return replace(
        platform,
        spaces=tuple(s if s.name == HOST else replace(s, capacity_bytes=capacity_bytes) for s in platform.spaces),
    )


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), graphs())
def test_results_do_not_depend_on_how_much_memory_there_is(data: st.DataObject, graph: TaskGraph) -> None:
    platform, devices = live()
    most = max(sum(graph.arrays[a.array].nbytes for a in t.accesses) for t in graph.tasks)
    plan = data.draw(plans(graph, limited(platform, max(most, 1))))
    inputs = {name: np.arange(graph.arrays[name].shape[0], dtype=DTYPE) for name in graph.inputs()}
    expected = sequential(graph, inputs)
    with execute(plan, graph, devices, inputs) as run:
        run.wait(60)
        written = {a.array for t in graph.tasks for a in t.accesses if a.mode.writes}
        for name, array in graph.arrays.items():
            if name in written and not array.temporary:
                np.testing.assert_array_equal(run.result(name), expected[name])
        assert all(nbytes <= plan.peak_bytes.get(space, 0) for space, nbytes in run.trace().peak_bytes.items())


def test_arrays_take_turns_in_memory_that_holds_two() -> None:
    platform, devices = live()
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
