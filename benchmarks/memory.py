# SPDX-License-Identifier: Apache-2.0
"""What memory costs: pools beside the runtime's own allocations, runs with either, and what 10,000 runs leave behind.

Usage: ``python benchmarks/memory.py [blocks] [runs] [leaks --count 10000]``; without a name all three.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from syclsched.api import discover
from syclsched.devices import open_devices
from syclsched.devices.memory import usm_memory
from syclsched.execution import bind, execute
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.memory_limit import with_memory_limit
from syclsched.model.operation import Implementation, Launch, OpenCLSource, Operation, Parameter, Work
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build_plan
from syclsched.simulation import predict

ADD_ONE = Operation(
    "add one",
    (Parameter("x", AccessMode.READ), Parameter("y", AccessMode.WRITE, like="x")),
    (
        Implementation(
            "opencl-c",
            "opencl-c",
            lambda _: OpenCLSource(
                "__kernel void one(__global const double *x, __global double *y)"
                "{ size_t i = get_global_id(0); y[i] = x[i] + 1.0; }",
                "one",
            ),
            lambda signature, _: Launch(signature.shapes["y"]),
        ),
    ),
    lambda signature: Work(flops=1.0, bytes=16.0, dtype="float64"),
)


def chain(length: int, size: int) -> TaskGraph:
    """Tasks one after another, each into a new temporary."""
    graph = TaskGraph("chain of temporaries")
    before = graph.array("a0", data=np.zeros(size))
    for i in range(length):
        after = graph.array(f"a{i + 1}", (size,), "float64", temporary=i < length - 1)
        graph.kernel(ADD_ONE, name=f"t{i}", x=before, y=after)
        before = after
    return graph


def rounds(length: int, size: int, count: int) -> TaskGraph:
    """Tasks that go around some arrays, all of them kept."""
    graph = TaskGraph("rounds")
    arrays = [graph.array(f"a{i}", data=np.zeros(size)) for i in range(count)]
    for i in range(length):
        graph.kernel(ADD_ONE, name=f"t{i}", x=arrays[i % count], y=arrays[(i + 1) % count])
    return graph


def planned(graph: TaskGraph, platform: Any) -> Any:
    """Return a plan of all tasks on the first device, in their order."""
    device = platform.compute_devices[0].name
    order = graph.order()
    assignments = tuple(Assignment(n, device, 0, "opencl-c", float(p), p + 1.0) for p, n in enumerate(order))
    return predict(build_plan(graph, platform, Schedule("in order", assignments), dict.fromkeys(order, 1e-5)))


def alternating(one: Callable[[], Any], other: Callable[[], Any], times: int) -> tuple[list[float], list[float]]:
    """Return the seconds of two things that are done by turns."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(times):
        for seconds, call in zip(found, (one, other), strict=True):
            begun = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - begun)
    return found


def said(seconds: list[float]) -> str:
    """Return median and quartiles in milliseconds."""
    low, middle, high = statistics.quantiles(seconds, n=4)
    return f"{middle * 1e3:8.3f} ms ({low * 1e3:.3f} to {high * 1e3:.3f})"


def compare(title: str, pooled: list[float], fresh: list[float]) -> None:
    """Print both, and the ratio of the medians."""
    ratio = statistics.median(pooled) / statistics.median(fresh)
    print(f"{title}\n  pool    {said(pooled)}\n  fresh   {said(fresh)}\n  ratio   {ratio:.3f}")


def blocks(live: Any, space: str) -> None:
    """Get, touch and give back blocks of mixed sizes."""
    choose = random.Random(1)
    queue = live.allocator_queue(space)
    for title, largest in (("1,000 blocks of 64 B to 64 KiB", 16), ("100 blocks of 64 B to 4 MiB", 22)):
        count = 1000 if largest == 16 else 100
        sizes = [int(2 ** choose.uniform(6, largest)) for _ in range(count)]

        def from_pool(sizes: list[int] = sizes) -> None:
            held = [live.pools.take(space, nbytes, touch=True) for nbytes in sizes]
            del held

        def from_runtime(sizes: list[int] = sizes) -> None:
            held = []
            for nbytes in sizes:
                held.append(usm_memory.allocate(queue, nbytes, "shared"))
                np.asarray(held[-1])[::4096] = 0
            del held

        from_pool()
        compare(f"{title}, written to once in each page", *alternating(from_pool, from_runtime, 15))
        live.trim_memory()


def runs(live: Any, platform: Any) -> None:
    """Run graphs whose memory the pool still has, and the same after everything was given back."""
    for title, graph in (
        ("200 tasks in a chain of temporaries of 8 KiB", chain(200, 1024)),
        ("100 tasks in a chain of temporaries of 1 MiB", chain(100, 131072)),
        ("100 tasks around 32 arrays of 1 MiB", rounds(100, 131072, 32)),
    ):
        plan = planned(graph, platform)

        def run(graph: TaskGraph = graph, plan: Any = plan) -> None:
            with execute(plan, graph, live) as run:
                run.wait()

        def run_fresh(run: Callable[[], None] = run) -> None:
            live.trim_memory()
            run()

        run()
        compare(f"execute: {title}", *alternating(run, run_fresh, 15))


def rss_bytes() -> int:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def leaks(live: Any, platform: Any, count: int) -> None:
    """Run many times, and say what is held in between."""
    graph = chain(20, 4096)
    plan = planned(graph, platform)
    small = with_memory_limit(platform, {platform.compute_devices[0].space: 4 * 8192 * 4})
    around = rounds(20, 4096, 8)
    evicting = planned(around, small)
    ways: dict[str, Callable[[], None]] = {}

    def dispatched(plan: Any, graph: TaskGraph) -> None:
        with execute(plan, graph, live) as run:
            run.wait()

    with bind(plan, graph, live) as runner, bind(evicting, around, live) as tight:
        ways["replayed"] = lambda: runner.run().wait()
        ways["replayed, with evictions"] = lambda: tight.run().wait()
        ways["dispatched"] = lambda: dispatched(plan, graph)
        ways["dispatched, with evictions"] = lambda: dispatched(evicting, around)
        for name, way in ways.items():
            for _ in range(max(count // 10, 1)):
                way()
            first, held = rss_bytes(), live.memory()
            begun = time.perf_counter()
            for _ in range(count):
                way()
            seconds = time.perf_counter() - begun
            now = live.memory()
            usm = {s: now[s].reserved_bytes - held[s].reserved_bytes for s in now}
            used = {s: now[s].in_use_bytes - held[s].in_use_bytes for s in now}
            print(
                f"{count:,} runs {name}: resident memory {(rss_bytes() - first) / 1024:+,.0f} KiB, "
                f"of pools in use {sum(used.values()):+,} B, reserved {sum(usm.values()):+,} B; {seconds:.1f} s"
            )
    print("in use after the runners are closed:", {s: i.in_use_bytes for s, i in live.memory().items()})


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", help="blocks, runs, leaks", default=["blocks", "runs", "leaks"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--count", type=int, default=10_000, help="runs of each kind")
    given = parser.parse_args()
    platform = discover(given.device)
    with open_devices(platform) as live:
        if "blocks" in given.what:
            blocks(live, platform.compute_devices[0].space)
        if "runs" in given.what:
            runs(live, platform)
        if "leaks" in given.what:
            leaks(live, platform, given.count)


if __name__ == "__main__":
    main()
