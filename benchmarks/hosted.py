# SPDX-License-Identifier: Apache-2.0
"""What a few tasks on the host cost a bound plan: replayed beside dispatched, alternating in one process.

    python benchmarks/hosted.py [--tasks 40] [--runs 101] [--model]

Kernels do nothing, on one lane of the CPU device; functions add one to 16 numbers. In ``chain`` each task needs the one
before; in ``beside`` functions have a chain of their own, and nobody waits for the other. ``--model`` is a network of
twenty small convolutions with an operator that no device can do (CumProd, by onnx's own implementation) in the middle.
Milliseconds a run, medians with the quarter points, and the ratio of medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

ITEMS = 16
SOURCE = """__kernel void nothing(__global double *y) {}"""
HOSTS = (0, 1, 5, 20)


def plus_one(y: Any) -> None:
    """Be the host's task."""
    y += 1.0


def graph_of(tasks: int, hosts: int, shape: str) -> Any:
    """Return a graph with so many functions among its tasks, at equal distances."""
    from syclsched.model.access import AccessMode
    from syclsched.model.graph import TaskGraph
    from syclsched.model.operation import Implementation, Launch, OpenCLSource, Operation, Parameter, Work

    nothing = Operation(
        "nothing",
        (Parameter("y", AccessMode.UPDATE),),
        (
            Implementation(
                "opencl-c", "opencl-c", lambda _: OpenCLSource(SOURCE, "nothing"), launch=lambda s, d: Launch((ITEMS,))
            ),
        ),
        lambda signature: Work(flops=0.0, bytes=0.0),
    )
    graph = TaskGraph(f"{shape}, {hosts} on the host")
    y = graph.array("y", data=np.zeros(ITEMS))
    other = y if shape == "chain" else graph.array("z", data=np.zeros(ITEMS))
    on_host = {round((n + 0.5) * tasks / hosts) for n in range(hosts)}
    for n in range(tasks):
        if n in on_host:
            graph.host(plus_one, name=f"t{n}", y=other.update())
        else:
            graph.kernel(nothing, name=f"t{n}", y=y)
    return graph


def plan_of(graph: Any, platform: Any) -> Any:
    """Return a plan with kernels on the device's lane and functions on the host's."""
    from syclsched.model.schedule import Assignment, Schedule
    from syclsched.planning import build_plan

    placed = []
    for position, name in enumerate(graph.order()):
        first = graph.task(name).operation.implementations[0]
        device = "host" if first.kind == "host" else "cpu"
        placed.append(Assignment(name, device, 0, first.name, float(position), position + 1.0))
    return build_plan(graph, platform, Schedule("by hand", tuple(placed)), dict.fromkeys(graph.order(), 1e-6))


def model_of(layers: int = 20, channels: int = 16, size: int = 56) -> Any:
    """Return a network with an operator in the middle that has no kernel."""
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for layer in range(layers):
        weight = random.normal(0.0, (2.0 / (9 * channels)) ** 0.5, (channels, channels, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(helper.make_node("Conv", [value, f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]))
        value = f"r{layer}"
        if layer == layers // 2:
            weights.append(numpy_helper.from_array(np.array(1, np.int64), "axis"))
            nodes.append(helper.make_node("CumProd", [value, "axis"], ["product"]))
            value = "product"
    shape = [1, channels, size, size]
    graph = helper.make_graph(
        nodes,
        "convolutions",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)])


def seconds(action: Callable[[], object]) -> float:
    """Return how long something takes."""
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def show(name: str, replayed: Callable[[], object], dispatched: Callable[[], object], runs: int) -> None:
    """Time both in turn, and print."""
    for _ in range(5):
        replayed(), dispatched()
    columns = list(zip(*[(seconds(replayed), seconds(dispatched)) for _ in range(runs)], strict=True))
    quarters = [[s * 1e3 for s in statistics.quantiles(column, n=4)] for column in columns]
    cells = "  ".join(f"{middle:7.3f} ({low:6.3f} to {high:6.3f})" for low, middle, high in quarters)
    print(f"{name:24s} {cells}  {quarters[1][1] / quarters[0][1]:6.2f}", flush=True)


def dispatched_only() -> Any:
    """Return a context in which plans are bound without being replayed."""
    from syclsched.execution.runner import bound_plan

    return mock.patch.object(bound_plan, "why_not_replayed", lambda *_: "not in this benchmark")


def show_plans(tasks: int, runs: int) -> None:
    """Time plans with more and more functions."""
    from syclsched import discover
    from syclsched.devices import open_devices
    from syclsched.execution import bind

    platform = discover("cpu")
    with open_devices(platform) as live:
        for shape in ("chain", "beside"):
            for hosts in HOSTS:
                graph = graph_of(tasks, hosts, shape)
                plan = plan_of(graph, platform)
                with dispatched_only():
                    slow = bind(plan, graph, live, trace=False)
                with slow, bind(plan, graph, live, trace=False) as fast:
                    assert fast.replayed and not slow.replayed, fast.why_not_replayed
                    show(
                        f"{shape}, {hosts} of {tasks}",
                        lambda fast=fast: fast.run().wait(),
                        lambda slow=slow: slow.run().wait(),
                        runs,
                    )


def show_model(runs: int) -> None:
    """Time calls of the model."""
    import syclsched

    model, x = model_of(), np.random.default_rng(1).normal(size=(1, 16, 56, 56)).astype(np.float32)
    warnings.simplefilter("ignore")
    fast = syclsched.compile(model, devices="cpu")
    found = fast(x=x)
    slow = syclsched.compile(model, devices="cpu")
    with dispatched_only():
        for name, value in slow(x=x).items():
            np.testing.assert_array_equal(value, found[name])
    show("model, 1 on the host", lambda: fast(x=x), lambda: slow(x=x), runs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--runs", type=int, default=101)
    parser.add_argument("--model", action="store_true")
    given = parser.parse_args()
    print(f"{'milliseconds a run':24s} {'replayed':>27s}  {'dispatched':>27s}   ratio")
    if given.model:
        show_model(given.runs)
    else:
        show_plans(given.tasks, given.runs)


if __name__ == "__main__":
    main()
