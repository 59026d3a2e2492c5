# SPDX-License-Identifier: Apache-2.0
"""Dynamic execution of a task graph: a policy decides while tasks run; a coherence directory tracks the data.

- `data/`: coherence directory, indices of arrays and lanes, memory capacity and evictions, transfers on demand.
- `submission/`: submission of tasks and copies, failure propagation, the execution log and its conversion into a plan.
- `compiled/`: the fast path of runs that fit into memory, decided and submitted by compiled code.
- `dynamic_engine`, `live_clock`: the thread of a run, and its clock where a policy decides in Python.
- `dynamic_start`, `dynamic_runner`: start of a run, and repeated runs.

Public are the names in ``__all__``; the modules are Internal.
"""

from __future__ import annotations

from syclsched.execution.dynamic.dynamic_start import (
    NAMES,
    check_name,
    execute_dynamic,
    policy_by_name,
    run_dynamically,
)

__all__ = ["NAMES", "check_name", "execute_dynamic", "policy_by_name", "run_dynamically"]
