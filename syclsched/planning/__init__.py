# SPDX-License-Identifier: Apache-2.0
"""Planning passes: a schedule becomes an executable plan with copies, memory, waits and a verification.

`build` runs the passes: `order`, `transfers` (or `evicting`, if memory is short), `prefetch`, `liveness`, `hazards`,
`reduction`. `verification` checks any plan, independently of how it was made.
"""

from __future__ import annotations

from syclsched.planning.build import build_plan
from syclsched.planning.synchronisation.graph_reduction import transitive_reduction
from syclsched.planning.verification.verification import verify

__all__ = ["build_plan", "transitive_reduction", "verify"]
