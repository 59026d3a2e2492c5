# SPDX-License-Identifier: Apache-2.0
"""Tasks on ranges of arrays, on live devices: equal bits for all placements."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.opened import live_on
from support.running import ASSIGN, DTYPE, JUDGE, graphs, plan_by, plan_on, plans, sequential

from syclsched.errors import ArgumentError, TaskFailedError, UnknownArrayError, WaitTimeoutError
from syclsched.execution import bind, execute
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Platform
from syclsched.oneapi.dpctl_interface import usm_arrays

pytestmark = pytest.mark.sycl


def check(plan: Any, graph: TaskGraph, devices: Any) -> None:
    """Run a plan and compare all results with NumPy's."""
    rng = np.random.default_rng(len(graph))
    inputs = {name: rng.integers(-(2**40), 2**40, a.shape) for name, a in graph.arrays.items()}
    untouched = {name: value.copy() for name, value in inputs.items()}
    expected = sequential(graph, inputs)
    with execute(plan, graph, devices, inputs) as run:
        run.wait(60)
        for name, array in graph.arrays.items():
            if not array.temporary:
                np.testing.assert_array_equal(run.result(name), expected[name], err_msg=name)
                middle = array[array.shape[0] // 3 : array.shape[0] // 3 + 1]
                np.testing.assert_array_equal(run.result(middle), expected[name][middle.start : middle.stop])
        assert all(held <= plan.peak_bytes[space] for space, held in run.trace().peak_bytes.items())
    for name, value in untouched.items():
        np.testing.assert_array_equal(inputs[name], value, err_msg=f"input {name} was written to")


@given(data=st.data())
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.parametrize("sub_devices", [None, 2])
def test_random_graphs_have_the_bits_of_numpy_for_any_placement(sub_devices: int | None, data: st.DataObject) -> None:
    platform, devices = live_on(sub_devices)
    graph = data.draw(graphs(ranges=True))
    check(data.draw(plans(graph, platform)), graph, devices)


@given(data=st.data())
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
def test_results_do_not_depend_on_how_much_memory_there_is(data: st.DataObject) -> None:
    platform, devices = live_on(None)
    graph = data.draw(graphs(ranges=True))
    arrays = graph.arrays
    most = max(sum({a.array: arrays[a.array].nbytes for a in t.accesses}.values()) for t in graph.tasks)
    room = max(most, 1) + sum(constant.nbytes for constant in graph.constants)
    spaces = tuple(s if s.name == HOST else replace(s, capacity_bytes=room) for s in platform.spaces)
    check(data.draw(plans(graph, replace(platform, spaces=spaces))), graph, devices)


@given(data=st.data())
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.instruction_sets
def test_bound_plans_have_the_bits_of_numpy_in_every_run(data: st.DataObject) -> None:
    platform, devices = live_on(None)
    graph = data.draw(graphs(ranges=True))
    with bind(data.draw(plans(graph, platform)), graph, devices) as runner:
        for seed in range(3):
            rng = np.random.default_rng(seed)
            inputs = {name: rng.integers(-(2**40), 2**40, a.shape) for name, a in graph.arrays.items()}
            expected = sequential(graph, inputs)
            results = runner(inputs)
            for name, value in results.items():
                np.testing.assert_array_equal(value, expected[name], err_msg=name)
            asked = {name for name in graph.inputs() if not graph.arrays[name].temporary}
            assert {a.array for t in graph.tasks for a in t.accesses if a.mode.writes} & asked <= results.keys()


def halves(task: Any) -> TaskGraph:
    """Return a graph in which a host function writes one half of an array, and a kernel the other."""
    graph = TaskGraph("halves")
    x = graph.array("x", data=np.arange(100, dtype=DTYPE))
    y = graph.array("y", (100,), DTYPE)
    graph.host(task, name="slow", y=y[:50].write())
    graph.kernel(ASSIGN, name="quick", x=x[50:], y=y[50:])
    return graph


def test_rows_can_be_had_while_others_are_still_written(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    opened = threading.Event()

    def write(y: Any) -> None:
        assert opened.wait(60)
        y[...] = 7

    graph = halves(write)
    y = graph.arrays["y"]
    assert graph.dependencies() == ()
    with execute(plan_on(graph, platform, "cpu"), graph, devices) as run:
        np.testing.assert_array_equal(run.result(y[60:90], timeout=60), np.arange(60, 90))
        with pytest.raises(WaitTimeoutError):
            run.result(y, timeout=0.01)
        opened.set()
        np.testing.assert_array_equal(run.result(y, timeout=60), [7] * 50 + list(range(50, 100)))


def test_a_failed_task_cancels_only_readers_of_its_rows(live: tuple[Platform, Any]) -> None:
    platform, devices = live

    def fail(y: Any) -> None:
        raise ValueError("no")

    graph = halves(fail)
    y = graph.arrays["y"]
    total = graph.array("total", (100,), DTYPE)
    graph.kernel(ASSIGN, name="good", x=y[50:], y=total[50:])
    graph.kernel(ASSIGN, name="bad", x=y[40:90], y=total[0:50])
    with execute(plan_on(graph, platform, "cpu"), graph, devices) as run:
        np.testing.assert_array_equal(run.result(total[50:]), np.arange(50, 100))
        with pytest.raises(TaskFailedError, match=r"slow.*y\[0:50\]"):
            run.result(total)
        with pytest.raises(TaskFailedError, match="slow"):
            run.wait(60)


def test_rows_that_no_task_writes_have_the_value_that_was_given(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("given")
    x = graph.array("x", data=np.arange(30, dtype=DTYPE))
    given, none = graph.array("given", data=np.full(100, 5, DTYPE)), graph.array("none", (100,), DTYPE)
    for number, y in enumerate((given, none)):
        graph.kernel(ASSIGN, name=f"first{number}", x=x, y=y[10:40])
        graph.kernel(ASSIGN, name=f"second{number}", x=x[:10], y=y[60:70])
    with execute(plan_on(graph, platform, "cpu"), graph, devices) as run:
        expected = np.full(100, 5)
        expected[10:40], expected[60:70] = np.arange(30), np.arange(10)
        np.testing.assert_array_equal(run.result(given), expected)
        np.testing.assert_array_equal(run.result(given[30:65]), expected[30:65])
        np.testing.assert_array_equal(run.result(none[20:40]), np.arange(10, 30))
        np.testing.assert_array_equal(run.result(none[10:40]), np.arange(30))
        with pytest.raises(ArgumentError, match=r"result\(\): given\[90:150\] is beyond the array"):
            run.result(given[90:150])
        np.testing.assert_array_equal(run.result(x[5:7]), [5, 6])
        with pytest.raises(UnknownArrayError, match=r"none\[0:100\].*some of its rows are written by no task"):
            run.result(none)


@pytest.mark.parametrize("like", ["dpnp", "usm_ndarray"])
def test_results_on_a_device(like: Any, live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("shared")
    x = graph.array("x", data=np.arange(400, dtype=DTYPE).reshape(100, 4))
    y = graph.array("y", (100, 4), DTYPE)
    names = [d.name for d in platform.compute_devices]
    for number in range(4):
        rows = slice(25 * number, 25 * number + 25)
        graph.kernel(ASSIGN, name=f"t{number}", x=x[rows], y=y[rows])
    for where in (lambda name: names[0], lambda name: names[int(name[1:]) % len(names)]):
        plan = plan_by(graph, platform, lambda name, where=where: (where(name), 0, "library"))
        with execute(plan, graph, devices) as run:
            run.wait(60)
            found, part = run.result(y, like=like), run.result(y[30:80], like=like)
        for array, expected in ((found, np.arange(400).reshape(100, 4)), (part, np.arange(120, 320).reshape(50, 4))):
            array = array.get_array() if hasattr(array, "get_array") else array
            tensor = usm_arrays()

            np.testing.assert_array_equal(tensor.asnumpy(array), expected)


def test_statuses_can_be_rows_of_one_array(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("statuses")
    statuses = graph.array("statuses", (3,), "int32", temporary=True)
    for number, value in enumerate((1, -1, 1)):
        x = graph.array(f"x{number}", data=np.full(1, value, DTYPE))
        graph.kernel(JUDGE, name=f"judge{number}", x=x, status=statuses[number : number + 1])
    with (
        pytest.raises(TaskFailedError, match="x is negative") as caught,
        execute(plan_on(graph, platform, "cpu"), graph, devices) as run,
    ):
        run.wait(60)
    assert caught.value.task == "judge1"


def test_reductions_into_rows_keep_the_order_of_submission(live: tuple[Platform, Any]) -> None:
    platform, devices = live
    graph = TaskGraph("sums")
    x = graph.array("x", data=np.arange(40, dtype=DTYPE))
    total = graph.array("total", data=np.zeros(20, DTYPE))

    def twice_and_add(x: Any, total: Any) -> None:
        total *= 2
        total += x

    for number in range(4):
        start = 5 * (number % 2)
        graph.host(
            twice_and_add,
            name=f"t{number}",
            x=x[10 * number : 10 * number + 10].read(),
            total=total[start : start + 10].reduce(),
        )
    check(plan_on(graph, platform, "cpu"), graph, devices)
