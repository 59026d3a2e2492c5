# SPDX-License-Identifier: Apache-2.0
"""Dynamic scheduling policies: pure decisions on a run's state, and a virtual clock to simulate them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syclsched.lazy_names import lazy_names

#: Public name -> module that defines it.
_LAZY = {
    "DYNAMIC_POLICIES": "syclsched.scheduling.dynamic.policies",
    "Decision": "syclsched.scheduling.dynamic.policy_state",
    "DynamicPolicies": "syclsched.scheduling.dynamic.family",
    "DynamicPolicy": "syclsched.scheduling.dynamic.policy_state",
    "DynamicRun": "syclsched.scheduling.dynamic.outcome",
    "Eager": "syclsched.scheduling.dynamic.policies",
    "Hybrid": "syclsched.scheduling.dynamic.policies",
    "InterruptedTask": "syclsched.scheduling.dynamic.outcome",
    "LaneState": "syclsched.scheduling.dynamic.policy_state",
    "Locality": "syclsched.scheduling.dynamic.policies",
    "LoggedDecision": "syclsched.scheduling.dynamic.outcome",
    "PolicyState": "syclsched.scheduling.dynamic.policy_state",
    "Priority": "syclsched.scheduling.dynamic.policies",
    "RulePolicy": "syclsched.scheduling.dynamic.rule_policy",
    "SimulatedPolicy": "syclsched.scheduling.dynamic.family",
    "StaticInfo": "syclsched.scheduling.dynamic.policy_state",
    "UnfinishedTask": "syclsched.scheduling.dynamic.outcome",
    "WorkStealing": "syclsched.scheduling.dynamic.policies",
    "run_dynamic": "syclsched.scheduling.dynamic.virtual_clock",
}

__all__ = sorted(_LAZY)

if TYPE_CHECKING:
    from syclsched.scheduling.dynamic.family import DynamicPolicies as DynamicPolicies
    from syclsched.scheduling.dynamic.family import SimulatedPolicy as SimulatedPolicy
    from syclsched.scheduling.dynamic.outcome import DynamicRun as DynamicRun
    from syclsched.scheduling.dynamic.outcome import InterruptedTask as InterruptedTask
    from syclsched.scheduling.dynamic.outcome import LoggedDecision as LoggedDecision
    from syclsched.scheduling.dynamic.outcome import UnfinishedTask as UnfinishedTask
    from syclsched.scheduling.dynamic.policies import DYNAMIC_POLICIES as DYNAMIC_POLICIES
    from syclsched.scheduling.dynamic.policies import Eager as Eager
    from syclsched.scheduling.dynamic.policies import Hybrid as Hybrid
    from syclsched.scheduling.dynamic.policies import Locality as Locality
    from syclsched.scheduling.dynamic.policies import Priority as Priority
    from syclsched.scheduling.dynamic.policies import WorkStealing as WorkStealing
    from syclsched.scheduling.dynamic.policy_state import Decision as Decision
    from syclsched.scheduling.dynamic.policy_state import DynamicPolicy as DynamicPolicy
    from syclsched.scheduling.dynamic.policy_state import LaneState as LaneState
    from syclsched.scheduling.dynamic.policy_state import PolicyState as PolicyState
    from syclsched.scheduling.dynamic.policy_state import StaticInfo as StaticInfo
    from syclsched.scheduling.dynamic.rule_policy import RulePolicy as RulePolicy
    from syclsched.scheduling.dynamic.virtual_clock import run_dynamic as run_dynamic

__getattr__ = lazy_names(__name__, _LAZY)
