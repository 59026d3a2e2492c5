# SPDX-License-Identifier: Apache-2.0
"""Executables of a plan's instructions, and refused tasks."""

from __future__ import annotations

import pytest

from syclsched.api import describe
from syclsched.errors import PlanError
from syclsched.execution.core.program import Program
from syclsched.execution.core.work import resolve_work
from syclsched.model.cost_only import StatedCost, add_cost_only
from syclsched.model.graph import TaskGraph
from syclsched.planner import plan_graph


def test_a_task_with_costs_only_is_refused_by_name() -> None:
    graph = TaskGraph()
    add_cost_only(graph, "imported", StatedCost(1.0))
    plan = plan_graph(graph, describe(["max1550"]), policy="heft")
    with pytest.raises(PlanError, match=r"'imported'.*costs only: it can be planned and simulated, not run"):
        resolve_work(Program(plan), graph)
