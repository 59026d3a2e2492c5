# SPDX-License-Identifier: Apache-2.0
"""Search for better schedules: simulated annealing from finished timetables, with an evaluator for each kind of aim."""

from syclsched.scheduling.search.refinement import default_steps, refine

__all__ = ["default_steps", "refine"]
