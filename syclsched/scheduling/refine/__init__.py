# SPDX-License-Identifier: Apache-2.0
"""Refinement: an anytime search that begins with finished timetables and makes them better."""

from syclsched.scheduling.refine.search import default_steps, refine

__all__ = ["default_steps", "refine"]
