# SPDX-License-Identifier: Apache-2.0
"""Dynamic scheduling policies: pure decisions on a run's state, and a virtual clock to simulate them."""

from __future__ import annotations

from syclsched.scheduling.dynamic.central import Eager, Priority
from syclsched.scheduling.dynamic.family import DYNAMIC_POLICIES, DynamicPolicies, Foreseen
from syclsched.scheduling.dynamic.hybrid import Hybrid
from syclsched.scheduling.dynamic.locality import Locality
from syclsched.scheduling.dynamic.loop import run_dynamic
from syclsched.scheduling.dynamic.outcome import DynamicRun, Interrupted, Logged, Undone
from syclsched.scheduling.dynamic.state import Decision, DynamicPolicy, Known, Lane, State
from syclsched.scheduling.dynamic.stealing import WorkStealing

__all__ = [
    "DYNAMIC_POLICIES",
    "Decision",
    "DynamicPolicies",
    "DynamicPolicy",
    "DynamicRun",
    "Eager",
    "Foreseen",
    "Hybrid",
    "Interrupted",
    "Known",
    "Lane",
    "Locality",
    "Logged",
    "Priority",
    "State",
    "Undone",
    "WorkStealing",
    "run_dynamic",
]
