# SPDX-License-Identifier: Apache-2.0
"""Simulation of a plan on a virtual clock: predicted times of its instructions, and traces."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
