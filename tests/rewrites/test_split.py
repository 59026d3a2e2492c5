# SPDX-License-Identifier: Apache-2.0
"""Splitting of tasks among devices: its benefit, and the proportions."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from support.samples import assert_same_results, device, platform

from syclsched.costs import CostModel
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Interference, Platform
from syclsched.rewrites import Rewrite, coarsen, split
from syclsched.rewrites.divisible import LoadWorker, divide, shares
from syclsched.rewrites.regions import Region, find_regions, traffic_of
from syclsched.rewrites.worker_selection import WorkerSlot, worker_costs

FAST, SLOW = device("fast", flops=3e11), device("slow", flops=1e11)


def layers(rows: int = 4096, width: int = 256, depth: int = 3) -> TaskGraph:
    """Return a batch through dense layers: much computation on few data."""
    graph = TaskGraph("layers")
    here = graph.array("x", (rows, width), "float32")
    for i in range(depth):
        w, b = graph.array(f"w{i}", (width, width), "float32"), graph.array(f"b{i}", (width,), "float32")
        out = graph.array(f"h{i}", (rows, width), "float32", temporary=i < depth - 1)
        graph.kernel(get("dense"), name=f"d{i}", y=out, x=here, w=w, b=b, activation=1)
        here = out
    return graph


def on(where: Platform, graph: TaskGraph) -> Rewrite:
    return split(graph, where, CostModel(where))


def test_unequal_devices_get_shares_in_the_ratio_of_their_speeds() -> None:
    where = platform(FAST, SLOW, bandwidth=1e11)
    found = on(where, layers())
    (cut,) = found.recipe.cuts
    assert cut.tasks == ("d0", "d1", "d2")
    assert sum(cut.rows) == 4096
    assert min(cut.rows) >= 8
    # All chunks can be divided three to one.
    ends = list(accumulate(cut.rows))
    assert min(abs(end / 4096 - 0.75) for end in ends) < 0.03
    assert found.counters.cut == 3
    assert found.counters.chunks == 3 * len(cut.rows)
    assert (found.counters.scatters, found.counters.gathers) == (0, 0)


def workers(graph: TaskGraph, where: Platform) -> tuple[Region, list[LoadWorker]]:
    """Return a graph's only region, and the costs of its rows on each SYCL device."""
    costs, (region,) = CostModel(where), find_regions(graph)
    traffic = traffic_of(graph, region)
    made = [worker_costs(WorkerSlot(d, 1), region, traffic, costs, graph.arrays, 1e-5) for d in where.compute_devices]
    return region, [w for w in made if w is not None]


def test_a_slow_link_shifts_the_shares() -> None:
    near = platform(FAST, SLOW, bandwidth=1e11)
    links = [replace(n, bandwidth_bytes_per_s=1e8) if "fast" in (n.source, n.destination) else n for n in near.links]
    for where, least, most in ((near, 0.73, 0.77), (replace(near, links=tuple(links)), 0.2, 0.45)):
        region, both = workers(layers(rows=16384), where)
        assert least < shares(both, region.rows, region.grain)[0] / region.rows < most


def test_one_device_does_not_split_tasks() -> None:
    assert not on(platform(FAST, bandwidth=1e12), layers()).changed


@pytest.mark.parametrize(("latency_s", "cut_up"), [(1e-5, True), (10.0, False)])
def test_one_device_cuts_if_copies_overlap_with_kernels(latency_s: float, cut_up: bool) -> None:
    where = platform(replace(SLOW, dtypes=("float64",)))
    where = replace(where, links=tuple(replace(n, latency_s=latency_s) for n in where.links))
    graph = TaskGraph("stream")
    x, y = graph.array("x", (10**6, 4)), graph.array("y", (10**6, 4))
    graph.kernel(get("add"), name="a", z=y, x=x, y=x)
    region, (alone,) = workers(graph, where)
    division = divide([alone], region.rows, region.grain)
    assert (len(division.rows) > 1) == cut_up
    assert division.finish_s <= alone.finish_s(region.rows, 1)


