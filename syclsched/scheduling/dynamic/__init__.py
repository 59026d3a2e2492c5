# SPDX-License-Identifier: Apache-2.0
"""Dynamic scheduling policies: pure decisions on a run's state, and a virtual clock to simulate them."""

from __future__ import annotations

from syclsched.scheduling.dynamic.family import DynamicPolicies, SimulatedPolicy
from syclsched.scheduling.dynamic.outcome import DynamicRun, InterruptedTask, LoggedDecision, UnfinishedTask
from syclsched.scheduling.dynamic.policies import DYNAMIC_POLICIES, Eager, Hybrid, Locality, Priority, WorkStealing
from syclsched.scheduling.dynamic.policy_state import Decision, DynamicPolicy, LaneState, PolicyState, StaticInfo
from syclsched.scheduling.dynamic.rule_policy import RulePolicy
from syclsched.scheduling.dynamic.virtual_clock import run_dynamic

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
    "RulePolicy",
    "SimulatedPolicy",
    "StaticInfo",
    "UnfinishedTask",
    "WorkStealing",
    "run_dynamic",
]
