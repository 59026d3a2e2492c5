# SPDX-License-Identifier: Apache-2.0
"""Remaining work after the loss of machines at random times: results of sequential runs, and no repeated work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from syclsched.cluster.parts import divide
from syclsched.cluster.platforms import NetworkPath, joined
from syclsched.cluster.recovery.attempt import Binding, RemainingRun, RunAttempt, result_pieces
from syclsched.cluster.recovery.part_state import HeldValue, PartReport, PartState
from syclsched.cluster.recovery.remaining import RunLineage
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Platform
from tests.support.running import DTYPE, MIX, TWO_DEVICES, graphs, inputs_of, plan_by, plans, run_task, sequential

MACHINES = ("one", "two", "three")
MACHINE = replace(TWO_DEVICES, spaces=tuple(replace(s, capacity_bytes=10**9) for s in TWO_DEVICES.spaces))


def platform_of(*machines: str) -> Platform:
    paths = [NetworkPath(*pair, 1e-4, 1e9) for pair in permutations([HOST, *machines], 2)]
    return joined(dict.fromkeys(machines, MACHINE), paths)


@dataclass
class PartMachine:
    """A machine that runs its part one task after another."""

    values: dict[str, Any]
    writers: dict[tuple[str, Any], str | None] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)


@dataclass
class Trial:
    """Attempts of a run whose parts end at random points."""

    graph: TaskGraph
    inputs: Mapping[str, Any]
    attempts: list[RunAttempt] = field(default_factory=list)
    memories: list[dict[str, PartMachine]] = field(default_factory=list)
    rest: RemainingRun | None = None
    ran: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._operations = {task.name: task.operation for task in self.graph.tasks}

    def begin(self, plan: Plan, graph: TaskGraph, rest: RemainingRun | None) -> None:
        divided = divide(plan, graph, lambda *_, **__: None, lambda *_, **__: None, {} if rest is None else rest.held)
        attempt = RunAttempt(Binding("", plan, graph, divided, {}), "", rest)
        self.attempts.append(attempt)
        self.memories.append({name: self._machine(attempt, name) for name in divided.parts})

    def _machine(self, attempt: RunAttempt, name: str) -> PartMachine:
        part = attempt.binding.divided.parts[name]
        rng = np.random.default_rng(1)  # memory that was not written has arbitrary contents
        made = PartMachine({n: rng.integers(0, 99, a.shape) for n, a in part.graph.arrays.items()})
        for array in part.inputs:
            made.values[array] = np.array(self.inputs[attempt.original(array)])
        for array, rows in part.kept:
            start = next(s for s in attempt.rest.starts[array] if s.rows == rows)
            holder = next(h for h in start.holders if h.machine == name)
            source = self.memories[holder.attempt][name]
            taken = ... if rows is None else slice(*rows)
            made.values[array][taken] = source.values[holder.held.array][taken]
        given = {*part.inputs, *(array for array, _ in part.kept)}
        for array in part.graph.arrays:
            for rows in [s.rows for s in part.graph.segments().get(array, ())] or [None]:
                if array in given:  # as in plans: an input is valid as a whole
                    made.writers[array, rows] = None
        return made

    def run(self, steps: list[int] | None) -> None:
        """Run tasks of the last attempt, on the machines drawn; all tasks if no machine is drawn."""
        attempt, machines = self.attempts[-1], self.memories[-1]
        parts = attempt.binding.divided.parts
        left = {name: list(part.graph.order()) for name, part in parts.items()}
        sends = {m.sender: m for m in attempt.binding.divided.messages}
        receives = {m.receiver: m for m in attempt.binding.divided.messages}
        sent: dict[int, Any] = {}
        drawn = iter(range(10**6) if steps is None else steps)
        while any(left.values()):
            able = [n for n in left if left[n] and (left[n][0] not in receives or receives[left[n][0]].number in sent)]
            assert able, "the machines wait in a circle"
            number = next(drawn, None)
            if number is None:
                return
            name = able[number % len(able)]
            graph, machine, task = parts[name].graph, machines[name], left[name].pop(0)
            if task in sends or task in receives:
                message = sends.get(task) or receives[task]
                rows = ... if message.rows is None else slice(*message.rows)
                if task in sends:
                    sent[message.number] = np.array(machine.values[message.array][rows]) if message.array else None
                elif message.array:
                    machine.values[message.array][rows] = sent[message.number]
            else:
                # The remaining work has the planned implementations only.
                run_task(replace(graph.find_task(task), operation=self._operations.get(task)), machine.values)
                self.ran.append(task)
            machine.done.append(task)
            for access in graph.touched()[[t.name for t in graph.tasks].index(task)]:
                if access.mode.writes:
                    segment = next((s for ss in graph.segments().values() for s in ss if s.name == access.array), None)
                    machine.writers[(access.array, None) if segment is None else (segment.whole, segment.rows)] = task

    def survey(self, lost: set[str]) -> None:
        """Note the array versions that the remaining machines have."""
        for attempt in self.attempts:
            attempt.states = {name: state for name, state in attempt.states.items() if name not in lost}
        for name, machine in self.memories[-1].items():
            if name not in lost:
                held = tuple(HeldValue(array, rows, writer) for (array, rows), writer in machine.writers.items())
                self.attempts[-1].states[name] = PartState(tuple(machine.done), held, PartReport(0.0, True))

    def results(self) -> dict[str, Any]:
        found = {}
        for name, array in self.graph.arrays.items():
            if array.temporary:
                continue
            found[name] = np.array(self.inputs.get(name, np.zeros(array.shape, array.dtype)))
            for piece in result_pieces(self.attempts, self.rest, name):
                rows = ... if piece.rows is None else slice(*piece.rows)
                if piece.attempt is not None:
                    number = next(n for n, each in enumerate(self.attempts) if each is piece.attempt)
                    found[name][rows] = self.memories[number][piece.machine].values[name][rows]
        return found


def with_impure(graph: TaskGraph, impure: set[int]) -> TaskGraph:
    """Return the graph with operations of some tasks that are not declared pure."""
    made = TaskGraph(graph.name)
    for array in graph.arrays.values():
        made.array(array.name, array.shape, array.dtype, temporary=array.temporary)
    for number, task in enumerate(graph.tasks):
        operation = task.operation
        if operation is not None and number in impure:
            task = replace(task, operation=replace(operation, pure=False))
        made.insert(task)
    for before, after in graph.edges:
        made.edge(before, after)
    return made


def plan_of_rest(data: st.DataObject, graph: TaskGraph, platform: Platform) -> Plan:
    """Put every task on any device that has the implementation planned before."""

    def place(name: str) -> tuple[str, int, str | None]:
        operation = graph.find_task(name).operation
        if operation is None:
            return platform.devices[0].name, 0, None
        kept = operation.implementations[0]
        device = data.draw(st.sampled_from([d for d in platform.devices if d.is_host == (kept.kind == "host")]))
        return device.name, 0, kept.name

    return plan_by(graph, platform, place)


@given(st.data(), st.booleans())
def test_remaining_work_has_the_results_of_the_graph(data: st.DataObject, ranges: bool) -> None:
    graph = data.draw(graphs(ranges=ranges))
    graph = with_impure(graph, data.draw(st.sets(st.integers(0, len(graph) - 1))))
    trial = Trial(graph, inputs_of(graph, 0))
    plan = data.draw(plans(graph, platform_of(*MACHINES)))
    lineage, lost = RunLineage(plan, graph), set[str]()
    trial.begin(plan, graph, None)
    for _ in range(2):
        if trial.rest is None or len(trial.rest.graph):  # else all versions are there
            trial.run(data.draw(st.lists(st.integers(0, 2), max_size=30)))
        lost |= data.draw(st.sets(st.sampled_from(MACHINES), max_size=1))
        trial.survey(lost)
        left = platform_of(*(name for name in MACHINES if name not in lost))
        trial.rest = lineage.rest(trial.attempts, left)
        if not lost and not ranges:
            assert trial.rest.redone == ()
        if len(trial.rest.graph):
            trial.begin(plan_of_rest(data, trial.rest.graph, left), trial.rest.graph, trial.rest)
    if len(trial.rest.graph):
        trial.run(None)
    wanted = sequential(graph, trial.inputs)
    for name, value in trial.results().items():
        np.testing.assert_array_equal(value, wanted[name], err_msg=name)


def test_versions_on_surviving_machines_are_not_recomputed() -> None:
    """Two machines have other versions of x when the third is lost: both continue with theirs."""
    graph = TaskGraph("ages")
    x, y, z = (graph.array(name, (8,), DTYPE) for name in "xyz")
    graph.kernel(MIX, name="x1", y=x, x=z, a=1)
    graph.kernel(MIX, name="y1", y=y, x=x, a=1)  # reads the first version of x, and runs late
    graph.kernel(MIX, name="x2", y=x, x=z, a=1)
    graph.kernel(MIX, name="z1", y=z, x=x, a=1)
    places = {"x1": "one", "y1": "two", "x2": "one", "z1": "three"}
    plan = plan_by(graph, platform_of(*MACHINES), lambda name: (f"{places[name]}/host", 0, "host"))
    trial, lineage = Trial(graph, inputs_of(graph, 0)), RunLineage(plan, graph)
    trial.begin(plan, graph, None)
    trial.run([0] * 3 + [1])  # x1, its message to two, x2; two receives
    assert trial.ran == ["x1", "x2"]
    trial.survey({"three"})
    trial.rest = lineage.rest(trial.attempts, platform_of("one", "two"))
    assert [task.name for task in trial.rest.graph.tasks] == ["y1", "z1"]
    assert trial.rest.redone == ()
    assert [len(starts) for starts in trial.rest.starts.values()] == [1] * len(trial.rest.starts)
    trial.begin(plan_by(trial.rest.graph, platform_of("one", "two"), lambda _: ("one/host", 0, "host")),
                trial.rest.graph, trial.rest)  # fmt: skip
    trial.run(None)
    wanted = sequential(graph, trial.inputs)
    for name, value in trial.results().items():
        np.testing.assert_array_equal(value, wanted[name], err_msg=name)
