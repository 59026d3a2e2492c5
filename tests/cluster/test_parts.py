# SPDX-License-Identifier: Apache-2.0
"""Parts of plans on several machines: sequential results for every placement, no races and no deadlocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from graphlib import TopologicalSorter
from itertools import permutations
from queue import Queue
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.cluster.parts import DividedPlan, MachinePart, check_machines, divide, platform_of
from syclsched.cluster.platforms import NetworkPath, joined
from syclsched.errors import PlanError
from syclsched.model.constant import constant
from syclsched.model.graph import TaskGraph
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST
from syclsched.model.platform_parts.machines import machine_of
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build_plan, verify
from syclsched.simulation import predict
from tests.support.running import ASSIGN, DTYPE, MIX, TWO_DEVICES, graphs, inputs_of, plan_by, plans, sequential

MACHINES = ("one", "two", "three")
PATHS = [NetworkPath(*pair, 1e-4, 1e9) for pair in permutations([HOST, *MACHINES], 2)]
MACHINE = replace(TWO_DEVICES, spaces=tuple(replace(s, capacity_bytes=10**9) for s in TWO_DEVICES.spaces))
THREE = joined(dict.fromkeys(MACHINES, MACHINE), PATHS)

Queues = dict[int, "Queue[Any]"]


def send(data: Any = None, *, queues: Queues, number: int, machine: str) -> None:
    queues[number].put(None if data is None else np.array(data))


def receive(data: Any = None, *, queues: Queues, number: int, machine: str) -> None:
    value = queues[number].get(timeout=20)
    if data is not None:
        data[...] = value


def divided(plan: Plan, graph: TaskGraph) -> DividedPlan:
    queues: Queues = {}
    found = divide(plan, graph, partial(send, queues=queues), partial(receive, queues=queues))
    queues.update({message.number: Queue() for message in found.messages})
    return found


def run(parts: Mapping[str, MachinePart], inputs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Run every part in a thread, one task after another; return the arrays of each machine."""
    values: dict[str, dict[str, Any]] = {}
    errors: list[BaseException] = []

    def of_machine(name: str, part: MachinePart) -> None:
        try:
            assert set(part.graph.inputs()) <= set(part.inputs)
            values[name] = sequential(part.graph, {each: inputs[each] for each in part.inputs})
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=of_machine, args=each) for each in parts.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return values


def gathered(found: DividedPlan, values: Mapping[str, Mapping[str, Any]], graph: TaskGraph, inputs: Any) -> Any:
    """Return the results, assembled from the machines that have them."""
    results = {}
    for name, pieces in found.results.items():
        whole = np.zeros(graph.arrays[name].shape, graph.arrays[name].dtype)
        for piece in pieces:
            rows = ... if piece.rows is None else slice(*piece.rows)
            source = values[piece.machine][name] if piece.machine else inputs.get(name, whole)
            whole[rows] = source[rows]
        results[name] = whole
    return results


@given(st.data(), st.booleans())
def test_parts_have_the_results_of_the_graph(data: st.DataObject, ranges: bool) -> None:
    graph = data.draw(graphs(ranges=ranges))
    plan = data.draw(plans(graph, THREE))
    inputs = inputs_of(graph, 0)
    found = divided(plan, graph)
    wanted = sequential(graph, inputs)
    for name, value in gathered(found, run(found.parts, inputs), graph, inputs).items():
        np.testing.assert_array_equal(value, wanted[name], err_msg=name)


def check_no_circle(found: DividedPlan) -> None:
    """Verify the plans of all parts, and that their lanes, waits and messages close no cycle."""
    sorter: TopologicalSorter[tuple[str, int]] = TopologicalSorter()
    ends: dict[tuple[int, str], tuple[str, int]] = {}
    for name, part in found.parts.items():
        plan = predict(build_plan(part.graph, platform_of(part, MACHINE), part.schedule, part.durations_s))
        verify(plan, part.graph)
        for lane in plan.lanes:
            before = None
            for each in lane.instructions:
                sorter.add((name, each.id), *((name, wait) for wait in each.waits))
                if before is not None:
                    sorter.add((name, each.id), (name, before))
                before = each.id
                verb, _, rest = (each.task or "").partition(" ")
                if each.kind == "host" and verb in ("send", "receive"):
                    ends[int(rest.split()[0]), verb] = name, each.id
    for message in found.messages:
        sorter.add(ends[message.number, "receive"], ends[message.number, "send"])
    sorter.prepare()  # raises CycleError


@given(st.data(), st.booleans())
def test_plans_of_parts_have_no_races_and_never_wait_in_a_circle(data: st.DataObject, ranges: bool) -> None:
    graph = data.draw(graphs(ranges=ranges))
    check_no_circle(divided(data.draw(plans(graph, THREE)), graph))


