# SPDX-License-Identifier: Apache-2.0
"""Loop of a run under a dynamic policy, on any clock.

The virtual clock (`syclsched.scheduling.dynamic.virtual_clock`) starts tasks by modelled times; a live run
(`syclsched.execution.dynamic.live_clock`) submits them to devices and polls their completion. The loop for compiled
policies has the same steps in machine code (`syclsched.scheduling.dynamic.compiled.policy_turn`).
"""

from __future__ import annotations

from typing import Protocol

from syclsched.errors import PolicyError
from syclsched.scheduling.dynamic.policy_state import DynamicPolicy
from syclsched.scheduling.dynamic.state_tracker import StateTracker


class Clock(Protocol):
    """Time of a run, and the execution of its tasks."""

    def advance(self, progressed: bool) -> bool:
        """Advance to the next change of the state and record it; return False at the end of the run.

        ``progressed`` is whether decisions were carried out since the last call.
        """

    def accepts_tasks(self) -> bool:
        """Return whether decisions can be carried out now."""

    def bind(self, task: int, processor: int) -> None:
        """Put a task into a lane's queue."""

    def start(self, task: int, processor: int) -> None:
        """Start a task on a lane."""


def run_policy(policy: DynamicPolicy, tracker: StateTracker, clock: Clock) -> None:
    """Carry out decisions until there are none, whenever the state has changed."""
    progressed = False
    while clock.advance(progressed):
        progressed = False
        while clock.accepts_tasks() and (decisions := policy.decide(tracker.state)):
            progressed = True
            for decision in decisions:
                if fault := tracker.fault_of(decision):
                    raise PolicyError(fault, where=f"policy {policy.name!r}")
                (clock.start if decision.start else clock.bind)(decision.task, decision.processor)
