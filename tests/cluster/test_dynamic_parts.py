# SPDX-License-Identifier: Apache-2.0
"""Parts of plans under dynamic policies, on several machines with one virtual clock: no deadlock, no needless wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syclsched.cluster.parts import DividedPlan, Message, divide, platform_of
from syclsched.cluster.platforms import NetworkPath, joined
from syclsched.execution.dynamic.dynamic_start import PreparedDynamic, prepare_dynamic
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST
from syclsched.planning import build_plan
from syclsched.scheduling.dynamic import Decision, DynamicRun, PolicyState, StaticInfo, run_dynamic
from syclsched.scheduling.dynamic.static_info import static_info_of
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.tables import NOTHING
from syclsched.simulation import predict
from tests.support.examples import examples
from tests.support.running import TWO_DEVICES, graphs, plan_by, plans

MACHINES = ("one", "two", "three")
PATHS = [NetworkPath(*pair, 1e-4, 1e9) for pair in permutations([HOST, *MACHINES], 2)]
MACHINE = replace(TWO_DEVICES, spaces=tuple(replace(s, capacity_bytes=10**9) for s in TWO_DEVICES.spaces))
THREE = joined(dict.fromkeys(MACHINES, MACHINE), PATHS)
POLICIES = ("eager", "priority", "dmdas", "stealing", "hybrid", "queues")
#: A time later than the end of every wait that ends.
NEVER_S = 1e6


@dataclass(frozen=True)
class Queues:
    """A policy of another package that queues every task at once, on the last lane that can run it."""

    name: str = "queues"
    sorts_queues: bool = False

    def prepare(self, problem: Problem) -> StaticInfo:
        return static_info_of(problem, [problem.tables.priority])

    def decide(self, state: PolicyState) -> list[Decision]:
        lanes = range(len(state.lanes) - 1, -1, -1)
        for task in state.ready:
            lane = next(p for p in lanes if state.can_run(task, state.known.device_of[p]))
            return [Decision(task, lane, start=False)]
        return [
            Decision(lane.queue[0], p, start=True)
            for p, lane in enumerate(state.lanes)
            if lane.queue and lane.running == NOTHING
        ]


def exchange(data: Any = None, *, number: int, machine: str) -> None:
    """Return a mock of a host task that sends or receives; it is not called here."""


def divided(plan: Plan, graph: TaskGraph) -> DividedPlan:
    return divide(plan, graph, partial(exchange), partial(exchange))


def prepared(found: DividedPlan, policy: str) -> dict[str, PreparedDynamic]:
    """Prepare all parts as their machines do."""
    parts = {}
    for machine, part in found.parts.items():
        used = platform_of(part, MACHINE)
        plan = predict(build_plan(part.graph, used, part.schedule, part.durations_s))
        made = prepare_dynamic(part.graph, used, "eager" if policy == "queues" else policy, plan=plan)
        parts[machine] = replace(made, policy=Queues()) if policy == "queues" else made
    return parts


def run_together(
    parts: Mapping[str, PreparedDynamic], messages: Sequence[Message], takes_s: Mapping[str, float] | None = None
) -> tuple[dict[str, DynamicRun], list[Message]]:
    """Run all machines; return their runs, and the messages that never arrive.

    A receive ends when the message has been sent. What a machine does before depends on nothing later, so the times are
    found one message after another: a message whose time is unknown arrives at `NEVER_S`.
    """
    waits_s: dict[int, float] = {}
    while True:
        runs = {machine: _run(part, machine, messages, waits_s, takes_s or {}) for machine, part in parts.items()}
        found = {}
        for message in messages:
            sent_s = _times(runs, parts, message.source, message.sender)[1]
            begun_s = _times(runs, parts, message.destination, message.receiver)[0]
            if message.number not in waits_s and max(sent_s, begun_s) < NEVER_S:
                found[message.number] = max(0.0, sent_s - begun_s)
        if not found:
            return runs, [message for message in messages if message.number not in waits_s]
        waits_s |= found


def _run(
    part: PreparedDynamic,
    machine: str,
    messages: Iterable[Message],
    waits_s: Mapping[int, float],
    takes_s: Mapping[str, float],
) -> DynamicRun:
    problem = part.problem
    seconds = problem.tables.task_seconds()
    known = {m.receiver: waits_s.get(m.number, 2 * NEVER_S) for m in messages if m.destination == machine}
    for name, true_s in {**takes_s, **known}.items():
        if name in problem.names:
            row = seconds[problem.names.index(name)]
            row[np.isfinite(row)] = true_s
    true = problem.with_task_seconds(seconds)
    return run_dynamic(true, part.policy, estimated_s=problem.tables.task_seconds())


def _times(
    runs: Mapping[str, DynamicRun], parts: Mapping[str, PreparedDynamic], machine: str, task: str
) -> tuple[float, float]:
    number, timetable = parts[machine].problem.names.index(task), runs[machine].timetable
    return float(timetable.start_s[number]), float(timetable.finish_s[number])


@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
@settings(max_examples=examples(12), deadline=None)
def test_messages_arrive_on_lanes_of_their_own(policy: str, data: st.DataObject) -> None:
    graph = data.draw(graphs(max_tasks=10, ranges=data.draw(st.booleans())))
    found = divided(data.draw(plans(graph, THREE)), graph)
    parts = prepared(found, policy)
    true_s = {t.name: data.draw(st.sampled_from([1e-6, 1e-5, 1e-3])) for t in graph.tasks if t.kind != "barrier"}
    runs, missing = run_together(parts, found.messages, true_s)
    assert not missing
    ends = {name: lane for m in found.messages for name, lane in ((m.sender, 0), (m.receiver, 1))}
    for machine, run in runs.items():
        part, problem = found.parts[machine], parts[machine].problem
        assert run.complete and run.makespan_s < NEVER_S
        for name, processor in zip(problem.names, run.timetable.processor.tolist(), strict=True):
            device, lane = problem.processors[processor]
            of_messages = lane - part.host_lanes if problem.devices[device] == HOST else -1
            if part.graph.find_task(name).kind != "barrier":
                assert max(of_messages, -1) == ends.get(name, -1)


def _nothing(x: Any) -> None:
    """Mock a task's work; it is not called here."""


