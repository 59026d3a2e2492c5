# SPDX-License-Identifier: Apache-2.0
"""Conformance of every way to run a graph: recovery from faults, also beside errors of tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.conformance import Way, check, check_run, only_on, over_all_ways, platform_of, releasing, spread
from support.conformance_graphs import DEVICE_MIX, SIZE, Failing
from support.gpu_shape import OTHER_DEVICE
from support.opened import skip_without_other_device
from support.running import ASSIGN_KERNEL, DTYPE, MIX, SPIN, inputs_of, sequential

from syclsched.errors import TaskFailedError
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Operation
from syclsched.testing import faults

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("own_history", "compiled_policies")]


def coupled_updates(mix: Operation, tasks: int = 12) -> TaskGraph:
    """Return a graph of arrays that are updated in place and read each other: every task needs those before."""
    graph = TaskGraph("coupled updates")
    arrays = [graph.array(f"x{n}", (SIZE,), DTYPE) for n in range(3)]
    for index in range(tasks):
        graph.kernel(mix, name=f"mix{index}", x=arrays[(index + 1) % 3], y=arrays[index % 3], a=index + 2)
    graph.host(lambda y: np.add(y, 1, out=y), name="host", y=arrays[0].update(), pure=True)
    graph.kernel(mix, name="last", x=arrays[0], y=arrays[1], a=2)
    return graph


POINTS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "submission": ("submission", faults.fail_submission),
    "copy": ("copy", faults.fail_copy),
    "allocation": ("allocation", faults.fail_allocation),
    "on device": ("submission", faults.fail_on_device),
    "on device, done": ("submission", lambda number: faults.fail_on_device(number, done=True)),
}
FAULTS = [f"{when} {what}" for what in POINTS for when in ("first", "middle")] + ["lost device"]


@pytest.mark.one_case_in(3)
@over_all_ways("recovery", FAULTS)
@releasing
def test_a_run_recovers_from_a_fault_with_the_same_bits(way: Way, case: str) -> None:
    graph = coupled_updates(DEVICE_MIX)
    inputs = inputs_of(graph, 1)
    untouched = {name: value.copy() for name, value in inputs.items()}
    wanted = sequential(coupled_updates(MIX), inputs)
    platform = platform_of(2)
    plan = spread(graph, platform)

    def passed(*fault: Any) -> Any:
        with faults.inject(*fault) as seen, way.open(graph, plan, inputs, warm=False, trace=True) as session:
            handle = session.start(inputs)
            check(handle, wanted, graph)
            assert len(handle.recoveries) == len(seen.injected)
            handle.close()
        return seen

    if case == "lost device":
        skip_without_other_device()
        # A dynamic policy may leave one device unused, but not both.
        for lost in ("cpu", OTHER_DEVICE):
            fault = faults.lose(lost, after=1)
            with faults.inject(fault) as seen, way.open(graph, plan, inputs, warm=False, trace=True) as session:
                handle = session.start(inputs)
                check(handle, wanted, graph)
                recovered = any(lost in recovery.lost for recovery in handle.recoveries)
                assert recovered == ("lost" in {injected.what for injected in seen.injected})
                handle.close()
                check_run(session, inputs, wanted, graph)
            if recovered:
                break
        assert recovered
    else:
        when, _, what = case.partition(" ")
        point, make = POINTS[what]
        number = 1 if when == "first" else max(1, passed().passed(point) // 2)
        assert len(passed(make(number)).injected) == 1 or (way.decides_while_running and when == "middle")
    for name, value in untouched.items():
        np.testing.assert_array_equal(inputs[name], value, err_msg=f"input {name} was written to")


# --- faults and errors over two contexts -------------------------------------------------------------


def no_good(y: Any) -> None:
    raise ValueError("no good")


@pytest.mark.other_device
@over_all_ways("edge across contexts")
@releasing
def test_a_skipped_task_waits_for_a_kernel_of_another_context(way: Way) -> None:
    """Its input failed on the host; an explicit edge puts it after a kernel that still runs on another device."""
    graph = TaskGraph("across contexts")
    w, x, y, z = (graph.array(name, data=np.arange(4, dtype=DTYPE)) for name in "wxyz")
    graph.kernel(only_on(SPIN, "cpu"), name="before", y=x, turns=100_000_000)
    graph.host(no_good, name="bad", y=y.update())
    graph.kernel(only_on(MIX, OTHER_DEVICE), name="left out", x=z, y=y, a=1)
    graph.kernel(only_on(ASSIGN_KERNEL, OTHER_DEVICE), name="behind", x=w, y=z)
    graph.edge("before", "left out")
    with way.open(graph, spread(graph, platform_of(2)), warm=False, trace=True) as session:
        handle = session.start()
        with pytest.raises(TaskFailedError, match="no good") as caught:
            handle.wait()
        assert caught.value.task == "bad"
        trace = handle.trace()
        outcomes = {s.task: s.outcome for s in trace.spans if s.kind in ("launch", "host")}
        assert outcomes["before"] == outcomes["behind"] == "done"
        assert outcomes["bad"] == "failed"
        assert outcomes.get("left out", "cancelled") == "cancelled"
        if way.has_run:
            np.testing.assert_array_equal(handle.result("z"), np.arange(4))
        handle.close()


@over_all_ways("fault beside an error", ["submission", "on device"])
@releasing
def test_a_fault_beside_a_host_function_that_raises(way: Way, case: str) -> None:
    """The fault is recovered from where runs have recovery; the function's error is raised, and other tasks finish."""
    failing = Failing("raises, two contexts")
    make = faults.fail_submission if case == "submission" else faults.fail_on_device
    for number in (1, 2, 3):
        with (
            faults.inject(make(number)),
            way.open(failing.graph, failing.plan, failing.arm(False), warm=False) as session,
        ):
            failing.apart.calls = failing.behind.calls = 0
            handle = session.start(failing.arm(True))
            with pytest.raises(TaskFailedError) as caught:
                handle.wait()
            if "recovery" not in way.lacks:
                assert caught.value.task == "bad"
                assert failing.behind.calls == 0
                assert failing.apart.calls >= session.runs_per_handle
                if way.has_run:
                    np.testing.assert_array_equal(handle.result("w"), failing.wanted["w"])
            handle.close()
            again = session.start(failing.arm(False))
            again.wait()
            for name, value in failing.wanted.items():
                np.testing.assert_array_equal(again.result(name), value, err_msg=name)
            again.close()
