# SPDX-License-Identifier: Apache-2.0
"""`bind`: from a plan to what runs it many times."""

from __future__ import annotations

from typing import Any, Literal

from syclsched.execution.bound import Runner
from syclsched.execution.safeguards import USUAL, Safeguards
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan


def bind(
    plan: Plan,
    graph: TaskGraph,
    live: Any,
    *,
    trace: bool | int | Literal["exact"] = True,
    owns_devices: bool = False,
    safeguards: Safeguards = USUAL,
    recover: bool = False,
) -> Runner:
    """Verify a plan and make it ready to be run many times with new data.

    Parameters
    ----------
    plan : Plan
        From the planner, or read from a file.
    graph : TaskGraph
        The graph it was made for.
    live : LiveDevices
        The plan's devices, from `syclsched.devices.open_devices`.
    trace : bool, int or "exact", optional
        Keep times of every run for `Run.trace`, and those of the last 16, or of so many, for `Runner.traces`.
        ``"exact"`` waits for each call of a library on CPU devices, where else only all together are known to have
        ended, and share their time as they were predicted to.
    owns_devices : bool, optional
        Close ``live`` with the runner.
    safeguards : Safeguards, optional
        What its runs are watched for.
    recover : bool, optional
        Go on when a device or its runtime fails, as for `execute`. Runs after one in which a device was lost are
        planned for those that are left.

    Returns
    -------
    Runner
        Its `Runner.run` starts a run.

    Raises
    ------
    RaceError, IncompletePlanError, MemoryLimitError, DeviceNotFoundError
        As `execute`.
    """
    return Runner(plan, graph, live, trace=trace, owns_devices=owns_devices, safeguards=safeguards, recover=recover)