def test_prefetched_copies_cause_no_deadlock() -> None:
    """Before, a copy of t7's input to device two/a preceded copies that machine three waited for to make this input."""
    graph = TaskGraph("early")
    a = [graph.array(f"a{i}", (64,), DTYPE) for i in range(4)]
    c = constant(np.arange(64), DTYPE, name="c")
    steps: list[tuple[Any, Any, Any, str, int]] = [
        (ASSIGN, c.part((0, 48)), a[1][4:52], "three/host", 0),
        (ASSIGN, a[1][24:60], a[0][26:62], "two/a", 0),
        (MIX, a[0][47:48], a[0][52:53], "three/a", 1),
        (MIX, a[1], a[0], "two/a", 1),
        (ASSIGN, a[2][1:57], a[3][5:61], "three/host", 0),
        (ASSIGN, a[0], a[3], "three/host", 0),
        (ASSIGN, c.part((0, 64)), a[1], "two/b", 0),
        (MIX, a[3], a[2], "two/a", 0),
        (MIX, a[3][51:55], a[3][55:59], "three/a", 1),
        (ASSIGN, a[1][0:59], a[2][0:59], "three/b", 0),
        (MIX, a[3][20:64], a[0][20:64], "three/a", 1),
        (None, None, None, "two/b", 0),
        (MIX, a[3][2:24], a[2][37:59], "one/b", 0),
    ]
    for number, (operation, x, y, _, _) in enumerate(steps):
        if operation is None:
            graph.barrier(name=f"t{number}")
        else:
            scalars = {"a": 2} if operation is MIX else {}
            graph.kernel(operation, name=f"t{number}", x=x, y=y, **scalars)

    def place(name: str) -> tuple[str, int, str | None]:
        operation, _, _, device, lane = steps[int(name[1:])]
        if operation is None:
            return device, lane, None
        on_host = device.endswith("/host")
        return device, lane, next(i.name for i in operation.implementations if (i.kind == "host") == on_host)

    check_no_circle(divided(plan_by(graph, THREE, place), graph))


def test_values_are_sent_in_the_order_of_the_plans_copies() -> None:
    """Values that another machine needs first are sent first, though they were made last."""
    graph = TaskGraph()
    arrays = [graph.array(f"a{number}", (1000,)) for number in range(4)]
    for array in arrays:
        graph.host(lambda x: x.fill(1.0), name=f"make {array.name}", x=array.write())
    total = graph.array("total", (1000,))
    graph.host(lambda x: x.fill(0.0), name="begin", x=total.write())
    for array in reversed(arrays):
        graph.host(lambda x, y: y.__iadd__(x), name=f"use {array.name}", x=array.read(), y=total.update())
    assignments = []
    for position, task in enumerate(graph.tasks):
        assert task.operation is not None
        host, begin_s = ("one/host", 0.0) if task.name.startswith("make") else ("two/host", 1.0)
        at_s = begin_s + position * 1e-5
        named = task.operation.implementations[0].name
        assignments.append(Assignment(task.name, host, 0, named, at_s, at_s + 1e-5))
    durations = dict.fromkeys((task.name for task in graph.tasks), 1e-5)
    plan = predict(build_plan(graph, THREE, Schedule("by hand", tuple(assignments)), durations))
    found = divided(plan, graph)
    check_no_circle(found)
    arrays_of = {message.sender: message.array for message in found.messages}
    sent = [arrays_of[each.task] for each in found.parts["one"].schedule.assignments if each.task in arrays_of]
    assert sent == ["a0", "a3", "a2", "a1"]  # the first one when no other value is ready to be sent


@given(st.data())
def test_a_value_is_sent_to_a_machine_at_most_once(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    plan = data.draw(plans(graph, THREE))
    found = divided(plan, graph)
    made = sum(access.mode.writes for task in graph.tasks for access in task.accesses)
    counts: dict[tuple[str, str], int] = {}
    for message in found.messages:
        assert message.source != message.destination
        if message.array:
            counts[message.array, message.destination] = counts.get((message.array, message.destination), 0) + 1
            assert message.nbytes == graph.arrays[message.array].nbytes
    for (array, _), count in counts.items():
        writes = sum(a.array == array and a.mode.writes for task in graph.tasks for a in task.accesses)
        assert count <= writes <= made


def test_a_machine_without_work_has_no_part() -> None:
    graph = TaskGraph()
    x = graph.array("x", (3,))
    graph.host(lambda x: x.fill(1.0), name="only", x=x.write())
    found = divided(planned(graph, lambda _: "two/host"), graph)
    assert list(found.parts) == ["two"]
    assert found.messages == ()


def test_edge_orders_functions_without_arrays_across_machines() -> None:
    graph = TaskGraph()
    order: list[str] = []
    graph.host(lambda: order.append("first"), name="first")
    graph.host(lambda: order.append("second"), name="second")
    graph.edge("first", "second")
    found = divided(planned(graph, {"first": "three/host", "second": "one/host"}.__getitem__), graph)
    assert [(m.source, m.destination, m.array) for m in found.messages] == [("three", "one", "")]
    run(found.parts, {})
    assert order == ["first", "second"]


def test_a_plan_for_missing_machines_is_refused() -> None:
    graph = TaskGraph()
    graph.host(lambda: None, name="only")
    plan = planned(graph, lambda _: "two/host")
    check_machines(plan, dict.fromkeys(MACHINES))
    with pytest.raises(PlanError, match=r"the plan needs three(.|\n)*one, two"):
        check_machines(plan, {"one": 1, "two": 2})


def planned(graph: TaskGraph, device_of: Callable[[str], str]) -> Plan:
    def place(name: str) -> tuple[str, int, str | None]:
        operation = graph.find_task(name).operation
        assert operation is not None
        assert machine_of(device_of(name)) in MACHINES
        return device_of(name), 0, operation.implementations[0].name

    return plan_by(graph, THREE, place)
