# SPDX-License-Identifier: Apache-2.0
"""Copy tasks: replayed, dispatched and stepped, with equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.running import DTYPE, MIX, plan_by

from syclsched.devices.programs.executables import calls_library, needs_python
from syclsched.execution import Safeguards, bind, execute
from syclsched.execution.runner import plan_binding
from syclsched.kernels.row_copies import TAKE_ROWS, put_rows
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform

pytestmark = [pytest.mark.sycl, pytest.mark.gpu_shape]
Live = tuple[Platform, Any]


def cut_and_put_together() -> TaskGraph:
    graph = TaskGraph("copies")
    x, y, again = (graph.array(name, (10, 3), "float64") for name in ("x", "y", "again"))
    parts = [graph.array(f"part{n}", (rows, 3), "float64") for n, rows in enumerate((4, 1, 5))]
    graph.copy(x, y, name="copy")
    for n, (start, part) in enumerate(zip((6, 5, 0), parts, strict=True)):
        graph.kernel(TAKE_ROWS, name=f"take{n}", rows=part, whole=y, start=start)
    graph.kernel(put_rows(3), name="put", whole=again, **{f"part{n}": part for n, part in enumerate(parts)})
    return graph


def on_device(graph: TaskGraph, platform: Platform) -> Plan:
    return plan_by(graph, platform, lambda name: ("cpu", int(name == "take1"), "memcpy"))


@pytest.mark.parametrize("way", ["replayed", "in one call", "dispatched", "step by step"])
def test_rows_are_cut_out_and_put_together(live: Live, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    platform, devices = live
    graph = cut_and_put_together()
    if way == "dispatched":
        monkeypatch.setattr(plan_binding, "why_dispatcher_needed", lambda *_: "the test says so")
    safeguards = Safeguards(debug=way == "step by step")
    plan, traced = on_device(graph, platform), way != "in one call"
    with bind(plan, graph, devices, trace=traced, safeguards=safeguards) as runner:
        assert runner.replayed == (way in ("replayed", "in one call")), runner.why_not_replayed
        assert not any(needs_python(made) or calls_library(made) for made in runner._bound.executables.values())
        for seed in range(3):
            x = np.random.default_rng(seed).normal(size=(10, 3))
            found = runner({"x": x})
            np.testing.assert_array_equal(found["y"], x)
            np.testing.assert_array_equal(found["again"], np.concatenate([x[6:], x[5:6], x[:5]]))


def test_copy_waits_for_kernel_of_another_lane(live: Live) -> None:
    platform, devices = live
    graph = TaskGraph("through a copy")
    x, y, z = (graph.array(name, data=np.arange(1000, dtype=DTYPE)) for name in "xyz")
    graph.kernel(MIX, name="first", x=x, y=y, a=2)
    graph.copy(y, z, name="copy")
    graph.kernel(MIX, name="last", x=z, y=y, a=3)
    lanes = {"first": 0, "copy": 1, "last": 0}
    plan = plan_by(graph, platform, lambda name: ("cpu", lanes[name], "memcpy" if name == "copy" else "opencl-c"))
    n = np.arange(1000)
    once = 2 * n + 3 * n + n
    with bind(plan, graph, devices) as runner, execute(plan, graph, devices) as run:
        assert runner.replayed, runner.why_not_replayed
        for found in (runner(), runner(), {name: run.result(name) for name in "yz"}):
            np.testing.assert_array_equal(found["z"], once)
            np.testing.assert_array_equal(found["y"], 3 * once + 3 * once + n)
