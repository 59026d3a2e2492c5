# SPDX-License-Identifier: Apache-2.0
"""Rewritten graphs on live devices: bits of the original graph, inputs and results by its names."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.gpu_shape import OTHER_DEVICE
from support.running import JUDGE, MIX, graphs, inputs_of, mixed_chain, plan_by, plan_on, plans, sequential
from support.samples import COLUMNS, values

from syclsched.api import with_lanes
from syclsched.costs import CostModel
from syclsched.devices import discover, open_devices
from syclsched.errors import ArgumentError, TaskFailedError, UnknownArrayError, WaitTimeoutError
from syclsched.execution import execute
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.oneapi.dpctl_interface import usm_arrays
from syclsched.rewrites import Cut, Merge, Recipe, coarsen, replay

pytestmark = pytest.mark.sycl


@lru_cache(maxsize=1)
def live_here() -> tuple[Platform, Any]:
    # A millisecond for each submission: everything that can be merged is merged.
    platform = replace(with_lanes(discover(), 2), submission_s=1e-3)
    return platform, open_devices(platform)


@given(data=st.data(), graph=graphs())
@settings(max_examples=examples(25), deadline=None)
def test_merged_tasks_have_the_bits_of_numpy_on_every_device(data: st.DataObject, graph: TaskGraph) -> None:
    platform, live = live_here()
    found = coarsen(graph, platform, CostModel(platform))
    plan = data.draw(plans(found.graph, platform))
    inputs = inputs_of(graph, len(graph))
    with execute(plan, found.graph, live, inputs) as run:
        run.wait()
        expected = sequential(graph, inputs)
        for array in plan.arrays:
            if not array.temporary:
                np.testing.assert_array_equal(run.result(array.name), expected[array.name], err_msg=array.name)
        trace = run.trace()
    assert all(s.outcome == "done" and s.start_s <= s.finish_s <= trace.makespan_s for s in trace.spans)
    assert trace.submissions >= sum(1 for s in trace.spans if s.lane_kind != "host")


@pytest.mark.parametrize("device", ["cpu", OTHER_DEVICE])
@pytest.mark.parametrize("names", [("opencl-c",) * 6, ("opencl-c", "python") * 3])
def test_a_merged_task_is_one_instruction_and_spans_all_its_steps(device: str, names: tuple[str, ...]) -> None:
    platform, live = live_here()
    graph, data = mixed_chain(6)
    merged = replay(graph, Recipe(merges=(Merge(tuple(t.name for t in graph.tasks), (names,), "all"),))).graph
    with execute(plan_on(merged, platform, device), merged, live) as run:
        np.testing.assert_array_equal(run.result("y"), sequential(graph, data)["y"])
        trace = run.trace()
    (span,) = [s for s in trace.spans if s.kind == "launch"]
    copies = sum(1 for s in trace.spans if s.kind == "copy")
    assert trace.submissions == 6 + copies
    with execute(plan_on(graph, platform, device), graph, live) as run:
        np.testing.assert_array_equal(run.result("y"), sequential(graph, data)["y"])
    assert span.finish_s > span.start_s >= span.submit_s


def test_a_status_of_a_step_reaches_the_caller() -> None:
    platform, live = live_here()
    graph = TaskGraph("judged")
    x, y = graph.array("x", data=np.array([-5])), graph.array("y", data=np.array([0]))
    status = graph.array("status", (1,), "int32", temporary=True)
    graph.kernel(MIX, name="mix", x=x, y=y, a=1)
    graph.kernel(JUDGE, name="judge", x=y, status=status)
    merged = replay(graph, Recipe(merges=(Merge(("mix", "judge"), (("opencl-c", "opencl-c"),), "mix+judge"),))).graph
    with execute(plan_on(merged, platform, "cpu"), merged, live) as run, pytest.raises(TaskFailedError) as failure:
        run.wait()
    assert failure.value.task == "mix+judge"
    assert "step 'judge': x is negative" in str(failure.value)


# --- cut graphs -----------------------------------------------------------------------------------

ROWS = 11


def wave() -> tuple[TaskGraph, dict[str, Any]]:
    """Return two row-wise operations, one that needs the whole, and two row-wise ones again."""
    graph = TaskGraph("wave")
    data = {name: np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) * k for name, k in (("x", 3), ("y", 5))}
    x, y = (graph.array(name, value.shape, "int64") for name, value in data.items())
    z, turned = graph.array("z", (ROWS, COLUMNS), "int64"), graph.array("turned", (ROWS, COLUMNS), "int64")
    out = graph.array("out", (ROWS, COLUMNS), "int64")
    graph.kernel(get("axpy"), name="a", y=y, x=x, alpha=2)
    graph.kernel(get("add"), name="b", z=z, x=x, y=y)
    graph.host(lambda z, turned: np.copyto(turned, z[::-1]), name="turn", z=z.read(), turned=turned.write())
    graph.kernel(get("add"), name="c", z=out, x=turned, y=y)
    graph.kernel(get("scale"), name="d", x=out, alpha=-1)
    return graph, data


CUTS = Recipe(cuts=(Cut(("a", "b"), (4, 3, 4)), Cut(("c", "d"), (6, 5))))


@settings(max_examples=examples(8), deadline=None)
@given(data=st.data())
def test_cut_tasks_have_equal_bits_for_every_placement(data: st.DataObject) -> None:
    platform, live = live_here()
    graph, inputs = wave()
    found = replay(graph, CUTS)
    assert (found.counters.gathers, found.counters.scatters) == (2, 4)
    expected = sequential(graph, inputs)

    def place(name: str) -> tuple[str, int, str | None]:
        operation = found.graph.find_task(name).operation
        assert operation is not None
        able = [(d, i) for d in platform.devices for i in operation.implementations if d.is_host == (i.kind == "host")]
        device, implementation = data.draw(st.sampled_from(able))
        return device.name, data.draw(st.integers(0, device.lanes - 1)), implementation.name

    with execute(plan_by(found.graph, platform, place), found.graph, live, inputs) as run:
        for name in ("x", "y", "z", "turned", "out"):
            np.testing.assert_array_equal(run.result(name), expected[name], err_msg=name)
    assert inputs["y"][1, 0] == 15  # the caller's array is not modified


@pytest.mark.parametrize("like", ["numpy", "dpnp", "usm_ndarray"])
def test_results_in_chunks_have_the_requested_array_type(like: Any) -> None:
    platform, live = live_here()
    graph = TaskGraph("scaled")
    value = np.arange(12.0).reshape(6, 2)
    x = graph.array("x", data=value)
    graph.kernel(get("scale"), name="s", x=x, alpha=2.0)
    found = replay(graph, Recipe(cuts=(Cut(("s",), (2, 4)),))).graph
    assert "x" not in found.arrays
    with execute(plan_on(found, platform, "cpu"), found, live) as run:
        got = run.result(x, like)
        if like == "dpnp":
            import dpnp

            got = dpnp.asnumpy(got)
        elif like == "usm_ndarray":
            tensor = usm_arrays()

            got = tensor.asnumpy(got)
        np.testing.assert_array_equal(got, values(graph)["x"])
    with execute(plan_on(found, platform, "cpu"), found, live, {"x": value + 1}) as run:
        np.testing.assert_array_equal(run.result("x"), 2 * (value + 1))


def test_wrong_values_for_a_cut_array_are_refused() -> None:
    platform, live = live_here()
    graph, inputs = wave()
    found = replay(graph, CUTS).graph
    plan = plan_on(found, platform, "cpu")
    with pytest.raises(ArgumentError, match=r"array 'x'.*data of shape \(3, 3\)"):
        execute(plan, found, live, inputs | {"x": np.zeros((3, 3), "int64")})
    with pytest.raises(ArgumentError, match="no value is given for"):
        execute(plan, found, live, {"x": inputs["x"]})
    with pytest.raises(UnknownArrayError, match="not declared"):
        execute(plan, found, live, inputs | {"nonsense": np.zeros(3)})


def test_a_timeout_covers_all_parts() -> None:
    import threading

    platform, live = live_here()
    gate = threading.Event()
    graph = TaskGraph("held up")
    x = graph.array("x", data=np.zeros((4, 1)))
    graph.host(lambda x: gate.wait(60) and None, name="hold", x=x.update())
    graph.kernel(get("scale"), name="s", x=x, alpha=1.0)
    y = graph.array("y", (4, 1))
    graph.kernel(get("copy"), name="c", y=y, x=x)
    found = replay(graph, Recipe(cuts=(Cut(("s", "c"), (2, 2)),))).graph
    with execute(plan_on(found, platform, "cpu"), found, live) as run:
        with pytest.raises(WaitTimeoutError):
            run.result("y", timeout=0.01)
        gate.set()
        np.testing.assert_array_equal(run.result("y"), np.zeros((4, 1)))
