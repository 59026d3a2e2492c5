# SPDX-License-Identifier: Apache-2.0
"""Minimum effective task granularity, METG(50 %), after Task Bench: the shortest tasks of half the best efficiency.

    python benchmarks/metg.py [--width 4] [--steps 250] [--pattern stencil_1d] [--picture metg.png] [--slow]

A graph of ``width`` columns and ``steps`` rows; a task computes for a while on one core, and waits for tasks of the row
before by the pattern. The same graph runs with ever shorter tasks. Efficiency is a runner's rate of computation
over its own best; METG(50 %) is the granularity (time x cores / tasks) at which it falls to one half, interpolated
(Slaughter et al., "Task Bench: a parameterized benchmark for evaluating parallel runtime performance", SC 2020).

Runners: a bound plan on one and on two one-core lanes of the CPU device; the same plan dispatched; a loop over
``SyclQueue.submit_async`` with event lists on an out-of-order queue; Python's thread pool, Dask's threads and Parla
where they are installed, whose tasks are compiled by numba and release the GIL; StarPU from C, where it is installed
(Debian's libstarpu-dev). ``--slow`` adds Dask's distributed scheduler, which needs much longer tasks. A bound plan of
one-core lanes is executed by lane threads; ``--submitted`` submits it to queues.
"""

from __future__ import annotations

import importlib.util
import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from common import one_core_queues, opencl_operation, parser, plan_by_hand, repeated
from metg_rivals import StarPU, by_dask, by_distributed, by_parla, by_threads

from syclsched import TaskGraph, discover
from syclsched.api import with_lanes
from syclsched.devices import open_devices
from syclsched.execution import bind, execute
from syclsched.execution.replay import plan_instance

one_core_queues()

#: Runs of a plan that was bound once.
RUNS = 5
#: Efficiencies below this are overhead only.
_LEAST_SHOWN = 0.01
#: Lengths of tasks, each twice the one before; and the number of longer ones for a slow runner.
_DOUBLINGS = 17
_SLOW_DOUBLINGS = 5

PATTERNS = ("stencil_1d", "trivial", "fft", "tree", "random_nearest")
SOURCE = """
__kernel void compute(__global double *out, __global const double *before, long turns) {
    double x = before[0];
    for (long i = 0; i < turns; ++i)
        x = x * 0.999999 + 1e-6;
    out[0] = x;
}
"""


