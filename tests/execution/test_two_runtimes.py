# SPDX-License-Identifier: Apache-2.0
"""One graph on two runtimes for one processor, Intel's and PoCL's: equal bits in every engine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.conformance import WAYS, Way, check_run, spread
from support.conformance_graphs import SIZE
from support.examples import examples
from support.running import DTYPE, MIX, graphs, inputs_of, plan_by, sequential

import syclsched
from syclsched.devices import without_emulators
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.testing import faults
from syclsched.workloads.cholesky import CholeskyOptions, build

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("own_history", "compiled_policies")]

#: `MIX` as policies choose it, for any other kernel compiler.
BY_OPENCL_C = replace(MIX, implementations=tuple(each for each in MIX.implementations if each.name != "python"))
PLANNED = [each for each in WAYS if not each.decides_while_running]


@pytest.fixture(scope="module")
def platform() -> Platform:
    """The CPU devices of two runtimes, with two lanes each."""
    found = syclsched.discover(where=lambda device: device.kind == "cpu", lanes=2)
    if len({(each.vendor, each.driver_version) for each in found.compute_devices}) < 2:
        pytest.skip("no second runtime for the processor, such as PoCL 5 or later; pytest --all-runtimes looks for one")
    return found


def strands() -> TaskGraph:
    """Return arrays that are mixed repeatedly, so that different devices compute neighbours."""
    graph = TaskGraph("strands")
    arrays = [graph.array(f"x{n}", (SIZE,), DTYPE) for n in range(4)]
    for index in range(24):
        x, y = arrays[index % 4], arrays[(index + 1) % 4]
        graph.kernel(BY_OPENCL_C, name=f"mix{index}", x=x, y=y, a=index + 2)
    return graph


def test_two_runtimes_are_two_devices_with_separate_memory(platform: Platform) -> None:
    first, second = platform.compute_devices[:2]
    assert first.distrust is None and second.distrust is None
    assert first.space != second.space and first.key != second.key
    assert first.processor == second.processor == "host"
    assert [each.name for each in without_emulators(platform).compute_devices] == [first.name]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_way_to_run_has_the_sequential_results(platform: Platform, way: Way) -> None:
    graph = strands()
    plan = spread(graph, platform)
    assert {lane.device for lane, _ in plan.instructions()} >= {each.name for each in platform.compute_devices}
    inputs = inputs_of(graph, 3)
    with way.open(graph, plan, inputs) as session:
        check_run(session, inputs, sequential(graph, inputs), graph)


@given(data=st.data())
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_random_graphs_in_random_ways(platform: Platform, data: st.DataObject) -> None:
    graph = data.draw(graphs(ranges=data.draw(st.booleans())))
    way = data.draw(st.sampled_from(PLANNED))
    inputs = inputs_of(graph, 1)
    with way.open(graph, spread(graph, platform), inputs) as session:
        check_run(session, inputs, sequential(graph, inputs), graph)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("way", [each for each in WAYS if "recovery" not in each.lacks], ids=str)
def test_runs_continue_without_a_lost_runtime(platform: Platform, way: Way, index: int) -> None:
    graph = strands()
    inputs = inputs_of(graph, 5)
    lost = platform.compute_devices[index].name
    with way.open(graph, spread(graph, platform), inputs, recover=True) as session:
        with faults.inject(faults.lose(lost)) as seen:
            check_run(session, inputs, sequential(graph, inputs), graph)
        # A policy may give a device no work.
        assert [each.what for each in seen.injected] == ["lost"] or way.decides_while_running


def test_a_factorisation_by_opencl_c_on_both(platform: Platform) -> None:
    workload = build(CholeskyOptions(n=160, tile=32))
    graph = workload.graph
    names = [each.name for each in platform.compute_devices]
    turns = {name: number for number, name in enumerate(graph.order())}

    def place(name: str) -> tuple[str, int, str | None]:
        operation = graph.find_task(name).operation
        return names[turns[name] % len(names)], turns[name] % 2, None if operation is None else "opencl-c"

    with syclsched.run(graph, plan=plan_by(graph, platform, place), calibrate=False) as run:
        run.wait(120)
        found = workload.check({name: run.result(name) for name in workload.results})
    assert found.ok, found.text
