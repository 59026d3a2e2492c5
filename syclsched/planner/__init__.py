# SPDX-License-Identifier: Apache-2.0
"""Planner: candidate schedules from scheduling, executable plans from planning, the best by simulation."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from syclsched.planner.graph_planner import plan_contenders, plan_graph
from syclsched.planner.plan_request import ModelPlanOptions, PlanRequest
from syclsched.planner.rewrite_choice import REWRITES, graph_to_time
from syclsched.scheduling.registry import AUTO

if TYPE_CHECKING:
    from syclsched.planner.pareto_plans import FrontPlan, plan_front

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


def __getattr__(name: str) -> Any:
    """Import what only Pareto fronts need on first use (PEP 562)."""
    if name not in ("FrontPlan", "plan_front"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("syclsched.planner.pareto_plans"), name)
