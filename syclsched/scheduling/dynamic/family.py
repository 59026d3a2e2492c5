# SPDX-License-Identifier: Apache-2.0
"""Dynamic policies as static ones: their schedule if all tasks take their estimated time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syclsched.errors import PolicyError, did_you_mean
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable

# The policies and the clock are imported when they are used: listing the policies does not run them.
if TYPE_CHECKING:
    from syclsched.scheduling.dynamic.policy_state import DynamicPolicy

#: In larger problems ``auto`` leaves these policies out: the loop is not compiled.
_MAX_TASKS = 200


@dataclass(frozen=True, slots=True)
class SimulatedPolicy:
    """A dynamic policy on a virtual clock with exact estimates."""

    policy: DynamicPolicy  # the dynamic policy

    @property
    def name(self) -> str:
        """Name that users type."""
        return f"dynamic:{self.policy.name}"

    def schedule(self, problem: Problem) -> Timetable:
        """Return the timetable of the policy's run."""
        from syclsched.scheduling.dynamic.virtual_clock import run_dynamic

        return run_dynamic(problem, self.policy).timetable


@dataclass(frozen=True, slots=True)
class DynamicPolicies:
    """``dynamic:eager``, ``dynamic:priority``, ``dynamic:dmdas`` and ``dynamic:stealing``."""

    prefix: str = "dynamic"
    argument: str = "POLICY"

    def members(self, problem: Problem) -> tuple[str, ...]:
        """Return the full names of the members that suit a problem: none for a large one."""
        if len(problem) > _MAX_TASKS:
            return ()
        from syclsched.scheduling.dynamic.policies import DYNAMIC_POLICIES

        return tuple(f"{self.prefix}:{policy.name}" for policy in DYNAMIC_POLICIES)

    def make(self, argument: str) -> SimulatedPolicy:
        """Return the policy for an argument."""
        from syclsched.scheduling.dynamic.policies import DYNAMIC_POLICIES

        for policy in DYNAMIC_POLICIES:
            if policy.name == argument:
                return SimulatedPolicy(policy)
        names = ", ".join(policy.name for policy in DYNAMIC_POLICIES)
        meant = did_you_mean(argument, (policy.name for policy in DYNAMIC_POLICIES))
        raise PolicyError(f"no dynamic policy {argument!r}", where="policy", hint=f"{meant}There are {names}")