def ends_s(policy: str, takes_s: Mapping[str, float]) -> dict[str, float]:
    """Return the ends of tasks: machine two waits for two tasks of machine one, and can run two more meanwhile."""
    graph = TaskGraph("waiting")
    x, y, z = (graph.array(name, (10,), data=np.ones(10)) for name in "xyz")
    for number in range(2):
        graph.host(_nothing, name=f"long{number}", x=x.update())
        graph.host(_nothing, name=f"needs{number}", x=x.read())
    for number, array in enumerate((y, z)):
        graph.host(_nothing, name=f"free{number}", x=array.update())
    machines = {name: "one" if name.startswith("long") else "two" for name in graph.order()}

    def place(name: str) -> tuple[str, int, str | None]:
        operation = graph.find_task(name).operation
        assert operation is not None
        return f"{machines[name]}/host", 0, operation.implementations[0].name

    found = divided(plan_by(graph, THREE, place), graph)
    parts = prepared(found, policy)
    runs, missing = run_together(parts, found.messages, takes_s)
    assert not missing
    return {name: _times(runs, parts, machine, name)[1] for name, machine in machines.items()}


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "hybrid"])
def test_no_task_waits_behind_a_message(policy: str) -> None:
    found = ends_s(policy, dict.fromkeys(("long0", "long1"), 100.0) | dict.fromkeys(("free0", "free1"), 1.0))
    assert max(found["free0"], found["free1"]) == 2.0
    assert 100.0 < found["needs0"] < 101.0


def test_waits_for_messages_do_not_change_estimates() -> None:
    """The hybrid leaves its plan if tasks take longer than planned, not because it waits for another machine."""
    found = ends_s("hybrid", dict.fromkeys(("long0", "long1"), 100.0))
    assert 100.0 < found["needs0"] < 101.0
    assert found["free0"] > found["needs1"] > 200.0  # as planned
