# SPDX-License-Identifier: Apache-2.0
"""Planner: candidate schedules from scheduling, executable plans from planning, the best by simulation."""

from syclsched.planner.graph_planner import plan_contenders, plan_graph
from syclsched.planner.pareto_plans import FrontPlan, plan_front
from syclsched.planner.plan_request import ModelPlanOptions, PlanRequest
from syclsched.planner.rewrite_choice import REWRITES, graph_to_time
from syclsched.scheduling.registry import AUTO

__all__ = [
    "AUTO",
    "REWRITES",
    "FrontPlan",
    "ModelPlanOptions",
    "PlanRequest",
    "graph_to_time",
    "plan_contenders",
    "plan_front",
    "plan_graph",
]
