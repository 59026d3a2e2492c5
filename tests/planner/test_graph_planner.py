# SPDX-License-Identifier: Apache-2.0
"""Plans with some tasks fixed to one device."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.strategies import graphs, platforms

import syclsched
from syclsched.costs import CostModel
from syclsched.errors import CapabilityError
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.planner import plan_graph


@settings(max_examples=examples(40))
@given(graphs(), platforms(), st.data())
def test_tasks_stay_and_the_plan_is_sound(graph: TaskGraph, platform: Platform, data: st.DataObject) -> None:
    costs, names = CostModel(platform), [device.name for device in platform.devices]
    stay = {}
    for task in graph.tasks:
        able = [
            name
            for name, best in zip(names, costs.choices(task, platform.devices), strict=True)
            if best is not None or task.operation is None
        ]
        if able and data.draw(st.booleans()):
            stay[task.name] = data.draw(st.sampled_from(able))
    plan = plan_graph(graph, platform, steps=10, stay=tuple(stay.items()))
    syclsched.verify(plan, graph)
    for each in plan.schedule.assignments:
        assert each.device in (stay.get(each.task, each.device), "host")


def chain(tasks: int) -> TaskGraph:
    graph = TaskGraph("chain")
    x = graph.array("x", (1 << 20,))
    for step in range(tasks):
        graph.kernel(get("scale"), name=f"t{step}", x=x, alpha=2.0)
    return graph


def test_a_task_stays_on_the_slower_device() -> None:
    platform = syclsched.describe("cpu,max1550")
    plan = plan_graph(chain(3), platform, stay=(("t1", "cpu"),), rewrite="coarsen")
    devices = {each.task: each.device for each in plan.schedule.assignments}
    assert devices["t1"] in ("cpu", "host") and not plan.recipe
    apart = plan_graph(chain(3), platform, stay=(("t1", "cpu"), ("t2", "max1550")))
    assert not [each.policy for each in apart.candidates if each.policy.startswith("single:")]  # none would be
    with pytest.raises(syclsched.errors.DeviceNotFoundError, match="no device 'tpu'"):
        plan_graph(chain(1), platform, stay=(("t0", "tpu"),))


def test_a_device_that_cannot_run_the_task_is_named() -> None:
    graph = TaskGraph("double")
    graph.kernel(get("scale"), name="t", x=graph.array("x", (8,), "float64"), alpha=2.0)
    with pytest.raises(CapabilityError, match=r"'t'.*to stay on 'a770', which cannot run it"):
        plan_graph(graph.with_implementations(lambda _, each: each.kind != "host"), syclsched.describe("cpu,a770"),
                   stay=(("t", "a770"),))  # fmt: skip
