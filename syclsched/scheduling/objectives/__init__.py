# SPDX-License-Identifier: Apache-2.0
"""Objectives and constraints of scheduling: metrics, constrained search, Pareto fronts and pipelining."""

from syclsched.scheduling.objectives.aims import Aim, Constraint, minimize
from syclsched.scheduling.objectives.front import Point, front
from syclsched.scheduling.objectives.infeasible import excess, nothing_found
from syclsched.scheduling.objectives.metrics import Metrics, evaluate
from syclsched.scheduling.objectives.pipeline import modulo_schedule, pipeline
from syclsched.scheduling.objectives.pipelined import PipelinedSchedule
from syclsched.scheduling.objectives.search import Found, resolve, search
from syclsched.scheduling.objectives.stages import stages

__all__ = [
    "Aim",
    "Constraint",
    "Found",
    "Metrics",
    "PipelinedSchedule",
    "Point",
    "evaluate",
    "excess",
    "front",
    "minimize",
    "modulo_schedule",
    "nothing_found",
    "pipeline",
    "resolve",
    "search",
    "stages",
]
