# SPDX-License-Identifier: Apache-2.0
"""Problems restricted to a part of the devices: equal to problems without the other devices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from support.strategies import graphs, platforms

from syclsched.costs import CostModel
from syclsched.errors import CapabilityError, DeviceNotFoundError
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Platform
from syclsched.scheduling import build_problem, problem_from_arrays
from syclsched.scheduling.problem import on_devices, with_fixed_devices
from syclsched.scheduling.tables import Tables


def test_processors_keep_their_lanes_and_their_order() -> None:
    whole = problem_from_arrays([[1.0, 2.0, 3.0]], [], [], [], lanes=[1, 2, 3])
    part = on_devices(whole, ["p2", "p1"])
    assert part.devices == ("p1", "p2")
    assert part.processors == ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2))
    assert part.tables.task_seconds().tolist() == [[2.0, 3.0]]
    assert part.tables.reach_space.tolist() == [1, 2]
    assert on_devices(whole, whole.devices).processors == whole.processors


def test_a_task_that_is_left_without_a_device_is_named() -> None:
    whole = problem_from_arrays([[1.0, 1.0], [math.inf, 1.0]], [], [], [])
    with pytest.raises(CapabilityError, match="task 't1': none of the devices kept"):
        on_devices(whole, ["p0"])
    with pytest.raises(DeviceNotFoundError, match=r"no device 'p7'.*p0, p1"):
        on_devices(whole, ["p0", "p7"])


@given(graphs(), platforms())
def test_the_subset_equals_a_problem_built_for_its_devices(graph: TaskGraph, platform: Platform) -> None:
    kept = {platform.compute_devices[0].name, HOST}
    few = Platform(platform.name, tuple(d for d in platform.devices if d.name in kept), platform.spaces, platform.links)
    costs = CostModel(platform)
    part, built = on_devices(build_problem(graph, platform, costs), kept), build_problem(graph, few, costs)
    assert (part.devices, part.processors, part.spaces) == (built.devices, built.processors, built.spaces)
    for name, ours, theirs in zip(Tables._fields, part.tables, built.tables, strict=True):
        assert ours.dtype == theirs.dtype and ours.flags.c_contiguous and not ours.flags.writeable
        np.testing.assert_array_equal(ours, theirs, err_msg=name)


def test_tasks_stay_on_the_given_devices() -> None:
    whole = problem_from_arrays([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]], [], [], [])
    found = with_fixed_devices(whole, {"t0": "p1", "t2": "p0"})
    assert found.tables.task_seconds().tolist() == [[math.inf, 2.0], [1.0, 2.0], [3.0, math.inf]]
    assert len(whole.tables.seconds) == 3 and not found.tables.seconds.flags.writeable
    with pytest.raises(DeviceNotFoundError, match="no device 'p7'"):
        with_fixed_devices(whole, {"t0": "p7"})
    unable = problem_from_arrays([[1.0, math.inf]], [], [], [])
    with pytest.raises(CapabilityError, match="task 't0': it is to stay on 'p1', which cannot run it"):
        with_fixed_devices(unable, {"t0": "p1"})
