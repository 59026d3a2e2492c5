# SPDX-License-Identifier: Apache-2.0
"""Dynamic scheduling policies: pure decisions on a run's state, and a virtual clock to simulate them."""

from __future__ import annotations

from syclsched.scheduling.dynamic.central import Eager, Priority
from syclsched.scheduling.dynamic.family import DYNAMIC_POLICIES, DynamicPolicies, SimulatedPolicy
from syclsched.scheduling.dynamic.hybrid import Hybrid
from syclsched.scheduling.dynamic.locality import Locality
from syclsched.scheduling.dynamic.loop import run_dynamic
from syclsched.scheduling.dynamic.outcome import DynamicRun, InterruptedTask, LoggedDecision, UnfinishedTask
from syclsched.scheduling.dynamic.policy_state import Decision, DynamicPolicy, LaneState, PolicyState, StaticInfo
from syclsched.scheduling.dynamic.stealing import WorkStealing

__all__ = [
    "DYNAMIC_POLICIES",
    "Decision",
    "DynamicPolicies",
    "DynamicPolicy",
    "DynamicRun",
    "Eager",
    "Hybrid",
    "InterruptedTask",
    "LaneState",
    "Locality",
    "LoggedDecision",
    "PolicyState",
    "Priority",
    "SimulatedPolicy",
    "StaticInfo",
    "UnfinishedTask",
    "WorkStealing",
    "run_dynamic",
]
