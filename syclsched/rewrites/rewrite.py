# SPDX-License-Identifier: Apache-2.0
"""Combined rewrite (cut, then merge), and its replay from a recipe."""

from __future__ import annotations

from syclsched.costs import CostModel
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.model.recipe import Recipe
from syclsched.rewrites.chunking import cut
from syclsched.rewrites.coarsen import coarsen
from syclsched.rewrites.merging import merge
from syclsched.rewrites.rewrite_result import Rewrite, unchanged
from syclsched.rewrites.split import split


def rewrite(graph: TaskGraph, platform: Platform, costs: CostModel) -> Rewrite:
    """Bring the tasks of a graph to a granularity that a platform runs well."""
    cut_up = split(graph, platform, costs)
    return cut_up.then(coarsen(cut_up.graph, platform, costs))


def replay(graph: TaskGraph, recipe: Recipe) -> Rewrite:
    """Rewrite a graph by an earlier recipe, such as that of a plan that is to be run."""
    cut_up = cut(graph, recipe.cuts) if recipe.cuts else unchanged(graph)
    return cut_up.then(merge(cut_up.graph, recipe.merges)) if recipe.merges else cut_up
