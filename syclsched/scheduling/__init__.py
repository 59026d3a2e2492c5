# SPDX-License-Identifier: Apache-2.0
"""Scheduling policies: from a problem of plain numbers to a timetable."""

from syclsched.scheduling.construction.build import build_problem
from syclsched.scheduling.construction.matrices import problem_from_arrays, problem_from_matrices
from syclsched.scheduling.problem import Problem, makespan_s, to_schedule
from syclsched.scheduling.registry import Policy, PolicyFamily, candidates, get, names, register, register_family
from syclsched.scheduling.timetable import Copies, Timetable
from syclsched.scheduling.validate import validate, violations

__all__ = [
    "Copies",
    "Policy",
    "PolicyFamily",
    "Problem",
    "Timetable",
    "build_problem",
    "candidates",
    "get",
    "makespan_s",
    "names",
    "problem_from_arrays",
    "problem_from_matrices",
    "register",
    "register_family",
    "to_schedule",
    "validate",
    "violations",
]
