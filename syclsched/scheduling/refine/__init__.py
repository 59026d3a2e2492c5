# SPDX-License-Identifier: Apache-2.0
"""Refinement: an anytime search that starts from finished timetables and improves them."""

from syclsched.scheduling.refine.search import default_steps, refine

__all__ = ["default_steps", "refine"]
