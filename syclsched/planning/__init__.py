# SPDX-License-Identifier: Apache-2.0
"""Planning passes: a schedule becomes an executable plan with copies, memory, waits and a verification.

`build` runs the passes: `order`, `transfers` (with evictions and recomputation, if memory is short),
`transfers.prefetch`, `memory.liveness`, `synchronisation.hazards`, `synchronisation.wait_reduction`. `verification`
checks any plan, independently of how it was made.

Public are the names in ``__all__``; the modules are Internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syclsched.lazy_names import lazy_names

#: Public name -> module that defines it: a kept plan is only verified.
_LAZY = {
    "build_plan": "syclsched.planning.build",
    "transitive_reduction": "syclsched.planning.synchronisation.graph_reduction",
    "verify": "syclsched.planning.verification.verification",
}

__all__ = sorted(_LAZY)

if TYPE_CHECKING:
    from syclsched.planning.build import build_plan as build_plan
    from syclsched.planning.synchronisation.graph_reduction import transitive_reduction as transitive_reduction
    from syclsched.planning.verification.verification import verify as verify

__getattr__ = lazy_names(__name__, _LAZY)