def before(pattern: str, step: int, place: int, width: int) -> list[int]:
    """Return the places of the row before that a task waits for; at least its own column's."""
    if step == 0:
        return []
    if pattern == "stencil_1d":
        return [p for p in (place - 1, place, place + 1) if 0 <= p < width]
    if pattern == "fft":
        return sorted({place, place ^ (1 << ((step - 1) % max(1, width.bit_length() - 1)))} & set(range(width)))
    if pattern == "tree":
        return [place // 2] if step < width.bit_length() else [place]
    if pattern == "random_nearest":
        return [p for p in range(max(0, place - 2), min(width, place + 3)) if p == place or (step * 31 + p * 17) % 2]
    return [place]


class GridBenchmark:
    """A graph, with memory for it, run in several ways with tasks of any length."""

    def __init__(self, pattern: str, width: int, steps: int) -> None:
        self.pattern, self.width, self.steps = pattern, width, steps
        self.waits = [[before(pattern, step, place, width) for place in range(width)] for step in range(steps)]

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return self.width * self.steps

    def graph(self, turns: int) -> Any:
        """Return the case as a task graph: every column has two arrays that it writes in turn."""
        operation = opencl_operation("compute", SOURCE, writes="out", reads="before", scalars="turns")
        graph = TaskGraph(self.pattern)
        arrays = [[graph.array(f"a{p}_{k}", data=np.zeros(1)) for k in range(2)] for p in range(self.width)]
        for step, row in enumerate(self.waits):
            for place, waits in enumerate(row):
                out, source = arrays[place][step % 2], arrays[place][(step + 1) % 2]
                graph.kernel(operation, name=f"t{step}_{place}", out=out, before=source, turns=turns)
                for other in waits:
                    if other != place:
                        graph.edge(f"t{step - 1}_{other}", f"t{step}_{place}")
        return graph

    def plan(self, graph: Any, platform: Any, lanes: int) -> Any:
        """Return a plan with neighbouring columns on one lane."""

        def place(_: int, name: str) -> tuple[str, int]:
            return "cpu", int(name.rpartition("_")[2]) * lanes // self.width

        return plan_by_hand(graph, platform, place)


def by_plan(case: GridBenchmark, platform: Any, live: Any, lanes: int, *, bound: bool) -> Callable[[int], float]:
    """Return a function that runs the case by a plan and returns its seconds."""

    def timed(turns: int) -> float:
        graph = case.graph(turns)
        plan = case.plan(graph, platform, lanes)
        if not bound:
            begun = time.perf_counter()
            with execute(plan, graph, live, trace=False) as run:
                run.wait()
                return time.perf_counter() - begun
        with bind(plan, graph, live, trace=False) as runner:
            assert runner.replayed, runner.why_not_replayed
            return statistics.median(repeated(lambda: runner.run().wait(), RUNS, time.perf_counter))

    return timed


def by_dpctl(case: GridBenchmark, live: Any) -> Callable[[int], float]:
    """Return a handwritten loop with event lists on an out-of-order queue."""
    import ctypes

    import dpctl
    from dpctl.program import create_program_from_source

    from syclsched.devices.memory import usm_memory

    other = live.queue("cpu")
    queue = dpctl.SyclQueue(other.sycl_context, other.sycl_device)
    kernel = create_program_from_source(queue, SOURCE).get_sycl_kernel("compute")
    pieces = [[usm_memory.allocate(queue, 8, "shared") for _ in range(2)] for _ in range(case.width)]

    def seconds(turns: int) -> float:
        count, one = ctypes.c_longlong(turns), [1]
        begun = time.perf_counter()
        last: list[Any] = []
        for step, row in enumerate(case.waits):
            last = [
                queue.submit_async(
                    kernel, [pieces[p][step % 2], pieces[p][(step + 1) % 2], count], one, None, [last[w] for w in waits]
                )
                for p, waits in enumerate(row)
            ]
        queue.wait()
        return time.perf_counter() - begun

    return seconds


def installed(name: str) -> bool:
    """Return whether a rival is installed, and print a message if it is not."""
    there = importlib.util.find_spec(name) is not None
    if not there:
        print(f"{name} is not installed: left out")
    return there


def metg(points: Sequence[tuple[float, float]]) -> float:
    """Return the seconds at which efficiency falls to one half, from granularity and efficiency, longest first."""
    for (coarse, high), (fine, low) in pairwise(points):
        if high >= 0.5 > low:
            share = (high - 0.5) / (high - low)
            return math.exp(math.log(coarse) + share * (math.log(fine) - math.log(coarse)))
    return math.nan


def draw(curves: dict[str, list[tuple[float, float]]], title: str, path: Path) -> None:
    """Draw efficiency over granularity."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, points in curves.items():
        shown = [(granularity * 1e6, efficiency) for granularity, efficiency in points if efficiency > _LEAST_SHOWN]
        axes.plot(*zip(*shown, strict=True), marker="o", markersize=3, label=name)
    axes.axhline(0.5, color="0.6", linewidth=1, linestyle="--")
    axes.set(xscale="log", yscale="log", xlabel="granularity, us a task and core", ylabel="efficiency", title=title)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)
    print(f"{path} written")


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, width=4, steps=250, repeat=5)
    options.add_argument("--pattern", choices=PATTERNS, default="stencil_1d")
    options.add_argument("--picture", type=Path)
    options.add_argument("--slow", action="store_true", help="beside Dask's distributed scheduler, too")
    options.add_argument("--submitted", action="store_true", help="submit bound plans to the runtime")
    given = options.parse_args()

    case = GridBenchmark(given.pattern, given.width, given.steps)
    if given.submitted:
        plan_instance.local_queues = lambda queues: None
    platform = with_lanes(discover("cpu"), 2)
    with ExitStack() as stack:
        live = stack.enter_context(open_devices(platform))
        runners: dict[str, tuple[Callable[[int], float], int]] = {
            "bound plan, two lanes": (by_plan(case, platform, live, 2, bound=True), 2),
            "bound plan, one lane": (by_plan(case, platform, live, 1, bound=True), 1),
            "dispatched, two lanes": (by_plan(case, platform, live, 2, bound=False), 2),
            "dpctl loop by hand": (by_dpctl(case, live), 2),
            "Python thread pool": (by_threads(case), 2),
        }
        if installed("dask"):
            runners["Dask threads"] = (by_dask(case), 2)
        if installed("parla"):
            runners["Parla"] = (by_parla(case), 2)
        turns = [10 * 2**k for k in range(_DOUBLINGS)]
        times: dict[str, dict[int, float]] = {name: {} for name in runners}
        cores = {name: each[1] for name, each in runners.items()}
        for count in reversed(turns):
            for name, (seconds, _) in runners.items():
                times[name][count] = statistics.median(seconds(count) for _ in range(given.repeat))
        if given.slow and installed("distributed"):
            name = "Dask distributed"
            seconds = by_distributed(case, stack)
            times[name] = {
                count: seconds(count) for count in (turns[-1] * 2**k for k in range(_SLOW_DOUBLINGS, -6, -1))
            }
            cores[name] = 2
        try:
            starpu = StarPU()
        except OSError as error:
            print(f"{error}: left out")
        else:
            for policy in ("eager", "lws", "dmda"):
                name = f"StarPU in C, {policy}"
                times[name] = starpu.seconds(case, policy, turns[::-1], given.repeat)
                cores[name] = 2
            starpu.close()
    # The best rate is each runner's own: their kernels are from different compilers.
    curves = {}
    print(f"{given.pattern}, {given.width} x {given.steps} tasks")
    for name, measured in times.items():
        n = cores[name]
        best = max(case.tasks * count / (n * t) for count, t in measured.items())
        points = [(t * n / case.tasks, case.tasks * count / (n * t) / best) for count, t in measured.items()]
        curves[name] = points
        least = min(granularity for granularity, _ in points)
        print(f"{name:24s} METG(50 %) {metg(points) * 1e6:8.1f} us; shortest tasks {least * 1e6:.1f} us")
    if given.picture:
        draw(curves, f"{given.pattern}, width {given.width}", given.picture)


if __name__ == "__main__":
    main()
