# SPDX-License-Identifier: Apache-2.0
"""Start a plan: everything that can be refused is refused here, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syclsched.errors import IncompletePlanError
from syclsched.execution.buffers import BufferTable
from syclsched.execution.dispatcher import Dispatcher
from syclsched.execution.inputs import gather_inputs
from syclsched.execution.lanes import queue_of
from syclsched.execution.program import Program
from syclsched.execution.run import Run
from syclsched.execution.work import resolve_work
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan


def execute(
    plan: Plan,
    graph: TaskGraph,
    live: Any,
    inputs: Mapping[str, Any] | None = None,
    *,
    trace: bool = True,
    owns_devices: bool = False,
) -> Run:
    """Verify a plan, start it, and return at once.

    Parameters
    ----------
    plan : Plan
        From the planner, or read from a file.
    graph : TaskGraph
        The graph it was made for: it has the operations and the data.
    live : LiveDevices
        The plan's devices, from `syclsched.devices.open_devices`.
    inputs : Mapping[str, array-like], optional
        Values of input arrays, before those given with `TaskGraph.array`. NumPy arrays are read in place, and must
        not be changed while the run goes on; they are never written to. dpnp arrays and ``usm_ndarray`` are copied
        to the host first.
    trace : bool, optional
        Keep every instruction's event for `Run.trace`.
    owns_devices : bool, optional
        Close ``live`` when the run is closed or dropped.

    Returns
    -------
    Run
        On its way.

    Raises
    ------
    RaceError, IncompletePlanError, MemoryLimitError
        If the plan must not be run, or is for another graph.
    UnknownArrayError, ArgumentError
        If inputs are missing, unknown, or of another shape or dtype.
    DeviceNotFoundError
        If the plan uses a device that ``live`` does not have.
    """
    from syclsched.planning import verify

    if plan.fingerprint != graph.fingerprint():
        raise IncompletePlanError(
            f"the plan was made for another graph than {graph.name!r}",
            where=f"plan {plan.name!r}",
            hint="Plan again for this graph and these sizes",
        )
    verify(plan, graph)
    program = Program(plan)
    work = resolve_work(program, graph)
    values = gather_inputs(plan, graph, inputs)
    queues = {lane.name: queue for lane in plan.lanes if (queue := queue_of(lane, live)) is not None}
    buffers = BufferTable(plan.platform, live, {a.name: a for a in plan.arrays}, plan.peak_bytes)
    for array in plan.arrays:
        if array.is_input:
            buffers.add_input(array.name, values[array.name], private=array.name in program.written_inputs)
    dispatcher = Dispatcher(program, work, buffers, queues, record=trace)
    joined = {name: wholes[0].parts for name, wholes in graph.joined.items() if name not in graph.arrays}
    return Run(dispatcher, live, values, owns_devices=owns_devices, joined=joined)
