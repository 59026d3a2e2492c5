# SPDX-License-Identifier: Apache-2.0
"""Planner: candidate schedules from scheduling, executable plans from planning, the best by simulation.

Public are the names in ``__all__``; the modules are Internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syclsched.lazy_names import lazy_names

#: Public name -> module that defines it: a kept plan is used without the policies and passes that make plans.
_LAZY = {
    "AUTO": "syclsched.scheduling.registry",
    "REWRITES": "syclsched.planner.rewrite_choice",
    "FrontPlan": "syclsched.planner.pareto_plans",
    "ModelPlanOptions": "syclsched.planner.plan_request",
    "PlanRequest": "syclsched.planner.plan_request",
    "graph_to_time": "syclsched.planner.rewrite_choice",
    "plan_contenders": "syclsched.planner.graph_planner",
    "plan_front": "syclsched.planner.pareto_plans",
    "plan_graph": "syclsched.planner.graph_planner",
    "with_memory_limit": "syclsched.planner.memory_limit",
}

__all__ = sorted(_LAZY)

if TYPE_CHECKING:
    from syclsched.planner.graph_planner import plan_contenders as plan_contenders
    from syclsched.planner.graph_planner import plan_graph as plan_graph
    from syclsched.planner.memory_limit import with_memory_limit as with_memory_limit
    from syclsched.planner.pareto_plans import FrontPlan as FrontPlan
    from syclsched.planner.pareto_plans import plan_front as plan_front
    from syclsched.planner.plan_request import ModelPlanOptions as ModelPlanOptions
    from syclsched.planner.plan_request import PlanRequest as PlanRequest
    from syclsched.planner.rewrite_choice import REWRITES as REWRITES
    from syclsched.planner.rewrite_choice import graph_to_time as graph_to_time
    from syclsched.scheduling.registry import AUTO as AUTO

__getattr__ = lazy_names(__name__, _LAZY)
