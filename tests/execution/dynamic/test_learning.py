# SPDX-License-Identifier: Apache-2.0
"""Task durations that a run learns: medians, for host tasks without the first call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.starting import Anywhere

from syclsched.costs import CostModel
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.learning import measured_durations
from syclsched.execution.dynamic.submission.tasks import TaskWork
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST
from syclsched.scheduling import build_problem
from syclsched.scheduling.dynamic.drift import ENOUGH, KEPT, new_drift, record_duration

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("compiled_policies")]


@pytest.mark.parametrize(
    ("ratios", "remembered"),
    [
        ([900.0, 2.0, 3.0], None),
        ([900.0, 2.0, 3.0, 4.0], 3.0),
        ([900.0, 800.0, 2.0, 3.0, 4.0], 3.5),
        ([9.0] * KEPT, 9.0),
        ([900.0, *[2.0] * KEPT], 2.0),
        ([2.0] * (ENOUGH - 1), None),
    ],
)
def test_first_call_of_a_host_function_is_not_recorded(
    live: tuple[Any, Any], ratios: list[float], remembered: float | None
) -> None:
    platform, _ = live
    graph = TaskGraph("calls")
    graph.host(lambda y: None, name="call", y=graph.array("y", (4,)).write())
    problem = build_problem(graph, platform, CostModel(platform))
    layout = IndexedGraph(graph, problem, platform)
    known = Anywhere().prepare(problem)
    device = next(n for n, each in enumerate(layout.devices) if each.name == HOST)
    estimated_s = known.seconds[0][device]
    drift = new_drift(np.array(known.seconds), 1)
    for ratio in ratios:
        record_duration(drift, 0, device, ratio * estimated_s, estimated_s)
    found = measured_durations(layout, TaskWork(layout), known, drift)
    if remembered is None:
        assert found == []
    else:
        ((key, seconds),) = found
        assert key.device_key == layout.devices[device].key
        assert seconds == pytest.approx(remembered * estimated_s)
