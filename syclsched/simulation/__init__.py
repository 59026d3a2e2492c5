# SPDX-License-Identifier: Apache-2.0
"""A plan on a virtual clock: when each instruction would start and finish, and what a run would look like."""

from __future__ import annotations

from syclsched.simulation.engine import Timing, time_plan
from syclsched.simulation.simulate import predict, simulate

__all__ = ["Timing", "predict", "simulate", "time_plan"]
