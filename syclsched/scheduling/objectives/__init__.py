# SPDX-License-Identifier: Apache-2.0
"""Objectives and constraints of scheduling: metrics, constrained search, Pareto fronts and pipelining."""

from syclsched.scheduling.objectives.aims import Aim, Constraint, minimize
from syclsched.scheduling.objectives.constrained_search import SearchResult, resolve, search
from syclsched.scheduling.objectives.front import Point, front
from syclsched.scheduling.objectives.infeasible import excess, infeasible_error
from syclsched.scheduling.objectives.metrics import Metrics, evaluate
from syclsched.scheduling.objectives.pipeline import modulo_schedule, pipeline
from syclsched.scheduling.objectives.pipelined_schedule import PipelinedSchedule
from syclsched.scheduling.objectives.stages import stages

__all__ = [
    "Aim",
    "Constraint",
    "Metrics",
    "PipelinedSchedule",
    "Point",
    "SearchResult",
    "evaluate",
    "excess",
    "front",
    "infeasible_error",
    "minimize",
    "modulo_schedule",
    "pipeline",
    "resolve",
    "search",
    "stages",
]
