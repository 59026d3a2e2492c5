# SPDX-License-Identifier: Apache-2.0
"""A plan on a virtual clock: when each instruction would start and finish, and what a run would look like."""

from __future__ import annotations

from syclsched.simulation.disturbances import Failure, Noise, SlowDown
from syclsched.simulation.program import flatten
from syclsched.simulation.simulate import predict, simulate
from syclsched.simulation.timing import Timing, makespan_s, time_machine, time_plan

__all__ = [
    "Failure",
    "Noise",
    "SlowDown",
    "Timing",
    "flatten",
    "makespan_s",
    "predict",
    "simulate",
    "time_machine",
    "time_plan",
]
