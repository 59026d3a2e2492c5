# SPDX-License-Identifier: Apache-2.0
"""Graphs run live under a dynamic policy: decisions while tasks run, data followed by a directory instead of a plan.

- `coherence`: which space holds a valid copy of an array, and what must have finished before it is touched. Pure.
- `layout`: a graph and its scheduling problem as the engine walks them: tasks, pieces of arrays, lanes. Pure.
- `capacity`: memory as it is taken, given back and made room for.
- `engine`: the thread of a run, and what others ask of it.
- `deciding`, `carrier`: asks the policy; brings data, submits and notices what has completed.
- `eligible`, `express`, `driving`: what fits into its memory spaces, decided and submitted by compiled code.
- `submitter`: how work gets to its lane, by the compiled loop or from Python.
- `happened`: the run as a plan and records, for its trace.
- `start`: from a graph to a run.
"""

from __future__ import annotations

from syclsched.execution.live.start import NAMES, check_name, execute_dynamic, policy_called, run_dynamically

__all__ = ["NAMES", "check_name", "execute_dynamic", "policy_called", "run_dynamically"]
