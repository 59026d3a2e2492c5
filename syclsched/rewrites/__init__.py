# SPDX-License-Identifier: Apache-2.0
"""Graph rewrites that bring tasks to a granularity a platform runs well: tiny ones merged, large ones cut.

Public are the names in ``__all__``; the modules are Internal.
"""

from syclsched.model.recipe import Cut, Merge, Recipe
from syclsched.rewrites.coarsen import coarsen
from syclsched.rewrites.rewrite import keep_rewritten, planned_graph, replay, rewrite
from syclsched.rewrites.rewrite_result import Rewrite, RewriteCounters
from syclsched.rewrites.split import split

__all__ = [
    "Cut",
    "Merge",
    "Recipe",
    "Rewrite",
    "RewriteCounters",
    "coarsen",
    "keep_rewritten",
    "planned_graph",
    "replay",
    "rewrite",
    "split",
]
