# SPDX-License-Identifier: Apache-2.0
"""From a schedule to an executable plan: transfers, memory, hazards, reduction to few waits, verification.

Each pass is a file: `order` -> `transfers` (with `residency`, under memory limits) -> `liveness` -> `hazards` ->
`reduction`, put together by `build`; `verification` checks any plan independently of how it was made.
"""

from __future__ import annotations

from syclsched.planning.build import build_plan
from syclsched.planning.closure import transitive_reduction
from syclsched.planning.verification import verify

__all__ = ["build_plan", "transitive_reduction", "verify"]