def test_devices_on_the_same_cores_count_once() -> None:
    apart = platform(FAST, replace(FAST, name="twin", key="twin", space="twin", reaches=("twin",)), bandwidth=1e11)
    assert on(apart, layers()).changed
    turns = replace(apart, interferences=(*apart.interferences, Interference("fast", "twin", 1.0)))
    assert not on(turns, layers()).changed


def test_parallel_tasks_are_not_divided_if_sufficient() -> None:
    where = platform(FAST, SLOW, bandwidth=1e11)
    graph = TaskGraph("many")
    for i in range(40):
        shapes = {"y": (512, 256), "x": (512, 256), "w": (256, 256), "b": (256,)}
        arrays = {name: graph.array(f"{name}{i}", shape, "float32") for name, shape in shapes.items()}
        graph.kernel(get("dense"), name=f"d{i}", activation=0, **arrays)
    assert not on(where, graph).changed


def test_tiny_tasks_are_not_divided() -> None:
    assert not on(platform(FAST, SLOW), layers(rows=64, width=8)).changed


def test_regions_are_of_one_partition() -> None:
    graph = layers()
    h = graph.arrays["h2"]
    c, other = graph.array("c", (100, 4096), "float32"), graph.array("a", (100, 256), "float32")
    graph.kernel(get("gemm"), name="whole", c=c, a=other, b=h, beta=1.0, trans_b=True)
    graph.host(lambda h: None, name="look", h=h.read())
    regions = find_regions(graph)
    assert [tuple(t.name for t in r.tasks) for r in regions] == [("d0", "d1", "d2"), ("whole",)]
    assert [(r.rows, r.grain) for r in regions] == [(4096, 8), (100, 48)]
    traffic = traffic_of(graph, regions[0])
    assert traffic.given == ("x",)
    assert traffic.made == ()
    assert set(traffic.shared) == {"w0", "b0", "w1", "b1", "w2", "b2"}
    assert traffic.results == traffic.used_whole == ("h2",)


def test_results_of_a_split_equal_those_of_the_whole() -> None:
    where = platform(FAST, SLOW, bandwidth=1e11)
    rows, rng = 20_000, np.random.default_rng(1)
    graph = TaskGraph("line")
    x = graph.array("x", data=rng.integers(-9, 9, (rows, 64)).astype("float64"))
    y = graph.array("y", data=rng.integers(-9, 9, (rows, 64)).astype("float64"))
    w, b = graph.array("w", data=rng.integers(-9, 9, (64, 64)).astype("float64")), graph.array("b", data=np.zeros(64))
    h = graph.array("h", (rows, 64), temporary=True)
    t = graph.array("t", (1,))
    graph.kernel(get("dense"), name="d", y=h, x=x, w=w, b=b, activation=1)
    graph.kernel(get("axpy"), name="p", y=y, x=h, alpha=2.0)
    graph.host(lambda y, t: t.fill(y.sum()), name="sum", y=y.read(), t=t.write())
    graph.kernel(get("dense"), name="e", y=h, x=y, w=w, b=b, activation=0)
    graph.kernel(get("axpy"), name="q", y=x, x=h, alpha=-1.0)
    found = on(where, graph)
    assert found.changed
    assert_same_results(graph, found.graph)


def test_a_graph_without_divisible_tasks_is_returned() -> None:
    graph = TaskGraph()
    graph.host(lambda v: None, name="h", v=graph.array("v", (4,)).update())
    assert on(platform(FAST), graph).graph is graph


def test_an_unreachable_device_gets_no_share() -> None:
    where = platform(FAST, SLOW, bandwidth=1e11)
    cut_off = replace(where, links=tuple(n for n in where.links if "slow" not in (n.source, n.destination)))
    assert on(where, layers()).changed
    assert not on(cut_off, layers()).changed
    assert len(coarsen(layers(rows=8, width=8), cut_off, CostModel(cut_off)).graph) == 1
