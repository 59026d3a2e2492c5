# SPDX-License-Identifier: Apache-2.0
"""Combined rewrite (cut, then merge), and its replay from the recipe of a plan."""

from __future__ import annotations

from typing import NoReturn
from weakref import WeakKeyDictionary

from syclsched.costs import CostModel
from syclsched.errors import IncompletePlanError, SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.model.recipe import Recipe
from syclsched.rewrites.chunking import cut
from syclsched.rewrites.coarsen import coarsen
from syclsched.rewrites.merging import merge
from syclsched.rewrites.rewrite_result import Rewrite, unchanged
from syclsched.rewrites.split import split

#: Last rewritten form of each graph, with its fingerprint and recipe, as plans are run repeatedly.
_known: WeakKeyDictionary[TaskGraph, tuple[str, Recipe, TaskGraph]] = WeakKeyDictionary()


def rewrite(graph: TaskGraph, platform: Platform, costs: CostModel) -> Rewrite:
    """Bring the tasks of a graph to a granularity that a platform runs well."""
    cut_up = split(graph, platform, costs)
    return cut_up.then(coarsen(cut_up.graph, platform, costs))


def replay(graph: TaskGraph, recipe: Recipe) -> Rewrite:
    """Rewrite a graph by an earlier recipe, such as that of a plan that is to be run."""
    cut_up = cut(graph, recipe.cuts) if recipe.cuts else unchanged(graph)
    return cut_up.then(merge(cut_up.graph, recipe.merges)) if recipe.merges else cut_up


def planned_graph(plan: Plan, graph: TaskGraph) -> TaskGraph:
    """Return the graph in the form a plan was made for."""
    fingerprint = graph.fingerprint()
    if fingerprint == plan.fingerprint:
        return graph
    if not plan.recipe or fingerprint != plan.original_fingerprint:
        raise IncompletePlanError(
            f"the plan was made for another graph than {graph.name!r}",
            where=f"plan {plan.name!r}",
            hint="Plan again for this graph and these sizes",
        )
    known = _known.get(graph)
    if known is not None and known[:2] == (fingerprint, plan.recipe):
        return known[2]
    made = _replayed(plan, graph)
    _known[graph] = (fingerprint, plan.recipe, made)
    return made


def keep_rewritten(graph: TaskGraph, found: Rewrite) -> None:
    """Keep the rewritten form of a graph for the plans made of it, so that their recipe need not be applied again."""
    _known[graph] = (graph.fingerprint(), found.recipe, found.graph)


def _replayed(plan: Plan, graph: TaskGraph) -> TaskGraph:
    """Apply a recipe that may be hostile: the result must not be larger than the plan itself."""
    chunks = sum(len(cut.tasks) * len(cut.rows) for cut in plan.recipe.cuts)
    if chunks > len(plan.tasks) + sum(len(merge.tasks) for merge in plan.recipe.merges):
        _refuse(plan, graph, f"it makes {chunks:,} chunks, more than are planned")
    try:
        made = replay(graph, plan.recipe).graph
        made.validate()
    except SyclschedError as error:
        _refuse(plan, graph, str(error), error)
    if made.fingerprint() != plan.fingerprint:
        _refuse(plan, graph, "the rewritten graph is not the planned one")
    return made


def _refuse(plan: Plan, graph: TaskGraph, why: str, cause: Exception | None = None) -> NoReturn:
    raise IncompletePlanError(
        f"its recipe does not fit graph {graph.name!r}: {why}",
        where=f"plan {plan.name!r}",
        hint="Plan again for this graph and these sizes",
    ) from cause
