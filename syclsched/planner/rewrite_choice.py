# SPDX-License-Identifier: Apache-2.0
"""Choice between a graph as it is and its rewritten form, by comparing their plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from syclsched.costs import CostModel, History
from syclsched.errors import PlanError, PolicyError, SyclschedError, did_you_mean
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Candidate, Plan
from syclsched.model.platform import Platform
from syclsched.planner.contest import Rival, contenders
from syclsched.rewrites import Rewrite, coarsen, keep_rewritten, rewrite, split
from syclsched.rewrites.rewrite_result import unchanged
from syclsched.scheduling.registry import AUTO

if TYPE_CHECKING:
    from syclsched.planner.attempt import Attempt, PlanTarget
    from syclsched.planner.search_budget import SearchBudget

#: Name of the choice to plan a graph as it is.
NONE: Final = "none"

_WAYS: Final[dict[str, Callable[[TaskGraph, Platform, CostModel], Rewrite]]] = {
    "coarsen": coarsen, "split": split, "both": rewrite,
}  # fmt: skip

#: Choices for ``rewrite`` of `plan_graph`.
REWRITES: Final = (AUTO, NONE, *_WAYS)

#: Share of the default steps for the search on the rewritten graph: planning both must not take twice as long.
_PART = 0.25


def check_rewrite(name: str) -> str:
    """Return the name of a rewrite; raise `PolicyError` if it is unknown."""
    if name not in REWRITES:
        raise PolicyError(
            f"there is no rewrite {name!r}",
            where="rewrite",
            hint=did_you_mean(name, REWRITES) + f"One of {', '.join(REWRITES)}",
        )
    return name


def plan_rewritten(graph: TaskGraph, request: PlanTarget, budget: SearchBudget, how: str) -> tuple[Plan, ...]:
    """Plan a graph as it is, rewritten, or both and keep the better plan; return it and its rivals."""
    from syclsched.planner.attempt import attempt  # all policies and passes, which a kept plan does not need

    if not _wanted(how, request.policy):
        made = attempt(graph, request, budget)
        return _with_rivals(made.finished(), graph, request.most, (made, None))
    if how != AUTO:
        found = _WAYS[how](graph, request.platform, request.costs)
        made = attempt(found.graph, request, budget)
        return _with_rivals(with_recipe(made.finished(), graph, found), graph, request.most, (made, found))
    try:
        found = rewrite(graph, request.platform, request.costs)
    except SyclschedError as error:  # an operation's split may be wrong; uncut, the graph can be planned
        made = attempt(graph, request, budget)
        plan = _with(made.finished(), Candidate("rewritten", None, str(error)))
        return _with_rivals(plan, graph, request.most, (made, None))
    if not found.changed:
        made = attempt(graph, request, budget)
        return _with_rivals(made.finished(), graph, request.most, (made, None))
    return _better(graph, found, request, budget)


def graph_variants(graph: TaskGraph, platform: Platform, costs: CostModel, how: str) -> tuple[Rewrite, ...]:
    """Return the variants of a graph to plan: as it is, rewritten, or with ``auto`` both if they differ."""
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
    """Return the graph with the chunks that planning would consider, so that these can be measured, too.

    Merged tasks need no measurement: they take the sum of their steps.
    """
    if not _wanted(check_rewrite(rewrite), policy) or rewrite == "coarsen":
        return None
    graph.validate()
    try:
        found = split(graph, platform, CostModel(platform, history))
    except SyclschedError:
        if rewrite == AUTO:  # planning ignores the rewrite, too, and reports why
            return None
        raise
    return found.graph if found.changed else None


# --- inside ---------------------------------------------------------------------------------------


def _wanted(how: str, policy: str) -> bool:
    """Return whether to rewrite: with ``auto``, a named policy gets the graph as it is."""
    return how != NONE and (how != AUTO or policy == AUTO)


def _better(graph: TaskGraph, found: Rewrite, request: PlanTarget, budget: SearchBudget) -> tuple[Plan, ...]:
    """Plan both variants; return the better plan and its rivals."""
    from syclsched.planner.attempt import attempt  # all policies and passes, which a kept plan does not need

    original, refusal = None, None
    try:
        original = attempt(graph, request, budget.part(0.5))
    except PlanError as error:
        refusal = error
    try:
        changed = attempt(found.graph, request, budget.reduced(_PART))
    except (PlanError, PolicyError) as error:
        if original is None:
            raise refusal or error from None
        plan = _with(original.finished(), Candidate(f"rewritten ({found.recipe})", None, str(error)))
        return _with_rivals(plan, graph, request.most, (original, None))
    if original is None:
        plan = _with(with_recipe(changed.finished(), graph, found), Candidate("not rewritten", None, str(refusal)))
        return _with_rivals(plan, graph, request.most, (changed, found))
    both = (original, None), (changed, found)
    if changed.better_than(original):
        plan = _with(with_recipe(changed.finished(), graph, found), _other(original, "not rewritten"))
    else:
        plan = _with(original.finished(), _other(changed, f"rewritten ({found.recipe})"))
    return _with_rivals(plan, graph, request.most, *both)


def _with_rivals(best: Plan, graph: TaskGraph, most: int, *made: tuple[Attempt, Rewrite | None]) -> tuple[Plan, ...]:
    """Return the best plan, and those others of all attempts that may turn out to be faster, at most ``most``."""
    rivals: list[Rival] = []
    known: dict[int, tuple[Attempt, Rewrite | None]] = {}
    uncertainty = 0.0
    for tried, found in made:
        is_own = tried.plan.fingerprint == best.fingerprint
        uncertainty = tried.builder.uncertainty(tried.plan) if most > 1 and is_own else uncertainty
        for plan, worth_s in tried.rivals.kept():
            known[id(plan)] = tried, found
            rivals.append(Rival(plan, worth_s, tried.builder.uncertainty(plan)))
    chosen = contenders(best, uncertainty, rivals, most)
    others = []
    for plan in chosen:
        tried, found = known[id(plan)]
        shared = best if tried.plan.fingerprint == best.fingerprint else None
        finished = tried.finished_rival(plan, shared)
        others.append(finished if found is None else with_recipe(finished, graph, found))
    return best, *others


def _other(loser: Attempt, what: str) -> Candidate:
    return Candidate(f"{what}, {loser.plan.policy}", loser.plan.makespan_s)


def _with(plan: Plan, candidate: Candidate) -> Plan:
    return replace(plan, candidates=(*plan.candidates, candidate))


def with_recipe(plan: Plan, graph: TaskGraph, found: Rewrite) -> Plan:
    """Return the plan of a rewritten graph with its recipe, as a plan of the original."""
    if not found.changed:
        return plan
    keep_rewritten(graph, found)
    return replace(plan, recipe=found.recipe, original_fingerprint=graph.fingerprint())
