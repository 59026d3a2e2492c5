# SPDX-License-Identifier: Apache-2.0
"""Scheduling problems from graph, platform and costs: reads, writes, copies, and eligible devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from support.strategies import graphs, platforms, touching

from syclsched.costs import CostModel
from syclsched.errors import (
    ArgumentError,
    CapabilityError,
    CycleError,
    EmptyPlatformError,
    GraphError,
    PlatformError,
    UnknownArrayError,
)
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Parameter, Work
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.scheduling.construction.build import build_problem
from syclsched.scheduling.problem import NOTHING, Problem
from syclsched.scheduling.tables import Floats, Ints

CPU = Device("cpu", "c", "cpu", "opencl", "a CPU", "shared", ("shared",), aspects=("fp64",))
LANES = Device("cpu.1", "c1", "cpu", "opencl", "half a CPU", "shared", ("shared",), lanes=2, aspects=("fp64",))
GPU = Device("gpu", "g", "gpu", "opencl", "a GPU", "gpu", ("gpu",))  # no fp64
HOST_DEVICE = Device(HOST, HOST, HOST, HOST, "the host", HOST, (HOST, "shared"))
PLATFORM = Platform(
    "p",
    (CPU, LANES, GPU, HOST_DEVICE),
    (MemorySpace("shared", 0, True), MemorySpace("gpu", 0), MemorySpace(HOST, 0, True)),
    (Link(HOST, "shared", 1e-6, 1e9), Link("shared", HOST, 1e-6, 1e9), Link(HOST, "gpu", 1e-5, 1e8)),
)


def row(start: Ints, values: Ints | Floats, index: int) -> list[Any]:
    found: list[Any] = values[start[index] : start[index + 1]].tolist()
    return found


def build(graph: TaskGraph, platform: Platform = PLATFORM) -> Problem:
    return build_problem(graph, platform, CostModel(platform))


def test_values_of_arrays_are_followed() -> None:
    graph = TaskGraph()
    x, y = graph.array("x", (4,), "float32"), graph.array("y", (2,), "float32")
    graph.kernel(touching((AccessMode.READ, AccessMode.WRITE)), p0=x, p1=y)
    graph.kernel(touching((AccessMode.UPDATE,)), p0=y)
    graph.kernel(touching((AccessMode.REDUCE, AccessMode.READ)), p0=y, p1=x)
    problem = build(graph)
    t = problem.tables
    assert [problem.arrays[i] for i in problem.item_array] == ["x", "y", "y", "y"]
    assert t.item_bytes.tolist() == [16.0, 8.0, 8.0, 8.0]
    assert t.item_producer.tolist() == [NOTHING, 0, 1, 2]
    assert [problem.spaces[s] if s >= 0 else None for s in t.item_space] == [HOST, None, None, None]
    assert [row(t.read_start, t.read_item, i) for i in range(3)] == [[0], [1], [2, 0]]
    assert [row(t.make_start, t.make_item, i) for i in range(3)] == [[1], [2], [3]]
    assert [row(t.make_start, t.make_replaces, i) for i in range(3)] == [[NOTHING], [1], [2]]
    assert (row(t.pred_start, t.pred_task, 2), row(t.pred_start, t.pred_bytes, 2)) == ([1], [8.0])
    assert (row(t.succ_start, t.succ_task, 1), row(t.succ_start, t.succ_bytes, 1)) == ([2], [8.0])


def test_only_data_that_flows_has_bytes() -> None:
    graph = TaskGraph()
    x, y = graph.array("x", (4,), "float32"), graph.array("y", (0,), "float32")
    graph.kernel(touching((AccessMode.READ,)), name="a", p0=x)
    graph.kernel(touching((AccessMode.WRITE, AccessMode.WRITE)), name="b", p0=x, p1=y)
    graph.barrier(name="c")
    graph.kernel(touching((AccessMode.READ, AccessMode.READ)), name="d", p0=x, p1=y)
    graph.edge("a", "d")
    t = build(graph).tables
    arcs = {
        (before, i): (nbytes, copies)
        for i in range(4)
        for before, nbytes, copies in zip(
            row(t.pred_start, t.pred_task, i),
            row(t.pred_start, t.pred_bytes, i),
            row(t.pred_start, t.pred_copies, i),
            strict=True,
        )
    }
    nothing = (0, 0)
    assert arcs.pop((1, 3)) == (16, 1)  # x is passed on; y has no bytes
    assert arcs == dict.fromkeys([(0, 1), (0, 2), (1, 2), (0, 3), (2, 3)], nothing)


def test_lanes_spaces_and_reach() -> None:
    graph = TaskGraph()
    graph.barrier()
    problem = build(graph)
    t = problem.tables
    assert problem.processors == ((0, 0), (1, 0), (1, 1), (2, 0), (3, 0))
    assert t.device_start.tolist() == [0, 1, 3, 4, 5]
    assert [row(t.reach_start, t.reach_space, d) for d in range(4)] == [[0], [0], [1], [2, 0]]
    assert t.seconds.tolist() == [[0.0] * 4]
    assert [problem.implementation_of(0, d) for d in range(4)] == [None] * 4


def test_eligible_devices_and_implementations_of_tasks() -> None:
    graph = TaskGraph()
    both = graph.array("x", (4,), "float32")
    graph.kernel(touching((AccessMode.UPDATE,)), p0=both)
    graph.kernel(touching((AccessMode.UPDATE,)), p0=graph.array("y", (4,), "float64"))
    graph.host(lambda x: None, x=both.update())
    problem = build(graph)
    assert [[problem.implementation_of(task, device) for device in range(4)] for task in range(3)] == [
        ["kernel", "kernel", "kernel", "host"], ["kernel", "kernel", None, "host"], [None, None, None, "host"],
    ]  # fmt: skip
    able = [[math.isfinite(s) for s in row] for row in problem.tables.task_seconds().tolist()]
    assert able == [[True] * 4, [True, True, False, True], [False, False, False, True]]


def test_copies_cost_their_route_and_are_infinite_without_route() -> None:
    graph = TaskGraph()
    graph.kernel(touching((AccessMode.READ,)), p0=graph.array("x", (4,), "float32"))
    problem = build(graph)
    assert math.isclose(problem.copy_seconds(1000, 0, 1), 1e-6 + 1e-6 + 1e-5 + 1e-5)
    assert problem.copy_seconds(1000, 1, 0) == math.inf
    assert problem.copy_seconds(0, 1, 0) == 0.0
    latency_s, s_per_byte = problem.mean_copy_line()  # of the six pairs of spaces, four have a route
    assert math.isclose(latency_s, (1e-6 + 1e-6 + 1e-5 + 1.1e-5) / 4)
    assert math.isclose(s_per_byte, (1e-9 + 1e-9 + 1e-8 + 1.1e-8) / 4)


def test_a_part_of_the_platform_can_share_its_cost_model() -> None:
    graph = TaskGraph()
    graph.kernel(touching((AccessMode.UPDATE,)), p0=graph.array("x", (4,), "float32"))
    costs = CostModel(PLATFORM)
    whole, part = build_problem(graph, PLATFORM, costs), build_problem(graph, PLATFORM.select(["gpu"]), costs)
    assert part.devices == ("gpu", HOST)
    assert part.tables.task_seconds().tolist() == [whole.tables.task_seconds().tolist()[0][2:]]


def nowhere() -> Operation:
    return Operation(
        "nowhere",
        (Parameter("x", AccessMode.UPDATE),),
        (Implementation("kernel", "opencl-c", load=lambda _: None),),
        work=lambda _: Work(1.0, 1.0),
    )


@pytest.mark.parametrize("devices", [["gpu"], ["gpu", "cpu"]])
def test_a_task_without_eligible_device_is_refused(devices: Sequence[str]) -> None:
    graph = TaskGraph()
    graph.kernel(nowhere(), name="t", x=graph.array("x", (4,), "float16"))
    with pytest.raises(CapabilityError, match=r"task 't': no device can run 'nowhere': .*gpu: kernel: no aspect fp16"):
        build(graph, PLATFORM.select(devices))


def test_no_devices_and_cycles_are_refused() -> None:
    graph = TaskGraph()
    first, second = graph.barrier(name="a"), graph.barrier(name="b")
    with pytest.raises(EmptyPlatformError):
        build(graph, Platform("empty", (), ()))
    graph.edge(second, first)
    with pytest.raises(CycleError):
        build(graph)


def test_initial_and_final_places_of_data_can_be_given() -> None:
    graph = TaskGraph()
    x, y = graph.array("x", (4,), "float32"), graph.array("y", (4,), "float32")
    graph.array("unused", (2,), "float32")
    graph.kernel(touching((AccessMode.UPDATE, AccessMode.READ)), name="t", p0=x, p1=y)
    placed, wanted = {"x": "gpu", "unused": "shared"}, {"x": HOST, "unused": "gpu"}
    problem = build_problem(graph, PLATFORM, CostModel(PLATFORM), placed=placed, wanted=wanted)
    t = problem.tables
    first = {problem.arrays[problem.item_array[i]]: problem.spaces[t.item_space[i]] for i in (0, 2, 3)}
    assert first == {"x": "gpu", "y": HOST, "unused": "shared"}
    last = [(problem.arrays[problem.item_array[i]], int(t.item_producer[i])) for i in t.want_item]
    assert last == [("x", 0), ("unused", NOTHING)]
    assert [problem.spaces[s] for s in t.want_space] == [HOST, "gpu"]


def test_releases_hold_tasks_back() -> None:
    graph = TaskGraph()
    graph.barrier(name="a")
    graph.barrier(name="b")
    assert build_problem(graph, PLATFORM, CostModel(PLATFORM), release_s={"b": 2.0}).tables.release_s.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"placed": {"z": HOST}}, UnknownArrayError, "placed: no array 'z'"),
        ({"wanted": {"x": "moon"}}, PlatformError, "wanted: array 'x': no memory space 'moon'.*shared, gpu, host"),
        ({"release_s": {"u": 1.0}}, GraphError, "release_s: no task 'u'"),
        ({"release_s": {"t": math.inf}}, ArgumentError, "release of 't': inf is not a finite time"),
        ({"release_s": {"t": -1.0}}, ArgumentError, "-1.0 is not a finite time"),
    ],
)
def test_impossible_wishes_are_refused(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    graph = TaskGraph()
    graph.kernel(touching((AccessMode.UPDATE,)), name="t", p0=graph.array("x", (4,)))
    with pytest.raises(error, match=text):
        build_problem(graph, PLATFORM, CostModel(PLATFORM), **arguments)


def test_channels_are_filled_where_copies_contend() -> None:
    graph = TaskGraph()
    graph.barrier()
    assert build(graph).tables.channel.tolist() == [[[NOTHING] * 2] * 3] * 3
    problem = build(graph, replace(PLATFORM, contention="one-port"))
    names = [s for s in problem.spaces if s != HOST] + [HOST]
    shared, gpu, host = (problem.spaces.index(s) for s in names)
    channel = problem.tables.channel
    assert problem.contention == "one-port" and problem.has_channels
    one_way, other_way, down = channel[host, shared, 0], channel[shared, host, 0], channel[host, gpu, 0]
    assert len({int(one_way), int(other_way), int(down)}) == 3
    assert channel[shared, gpu].tolist() == [other_way, down]  # through the host's memory: both links
    assert channel[host, gpu].tolist() == [down, NOTHING]
    assert channel[gpu, host].tolist() == [NOTHING] * 2  # no route exists
    assert channel[host, host].tolist() == [NOTHING] * 2


def test_links_that_name_a_channel_share_it() -> None:
    graph = TaskGraph()
    graph.barrier()
    links = tuple(replace(link, channel="bus") for link in PLATFORM.links)
    problem = build(graph, replace(PLATFORM, links=links, contention="fair"))
    assert problem.contention == "fair"
    assert set(problem.tables.channel[..., 0].ravel().tolist()) == {0, NOTHING}
    assert set(problem.tables.channel[..., 1].ravel().tolist()) == {NOTHING}  # a bus used twice by a route counts once


def test_unknown_capacity_is_infinite_and_unknown_power_is_nan() -> None:
    graph = TaskGraph()
    graph.barrier()
    spaces = tuple(replace(s, capacity_bytes=100) if s.name == "gpu" else s for s in PLATFORM.spaces)
    t = build(graph, replace(PLATFORM, spaces=spaces)).tables
    assert t.capacity_bytes.tolist() == [math.inf, 100.0, math.inf]
    assert all(math.isnan(w) for w in (*t.busy_w, *t.idle_w))


@given(graphs(), platforms())
def test_every_read_has_its_last_writer(graph: TaskGraph, platform: Platform) -> None:
    problem = build(graph, platform)
    t = problem.tables
    for task in range(len(problem)):
        before, nbytes = row(t.pred_start, t.pred_task, task), row(t.pred_start, t.pred_bytes, task)
        flowing = {b: f for b, f in zip(before, nbytes, strict=True) if f}
        read: dict[int, float] = {}
        for item in row(t.read_start, t.read_item, task):
            if t.item_producer[item] != NOTHING:
                read[t.item_producer[item]] = read.get(t.item_producer[item], 0.0) + t.item_bytes[item]
        assert flowing == read
        assert all(t.item_producer[item] == task for item in row(t.make_start, t.make_item, task))
        assert all(b < task for b in before)
        assert all(a > task for a in row(t.succ_start, t.succ_task, task))
