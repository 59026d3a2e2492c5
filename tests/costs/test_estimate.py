# SPDX-License-Identifier: Apache-2.0
"""Costs of sequences: the sum of their steps, less the overheads that occur once."""

from __future__ import annotations

import math

import pytest
from support.profiles import profile

from syclsched.costs import CostModel, Estimate, MemoryHistory
from syclsched.costs.estimate import sequence_estimate
from syclsched.costs.history import history_key
from syclsched.costs.rates import rates_of
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, Operation, OperationStep, Parameter, Requirements, Work
from syclsched.model.platform import HOST, Device, MemorySpace, Platform
from syclsched.model.profile import Quantity
from syclsched.model.sequence import sequence_operation
from syclsched.model.task import Task

CPU = Device(
    "cpu", "c", "cpu", "opencl", "a CPU", "cpu", ("cpu",),
    aspects=("fp64",), dtypes=("float32", "float64"), compute_units=4, max_work_group_size=64, profile=profile(),
)  # fmt: skip
HOST_DEVICE = Device(HOST, HOST, HOST, HOST, "the host", HOST, (HOST,))
PLATFORM = Platform("p", (CPU, HOST_DEVICE), (MemorySpace("cpu", 0), MemorySpace(HOST, 0, True)), submission_s=1e-6)


def tasks() -> tuple[Task, list[Task]]:
    """Return a sequence of two steps, and the steps as tasks of their own."""
    graph = TaskGraph()
    x = graph.array("x", (10_000,))
    scale, fill = get("scale"), get("fill")
    whole = sequence_operation(
        [OperationStep(fill, (("x", "a"), ("value", "v"))), OperationStep(scale, (("x", "a"), ("alpha", "k")))],
        [("opencl-c", "opencl-c"), ("opencl-c", "python"), ("numpy", "numpy")],
    )
    together = graph.kernel(whole, a=x, v=1.0, k=2.0)
    return together, [graph.kernel(fill, x=x, value=1.0), graph.kernel(scale, x=x, alpha=2.0)]


def test_on_a_device_the_steps_add_up() -> None:
    costs, (together, apart) = CostModel(PLATFORM), tasks()
    assert together.operation is not None
    got = costs.task_seconds(together, together.operation.implementation("opencl-c*2"), CPU)
    each = [costs.task_seconds(t, t.operation.implementation("opencl-c"), CPU) for t in apart if t.operation]
    assert math.isclose(got.seconds, sum(e.seconds for e in each))
    assert got.origin == "modelled"


def test_the_host_launches_nothing_between_steps() -> None:
    costs, (together, apart) = CostModel(PLATFORM), tasks()
    best, each = costs.best(together, HOST_DEVICE), [costs.best(t, HOST_DEVICE) for t in apart]
    assert best is not None
    assert best[0].kind == "host"
    launch_s = rates_of(HOST_DEVICE, PLATFORM).launch_s
    assert math.isclose(best[1].seconds, sum(e[1].seconds for e in each if e is not None) - launch_s)


def test_a_sequence_of_measured_steps_counts_as_measured() -> None:
    together, apart = tasks()
    history = MemoryHistory()
    for task, seconds in zip(apart, (0.25, 0.5), strict=True):
        assert task.operation is not None
        assert task.signature is not None
        implementation = task.operation.implementation("opencl-c")
        history[history_key("c", task.operation, implementation, task.signature)] = Quantity(seconds)
    assert together.operation is not None
    assert together.signature is not None
    first, second, _ = together.operation.implementations
    costs = CostModel(PLATFORM, history)
    # Two launches of 1e-5 s lie between kernels; see CostModel.
    assert costs.task_seconds(together, first, CPU) == Estimate(
        pytest.approx(0.75 + 2e-5), "measured", uncertainty=pytest.approx(0.02)
    )
    assert costs.task_seconds(together, second, CPU).origin == "modelled"
    history[history_key("c", together.operation, first, together.signature)] = Quantity(0.125, mad=0.01)
    assert CostModel(PLATFORM, history).task_seconds(together, first, CPU) == Estimate(
        0.125, "measured", uncertainty=pytest.approx(3.716 * 0.01 / 0.125)
    )


def test_a_sequence_takes_as_long_as_it_takes_to_submit() -> None:
    rates = rates_of(CPU, PLATFORM)
    steps = [Estimate(1e-9, "spec-sheet")] * 5
    assert math.isclose(sequence_estimate(steps, rates, CPU).seconds, 4e-6 + 1e-9)
    assert sequence_estimate([*steps, Estimate(1.0, "assumed")], rates, CPU).origin == "assumed"


def test_a_device_must_be_able_to_do_every_step() -> None:
    def needing(*aspects: str) -> Operation:
        implementation = Implementation(
            "cl", "opencl-c", lambda _: None, lambda s, d: Launch((1,)), Requirements(aspects=aspects)
        )
        return Operation("needs_" + "_".join(aspects), (Parameter("x"),), (implementation,), lambda _: Work(1.0, 1.0))

    whole = sequence_operation(
        [OperationStep(needing("fp64"), (("x", "x"),)), OperationStep(needing("fp16"), (("x", "x"),))], [("cl", "cl")]
    )
    task = TaskGraph().kernel(whole, x=1)
    assert CostModel(PLATFORM).supports(task, whole.implementations[0], CPU) == "needs_fp16: no aspect fp16"
    assert CostModel(PLATFORM).supports(task, whole.implementations[0], HOST_DEVICE) == "runs host implementations only"
