# SPDX-License-Identifier: Apache-2.0
"""The policy `auto` beside all policies that it asks: its plan is never predicted slower than the plan of any."""

from __future__ import annotations

from hypothesis import given, settings
from support.strategies import graphs, platforms

from syclsched.errors import SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.planner import plan_graph
from syclsched.planner.auto import penalised_makespan_s
from syclsched.scheduling import registry


@given(graph=graphs(), where=platforms())
@settings(max_examples=8, deadline=None)
def test_auto_is_never_worse_than_any_policy_or_device(graph: TaskGraph, where: Platform) -> None:
    try:
        auto = plan_graph(graph, where, steps=0, rewrite="none")
    except SyclschedError:
        return
    names = [name for name in registry.names() if "<" not in name]
    names += [f"single:{device.name}" for device in where.compute_devices]
    for name in names:
        try:
            plan = plan_graph(graph, where, policy=name)
        except SyclschedError:
            continue
        # A plan in which devices share cores must be better by a margin, and so counts as longer.
        assert penalised_makespan_s(auto) <= penalised_makespan_s(plan) * (1 + 1e-9), name
