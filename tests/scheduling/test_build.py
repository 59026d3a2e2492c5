# SPDX-License-Identifier: Apache-2.0
"""From graph, platform and costs to a problem: what is read, made, copied, and where it can run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from strategies import graphs, platforms, touching

from syclsched.costs import CostModel
from syclsched.errors import CapabilityError, CycleError, EmptyPlatformError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Parameter, Work
from syclsched.model.platform import HOST, Device, Link, MemorySpace, Platform
from syclsched.scheduling.build import build_problem
from syclsched.scheduling.problem import Item, Problem, Product

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


def build(graph: TaskGraph, platform: Platform = PLATFORM) -> Problem:
    return build_problem(graph, platform, CostModel(platform))


def test_values_of_arrays_are_followed() -> None:
    graph = TaskGraph()
    x, y = graph.array("x", (4,), "float32"), graph.array("y", (2,), "float32")
    graph.kernel(touching((AccessMode.READ, AccessMode.WRITE)), p0=x, p1=y)
    graph.kernel(touching((AccessMode.UPDATE,)), p0=y)
    graph.kernel(touching((AccessMode.REDUCE, AccessMode.READ)), p0=y, p1=x)
    problem = build(graph)
    assert problem.items == (Item("x", 16, -1), Item("y", 8, 0), Item("y", 8, 1), Item("y", 8, 2))
    assert problem.reads == ((0,), (1,), (2, 0))
    assert problem.makes == ((Product(1, -1),), (Product(2, 1),), (Product(3, 2),))
    assert [(a.task, a.kind, a.nbytes) for a in problem.predecessors[2]] == [(1, "RAW", 8.0)]
    assert problem.spaces[problem.input_space] == HOST


def test_only_data_that_flows_has_bytes() -> None:
    graph = TaskGraph()
    x = graph.array("x", (4,), "float32")
    graph.kernel(touching((AccessMode.READ,)), name="a", p0=x)
    graph.kernel(touching((AccessMode.WRITE,)), name="b", p0=x)
    graph.barrier(name="c")
    graph.kernel(touching((AccessMode.READ,)), name="d", p0=x)
    graph.edge("a", "d")
    problem = build(graph)
    arcs = {(a.task, i): (a.kind, a.nbytes) for i, arcs in enumerate(problem.predecessors) for a in arcs}
    assert arcs[0, 1] == ("WAR", 0.0)
    assert arcs[1, 2] == ("barrier", 0.0)
    assert arcs[0, 3] == ("explicit", 0.0)
    assert ("RAW", 16.0) in [(a.kind, a.nbytes) for a in problem.predecessors[3] if a.task == 1]


def test_lanes_spaces_and_reach() -> None:
    graph = TaskGraph()
    graph.barrier()
    problem = build(graph)
    assert problem.processors == ((0, 0), (1, 0), (1, 1), (2, 0), (3, 0))
    assert problem.reaches == ((0,), (0,), (1,), (2, 0))
    assert problem.seconds.tolist() == [[0.0] * 4]
    assert problem.implementations == ((None,) * 4,)


def test_where_a_task_can_run_and_by_what() -> None:
    graph = TaskGraph()
    both = graph.array("x", (4,), "float32")
    graph.kernel(touching((AccessMode.UPDATE,)), p0=both)
    graph.kernel(touching((AccessMode.UPDATE,)), p0=graph.array("y", (4,), "float64"))
    graph.host(lambda x: None, x=both.update())
    problem = build(graph)
    assert problem.implementations == (
        ("kernel", "kernel", "kernel", "host"), ("kernel", "kernel", None, "host"), (None, None, None, "host"),
    )  # fmt: skip
    able = [[math.isfinite(s) for s in row] for row in problem.seconds.tolist()]
    assert able == [[True] * 4, [True, True, False, True], [False, False, False, True]]


def test_copies_cost_what_their_route_costs_and_no_way_costs_everything() -> None:
    graph = TaskGraph()
    graph.kernel(touching((AccessMode.READ,)), p0=graph.array("x", (4,), "float32"))
    problem = build(graph)
    assert math.isclose(problem.copy_seconds(1000, 0, 1), 1e-6 + 1e-6 + 1e-5 + 1e-5)
    assert problem.copy_seconds(1000, 1, 0) == math.inf
    assert problem.copy_seconds(0, 1, 0) == 0.0
    latency_s, s_per_byte = problem.mean_copy_line()  # four ways there are, of the six pairs of homes
    assert math.isclose(latency_s, (1e-6 + 1e-6 + 1e-5 + 1.1e-5) / 4)
    assert math.isclose(s_per_byte, (1e-9 + 1e-9 + 1e-8 + 1.1e-8) / 4)


def test_a_part_of_the_platform_can_share_its_cost_model() -> None:
    graph = TaskGraph()
    graph.kernel(touching((AccessMode.UPDATE,)), p0=graph.array("x", (4,), "float32"))
    costs = CostModel(PLATFORM)
    whole, part = build_problem(graph, PLATFORM, costs), build_problem(graph, PLATFORM.select(["gpu"]), costs)
    assert part.devices == ("gpu", HOST)
    assert part.seconds.tolist() == [whole.seconds.tolist()[0][2:]]


def nowhere() -> Operation:
    return Operation(
        "nowhere",
        (Parameter("x", AccessMode.UPDATE),),
        (Implementation("kernel", "opencl-c", load=lambda _: None),),
        work=lambda _: Work(1.0, 1.0),
    )


@pytest.mark.parametrize("devices", [["gpu"], ["gpu", "cpu"]])
def test_a_task_that_can_run_nowhere_is_refused(devices: Sequence[str]) -> None:
    graph = TaskGraph()
    graph.kernel(nowhere(), name="t", x=graph.array("x", (4,), "float16"))
    with pytest.raises(CapabilityError, match=r"task 't': no device can run 'nowhere': .*gpu: kernel: no aspect fp16"):
        build(graph, PLATFORM.select(devices))


def test_a_platform_without_devices_and_a_graph_with_a_cycle_are_refused() -> None:
    graph = TaskGraph()
    first, second = graph.barrier(name="a"), graph.barrier(name="b")
    with pytest.raises(EmptyPlatformError):
        build(graph, Platform("empty", (), ()))
    graph.edge(second, first)
    with pytest.raises(CycleError):
        build(graph)


@given(graphs(), platforms())
def test_every_read_has_its_last_writer(graph: TaskGraph, platform: Platform) -> None:
    problem = build(graph, platform)
    for task in range(len(problem)):
        flowing = {(arc.task, arc.array) for arc in problem.predecessors[task] if arc.kind == "RAW"}
        items = [problem.items[i] for i in problem.reads[task]]
        read = {(item.producer, item.array) for item in items if item.producer >= 0}
        assert flowing == read
        assert all(problem.items[product.item].producer == task for product in problem.makes[task])
        assert all(arc.task < task for arc in problem.predecessors[task])
        assert all(arc.task > task for arc in problem.successors[task])
