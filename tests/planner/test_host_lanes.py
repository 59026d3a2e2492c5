# SPDX-License-Identifier: Apache-2.0
"""The policy `auto` and the number of lanes of the host."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import syclsched
from syclsched.costs import MemoryHistory
from syclsched.costs.history import history_key
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Parameter, Work
from syclsched.model.platform import HOST, Device, MemorySpace, Platform
from syclsched.model.profile import Quantity

CPU = Device("cpu", "c", "cpu", "opencl", "", "cpu", ("cpu",), compute_units=4, processor="p")
THE_HOST = Device(HOST, "h", HOST, HOST, "", HOST, (HOST, "cpu"), compute_units=4, processor="p", most_lanes=4)
PLATFORM = Platform("four cores", (CPU, THE_HOST), (MemorySpace("cpu", 0, True), MemorySpace(HOST, 0, True)))

BLAS = Operation(
    "blas",
    (Parameter("x", AccessMode.UPDATE),),
    (Implementation("numpy", "host", lambda _: lambda *, x: None),),
    work=lambda _: Work(1e6, 0.0),
)


def graph_of(tasks: int, *, chain: bool = False) -> TaskGraph:
    graph = TaskGraph("host work")
    arrays = [graph.array(f"x{n}", (8,)) for n in range(1 if chain else tasks)]
    for n in range(tasks):
        graph.kernel(BLAS, x=arrays[0 if chain else n], name=f"t{n}")
    return graph


def history_of(graph: TaskGraph, alone_s: float, one_thread_s: float | None) -> MemoryHistory:
    """Return measured times of the tasks with all cores, and with one."""
    signature = graph.find_task("t0").signature
    assert signature is not None
    wide = PLATFORM.with_most_host_lanes()
    assert wide is not None
    found = MemoryHistory()
    for host, seconds in ((THE_HOST, alone_s), (wide.host, one_thread_s)):
        if seconds is not None:
            found[history_key(host.timing_key, BLAS, BLAS.implementations[0], signature)] = Quantity(seconds)
    return found


def lanes_of(graph: TaskGraph, history: MemoryHistory, platform: Platform = PLATFORM) -> tuple[int, float]:
    plan = syclsched.plan(graph, platform, history=history)
    syclsched.verify(plan, graph)
    used = {a.lane for a in plan.schedule.assignments}
    assert len(used) <= plan.platform.host.lanes
    return plan.platform.host.lanes, plan.makespan_s


def test_independent_functions_of_one_core_get_a_lane_for_each() -> None:
    graph = graph_of(8)
    assert lanes_of(graph, history_of(graph, 1.0, 1.0)) == (4, pytest.approx(2.0))


def test_library_calls_get_the_lanes_that_are_faster() -> None:
    graph = graph_of(8)
    # Four threads three times as fast as one: 8 x 1 s one after another, or two rounds of 3 s.
    assert lanes_of(graph, history_of(graph, 1.0, 3.0)) == (4, pytest.approx(6.0))
    # Perfectly parallel: lanes gain nothing, so all cores work on one call at a time.
    assert lanes_of(graph, history_of(graph, 1.0, 4.0)) == (1, pytest.approx(8.0))


def test_a_chain_of_library_calls_keeps_all_cores() -> None:
    graph = graph_of(8, chain=True)
    assert lanes_of(graph, history_of(graph, 1.0, 3.0)) == (1, pytest.approx(8.0))


def test_no_gain_is_assumed_without_one_thread_measurement() -> None:
    graph = graph_of(8)
    assert lanes_of(graph, history_of(graph, 1.0, None))[0] == 1
    plan = syclsched.plan(graph, PLATFORM, history=history_of(graph, 1.0, None))
    assert not any(candidate.policy.startswith("host as") for candidate in plan.candidates)


def test_a_gain_below_the_margin_is_none() -> None:
    graph = graph_of(8)
    assert lanes_of(graph, history_of(graph, 1.0, 3.8)) == (1, pytest.approx(8.0))  # 7.6 s


def test_lanes_that_a_user_chose_stay() -> None:
    graph = graph_of(8)
    history = history_of(graph, 1.0, 1.0)
    chosen = syclsched.api.with_lanes(PLATFORM, {HOST: 1})
    assert lanes_of(graph, history, chosen) == (1, pytest.approx(8.0))
    assert lanes_of(graph, history, replace(PLATFORM, devices=(CPU, replace(THE_HOST, most_lanes=0))))[0] == 1
    assert syclsched.plan(graph, PLATFORM, policy="heft", history=history).platform.host.lanes == 1


def test_the_other_number_of_lanes_is_a_candidate() -> None:
    graph = graph_of(8)
    plan = syclsched.plan(graph, PLATFORM, history=history_of(graph, 1.0, 1.0))
    assert {c.policy: c.makespan_s for c in plan.candidates if c.policy.startswith("host as")} == {
        "host as 1 lane, auto: single:host": pytest.approx(8.0)
    }
    plan = syclsched.plan(graph, PLATFORM, history=history_of(graph, 1.0, 4.0))
    (other,) = [c for c in plan.candidates if c.policy.startswith("host as 4 lanes, ")]
    assert other.makespan_s == pytest.approx(8.0)


def called_graph(tasks: int, *, chain: bool = False, pure: bool = False) -> TaskGraph:
    graph = TaskGraph("functions")
    arrays = [graph.array(f"x{n}", (8,)) for n in range(1 if chain else tasks)]

    def call(x: np.ndarray) -> None:
        x += 1

    for n in range(tasks):
        graph.host(call, x=arrays[0 if chain else n].update(), name=f"t{n}", pure=pure)
    return graph


def times_of(graph: TaskGraph, lanes: dict[int, float]) -> MemoryHistory:
    """Return times of the functions as measured by runs with these numbers of lanes."""
    task, found = graph.find_task("t0"), MemoryHistory()
    assert task.operation is not None and task.signature is not None
    for number, seconds in lanes.items():
        key = PLATFORM.with_host_lanes(number).host.timing_key
        found[history_key(key, task.operation, task.operation.implementations[0], task.signature)] = Quantity(seconds)
    return found


def test_functions_called_only_by_runs_get_a_lane_per_core() -> None:
    assert lanes_of(called_graph(8), MemoryHistory())[0] == 4
    assert lanes_of(called_graph(8, pure=True), MemoryHistory())[0] == 1  # it is timed first: nothing is assumed
    assert lanes_of(called_graph(8, chain=True), MemoryHistory())[0] == 1


def test_functions_called_only_by_runs_use_times_of_other_lanes() -> None:
    graph = called_graph(8)
    assert lanes_of(graph, times_of(graph, {1: 1.0})) == (4, pytest.approx(2.0))
    assert lanes_of(graph, times_of(graph, {4: 1.0})) == (4, pytest.approx(2.0))
    plan = syclsched.plan(graph, PLATFORM, history=times_of(graph, {4: 1.0}))
    (other,) = [c for c in plan.candidates if c.policy.startswith("host as 1 lane")]
    assert other.makespan_s == pytest.approx(8.0)
    # A library that uses all cores on one lane; or functions that wait for the GIL.
    assert lanes_of(graph, times_of(graph, {1: 1.0, 4: 4.0})) == (1, pytest.approx(8.0))


@pytest.mark.sycl
def test_a_run_uses_the_planned_lanes() -> None:
    platform = syclsched.discover("cpu")
    devices = tuple(replace(d, most_lanes=2, compute_units=2) if d.is_host else d for d in platform.devices)
    platform = replace(platform, devices=devices)
    graph = TaskGraph("sums")

    def add(*, x: np.ndarray, n: int) -> None:
        x += n

    arrays = [graph.array(f"x{n}", data=np.zeros(1000)) for n in range(8)]
    for n, array in enumerate(arrays):
        graph.host(add, name=f"t{n}", x=array.update(), n=n)
    plan = syclsched.plan(graph, platform, history=_seconds_each(graph, platform))
    assert {lane.name for lane in plan.lanes} == {"host:0", "host:1"}
    with syclsched.run(graph, platform, plan=plan) as run:
        assert [run.result(f"x{n}")[0] for n in range(8)] == list(range(8))
    with syclsched.bind(graph, platform, plan=plan) as runner:
        assert runner()["x7"][0] == 7


def _seconds_each(graph: TaskGraph, platform: Platform) -> MemoryHistory:
    wide = platform.with_most_host_lanes()
    assert wide is not None
    found = MemoryHistory()
    for task in graph.tasks:
        assert task.operation is not None and task.signature is not None
        for host in (platform.host, wide.host):
            found[history_key(host.timing_key, task.operation, task.operation.implementations[0], task.signature)] = (
                Quantity(1e-3)
            )
    return found
