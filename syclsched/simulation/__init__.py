# SPDX-License-Identifier: Apache-2.0
"""Simulation of a plan on a virtual clock: predicted times of its instructions, and traces.

Public are the names in ``__all__``; the modules are Internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syclsched.lazy_names import lazy_names
from syclsched.simulation.disturbances import Event, Failure, SlowDown
from syclsched.simulation.machine_builder import flatten
from syclsched.simulation.simulate import predict, simulate
from syclsched.simulation.timing import Timing, makespan_s, time_machine, time_plan

if TYPE_CHECKING:
    from syclsched.simulation.noise import Noise
    from syclsched.simulation.trials import Disturbance, Trial, Trials, repeat

__all__ = [
    "Disturbance",
    "Event",
    "Failure",
    "Noise",
    "SlowDown",
    "Timing",
    "Trial",
    "Trials",
    "flatten",
    "makespan_s",
    "predict",
    "repeat",
    "simulate",
    "time_machine",
    "time_plan",
]

#: Names that a prediction does not need, with their modules.
_LAZY = {
    "Disturbance": "syclsched.simulation.trials",
    "Noise": "syclsched.simulation.noise",
    "Trial": "syclsched.simulation.trials",
    "Trials": "syclsched.simulation.trials",
    "repeat": "syclsched.simulation.trials",
}

__getattr__ = lazy_names(__name__, _LAZY)
