# SPDX-License-Identifier: Apache-2.0
"""Summary of a plan as a JSON document."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from syclsched.cli.documents import CandidateEntry, InstructionEntry, PlanDocument, TrialEntry, entry_of

if TYPE_CHECKING:
    from syclsched.model.plan import Instruction, Lane, Plan

#: Instructions that take no time of a lane.
_HOST_WORK = ("alloc", "free")


def plan_document(plan: Plan, explained: Iterable[str]) -> PlanDocument:
    """Return the summary of a plan, with explanations of the given tasks."""
    pairs = sorted(plan.instructions(), key=lambda pair: pair[1].id)
    return PlanDocument(
        plan.name, len(plan.tasks), plan.policy, plan.aim, plan.platform.name, str(plan.recipe) or None,
        plan.expected_s, plan.makespan_s, plan.lower_bound_s or None, plan.gap, plan.interval_s, plan.energy_j,
        dict(plan.peak_bytes), asdict(plan.counters), candidate_entries(plan), trial_entries(plan),
        [_instruction(lane, each) for lane, each in pairs if each.kind not in _HOST_WORK],
        {task: plan.explain(task) for task in explained},
    )  # fmt: skip


def candidate_entries(plan: Plan) -> list[CandidateEntry]:
    """Return the plans that were considered."""
    return [entry_of(CandidateEntry, each) for each in plan.candidates]


def trial_entries(plan: Plan) -> list[TrialEntry]:
    """Return the plans that runs have tried."""
    return [entry_of(TrialEntry, each) for each in plan.trials]


def _instruction(lane: Lane, each: Instruction) -> InstructionEntry:
    arrays = list(dict.fromkeys(use.array for use in each.uses))
    return InstructionEntry(
        each.id, lane.name, lane.device, each.kind, each.task, each.implementation, arrays, each.start_s,
        each.finish_s, each.nbytes,
    )  # fmt: skip
