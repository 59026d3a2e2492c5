# SPDX-License-Identifier: Apache-2.0
"""Dynamic execution of a task graph: a policy decides while tasks run; a coherence directory tracks the data.

- `coherence`: directory of valid copies per memory space, and the dependencies of each access. Pure.
- `layout`: tasks, array pieces, memory spaces and lanes by index. Pure.
- `capacity`: memory use per space, and the choice of eviction victims. Pure.
- `engine`: the thread of a run and its interface to other threads.
- `deciding`, `carrier`: policy decisions; data movement, submission and polling.
- `eligible`, `express`, `driving`: fast path of runs that fit into memory, decided and submitted by compiled code.
- `submitter`: submission to device queues, by the compiled loop or from Python.
- `happened`: execution log, and its conversion into a plan and records.
- `start`: starts a run of a graph.
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
