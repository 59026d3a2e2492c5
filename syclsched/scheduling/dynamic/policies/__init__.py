# SPDX-License-Identifier: Apache-2.0
"""Built-in dynamic policies, one per file, and their registration."""

from __future__ import annotations

from syclsched.scheduling.dynamic.policies.central import Eager, Priority
from syclsched.scheduling.dynamic.policies.hybrid import Hybrid
from syclsched.scheduling.dynamic.policies.locality import Locality
from syclsched.scheduling.dynamic.policies.stealing import WorkStealing
from syclsched.scheduling.dynamic.policy_state import DynamicPolicy

#: The policies that need no plan, by which users know them; a new policy is added here.
DYNAMIC_POLICIES: tuple[DynamicPolicy, ...] = (Eager(), Priority(), Locality(), WorkStealing())

__all__ = ["DYNAMIC_POLICIES", "Eager", "Hybrid", "Locality", "Priority", "WorkStealing"]
