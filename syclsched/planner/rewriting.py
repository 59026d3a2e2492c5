# SPDX-License-Identifier: Apache-2.0
"""Whether a graph is planned as it is, or with its tasks merged and cut first; and which of the two plans is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from syclsched.costs import CostModel, History
from syclsched.errors import PlanError, PolicyError, SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Candidate, Plan
from syclsched.model.platform import Platform
from syclsched.planner.attempt import Attempt, Request, attempt
from syclsched.planner.budget import Budget
from syclsched.rewrites import Rewrite, coarsen, rewrite, split
from syclsched.rewrites.record import unchanged
from syclsched.scheduling.registry import AUTO

#: What is said for planning a graph as it is.
NONE: Final = "none"

_WAYS: Final[dict[str, Callable[[TaskGraph, Platform, CostModel], Rewrite]]] = {
    "coarsen": coarsen, "split": split, "both": rewrite,
}  # fmt: skip

#: What ``rewrite`` of `plan_graph` can be.
REWRITES: Final = (AUTO, NONE, *_WAYS)

#: The search for the second plan of `auto` gets this part of the default steps: two should not take twice as long.
_PART = 0.25


def check_rewrite(name: str) -> str:
    """Return the name of a way to rewrite, or raise `PolicyError` if it is none."""
    if name not in REWRITES:
        raise PolicyError(f"there is no rewrite {name!r}", where="rewrite", hint=f"One of {', '.join(REWRITES)}")
    return name


def plan_rewritten(graph: TaskGraph, request: Request, budget: Budget, how: str) -> Plan:
    """Plan a graph as it is, rewritten, or both ways to keep the better one."""
    if not _wanted(how, request.policy):
        return attempt(graph, request, budget).finished()
    if how != AUTO:
        found = _WAYS[how](graph, request.platform, request.costs)
        planned = attempt(found.graph, request, budget).finished()
        return stamped(planned, graph, found)
    try:
        found = rewrite(graph, request.platform, request.costs)
    except SyclschedError as error:  # what an operation says of its chunks may be wrong; whole, it can be planned
        plan = attempt(graph, request, budget).finished()
        return _with(plan, Candidate("rewritten", None, str(error)))
    if not found.changed:
        return attempt(graph, request, budget).finished()
    return _better(graph, found, request, budget)


def ways(graph: TaskGraph, platform: Platform, costs: CostModel, how: str) -> tuple[Rewrite, ...]:
    """Return what is to be planned: the graph as it is, rewritten, or with ``auto`` both if they differ."""
    whole = unchanged(graph)
    if how == NONE:
        return (whole,)
    if how != AUTO:
        return (_WAYS[how](graph, platform, costs),)
    try:
        found = rewrite(graph, platform, costs)
    except SyclschedError:  # as above
        return (whole,)
    return (whole, found) if found.changed else (whole,)


def graph_to_time(
    graph: TaskGraph, platform: Platform, *, policy: str = AUTO, rewrite: str = AUTO, history: History | None = None
) -> TaskGraph | None:
    """Return the graph with the chunks that planning would look at, so that these can be timed, too.

    Tasks that are merged need no timing of their own: they take what their steps take.
    """
    if not _wanted(check_rewrite(rewrite), policy) or rewrite == "coarsen":
        return None
    graph.validate()
    try:
        found = split(graph, platform, CostModel(platform, history))
    except SyclschedError:
        if rewrite == AUTO:  # planning passes it over, and says why
            return None
        raise
    return found.graph if found.changed else None


# --- inside ---------------------------------------------------------------------------------------


def _wanted(how: str, policy: str) -> bool:
    """Return whether anything is to be rewritten: a named policy gets the graph as it is, unless more is said."""
    return how != NONE and (how != AUTO or policy == AUTO)


def _better(graph: TaskGraph, found: Rewrite, request: Request, budget: Budget) -> Plan:
    """Plan both, and return the better."""
    original, refusal = None, None
    try:
        original = attempt(graph, request, budget.part(0.5))
    except PlanError as error:
        refusal = error
    try:
        changed = attempt(found.graph, request, budget.reduced(len(found.graph), _PART))
    except (PlanError, PolicyError) as error:
        if original is None:
            raise refusal or error from None
        return _with(original.finished(), Candidate(f"rewritten ({found.recipe})", None, str(error)))
    if original is None:
        return _with(stamped(changed.finished(), graph, found), Candidate("not rewritten", None, str(refusal)))
    if changed.better_than(original):
        return _with(stamped(changed.finished(), graph, found), _other(original, "not rewritten"))
    return _with(original.finished(), _other(changed, f"rewritten ({found.recipe})"))


def _other(loser: Attempt, what: str) -> Candidate:
    return Candidate(f"{what}, {loser.plan.policy}", loser.plan.makespan_s)


def _with(plan: Plan, candidate: Candidate) -> Plan:
    return replace(plan, candidates=(*plan.candidates, candidate))


def stamped(plan: Plan, graph: TaskGraph, found: Rewrite) -> Plan:
    """Return the plan of a rewritten graph as one of the original."""
    if not found.changed:
        return plan
    return replace(plan, recipe=found.recipe, original_fingerprint=graph.fingerprint())
