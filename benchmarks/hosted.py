# SPDX-License-Identifier: Apache-2.0
"""Bound plans with a few tasks on the host: replayed beside dispatched, alternating in one process.

    python benchmarks/hosted.py [--tasks 40] [--runs 101] [--model]

Kernels do nothing, on one lane of the CPU device; functions add one to 16 numbers. In ``chain`` each task needs the one
before; in ``beside`` functions have a chain of their own. ``--model`` is a network of
twenty small convolutions with an operator that no device can do (CumProd, by onnx's own implementation) in the middle.
Milliseconds a run, medians with the quarter points, and the ratio of medians.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from common import alternating, opencl_operation, parser, plan_by_hand, quartiles

import syclsched
from syclsched import TaskGraph, discover
from syclsched.devices import open_devices
from syclsched.execution import bind

ITEMS = 16
SOURCE = """__kernel void nothing(__global double *y) {}"""
HOSTS = (0, 1, 5, 20)


def plus_one(y: Any) -> None:
    """Be the host's task."""
    y += 1.0


def graph_of(tasks: int, hosts: int, shape: str) -> Any:
    """Return a graph with so many functions among its tasks, at equal distances."""
    nothing = opencl_operation("nothing", SOURCE, ITEMS, updates="y")
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
    return plan_by_hand(graph, platform, lambda _, name: ("host" if graph.find_task(name).kind == "host" else "cpu", 0))


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


def show(name: str, replayed: Callable[[], object], dispatched: Callable[[], object], runs: int) -> None:
    """Time both in turn, and print."""
    times = alternating({"replayed": replayed, "dispatched": dispatched}, runs, warm_ups=5)
    middles = [statistics.median(column) for column in times.values()]
    cells = "  ".join(quartiles([s * 1e3 for s in column], 3, 7) for column in times.values())
    print(f"{name:24s} {cells}  {middles[1] / middles[0]:6.2f}", flush=True)


def dispatched_only() -> Any:
    """Return a context in which plans are bound without being replayed."""
    from syclsched.execution.runner import plan_binding

    return mock.patch.object(plan_binding, "why_dispatcher_needed", lambda *_: "not in this benchmark")


def show_plans(tasks: int, runs: int) -> None:
    """Time plans with more and more functions."""
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
    given = parser(__doc__, tasks=40, runs=101, model=False).parse_args()
    print(f"{'milliseconds a run':24s} {'replayed':>27s}  {'dispatched':>27s}   ratio")
    if given.model:
        show_model(given.runs)
    else:
        show_plans(given.tasks, given.runs)


if __name__ == "__main__":
    main()
