# SPDX-License-Identifier: Apache-2.0
"""Memory pools compared with the runtime's own allocations, runs with either, and growth over 10,000 runs.

Usage: ``python benchmarks/memory.py [blocks] [runs] [leaks --count 10000]``; without a name all three.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from common import alternating, format_quartiles, opencl_operation, parser, plan_by_hand, resident_bytes, seconds

from syclsched.api import discover
from syclsched.devices import open_devices
from syclsched.devices.memory import usm_memory
from syclsched.execution import bind, execute
from syclsched.model.graph import TaskGraph
from syclsched.planner.memory_limit import with_memory_limit
from syclsched.simulation import predict

SOURCE = """__kernel void one(__global double *y, __global const double *x) {
    size_t i = get_global_id(0);
    y[i] = x[i] + 1.0;
}"""


def chain(length: int, size: int) -> TaskGraph:
    """Return tasks one after another, each with a new temporary as its result."""
    graph, add_one = TaskGraph("chain of temporaries"), opencl_operation("one", SOURCE, size, writes="y", reads="x")
    before = graph.array("a0", data=np.zeros(size))
    for i in range(length):
        after = graph.array(f"a{i + 1}", (size,), "float64", temporary=i < length - 1)
        graph.kernel(add_one, name=f"t{i}", x=before, y=after)
        before = after
    return graph


def rounds(length: int, size: int, count: int) -> TaskGraph:
    """Return tasks that use a few arrays in turn, all of them kept."""
    graph, add_one = TaskGraph("rounds"), opencl_operation("one", SOURCE, size, writes="y", reads="x")
    arrays = [graph.array(f"a{i}", data=np.zeros(size)) for i in range(count)]
    for i in range(length):
        graph.kernel(add_one, name=f"t{i}", x=arrays[i % count], y=arrays[(i + 1) % count])
    return graph


def planned(graph: TaskGraph, platform: Any) -> Any:
    """Return a plan of all tasks on the first device, in their order."""
    device = platform.compute_devices[0].name
    return predict(plan_by_hand(graph, platform, lambda *_: (device, 0), 1e-5))


def compare(title: str, from_pool: Callable[[], object], fresh: Callable[[], object]) -> None:
    """Time both in turns, and print them and the ratio of the medians."""
    times = alternating({"pool": from_pool, "fresh": fresh}, 15)
    lines = [f"  {name:7s} {format_quartiles([s * 1e3 for s in found], 3, 8)} ms" for name, found in times.items()]
    ratio = statistics.median(times["pool"]) / statistics.median(times["fresh"])
    print(title, *lines, f"  ratio   {ratio:.3f}", sep="\n")


def blocks(live: Any, space: str) -> None:
    """Allocate, touch and free blocks of mixed sizes."""
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
        compare(f"{title}, written to once in each page", from_pool, from_runtime)
        live.trim_memory()


def runs(live: Any, platform: Any) -> None:
    """Run graphs whose memory the pool still has, and the same after the pool was emptied."""
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
        compare(f"execute: {title}", run, run_fresh)


def leaks(live: Any, platform: Any, count: int) -> None:
    """Run many times, and print the memory in use in between."""
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
            first, held = resident_bytes(), live.memory()
            taken_s = seconds(lambda way=way: [way() for _ in range(count)])
            now = live.memory()
            usm = {s: now[s].reserved_bytes - held[s].reserved_bytes for s in now}
            used = {s: now[s].in_use_bytes - held[s].in_use_bytes for s in now}
            print(
                f"{count:,} runs {name}: resident memory {(resident_bytes() - first) / 1024:+,.0f} KiB, "
                f"of pools in use {sum(used.values()):+,} B, reserved {sum(usm.values()):+,} B; {taken_s:.1f} s"
            )
    print("in use after the runners are closed:", {s: i.in_use_bytes for s, i in live.memory().items()})


def main() -> None:
    """Measure."""
    options = parser(__doc__, device="cpu")
    options.add_argument("what", nargs="*", help="blocks, runs, leaks", default=["blocks", "runs", "leaks"])
    options.add_argument("--count", type=int, default=10_000, help="runs of each kind")
    given = options.parse_args()
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
