# SPDX-License-Identifier: Apache-2.0
"""Bound plans with host tasks: replayed and dispatched runs, and sweeps compared with thread pools, alternating.

    python benchmarks/hosted.py [--tasks 40] [--runs 101] [--model]
    python benchmarks/hosted.py --sweep [--tasks 500] [--microseconds 400] [--runs 15]

Kernels do nothing, on one lane of the CPU device; functions add one to 16 numbers. In ``chain`` each task needs the one
before; in ``beside`` functions have a chain of their own. ``--model`` is a network of twenty small convolutions with an
operator that devices do not support (CumProd, by onnx's implementation) in the middle. Milliseconds a run, medians with
the quarter points, and the ratio of medians.

``--sweep`` calls a function for many values: by a runner, whose plan `auto` makes, a thread pool with a thread for each
core, joblib's and Dask's threads. The function computes a digest, without the GIL, for the given microseconds. Printed
are the first call of each, the third, and of later ones the median with the quarter points and the processor time.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import numpy as np
from common import alternating, format_quartiles, opencl_operation, parser, plan_by_hand

import syclsched
from syclsched import TaskGraph, discover
from syclsched.devices import open_devices
from syclsched.execution import bind

ITEMS = 16
SOURCE = """__kernel void nothing(__global double *y) {}"""
HOSTS = (0, 1, 5, 20)


def plus_one(y: Any) -> None:
    """Add one: the host's task."""
    y += 1.0


def graph_of(tasks: int, hosts: int, shape: str) -> Any:
    """Return a graph with a number of host functions among its tasks, at equal distances."""
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
    """Return a network whose middle operator has no kernel."""
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
    cells = "  ".join(format_quartiles([s * 1e3 for s in column], 3, 7) for column in times.values())
    print(f"{name:24s} {cells}  {middles[1] / middles[0]:6.2f}", flush=True)


def dispatched_only() -> Any:
    """Return a context in which plans are bound without replay."""
    from syclsched.execution.runner import plan_binding

    return mock.patch.object(plan_binding, "why_dispatcher_needed", lambda *_: "not in this benchmark")


def show_plans(tasks: int, runs: int) -> None:
    """Time plans with increasing numbers of host functions."""
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


def digests_of(microseconds: float) -> Callable[[float], int]:
    """Return a function of a number that takes the given time."""
    data = bytes(10**6)
    begun_s = time.perf_counter()
    for _ in range(20):
        hashlib.sha256(data)
    part = data[: max(4096, int(len(data) * microseconds * 1e-6 / ((time.perf_counter() - begun_s) / 20)))]

    def digest(value: float) -> int:
        found = hashlib.sha256(str(value).encode())
        found.update(part)
        return int.from_bytes(found.digest()[:6], "big")

    return digest


def show_sweep(tasks: int, microseconds: float, runs: int) -> None:
    """Time sweeps of one function in turn, check the results, and print."""
    function, values = digests_of(microseconds), np.linspace(0.0, 1.0, tasks)
    wanted = [function(float(value)) for value in values]
    graph = TaskGraph("sweep")
    array = graph.array("values", (tasks,))
    graph.map(lambda x: function(float(x[0])), [array[i : i + 1] for i in range(tasks)], name="digest")
    cores, ways = os.cpu_count() or 1, dict[str, Callable[[], Any]]()
    with syclsched.bind(graph) as runner, ThreadPoolExecutor(cores) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ways["syclsched"] = lambda: [int(each) for each in runner({"values": values}).values()]
        ways["pool"] = lambda: list(pool.map(function, map(float, values)))
        try:
            import joblib

            ways["joblib"] = lambda: joblib.Parallel(n_jobs=cores, prefer="threads")(
                joblib.delayed(function)(float(value)) for value in values
            )
            import dask

            ways["dask"] = lambda: dask.compute(
                *(dask.delayed(function)(float(value)) for value in values), scheduler="threads"
            )
        except ImportError as error:
            print(f"left out: {error}")
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(runs + 3):
            for name, way in ways.items():
                begun_s, processor_s = time.perf_counter(), time.process_time()
                found = way()
                times[name].append((time.perf_counter() - begun_s, time.process_time() - processor_s))
                assert list(found) == wanted, name
    base = statistics.median(wall_s for wall_s, _ in times["pool"][3:])
    print(f"{tasks} tasks of {microseconds:g} us; {cores} cores; lanes {[lane.name for lane in runner.plan.lanes]}")
    print(f"{'milliseconds':12s} {'first':>8s} {'third':>8s} {'later':>27s} {'processor':>10s} {'ratio to pool':>14s}")
    for name, each in times.items():
        later = [1e3 * wall_s for wall_s, _ in each[3:]]
        processor = 1e3 * statistics.median(processor_s for _, processor_s in each[3:])
        print(
            f"{name:12s} {each[0][0] * 1e3:8.1f} {each[2][0] * 1e3:8.1f} {format_quartiles(later, 1, 7):>27s} "
            f"{processor:10.1f} {statistics.median(later) / base / 1e3:14.2f}",
            flush=True,
        )


def main() -> None:
    """Measure and print."""
    given = parser(__doc__, tasks=0, runs=0, model=False, sweep=False, microseconds=400).parse_args()
    if given.sweep:
        show_sweep(given.tasks or 500, given.microseconds, given.runs or 15)
        return
    given.tasks, given.runs = given.tasks or 40, given.runs or 101
    print(f"{'milliseconds a run':24s} {'replayed':>27s}  {'dispatched':>27s}   ratio")
    if given.model:
        show_model(given.runs)
    else:
        show_plans(given.tasks, given.runs)


if __name__ == "__main__":
    main()
