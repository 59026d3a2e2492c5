# SPDX-License-Identifier: Apache-2.0
"""Throughput of streams with 1, 2 and 3 generations in flight, of one run after another, and of Dask's threads.

    CL_CONFIG_CPU_TBB_NUM_WORKERS=1 python benchmarks/streams.py [--inputs 40] [--runs 7]

Two one-core lanes of the CPU device. Tasks are chains of integer multiplications, which take about the same time in
OpenCL C and compiled by numba (without the GIL) for the rivals on threads. Shapes: ``pipeline`` is a task on one lane,
then one on the other; ``back`` has a third on the first lane again, so that generations must be interleaved; ``short``
is twenty short tasks, each on the other lane than the one before. All alternate in one process; milliseconds an input.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from common import one_core_queues, opencl_operation, parser, plan_by_hand

from syclsched import TaskGraph
from syclsched.api import with_lanes
from syclsched.devices import discover, open_devices
from syclsched.execution import bind
from syclsched.profiling.statistics import median_absolute_deviation
from syclsched.simulation import predict

SOURCE = """__kernel void spin(__global long *y, __global const long *x, long turns) {
    long value = x[0];
    for (long i = 0; i < turns; i++) value = (value ^ (value >> 13)) * 6364136223846793005L;
    y[0] = value;
}"""
TURNS_A_MS = 500_000
#: Lane and milliseconds of each task, one after the other.
SHAPES = {
    "pipeline": [(0, 2.0), (1, 2.0)],
    "back": [(0, 1.0), (1, 2.0), (0, 1.0)],
    "short": [(i % 2, 0.1) for i in range(20)],
}


def spin_on_host() -> Callable[[int, int], int]:
    """Return the same chain, compiled by numba, to be run on threads."""
    import numba

    @numba.njit("int64(int64, int64)", nogil=True, cache=False)
    def spin(value: int, turns: int) -> int:
        for _ in range(turns):
            value = (value ^ (value >> 13)) * 6364136223846793005
        return value

    return spin  # type: ignore[no-any-return]


def bound(shape: str, platform: Any, live: Any, turns_a_ms: float) -> Any:
    """Return a runner of a shape."""
    spin = opencl_operation("spin", SOURCE, writes="y", reads="x", scalars="turns")
    graph = TaskGraph(shape)
    tasks = SHAPES[shape]
    arrays = [graph.array(f"x{i}", (1,), "int64", temporary=0 < i < len(tasks)) for i in range(len(tasks) + 1)]
    for i, (_, ms) in enumerate(tasks):
        graph.kernel(spin, name=f"t{i}", x=arrays[i], y=arrays[i + 1], turns=int(ms * turns_a_ms))
    seconds = {f"t{i}": ms * 1e-3 for i, (_, ms) in enumerate(tasks)}
    plan = predict(plan_by_hand(graph, platform, lambda position, _: ("cpu", tasks[position][0]), seconds))
    return bind(plan, graph, live)


def rivals(shape: str, runner: Any, spin: Any, turns_a_ms: float, inputs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return for each way a function that processes all inputs and returns the last array's values."""
    import dask

    tasks = SHAPES[shape]
    last = f"x{len(tasks)}"

    def chain(value: int) -> int:
        for _, ms in tasks:
            value = spin(value, int(ms * turns_a_ms))
        return value

    def one_by_one() -> Iterator[int]:
        for each in inputs:
            yield int(runner(each, [last])[last][0])

    def stream(in_flight: int | None) -> Iterator[int]:
        for results in runner.stream(inputs, in_flight=in_flight, results=[last]):
            yield int(results[last][0])

    def dask_threads() -> Iterator[int]:
        made = []
        for each in inputs:
            value: Any = int(each["x0"][0])
            for _, ms in tasks:
                value = dask.delayed(spin, pure=False)(value, int(ms * turns_a_ms))
            made.append(value)
        yield from dask.compute(*made, scheduler="threads", num_workers=2)

    def pool() -> Iterator[int]:
        with ThreadPoolExecutor(2) as threads:
            yield from threads.map(lambda each: chain(int(each["x0"][0])), inputs)

    found: dict[str, Any] = {"one run after another": one_by_one}
    for in_flight in (1, 2, 3):
        found[f"stream, {in_flight} in flight"] = lambda in_flight=in_flight: stream(in_flight)
    found["Dask threads, 2 workers, all at once"] = dask_threads
    found["thread pool of 2, whole inputs"] = pool
    return found


def main() -> None:
    """Time all ways, alternating, and print a table."""
    options = parser(__doc__, inputs=40, runs=7, shapes=list(SHAPES)).parse_args()
    one_core_queues()

    platform = with_lanes(discover().select(["cpu"]), 2)
    live = open_devices(platform)
    spin = spin_on_host()
    begun = time.perf_counter()
    spin(1, 50 * TURNS_A_MS)
    turns_a_ms = 50 * TURNS_A_MS / (time.perf_counter() - begun) / 1e3
    print(f"{options.inputs} inputs, {options.runs} runs, {turns_a_ms:,.0f} multiplications a millisecond")
    for shape in options.shapes:
        with bound(shape, platform, live, turns_a_ms) as runner:
            assert runner.replayed, runner.why_not_replayed
            inputs = [{"x0": np.array([seed], np.int64)} for seed in range(options.inputs)]
            ways = rivals(shape, runner, spin, turns_a_ms, inputs)
            times: dict[str, list[float]] = {name: [] for name in ways}
            expected = None
            for turn in range(options.runs + 1):
                for name, way in ways.items():
                    begun = time.perf_counter()
                    found = list(way())
                    seconds = time.perf_counter() - begun
                    expected = expected or found
                    assert found == expected, f"{name} computes something else"
                    if turn:
                        times[name].append(seconds / len(inputs) * 1e3)
            predicted = [runner.stream([], in_flight=k).statistics.predicted_interval_s * 1e3 for k in (1, 2, 3)]
        base = statistics.median(times["one run after another"])
        print(f"\n{shape}: tasks of {', '.join(f'{ms} ms on lane {lane}' for lane, ms in SHAPES[shape][:3])} ...")
        print("predicted with 1, 2, 3 in flight: " + ", ".join(f"{p:.2f} ms" for p in predicted))
        for name, found in times.items():
            middle = statistics.median(found)
            times_s = f"{middle:7.2f} ± {median_absolute_deviation(found):4.2f} ms an input, least {min(found):6.2f}"
            print(f"  {name:38} {times_s}, {base / middle:5.2f} x")
    live.close()


if __name__ == "__main__":
    main()
