# SPDX-License-Identifier: Apache-2.0
"""Start of a dynamic run; all validation happens here, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syclsched.costs import CostModel, History
from syclsched.costs.capability import platform_for_all
from syclsched.errors import PolicyError, did_you_mean
from syclsched.execution.core.history_feed import FEED
from syclsched.execution.core.safeguards import DEFAULT_SAFEGUARDS, Safeguards
from syclsched.execution.core.work import argument_rows
from syclsched.execution.dispatch.prepared import PreparedPlan
from syclsched.execution.dynamic.data.indexed_graph import IndexedGraph
from syclsched.execution.dynamic.dynamic_engine import DynamicEngine
from syclsched.execution.dynamic.learning import Learn, record_in_history
from syclsched.execution.dynamic.submission.dynamic_program import empty_plan
from syclsched.execution.dynamic.submission.finished_run import FinishedRun
from syclsched.execution.dynamic.submission.tasks import TaskWork
from syclsched.execution.handle.run import Run
from syclsched.execution.lanes.lanes import queue_of
from syclsched.execution.memory.buffers import BufferTable
from syclsched.execution.memory.inputs import gather_inputs
from syclsched.execution.recovery.run_start import start_run
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Lane, Plan
from syclsched.model.platform import HOST, Platform
from syclsched.planning import verify
from syclsched.progress import Progress
from syclsched.rewrites import planned_graph
from syclsched.scheduling import build_problem
from syclsched.scheduling.dynamic import DYNAMIC_POLICIES, DynamicPolicy, Hybrid
from syclsched.scheduling.dynamic.plan_timetable import timetable_of
from syclsched.scheduling.problem import Problem, with_reserved_lanes

if TYPE_CHECKING:
    from syclsched.devices.opened_devices import OpenDevices

#: Names of dynamic policies.
NAMES = (*(policy.name for policy in DYNAMIC_POLICIES), "hybrid")


def check_name(name: str) -> None:
    """Raise `PolicyError` if a name is not a dynamic policy."""
    if name not in NAMES:
        hint = f"{did_you_mean(name, NAMES)}There are {', '.join(NAMES)}"
        raise PolicyError(f"no dynamic policy {name!r}", where="dynamic", hint=hint)


def policy_by_name(name: str) -> DynamicPolicy:
    """Return the dynamic policy of this name; it must be one that needs no plan."""
    check_name(name)
    return next(policy for policy in DYNAMIC_POLICIES if policy.name == name)


@dataclass(frozen=True, slots=True)
class PreparedDynamic:
    """A graph with the problem and the policy that decide its runs."""

    graph: TaskGraph  # in the form of the plan, if there is one
    problem: Problem
    policy: DynamicPolicy


def prepare_dynamic(
    graph: TaskGraph, platform: Platform, name: str, *, plan: Plan | None = None, history: History | None = None
) -> PreparedDynamic:
    """Prepare runs of a graph under a dynamic policy by its name.

    A plan says the form of the graph, the number of host lanes, and the tasks that exchange data with other machines:
    these keep their lanes, and have them alone. Only the hybrid policy follows the rest of it.
    """
    check_name(name)
    asked = graph if plan is None else planned_graph(plan, graph)
    if plan is not None:
        platform = platform.with_host_lanes(plan.platform.host.lanes)  # `auto` chooses their number
    platform = platform_for_all(asked, platform)
    problem = build_problem(asked, platform, CostModel(platform, history))
    if plan is not None:
        host, placed = plan.platform.host, plan.schedule.assignments
        reserved = range(host.lanes - host.message_lanes, host.lanes)
        messages = {each.task: each.lane for each in placed if each.device == host.name and each.lane in reserved}
        problem = with_reserved_lanes(problem, host.name, reserved, messages)
    if name != "hybrid":
        return PreparedDynamic(asked, problem, policy_by_name(name))
    if plan is None:
        raise PolicyError("there is no plan to follow", where="dynamic", hint="Make one with syclsched.plan()")
    verify(plan, graph)
    return PreparedDynamic(asked, problem, Hybrid(timetable_of(problem, plan.schedule)))


def run_dynamically(
    graph: TaskGraph,
    devices: OpenDevices,
    name: str,
    inputs: Mapping[str, Any] | None = None,
    *,
    plan: Plan | None = None,
    history: History | None = None,
    owns_devices: bool = False,
    safeguards: Safeguards = DEFAULT_SAFEGUARDS,
    learn: bool = True,
    recover: bool = False,
    progress: Progress | bool | None = False,
) -> Run:
    """Start a graph under a dynamic policy by its name, and return at once."""
    if learn:
        FEED.begin()
    prepared = prepare_dynamic(graph, devices.platform, name, plan=plan, history=history)
    return execute_dynamic(
        prepared.graph,
        prepared.problem,
        devices,
        prepared.policy,
        inputs,
        owns_devices=owns_devices,
        safeguards=safeguards,
        learn=record_in_history if learn else None,
        recover=recover,
        progress=progress,
    )


def execute_dynamic(
    graph: TaskGraph,
    problem: Problem,
    devices: OpenDevices,
    policy: DynamicPolicy,
    inputs: Mapping[str, Any] | None = None,
    *,
    trace: bool = True,
    owns_devices: bool = False,
    memory_limits: Mapping[str, int] | None = None,
    safeguards: Safeguards = DEFAULT_SAFEGUARDS,
    learn: Learn | None = None,
    recover: bool = False,
    progress: Progress | bool | None = False,
) -> Run:
    """Start a graph under a dynamic policy, and return at once."""
    graph.validate()
    lanes = sum(problem.devices[device] == HOST for device, _ in problem.processors)
    platform = platform_for_all(graph, devices.platform.with_host_lanes(lanes))
    layout = IndexedGraph(graph, problem, platform)
    work = TaskWork(layout)
    empty = empty_plan(layout, policy.name)
    values = gather_inputs(empty, graph, inputs)
    given = memory_limits or {}
    limits = {s.name: given.get(s.name, s.capacity_bytes if s.name != HOST else 0) for s in platform.spaces}
    buffers = BufferTable(platform, devices, {a.name: a for a in empty.arrays}, argument_rows(graph), layout.memory)
    written = {layout.arrays[layout.array_of[t.piece]].name for ts in layout.touches for t in ts if t.writes}
    for array in layout.arrays:
        if array.is_input:
            buffers.add_input(array.name, values[array.name], private=array.name in written)
    queues = {
        index: queue
        for index, lane in enumerate(layout.lanes)
        if (queue := queue_of(Lane(lane.name, lane.device, lane.kind), devices)) is not None
    }
    engine = DynamicEngine(
        layout, policy, work, buffers, queues, [limits.get(name, 0) for name in layout.spaces],
        record=trace, learn=learn if safeguards.measurable else None,
        sharing=safeguards if safeguards.takes_turns else None,
    )  # fmt: skip
    engine.progress = progress
    deadlines_s = {
        number: deadline_s
        for number, planned in enumerate(layout.tasks)
        if (deadline_s := graph.find_task(planned.name).deadline_s) is not None
    }

    def conclude() -> tuple[FinishedRun, PreparedPlan]:
        ended = engine.ended()
        return ended, PreparedPlan(ended.program.plan, graph, ended.program, {})

    return start_run(
        engine,
        PreparedPlan(empty, graph, engine.program, {}),
        devices,
        values,
        owns_devices=owns_devices,
        safeguards=safeguards,
        deadlines_s=deadlines_s,
        recover=recover,
        conclude=conclude,
    )
