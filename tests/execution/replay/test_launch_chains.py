# SPDX-License-Identifier: Apache-2.0
"""Chains of small kernels in one launch: eligible tasks, and results equal to single launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.opened import live_on
from support.running import DTYPE, MIX, graphs, plan_by, sequential

from syclsched.devices.programs import launch_chains
from syclsched.devices.programs.programs import program_count
from syclsched.errors import TaskFailedError
from syclsched.execution import Runner, bind
from syclsched.execution.replay import launch_fusion, plan_instance
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, OpenCLSource, Operation, Parameter, Work
from syclsched.testing import faults

pytestmark = pytest.mark.sycl


IMPLEMENTATION = "opencl-c"
SHAPE = (6, 8)

#: Code that depends on every index a work-item can query; with a helper, a macro and an attribute.
INDICES = """
#define ADDED 5
long helper(long value) { return value + ADDED; }
__kernel __attribute__((vec_type_hint(int))) void indices(__global const long *restrict x, __global long *restrict y) {
    // get_global_id(1) is the row
    const size_t i = get_global_id(1) * get_global_size(0) + get_global_id(0);
    y[i] += helper(x[i]) * 3 + get_local_id(0) + 10 * get_group_id(1);
    y[i] += 100 * get_local_size(1) + 1000 * get_num_groups( 0 );
}
"""
WITH_BARRIER = """
__kernel void indices(__global const long *x, __global long *y) {
    const size_t i = get_global_id(1) * get_global_size(0) + get_global_id(0);
    barrier(CLK_GLOBAL_MEM_FENCE);
    y[i] += x[i];
}
"""
ASKED_ELSEWHERE = """
size_t place(void) { return get_global_id(1) * get_global_size(0) + get_global_id(0); }
__kernel void indices(__global const long *x, __global long *y) { y[place()] += x[place()]; }
"""


@pytest.fixture(autouse=True)
def _fuse_launches_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_fusion, "NOTICED", 0.0)  # the predicted times of plans made by hand are long


def operation(source: str, flops: float = 1e3) -> Operation:
    parameters = (
        Parameter("x", AccessMode.READ, ndim=2, dtypes=("int64",)),
        Parameter("y", AccessMode.UPDATE, ndim=2, dtypes=("int64",)),
    )
    launch = Launch(SHAPE, (2, 4))
    way = Implementation(IMPLEMENTATION, IMPLEMENTATION, lambda _: OpenCLSource(source, "indices"), lambda *_: launch)
    return Operation("indices", parameters, (way,), lambda _: Work(flops, 1e3, "int64"))


def replaced_code(given: Operation, code: OpenCLSource) -> Operation:
    """Return an operation with other code."""
    (way,) = given.implementations
    return replace(given, implementations=(replace(way, load=lambda _: code),))


def chain_of(operations: Sequence[Operation]) -> TaskGraph:
    """Return tasks that read x and update y, and the reverse, in turns."""
    graph = TaskGraph("chain")
    x, y = (graph.array(name, SHAPE, "int64") for name in "xy")
    for number, each in enumerate(operations):
        one, other = (x, y) if number % 2 == 0 else (y, x)
        graph.kernel(each, name=f"t{number}", x=one, y=other)
    return graph


def bound(graph: TaskGraph, *, trace: bool = False, lanes: int = 1) -> Runner:
    platform, devices = live_on(None)
    implementations = {t.name: t.operation.implementations[0].name for t in graph.tasks if t.operation is not None}

    def place(name: str) -> tuple[str, int, str | None]:
        return "cpu", sum(name.encode()) % lanes, implementations.get(name)

    return bind(plan_by(graph, platform, place), graph, devices, trace=trace)


def submissions(runner: Runner) -> list[int]:
    """Return how many kernels each submission launches."""
    assert runner._bound.instances is not None
    instance = runner._bound.instances.generations[0]
    instance.build_chains()  # as the first run does
    units = instance._units
    return [len(unit) for unit in units if unit[0].instruction.kind == "launch"]


def same_as_alone(graph: TaskGraph, launches: list[int], lanes: int = 1) -> None:
    """Assert that a plan makes these launches, and has the results of kernels launched one by one."""
    rng = np.random.default_rng(0)
    with bound(graph, lanes=lanes) as runner, bound(graph, trace=True, lanes=lanes) as alone:
        assert submissions(runner) == launches
        assert set(submissions(alone)) == {1}
        for _ in range(20):  # submitted, and on the calling thread
            inputs = {name: rng.integers(-1000, 1000, SHAPE) for name in graph.inputs()}
            expected = alone(inputs)
            found = runner(inputs)
            assert found.keys() == expected.keys()
            assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_indices_in_a_chain_equal_those_of_single_launches() -> None:
    same_as_alone(chain_of([operation(INDICES)] * 5), [5])


def taking(*extents: int, more: str = "") -> Operation:
    """Return an operation whose kernel takes two extents."""
    source = INDICES.replace("long *restrict y)", "long *restrict y, const int n, int factor)")
    source = source.replace("* 3", f"* factor - n{more}")
    return replaced_code(operation(source), OpenCLSource(source, "indices", extents=extents))


def test_a_chain_contains_extents() -> None:
    same_as_alone(chain_of([taking(7, 3), taking(8, -2), operation(INDICES), taking(7, 5)]), [4])


def test_chains_of_further_extents_share_a_kernel() -> None:
    built = []
    for number in range(4):
        before = program_count()
        kernels = [taking(7 + number, 3, more=" + 5"), taking(8, -number), taking(number, number, more=" + 5")]
        same_as_alone(chain_of(kernels), [3])
        built.append(program_count() - before)
    # The single launches together, and the chain that contains its extents; then the one that takes them.
    assert built == [2, 1, 0, 0]


def test_long_runs_have_no_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain_of([operation(INDICES)] * 5)
    platform, devices = live_on(None)
    plan = plan_by(graph, platform, lambda _: ("cpu", 0, IMPLEMENTATION))
    saved = 4 * launch_fusion.LAUNCH_S / plan.makespan_s
    for noticed, launches in ((0.9 * saved, [5]), (1.1 * saved, [1] * 5)):
        monkeypatch.setattr(launch_fusion, "NOTICED", noticed)
        with bind(plan, graph, devices, trace=False) as runner:
            assert submissions(runner) == launches


@pytest.mark.parametrize("source", [WITH_BARRIER, ASKED_ELSEWHERE])
def test_kernels_that_cannot_be_chained_are_launched_singly(source: str) -> None:
    usual, other = operation(INDICES), operation(source)
    same_as_alone(chain_of([usual, usual, other, usual, usual]), [2, 1, 2])


def test_larger_tasks_are_launched_singly() -> None:
    usual, large = operation(INDICES), operation(INDICES, 1e9)
    same_as_alone(chain_of([usual, usual, large, usual]), [2, 1, 1])


def test_plans_of_several_lanes_or_of_many_kernels_have_no_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    same_as_alone(chain_of([operation(INDICES)] * 4), [1] * 4, lanes=2)
    monkeypatch.setattr(plan_instance, "MOST_CHAINED_UNITS", 3)
    same_as_alone(chain_of([operation(INDICES)] * 4), [1] * 4)


def test_plans_that_are_not_small_have_long_chains_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_instance, "MANY_UNITS", 6)
    usual, large = operation(INDICES), operation(INDICES, 1e9)
    same_as_alone(chain_of([usual, usual, usual, large, *[usual] * 4]), [1, 1, 1, 1, 4])


def test_a_chain_has_no_more_arguments_than_a_kernel_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_instance, "MOST_ARGUMENTS", 7)  # two arrays and two ranges each
    same_as_alone(chain_of([operation(INDICES)] * 5), [2, 2, 1])


def test_chains_that_do_not_compile_are_launched_singly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_chains, "chain_source", lambda *_, **__: OpenCLSource("nonsense", "none"))
    launch_chains._kernel.cache_clear()
    try:
        same_as_alone(chain_of([operation(INDICES)] * 3), [1] * 3)
    finally:
        launch_chains._kernel.cache_clear()


def test_refused_chains_are_submitted_singly_in_order() -> None:
    graph = chain_of([operation(INDICES)] * 4)
    inputs = {name: np.arange(48).reshape(SHAPE) for name in graph.inputs()}
    with bound(graph) as runner:
        expected = runner(inputs)
        # The third submission is the chain, after two copies; its last task is refused again when it is alone.
        with faults.inject(faults.fail_submission(3)), runner.run(inputs) as run:
            with pytest.raises(TaskFailedError, match="t3"):
                run.wait()
            np.testing.assert_array_equal(run.result("y"), expected["y"])
        found = runner(inputs)
        assert all(np.array_equal(found[name], expected[name]) for name in expected)


@given(data=st.data())
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow])
def test_random_graphs_have_the_bits_of_numpy(data: st.DataObject) -> None:
    platform, devices = live_on(None)
    graph = data.draw(graphs(max_tasks=20))
    tasks = {t.name: t for t in graph.tasks}

    def place(name: str) -> tuple[str, int, str | None]:
        which = tasks[name].operation
        if which is None:
            return "cpu", 0, None
        return "cpu", 0, IMPLEMENTATION if which is MIX else which.implementations[0].name

    with bind(plan_by(graph, platform, place), graph, devices, trace=False) as runner:
        for seed in range(3):
            rng = np.random.default_rng(seed)
            inputs = {n: rng.integers(-(2**40), 2**40, graph.arrays[n].shape).astype(DTYPE) for n in graph.inputs()}
            expected = sequential(graph, inputs)
            for name, value in runner(inputs).items():
                np.testing.assert_array_equal(value, expected[name], err_msg=name)
