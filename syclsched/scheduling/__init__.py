# SPDX-License-Identifier: Apache-2.0
"""Scheduling: from a problem of plain numbers to a schedule, by named policies."""

from syclsched.scheduling.build import build_problem
from syclsched.scheduling.matrices import problem_from_matrices
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.registry import Policy, PolicyFamily, candidates, get, names, register, register_family
from syclsched.scheduling.validate import validate, violations

__all__ = [
    "Policy",
    "PolicyFamily",
    "Problem",
    "build_problem",
    "candidates",
    "get",
    "names",
    "problem_from_matrices",
    "register",
    "register_family",
    "validate",
    "violations",
]
