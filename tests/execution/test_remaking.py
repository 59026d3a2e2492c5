# SPDX-License-Identifier: Apache-2.0
"""Rematerialisation on live devices: plans that drop values and compute them again have equal bits."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.running import ASSIGN, DTYPE, MIX, plan_by

from syclsched.api import with_lanes
from syclsched.devices import discover, open_devices
from syclsched.errors import TaskFailedError
from syclsched.execution import execute
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, OpenCLSource, Operation, Parameter, Signature, Work
from syclsched.model.plan import Plan
from syclsched.model.platform import HOST, Platform
from syclsched.model.task import LogicalArray

pytestmark = pytest.mark.sycl

SOURCE = """
__kernel void affine(__global const long *x, __global long *y, long a) {
    size_t i = get_global_id(0);
    y[i] = a * x[i] + (long)i;
}
__kernel void checked(__global const long *x, __global long *y, __global int *status) {
    size_t i = get_global_id(0);
    y[i] = x[i] + 1;
    if (i == 0) status[0] = x[0] < 0 ? 7 : 0;
}
"""


def work(_: Signature) -> Work:
    return Work(flops=1e3, bytes=1e3, dtype=DTYPE)


def over_y(signature: Signature, _: object) -> Launch:
    return Launch(signature.shapes["y"])


AFFINE = Operation(
    "affine",
    (Parameter("x", AccessMode.READ, ndim=1), Parameter("y", AccessMode.WRITE, ndim=1), Parameter("a")),
    (Implementation("opencl-c", "opencl-c", lambda _: OpenCLSource(SOURCE, "affine"), over_y),),
    work,
)

CHECKED = Operation(
    "checked",
    (
        Parameter("x", AccessMode.READ, ndim=1),
        Parameter("y", AccessMode.WRITE, ndim=1),
        Parameter("status", AccessMode.WRITE, dtypes=("int32",)),
    ),
    (Implementation("opencl-c", "opencl-c", lambda _: OpenCLSource(SOURCE, "checked"), over_y),),
    work,
    status="status",
    explain_status=lambda value: f"x is negative (status {value})",
)


@lru_cache(maxsize=1)
def live() -> tuple[Platform, Any]:
    platform = with_lanes(discover(), 2)
    return platform, open_devices(platform)


def tight(platform: Platform, capacity_bytes: int) -> Platform:
    """Return the platform with little memory behind slow links."""
    return replace(
        platform,
        spaces=tuple(s if s.name == HOST else replace(s, capacity_bytes=capacity_bytes) for s in platform.spaces),
        links=tuple(replace(link, latency_s=1.0) for link in platform.links),
    )


def again(plan: Plan) -> list[str]:
    return [i.task or "" for _, i in plan.instructions() if i.again]


def reversed_chain(length: int, device: str) -> tuple[TaskGraph, Plan, Any]:
    """Return a chain of values that are needed again in reverse order, its plan, and the expected results."""
    graph = TaskGraph("reversed chain")
    start = np.arange(1000, dtype=DTYPE)
    before = graph.array("start", data=start)
    total = graph.array("total", data=start)
    values: list[LogicalArray] = []
    expected = [start]
    for n in range(length):
        values.append(graph.array(f"x{n}", (1000,), DTYPE, temporary=True))
        graph.kernel(AFFINE, name=f"f{n}", x=before, y=values[-1], a=n + 2)
        before = values[-1]
        expected.append((n + 2) * expected[-1] + np.arange(1000))
    result = start
    for n in reversed(range(length)):
        graph.kernel(MIX, name=f"b{n}", x=values[n], y=total, a=n)
        result = n * expected[n + 1] + 3 * result + np.arange(1000)
    plan = plan_by(graph, tight(live()[0], 4 * start.nbytes), lambda name: (device, 0, "opencl-c"))
    return graph, plan, result


@pytest.mark.parametrize("which", [0, -1])
def test_recomputed_values_are_equal(which: int) -> None:
    platform, devices = live()
    device = platform.compute_devices[which]
    graph, plan, expected = reversed_chain(8, device.name)
    assert again(plan)
    with execute(plan, graph, devices) as run:
        run.wait(60)
        np.testing.assert_array_equal(run.result("total"), expected)
        trace = run.trace()
    assert trace.peak_bytes[device.space] <= 4 * 8000
    done = [span.task for span in trace.spans if span.kind == "launch"]
    assert {name: done.count(name) for name in done} == {t.name: 1 + again(plan).count(t.name) for t in graph.tasks}
    assert all(span.outcome == "done" for span in trace.spans)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_results_do_not_depend_on_recomputed_values(data: st.DataObject) -> None:
    platform, devices = live()
    graph = TaskGraph("random")
    values: dict[str, Any] = {"start": np.arange(100, dtype=DTYPE)}
    arrays = [graph.array("start", data=values["start"])]
    for n in range(data.draw(st.integers(5, 14))):
        read = data.draw(st.sampled_from(arrays))
        out = graph.array(f"x{n}", (100,), DTYPE, temporary=data.draw(st.integers(0, 3)) > 0)
        if data.draw(st.booleans()):
            graph.kernel(AFFINE, name=f"t{n}", x=read, y=out, a=n)
            values[out.name] = n * values[read.name] + np.arange(100)
        else:
            graph.kernel(ASSIGN, name=f"t{n}", x=read, y=out)
            values[out.name] = values[read.name].copy()
        arrays.append(out)
        if n % 3 == 2:
            other = data.draw(st.sampled_from([a for a in arrays[1:] if a is not out] or [out]))
            if other is not out:
                graph.kernel(MIX, name=f"m{n}", x=other, y=out, a=n)
                values[out.name] = n * values[other.name] + 3 * values[out.name] + np.arange(100)
    places = {
        t.name: (
            data.draw(st.sampled_from(platform.compute_devices)).name,
            data.draw(st.integers(0, 1)),
            t.operation.implementations[0].name,
        )
        for t in graph.tasks
        if t.operation is not None
    }
    plan = plan_by(graph, tight(platform, 2 * 800), places.__getitem__)
    with execute(plan, graph, devices) as run:
        run.wait(60)
        for name, array in graph.arrays.items():
            if not array.temporary and name != "start":
                np.testing.assert_array_equal(run.result(name), values[name])


@pytest.mark.parametrize("sign", [1, -1])
def test_a_recomputed_task_reports_its_status_once(sign: int) -> None:
    platform, devices = live()
    device = platform.compute_devices[0]
    graph = TaskGraph("checked")
    start = sign * np.arange(1, 1001, dtype=DTYPE)
    given_ = graph.array("start", data=start)
    status = graph.array("status", (1,), "int32")
    first = graph.array("first", (1000,), DTYPE, temporary=True)
    graph.kernel(CHECKED, name="first", x=given_, y=first, status=status)
    before = given_
    for n in range(4):
        following = graph.array(f"x{n}", (1000,), DTYPE, temporary=True)
        graph.kernel(AFFINE, name=f"f{n}", x=before, y=following, a=n)
        before = following
    out = graph.array("out", (1000,), DTYPE)
    graph.kernel(AFFINE, name="last", x=first, y=out, a=1)
    plan = plan_by(graph, tight(platform, 2 * start.nbytes + 4), lambda name: (device.name, 0, "opencl-c"))
    assert again(plan) == ["first"]
    with execute(plan, graph, devices) as run:
        if sign > 0:
            run.wait(60)
            np.testing.assert_array_equal(run.result("out"), start + 1 + np.arange(1000))
        else:
            with pytest.raises(TaskFailedError, match=r"'first'.*x is negative"):
                run.wait(60)
